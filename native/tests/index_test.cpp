// Kernels that order elements or move them by index: cumsum, cumprod, sort, topk, scatter,
// index_put.

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "handle.h"

using namespace aoti_plugins::testing;

namespace {

const int32_t kF32 = aoti_torch_dtype_float32();
const int32_t kF64 = aoti_torch_dtype_float64();
const int32_t kI32 = aoti_torch_dtype_int32();
const int32_t kI64 = aoti_torch_dtype_int64();
const int32_t kBool = aoti_torch_dtype_bool();

template <typename T>
Handle tensor(const Ints& sizes, int32_t dtype, const std::vector<T>& values) {
  Handle h = make(sizes, dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    data_of<T>(h)[i] = values[i];
  }
  return h;
}

template <typename T>
std::vector<T> values_of(const Handle& h) {
  int64_t numel = 0;
  (void)aoti_torch_get_numel(h.get(), &numel);
  std::vector<T> values;
  for (int64_t i = 0; i < numel; ++i) {
    values.push_back(data_of<T>(h)[i]);
  }
  return values;
}

using Floats = std::vector<float>;

/// Runs a kernel with one result.
template <typename Call>
Handle result_of(const Call& call) {
  AtenTensorHandle result = nullptr;
  BOOST_TEST_REQUIRE(call(&result) == 0, reason());
  return Handle(result);
}

/// The transpose of a [rows, cols] tensor, as a view.
Handle transposed(const Handle& h, int64_t rows, int64_t cols) {
  const Ints sizes{cols, rows};
  const Ints strides{1, cols};
  return result_of([&](AtenTensorHandle* r) {
    return aoti_torch__reinterpret_tensor(h.get(), 2, sizes.data(), strides.data(), 0, r);
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(indexing)

BOOST_AUTO_TEST_CASE(running_sums_and_products) {
  const Handle x = tensor<float>({2, 3}, kF32, {1, 2, 3, 4, 5, 6});
  const auto sum = [&](const Handle& t, int64_t dim, int32_t* dtype = nullptr) {
    return result_of([&](auto* r) { return aoti_torch_cpu_cumsum(t.get(), dim, dtype, r); });
  };
  BOOST_TEST(values_of<float>(sum(x, 1)) == (Floats{1, 3, 6, 4, 9, 15}),
             boost::test_tools::per_element());
  BOOST_TEST(values_of<float>(sum(x, -2)) == (Floats{1, 2, 3, 5, 7, 9}),
             boost::test_tools::per_element());
  const Handle t = transposed(x, 2, 3);
  BOOST_TEST(values_of<float>(sum(t, 0)) == (Floats{1, 4, 3, 9, 6, 15}),
             boost::test_tools::per_element());
  BOOST_TEST(values_of<double>(sum(x, 1, const_cast<int32_t*>(&kF64)))[2] == 6.0);
  const Handle bools = tensor<bool>({3}, kBool, {true, false, true});
  BOOST_TEST(values_of<int64_t>(sum(bools, 0))[2] == 2);
  BOOST_TEST(values_of<float>(sum(tensor<float>({}, kF32, {7}), 0))[0] == 7.0f);
  BOOST_TEST(values_of<float>(sum(make({0, 2}, kF32), 1)).empty());
  const Handle product =
      result_of([&](auto* r) { return aoti_torch_cpu_cumprod(x.get(), 1, nullptr, r); });
  BOOST_TEST(values_of<float>(product)[5] == 120.0f);
  AtenTensorHandle none = nullptr;
  BOOST_TEST(aoti_torch_cpu_cumsum(x.get(), 2, nullptr, &none) == 1);
  BOOST_TEST(aoti_torch_cpu_cumsum(x.get(), -3, nullptr, &none) == 1);
  BOOST_TEST(aoti_torch_cpu_cumsum(nullptr, 0, nullptr, &none) == 1);
  BOOST_TEST(aoti_torch_cpu_cumsum(x.get(), 0, nullptr, nullptr) == 1);
  BOOST_TEST(none == nullptr);
}

BOOST_AUTO_TEST_CASE(sorting) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Handle x = tensor<float>({2, 4}, kF32, {3, nan, 1, 3, -1, 0, -2, 5});
  AtenTensorHandle values = nullptr;
  AtenTensorHandle places = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch_cpu_sort_stable(x.get(), nullptr, -1, 0, &values, &places) == 0);
  Handle v(values);
  Handle p(places);
  BOOST_TEST(values_of<int64_t>(p) == (Ints{2, 0, 3, 1, 2, 0, 1, 3}),
             boost::test_tools::per_element());
  BOOST_TEST(data_of<float>(v)[0] == 1.0f);
  BOOST_TEST(std::isnan(data_of<float>(v)[3]));
  BOOST_TEST_REQUIRE(aoti_torch_cpu_sort(x.get(), 1, 1, &values, &places) == 0);
  v.reset(values);
  p.reset(places);
  BOOST_TEST(values_of<int64_t>(p) == (Ints{1, 0, 3, 2, 3, 1, 0, 2}),
             boost::test_tools::per_element());
  // The layout of the input is kept.
  const Handle t = transposed(x, 2, 4);
  BOOST_TEST_REQUIRE(aoti_torch_cpu_sort(t.get(), 0, 0, &values, &places) == 0);
  v.reset(values);
  p.reset(places);
  int64_t stride = 0;
  BOOST_TEST(aoti_torch_get_stride(values, 0, &stride) == 0);
  BOOST_TEST(stride == 1);
  BOOST_TEST(data_of<float>(v)[4] == -2.0f);
  const Handle scalar = tensor<int64_t>({}, kI64, {4});
  BOOST_TEST_REQUIRE(aoti_torch_cpu_sort(scalar.get(), 0, 0, &values, &places) == 0);
  v.reset(values);
  p.reset(places);
  BOOST_TEST(*data_of<int64_t>(p) == 0);
  values = places = nullptr;
  BOOST_TEST(aoti_torch_cpu_sort(x.get(), 2, 0, &values, &places) == 1);
  BOOST_TEST(aoti_torch_cpu_sort(make({2}, aoti_torch_dtype_complex64()).get(), 0, 0, &values,
                                 &places) == 1);
  BOOST_TEST(aoti_torch_cpu_sort(x.get(), 0, 0, nullptr, &places) == 1);
  BOOST_TEST(values == nullptr);
}

BOOST_AUTO_TEST_CASE(the_k_largest_and_smallest) {
  const Handle x = tensor<int32_t>({2, 4}, kI32, {3, 9, 1, 4, -1, 0, -2, 5});
  AtenTensorHandle values = nullptr;
  AtenTensorHandle places = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch_cpu_topk(x.get(), 2, 1, 1, 1, &values, &places) == 0);
  Handle v(values);
  Handle p(places);
  BOOST_TEST(values_of<int32_t>(v) == (std::vector<int32_t>{9, 4, 5, 0}),
             boost::test_tools::per_element());
  BOOST_TEST(values_of<int64_t>(p) == (Ints{1, 3, 3, 1}), boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(aoti_torch_cpu_topk(x.get(), 1, 0, 0, 1, &values, &places) == 0);
  v.reset(values);
  p.reset(places);
  BOOST_TEST(values_of<int32_t>(v) == (std::vector<int32_t>{-1, 0, -2, 4}),
             boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(aoti_torch_cpu_topk(x.get(), 0, 1, 1, 1, &values, &places) == 0);
  v.reset(values);
  p.reset(places);
  values = nullptr;
  BOOST_TEST(aoti_torch_cpu_topk(x.get(), 5, 1, 1, 1, &values, &places) == 1);
  BOOST_TEST(aoti_torch_cpu_topk(x.get(), -1, 1, 1, 1, &values, &places) == 1);
  BOOST_TEST(values == nullptr);
}

BOOST_AUTO_TEST_CASE(scattering) {
  const Handle self = tensor<float>({3, 3}, kF32, {1, 1, 1, 1, 1, 1, 1, 1, 1});
  const Handle out = make({3, 3}, kF32);
  const Handle index = tensor<int64_t>({2, 2}, kI64, {0, 2, 2, 2});
  const Handle src = tensor<float>({2, 3}, kF32, {10, 20, -1, 30, 40, -1});
  BOOST_TEST_REQUIRE(
      aoti_torch_cpu_scatter_src_out(out.get(), self.get(), 0, index.get(), src.get()) == 0);
  BOOST_TEST(values_of<float>(out) == (Floats{10, 1, 1, 1, 1, 1, 30, 40, 1}),
             boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(aoti_torch_scatter_out(out.get(), self.get(), 1, index.get(), src.get()) == 0);
  BOOST_TEST(values_of<float>(out) == (Floats{10, 1, 20, 1, 1, 40, 1, 1, 1}),
             boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(aoti_torch_cpu_scatter_value_out(out.get(), self.get(), 1, index.get(), 7.0) ==
                     0);
  BOOST_TEST(values_of<float>(out) == (Floats{7, 1, 7, 1, 1, 7, 1, 1, 1}),
             boost::test_tools::per_element());
  const auto reduce = [&](const char* how, int32_t include_self) {
    BOOST_TEST_REQUIRE(aoti_torch_cpu_scatter_reduce_two_out(out.get(), self.get(), 1, index.get(),
                                                             src.get(), how, include_self) == 0,
                       reason());
    return values_of<float>(out);
  };
  BOOST_TEST(reduce("sum", 1) == (Floats{11, 1, 21, 1, 1, 71, 1, 1, 1}),
             boost::test_tools::per_element());
  BOOST_TEST(reduce("sum", 0) == (Floats{10, 1, 20, 1, 1, 70, 1, 1, 1}),
             boost::test_tools::per_element());
  BOOST_TEST(reduce("prod", 1) == (Floats{10, 1, 20, 1, 1, 1200, 1, 1, 1}),
             boost::test_tools::per_element());
  BOOST_TEST(reduce("mean", 0) == (Floats{10, 1, 20, 1, 1, 35, 1, 1, 1}),
             boost::test_tools::per_element());
  BOOST_TEST(reduce("amax", 1) == (Floats{10, 1, 20, 1, 1, 40, 1, 1, 1}),
             boost::test_tools::per_element());
  BOOST_TEST(reduce("amin", 1) == (Floats{1, 1, 1, 1, 1, 1, 1, 1, 1}),
             boost::test_tools::per_element());
  BOOST_TEST(reduce("amin", 0) == (Floats{10, 1, 20, 1, 1, 30, 1, 1, 1}),
             boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(aoti_torch_scatter_reduce_out(self.get(), self.get(), 0, index.get(),
                                                   src.get(), "sum", 1) == 0);
  BOOST_TEST(values_of<float>(self)[6] == 31.0f);
}

BOOST_AUTO_TEST_CASE(scatter_violations_leave_the_result_alone) {
  const Handle self = make({3}, kF32);
  const Handle out = tensor<float>({3}, kF32, {9, 9, 9});
  const Handle src = make({3}, kF32);
  const auto fails = [&](const Handle& o, const Handle& index, const Handle& s, int64_t dim) {
    BOOST_TEST(aoti_torch_cpu_scatter_src_out(o.get(), self.get(), dim, index.get(), s.get()) == 1);
    BOOST_TEST(values_of<float>(out)[1] == 9.0f);
    return reason().substr(reason().find(' ') + 1);
  };
  BOOST_TEST(fails(out, tensor<int64_t>({2}, kI64, {0, 3}), src, 0) ==
             "index 3 is out of range for size 3");
  BOOST_TEST(fails(out, tensor<int64_t>({1}, kI64, {-1}), src, 0) ==
             "index -1 is out of range for size 3");
  BOOST_TEST(fails(out, make({2}, kI32), src, 0) == "index is int32, expected int64");
  BOOST_TEST(fails(out, make({4}, kI64), src, 0) ==
             "size 4 of dim 0 of index is larger than that of self or src");
  BOOST_TEST(fails(out, make({1, 1}, kI64), src, 0) ==
             "index has 2 dims, expected 1 as out and src, at most 64");
  BOOST_TEST(fails(out, make({2}, kI64), src, 1) == "dim 1 is out of range for a 1-dim tensor");
  BOOST_TEST(fails(make({4}, kF32), make({2}, kI64), src, 0) == "the sizes of out and self differ");
  BOOST_TEST(fails(out, make({2}, kI64), make({3}, kF64), 0) ==
             "src is float64, expected float32 as self");
  BOOST_TEST(fails(out, make({2}, kI64), make({}, kF32), 0) ==
             "index has 1 dims, expected 1 as out and src, at most 64");
  BOOST_TEST(fails(out, make({2}, kI64), make({3, 3}, kF32), 0) ==
             "index has 1 dims, expected 1 as out and src, at most 64");
  BOOST_TEST(fails(out, Handle(), src, 0) == "index is null");
  BOOST_TEST(aoti_torch_cpu_scatter_reduce_two_out(out.get(), self.get(), 0, make({2}, kI64).get(),
                                                   src.get(), "xor", 1) == 1);
}

BOOST_AUTO_TEST_CASE(putting_by_index) {
  const auto put = [](const Ints& sizes, const std::vector<AtenTensorHandle>& indices,
                      const Handle& values, bool accumulate = false) {
    const Handle self = make(sizes, kF32);
    (void)aoti_torch_zero_(self.get());
    const Handle out = make(sizes, kF32);
    BOOST_TEST_REQUIRE(aoti_torch_index_put_out(out.get(), self.get(), indices.data(),
                                                static_cast<uint32_t>(indices.size()), values.get(),
                                                accumulate) == 0,
                       reason());
    return values_of<float>(out);
  };
  const Handle rows = tensor<int64_t>({2}, kI64, {2, -3});
  const Handle cols = tensor<int32_t>({2}, kI32, {1, 0});
  const Handle two = tensor<float>({2}, kF32, {5, 6});
  // self[rows, cols] = [5, 6]
  BOOST_TEST(put({3, 2}, {rows.get(), cols.get()}, two) == (Floats{6, 0, 0, 0, 0, 5}),
             boost::test_tools::per_element());
  // self[rows] = [5, 6] for every row
  BOOST_TEST(put({3, 2}, {rows.get()}, two) == (Floats{5, 6, 0, 0, 5, 6}),
             boost::test_tools::per_element());
  // self[:, cols] = [5, 6]
  BOOST_TEST(put({3, 2}, {nullptr, cols.get()}, two) == (Floats{6, 5, 6, 5, 6, 5}),
             boost::test_tools::per_element());
  // self[rows, :, cols]: the indexed dims are no neighbours, so their dim comes first.
  const Handle grid = tensor<float>({2, 2}, kF32, {1, 2, 3, 4});
  BOOST_TEST(put({3, 2, 2}, {rows.get(), nullptr, cols.get()}, grid) ==
                 (Floats{3, 0, 4, 0, 0, 0, 0, 0, 0, 1, 0, 2}),
             boost::test_tools::per_element());
  // self[mask] = [5, 6]
  const Handle mask = tensor<bool>({3}, kBool, {true, false, true});
  BOOST_TEST(put({3}, {mask.get()}, two) == (Floats{5, 0, 6}), boost::test_tools::per_element());
  const Handle mask2 = tensor<bool>({2, 2}, kBool, {false, true, true, false});
  BOOST_TEST(put({2, 2}, {mask2.get()}, two) == (Floats{0, 5, 6, 0}),
             boost::test_tools::per_element());
  // Adding, with a place that comes twice.
  const Handle same = tensor<int64_t>({2}, kI64, {1, 1});
  BOOST_TEST(put({3}, {same.get()}, two, true) == (Floats{0, 11, 0}),
             boost::test_tools::per_element());
  // One value for a grid of places.
  const Handle column = tensor<int64_t>({2, 1}, kI64, {0, 1});
  BOOST_TEST(
      put({2, 2}, {column.get(), cols.get()}, tensor<float>({}, kF32, {3})) == (Floats{3, 3, 3, 3}),
      boost::test_tools::per_element());
  const Handle none = tensor<int64_t>({0}, kI64, {});
  BOOST_TEST(put({2}, {none.get()}, tensor<float>({}, kF32, {3})) == (Floats{0, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(index_put_violations_leave_the_result_alone) {
  const Handle self = make({3, 2}, kF32);
  const Handle out = tensor<float>({3, 2}, kF32, {9, 9, 9, 9, 9, 9});
  const Handle value = tensor<float>({}, kF32, {1});
  const auto fails = [&](const std::vector<AtenTensorHandle>& indices, const Handle& values) {
    BOOST_TEST(aoti_torch_index_put_out(out.get(), self.get(), indices.data(),
                                        static_cast<uint32_t>(indices.size()), values.get(),
                                        false) == 1);
    BOOST_TEST(values_of<float>(out)[0] == 9.0f);
    return reason().substr(reason().find(' ') + 1);
  };
  const Handle far = tensor<int64_t>({1}, kI64, {3});
  const Handle near = tensor<int64_t>({2}, kI64, {0, 1});
  const Handle three = tensor<int64_t>({3}, kI64, {0, 1, 0});
  const Handle mask = tensor<bool>({2}, kBool, {true, true});
  BOOST_TEST(fails({far.get()}, value) == "index 3 is out of range for dim 0 with size 3");
  BOOST_TEST(fails({near.get(), near.get(), near.get()}, value) ==
             "the indices have more dims than self");
  BOOST_TEST(fails({near.get(), three.get()}, value) ==
             "the indices have sizes 3 and 2, which do not broadcast");
  BOOST_TEST(fails({mask.get()}, value) == "the mask has size 2 in dim 0, self has 3 there");
  BOOST_TEST(fails({near.get()}, make({3, 2}, kF32)) ==
             "size 3 of dim 0 of values does not broadcast to 2");
  BOOST_TEST(fails({value.get()}, value) == "index 0 is float32, expected int64 or a mask");
  BOOST_TEST(fails({near.get()}, make({2}, kF64)) ==
             "out is float32 and values are float64, expected float32 as self");
  BOOST_TEST(fails({near.get()}, Handle()) == "values is null");
  BOOST_TEST(aoti_torch_index_put_out(out.get(), self.get(), nullptr, 1, value.get(), false) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
