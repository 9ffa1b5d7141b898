// What every shim promises, on the cases that break shims: 0-dim, empty, a negative and an
// out-of-range dim, not contiguous, with an offset, null pointers, a wrong dtype, a wrong device.

#include <c10/util/complex.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "handle.h"

using namespace aoti_plugins::testing;

namespace {

const int32_t kF32 = aoti_torch_dtype_float32();
const int32_t kI64 = aoti_torch_dtype_int64();
AtenTensorOpaque* const kUntouched = reinterpret_cast<AtenTensorOpaque*>(0x10);

/// A [2, 3] view with strides [1, 4] that starts at element 5 of a storage of 20, element i holding
/// i.
Handle awkward_view() {
  const Handle base = make({20}, kF32);
  for (int i = 0; i < 20; ++i) {
    data_of<float>(base)[i] = static_cast<float>(i);
  }
  const Ints sizes{2, 3};
  const Ints strides{1, 4};
  AtenTensorHandle view = nullptr;
  BOOST_TEST(
      aoti_torch__reinterpret_tensor(base.get(), 2, sizes.data(), strides.data(), 5, &view) == 0);
  return Handle(view);
}

template <typename T>
using Getter = AOTITorchError (*)(AtenTensorHandle, T*);

/// A getter refuses null tensors, null results and undefined tensors, and sets nothing then.
template <typename T>
void check_getter(Getter<T> get, T untouched) {
  const Handle t = make({2}, kF32);
  AtenTensorHandle undefined = nullptr;
  BOOST_TEST(aoti_torch_new_uninitialized_tensor(&undefined) == 0);
  const Handle owner(undefined);
  T value = untouched;
  BOOST_TEST(get(nullptr, &value) == 1);
  BOOST_TEST(get(undefined, &value) == 1);
  BOOST_TEST((value == untouched));
  BOOST_TEST(get(t.get(), nullptr) == 1);
  BOOST_TEST(get(t.get(), &value) == 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(shim_contract)

BOOST_AUTO_TEST_CASE(getters_refuse_what_they_cannot_read) {
  check_getter<int64_t>(aoti_torch_get_dim, -7);
  check_getter<int64_t>(aoti_torch_get_numel, -7);
  check_getter<int64_t>(aoti_torch_get_storage_size, -7);
  check_getter<int64_t>(aoti_torch_get_storage_numel, -7);
  check_getter<int64_t>(aoti_torch_get_storage_offset, -7);
  check_getter<int32_t>(aoti_torch_get_dtype, -7);
  check_getter<int32_t>(aoti_torch_get_device_type, -7);
  check_getter<int32_t>(aoti_torch_get_device_index, -7);
  check_getter<int32_t>(aoti_torch_get_layout, -7);
  check_getter<int64_t*>(aoti_torch_get_sizes, nullptr);
  check_getter<int64_t*>(aoti_torch_get_strides, nullptr);
  check_getter<void*>(aoti_torch_get_data_ptr, nullptr);
  check_getter<bool>(aoti_torch_is_contiguous, false);
}

BOOST_AUTO_TEST_CASE(a_view_says_what_it_is) {
  const Handle view = awkward_view();
  int64_t number = 0;
  int64_t* list = nullptr;
  bool flag = true;
  BOOST_TEST(aoti_torch_get_storage_offset(view.get(), &number) == 0);
  BOOST_TEST(number == 5);
  BOOST_TEST(aoti_torch_get_storage_size(view.get(), &number) == 0);
  BOOST_TEST(number == 80);
  BOOST_TEST(aoti_torch_get_numel(view.get(), &number) == 0);
  BOOST_TEST(number == 6);
  BOOST_TEST(aoti_torch_get_strides(view.get(), &list) == 0);
  BOOST_TEST(list[1] == 4);
  BOOST_TEST(aoti_torch_is_contiguous(view.get(), &flag) == 0);
  BOOST_TEST(!flag);
  BOOST_TEST(*data_of<float>(view) == 5.0f);
}

BOOST_AUTO_TEST_CASE(dims_count_from_both_ends_and_are_checked) {
  const Handle t = make({2, 3}, kF32);
  int64_t value = -7;
  BOOST_TEST(aoti_torch_get_size(t.get(), -1, &value) == 0);
  BOOST_TEST(value == 3);
  BOOST_TEST(aoti_torch_get_stride(t.get(), -2, &value) == 0);
  BOOST_TEST(value == 3);
  value = -7;
  for (int64_t d : {int64_t{2}, int64_t{-3}, std::numeric_limits<int64_t>::min()}) {
    BOOST_TEST(aoti_torch_get_size(t.get(), d, &value) == 1);
    BOOST_TEST(aoti_torch_get_stride(t.get(), d, &value) == 1);
  }
  BOOST_TEST(value == -7);
  BOOST_TEST(reason().find("aoti_torch_get_stride: dim ") == 0u);
  const Handle scalar = make({}, kF32);
  BOOST_TEST(aoti_torch_get_size(scalar.get(), 0, &value) == 1);
}

BOOST_AUTO_TEST_CASE(a_failure_leaves_the_result_alone) {
  const Handle t = make({4}, kF32);
  const int64_t size = 4;
  const int64_t stride = 1;
  const int64_t negative = -1;
  const int32_t cpu = aoti_torch_device_type_cpu();
  float data[4] = {};
  using Call = std::function<AOTITorchError(AtenTensorHandle*)>;
  const std::pair<const char*, Call> calls[] = {
      {"negative size",
       [&](auto* r) { return aoti_torch_empty_strided(1, &negative, &stride, kF32, cpu, 0, r); }},
      {"negative ndim",
       [&](auto* r) { return aoti_torch_empty_strided(-1, &size, &stride, kF32, cpu, 0, r); }},
      {"unknown dtype",
       [&](auto* r) { return aoti_torch_empty_strided(1, &size, &stride, 77, cpu, 0, r); }},
      {"absent device",
       [&](auto* r) { return aoti_torch_empty_strided(1, &size, &stride, kF32, 1, 0, r); }},
      {"null sizes",
       [&](auto* r) { return aoti_torch_empty_strided(1, nullptr, &stride, kF32, cpu, 0, r); }},
      {"pinned memory elsewhere",
       [&](auto* r) { return aoti_torch_empty_strided_pinned(1, &size, &stride, kF32, 1, 0, r); }},
      {"view beyond the storage",
       [&](auto* r) { return aoti_torch__reinterpret_tensor(t.get(), 1, &size, &stride, 1, r); }},
      {"view before the storage",
       [&](auto* r) { return aoti_torch__reinterpret_tensor(t.get(), 1, &size, &stride, -1, r); }},
      {"view of null",
       [&](auto* r) { return aoti_torch__reinterpret_tensor(nullptr, 1, &size, &stride, 0, r); }},
      {"as_strided with null",
       [&](auto* r) { return aoti_torch_as_strided(t.get(), nullptr, &stride, r); }},
      {"pool offset inside an element",
       [&](auto* r) {
         return aoti_torch__alloc_from_pool(t.get(), 2, kF32, 0, nullptr, nullptr, r);
       }},
      {"null data",
       [&](auto* r) {
         return aoti_torch_create_tensor_from_blob(nullptr, 1, &size, &stride, 0, kF32, cpu, 0, r);
       }},
      {"sparse layout",
       [&](auto* r) {
         return aoti_torch_create_tensor_from_blob_v2(data, 1, &size, &stride, 0, kF32, cpu, 0, r,
                                                      1, nullptr, 0);
       }},
      {"metadata",
       [&](auto* r) {
         return aoti_torch_create_tensor_from_blob_v2(data, 1, &size, &stride, 0, kF32, cpu, 0, r,
                                                      0, reinterpret_cast<const uint8_t*>(data), 4);
       }},
      {"clone of null", [&](auto* r) { return aoti_torch_clone(nullptr, r); }},
      {"strided clone of null",
       [&](auto* r) { return aoti_torch_clone_preserve_strides(nullptr, r); }},
      {"handle of null", [&](auto* r) { return aoti_torch_new_tensor_handle(nullptr, r); }},
      {"alias of null", [&](auto* r) { return aoti_torch_assign_tensors_out(nullptr, r); }},
      {"view as real", [&](auto* r) { return aoti_torch_view_as_real(t.get(), r); }},
      {"view as a dtype that is none",
       [&](auto* r) { return aoti_torch_view_dtype(t.get(), 77, r); }},
  };
  for (const auto& [what, call] : calls) {
    BOOST_TEST_CONTEXT(what) {
      AtenTensorHandle result = kUntouched;
      BOOST_TEST(call(&result) == 1);
      BOOST_TEST(result == kUntouched);
      BOOST_TEST(!reason().empty());
      BOOST_TEST(call(nullptr) == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(borrowed_memory_is_not_freed) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  const Ints sizes{2};
  const Ints strides{2};
  AtenTensorHandle t = nullptr;
  BOOST_TEST(aoti_torch_create_tensor_from_blob(data, 1, sizes.data(), strides.data(), 1, kF32, 0,
                                                0, &t) == 0);
  const Handle owner(t);
  BOOST_TEST(data_of<float>(owner) == data + 1);
  int64_t nbytes = 0;
  BOOST_TEST(aoti_torch_get_storage_size(t, &nbytes) == 0);
  BOOST_TEST(nbytes == 16);
}

BOOST_AUTO_TEST_CASE(clones_have_memory_of_their_own) {
  const Handle view = awkward_view();
  for (auto clone : {aoti_torch_clone, aoti_torch_clone_preserve_strides}) {
    AtenTensorHandle copy = nullptr;
    BOOST_TEST(clone(view.get(), &copy) == 0);
    const Handle owner(copy);
    int64_t* strides = nullptr;
    BOOST_TEST(aoti_torch_get_strides(copy, &strides) == 0);
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        BOOST_TEST(data_of<float>(owner)[i * strides[0] + j * strides[1]] ==
                   static_cast<float>(5 + i + 4 * j));
      }
    }
    BOOST_TEST(strides[1] == (clone == aoti_torch_clone ? 1 : 4));
  }
}

BOOST_AUTO_TEST_CASE(copy_broadcasts_converts_and_checks) {
  const Handle view = awkward_view();
  const Handle row = make({3}, kI64);
  for (int64_t i = 0; i < 3; ++i) {
    data_of<int64_t>(row)[i] = 10 * i;
  }
  BOOST_TEST(aoti_torch_copy_(view.get(), row.get(), 0) == 0);
  BOOST_TEST(data_of<float>(view)[1 + 4 * 2] == 20.0f);
  BOOST_TEST(aoti_torch_copy_(row.get(), view.get(), 0) == 1);
  BOOST_TEST(aoti_torch_copy_(view.get(), make({2}, kF32).get(), 0) == 1);
  BOOST_TEST(aoti_torch_copy_(view.get(), nullptr, 0) == 1);
  BOOST_TEST(reason() == "aoti_torch_copy_: src is null");
  AtenTensorHandle undefined = nullptr;
  BOOST_TEST(aoti_torch_new_uninitialized_tensor(&undefined) == 0);
  BOOST_TEST(aoti_torch_copy_(Handle(undefined).get(), nullptr, 0) == 1);
  BOOST_TEST(reason() == "aoti_torch_copy_: self is an undefined tensor");
  BOOST_TEST(aoti_torch_tensor_copy_(nullptr, view.get()) == 1);
  const Handle none = make({0, 3}, kF32);
  BOOST_TEST(aoti_torch_copy_(none.get(), row.get(), 0) == 0);
}

BOOST_AUTO_TEST_CASE(zero_reaches_only_the_elements) {
  const Handle view = awkward_view();
  BOOST_TEST(aoti_torch_zero_(view.get()) == 0);
  BOOST_TEST(data_of<float>(view)[9] == 0.0f);
  BOOST_TEST(data_of<float>(view)[2] == 7.0f);
  BOOST_TEST(aoti_torch_zero_(make({0}, kF32).get()) == 0);
  BOOST_TEST(aoti_torch_zero_(nullptr) == 1);
}

BOOST_AUTO_TEST_CASE(numbers_go_through_tensors_unchanged) {
  AtenTensorHandle t = nullptr;
  BOOST_TEST(aoti_torch_scalar_to_tensor_float64(-2.75, &t) == 0);
  Handle owner(t);
  double real = 0;
  int64_t whole = 0;
  bool truth = false;
  BOOST_TEST(aoti_torch_item_float64(t, &real) == 0);
  BOOST_TEST(real == -2.75);
  BOOST_TEST(aoti_torch_item_int64(t, &whole) == 0);
  BOOST_TEST(whole == -2);
  BOOST_TEST(aoti_torch_item_bool(t, &truth) == 0);
  BOOST_TEST(truth);
  BOOST_TEST(aoti_torch_scalar_to_tensor_uint64(std::numeric_limits<uint64_t>::max(), &t) == 0);
  owner.reset(t);
  uint64_t large = 0;
  BOOST_TEST(aoti_torch_item_uint64(t, &large) == 0);
  BOOST_TEST(large == std::numeric_limits<uint64_t>::max());
  BOOST_TEST(aoti_torch_scalar_to_tensor_complex64({1.5f, -2.0f}, &t) == 0);
  owner.reset(t);
  c10::complex<float> pair{};
  BOOST_TEST(aoti_torch_item_complex64(t, &pair) == 0);
  BOOST_TEST(pair.imag() == -2.0f);
  const Handle two = make({2}, kF32);
  real = 7.0;
  BOOST_TEST(aoti_torch_item_float64(two.get(), &real) == 1);
  BOOST_TEST(aoti_torch_item_float64(nullptr, &real) == 1);
  BOOST_TEST(real == 7.0);
  BOOST_TEST(aoti_torch_item_float64(t, nullptr) == 1);
}

BOOST_AUTO_TEST_CASE(assigning_makes_an_alias) {
  const Handle view = awkward_view();
  AtenTensorHandle target = nullptr;
  bool defined = true;
  BOOST_TEST(aoti_torch_new_uninitialized_tensor(&target) == 0);
  const Handle owner(target);
  BOOST_TEST(aoti_torch_is_defined(target, &defined) == 0);
  BOOST_TEST(!defined);
  BOOST_TEST(aoti_torch_assign_tensors(view.get(), target) == 0);
  BOOST_TEST(data_of<float>(owner) == data_of<float>(view));
  BOOST_TEST(aoti_torch_assign_tensors(nullptr, target) == 1);
  BOOST_TEST(aoti_torch_assign_tensors(target, nullptr) == 1);
  BOOST_TEST(aoti_torch_is_defined(nullptr, &defined) == 1);
}

BOOST_AUTO_TEST_CASE(views_of_other_dtypes) {
  const Handle t = make({2, 4}, kF32);
  AtenTensorHandle view = nullptr;
  int64_t* sizes = nullptr;
  BOOST_TEST(aoti_torch_view_dtype(t.get(), aoti_torch_dtype_float64(), &view) == 0);
  Handle owner(view);
  BOOST_TEST(aoti_torch_get_sizes(view, &sizes) == 0);
  BOOST_TEST(sizes[1] == 2);
  BOOST_TEST(aoti_torch_view_dtype(t.get(), aoti_torch_dtype_int8(), &view) == 0);
  owner.reset(view);
  BOOST_TEST(aoti_torch_get_sizes(view, &sizes) == 0);
  BOOST_TEST(sizes[1] == 16);
  const Handle odd = make({2, 3}, kF32);
  BOOST_TEST(aoti_torch_view_dtype(odd.get(), aoti_torch_dtype_float64(), &view) == 1);
  BOOST_TEST(aoti_torch_view_dtype(make({}, kF32).get(), aoti_torch_dtype_float64(), &view) == 1);
  BOOST_TEST(aoti_torch_cpu_view_as_real(make({3}, aoti_torch_dtype_complex64()).get(), &view) ==
             0);
  owner.reset(view);
  BOOST_TEST(aoti_torch_get_sizes(view, &sizes) == 0);
  BOOST_TEST(sizes[1] == 2);
}

BOOST_AUTO_TEST_CASE(infinities_and_nans_are_found) {
  const Handle view = awkward_view();
  BOOST_TEST(aoti_torch_check_inf_and_nan("x", view.get()) == 0);
  data_of<float>(view)[4] = std::nanf("");
  BOOST_TEST(aoti_torch_check_inf_and_nan("x", view.get()) == 1);
  BOOST_TEST(reason() == "aoti_torch_check_inf_and_nan: element 1 of x is NaN");
  BOOST_TEST(aoti_torch_check_inf_and_nan(nullptr, nullptr) == 1);
}

BOOST_AUTO_TEST_CASE(fill_writes_every_element) {
  const Handle view = awkward_view();
  BOOST_TEST(aoti_torch_cpu_fill__Scalar(view.get(), 2.5) == 0);
  BOOST_TEST(data_of<float>(view)[9] == 2.5f);
  BOOST_TEST(data_of<float>(view)[2] == 7.0f);
  BOOST_TEST(aoti_torch_cpu_fill__Scalar(make({0}, kF32).get(), 2.5) == 0);
  BOOST_TEST(aoti_torch_cpu_fill__Scalar(nullptr, 2.5) == 1);
}

BOOST_AUTO_TEST_CASE(modes_and_checks) {
  BOOST_TEST(aoti_torch_grad_mode_is_enabled());
  aoti_torch_grad_mode_set_enabled(false);
  BOOST_TEST(!aoti_torch_grad_mode_is_enabled());
  aoti_torch_grad_mode_set_enabled(true);
  BOOST_CHECK_NO_THROW(aoti_torch_check(true, "f", "g", 1, "m"));
  BOOST_CHECK_THROW(aoti_torch_check(false, nullptr, nullptr, 1, nullptr), std::runtime_error);
  aoti_torch_warn(nullptr, nullptr, 1, nullptr);
  aoti_torch_print_tensor_handle(nullptr, nullptr);
  aoti_torch_print_tensor_handle(awkward_view().get(), "t");
  BOOST_TEST(aoti_torch_delete_tensor_object(nullptr) == 0);
  BOOST_TEST(aoti_torch_dtype_element_size(aoti_torch_dtype_bfloat16()) == 2u);
  BOOST_TEST(aoti_torch_dtype_element_size(77) == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
