// Tensors on mps: copies of any strides and dtypes, zeros, views.

#include <utility>

#include "mps/memory/device_copy.h"
#include "mps_fixture.h"
#include "slim/strided_copy.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

constexpr int32_t kConverted[] = {kBool,  kUInt8,   kInt8,     kInt16,  kInt32,
                                  kInt64, kFloat16, kBFloat16, kFloat32};

/// Small numbers, different in neighbouring elements.
void count_up(Tensor& cpu) {
  float number = 0;
  const Handle source = make({cpu.numel()}, kFloat32);
  for (int64_t i = 0; i < cpu.numel(); ++i) {
    data_of<float>(source)[i] = number++;
  }
  const OwnedTensor view(
      unwrap(source.get())->view(cpu.ndim(), cpu.sizes(), cpu.strides(), 0, kFloat32));
  BOOST_TEST_REQUIRE((strided_copy(cpu, *view) == Status::kOk), last_failure());
}

struct Layout {
  Ints sizes;
  Ints strides;
};

const Layout kLayouts[] = {{{}, {}},
                           {{5}, {1}},
                           {{5}, {3}},
                           {{3, 4}, {4, 1}},
                           {{3, 4}, {1, 3}},
                           {{3, 4}, {7, 1}},
                           {{2, 3, 4}, {12, 1, 3}},
                           {{2, 1, 4}, {4, 99, 1}},
                           {{0, 3}, {3, 1}}};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mps_device, MpsFixture)

BOOST_AUTO_TEST_CASE(copies_keep_values_whatever_the_strides_and_dtypes) {
  for (const Layout& layout : kLayouts) {
    Ints dense(layout.sizes.size());
    contiguous_strides(static_cast<int64_t>(dense.size()), layout.sizes.data(), dense.data());
    for (const int32_t from : kConverted) {
      for (const int32_t to : kConverted) {
        const Handle source = make(layout.sizes, from);
        if (unwrap(source.get())->numel() > 0) {
          count_up(*unwrap(source.get()));
        }
        const Handle on_mps = make_mps(layout.sizes, layout.strides, from);
        const Handle converted = make_mps(layout.sizes, layout.strides, to);
        const Handle back = make(layout.sizes, to);
        const Handle wanted = make(layout.sizes, to);
        BOOST_TEST_REQUIRE(aoti_torch_copy_(on_mps.get(), source.get(), 0) == 0, reason());
        BOOST_TEST_REQUIRE(aoti_torch_copy_(converted.get(), on_mps.get(), 0) == 0, reason());
        BOOST_TEST_REQUIRE(aoti_torch_copy_(back.get(), converted.get(), 0) == 0, reason());
        BOOST_TEST_REQUIRE(aoti_torch_copy_(wanted.get(), source.get(), 0) == 0, reason());
        const size_t nbytes = unwrap(back.get())->nbytes();
        BOOST_TEST(
            (nbytes == 0 || std::memcmp(data_of<char>(back), data_of<char>(wanted), nbytes) == 0),
            dtype_name(from) << " to " << dtype_name(to));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(copies_between_kernels_are_kernels) {
  const Handle zeros = make_mps({2}, kFloat32);
  set_values<float>(zeros, {1, 2});
  BOOST_TEST_REQUIRE((mps::zero_on_device(unwrap(zeros.get())->data(), 4) == Status::kOk),
                     last_failure());
  std::vector<std::pair<Handle, Handle>> results;
  std::vector<Handle> kept;  // the CPU writes to memory that no kernel may have used
  long kernels = 1;
  for (const Layout& layout : kLayouts) {
    for (const int32_t from : {kBool, kInt64, kFloat16, kFloat32}) {
      for (const int32_t to : {kBool, kUInt8, kBFloat16, kFloat32}) {
        const Handle source = make(layout.sizes, from);
        Handle wanted = make(layout.sizes, to);
        Handle plain = make_mps(layout.sizes, from);
        Handle strided = make_mps(layout.sizes, layout.strides, from);
        Handle converted = make_mps(layout.sizes, to);
        if (unwrap(source.get())->numel() > 0) {
          count_up(*unwrap(source.get()));
          std::memcpy(unwrap(plain.get())->data(), data_of<char>(source),
                      unwrap(plain.get())->nbytes());
          kernels += 2;
        }
        BOOST_TEST_REQUIRE(stream->commands().pending());
        BOOST_TEST_REQUIRE(aoti_torch_copy_(strided.get(), plain.get(), 0) == 0, reason());
        BOOST_TEST_REQUIRE(aoti_torch_copy_(converted.get(), strided.get(), 0) == 0, reason());
        BOOST_TEST_REQUIRE(aoti_torch_copy_(wanted.get(), source.get(), 0) == 0, reason());
        results.emplace_back(std::move(wanted), std::move(converted));
        kept.push_back(std::move(plain));
        kept.push_back(std::move(strided));
      }
    }
  }
  BOOST_TEST(values_of<float>(zeros) == (std::vector<float>{0, 2}),
             boost::test_tools::per_element());
  BOOST_TEST(metal_stand_in_dispatches() == kernels);
  for (const auto& [wanted, converted] : results) {
    const Tensor& tensor = *unwrap(converted.get());
    BOOST_TEST((tensor.numel() == 0 ||
                std::memcmp(data_of<char>(wanted), tensor.data(), tensor.nbytes()) == 0),
               dtype_name(tensor.dtype()));
  }
}

BOOST_AUTO_TEST_CASE(views_and_clones_see_the_right_elements) {
  const Handle base = make_mps({4, 6}, kFloat32);
  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
  }
  set_values(base, values);
  const int64_t sizes[] = {2, 3};
  const int64_t strides[] = {12, 2};
  AtenTensorHandle view = nullptr;
  BOOST_TEST(aoti_torch__reinterpret_tensor(base.get(), 2, sizes, strides, 7, &view) == 0);
  const Handle owner(view);
  AtenTensorHandle clone = nullptr;
  BOOST_TEST(aoti_torch_clone(view, &clone) == 0, reason());
  const Handle copy(clone);
  BOOST_TEST(values_of<float>(copy) == (std::vector<float>{7, 9, 11, 19, 21, 23}),
             boost::test_tools::per_element());
  BOOST_TEST(aoti_torch_zero_(view) == 0, reason());
  const std::vector<float> zeroed = values_of<float>(base);
  BOOST_TEST(zeroed[7] == 0.0f);
  BOOST_TEST(zeroed[8] == 8.0f);
  BOOST_TEST(aoti_torch_zero_(base.get()) == 0);
  BOOST_TEST(values_of<float>(base)[23] == 0.0f);
}

BOOST_AUTO_TEST_CASE(single_elements_are_read) {
  const Handle tensor = make_mps({}, kInt64);
  set_values<int64_t>(tensor, {42});
  int64_t item = 0;
  BOOST_TEST(aoti_torch_item_int64(tensor.get(), &item) == 0, reason());
  BOOST_TEST(item == 42);
}

BOOST_AUTO_TEST_CASE(there_is_one_gpu) {
  AtenTensorHandle handle = nullptr;
  const int64_t sizes[] = {2};
  const int64_t strides[] = {1};
  BOOST_TEST(aoti_torch_empty_strided(1, sizes, strides, kFloat32, kMps, 1, &handle) != 0);
  check_reason("no device mps:1 in this process");
}

BOOST_AUTO_TEST_CASE(the_end_of_memory_is_an_error) {
  metal_stand_in_limit_memory(1 << 20);
  BOOST_TEST((make_mps({1 << 20}, kFloat32) == nullptr));
  check_reason("out of memory: 4194304 bytes on mps:0: the GPU gives no buffer");
}

BOOST_AUTO_TEST_SUITE_END()
