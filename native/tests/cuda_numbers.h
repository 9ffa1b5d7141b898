#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cuda_fixture.h"

/// Tensors of numbers on the host and on the GPU, for tests that compare shims of both.

namespace aoti_plugins::testing {

inline Ints sizes_of(const Handle& tensor) {
  const Tensor& t = *unwrap(tensor.get());
  return {t.sizes(), t.sizes() + t.ndim()};
}

/// Numbers of any dtype, in no order and some of them more than once.
inline Handle host_numbers(const Ints& sizes, int32_t dtype, int64_t range = 9) {
  Handle wide = make(sizes, kFloat64);
  const int64_t numel = unwrap(wide.get())->numel();
  uint32_t state = 7;
  for (int64_t i = 0; i < numel; ++i) {
    state = state * 1664525u + 1013904223u;
    data_of<double>(wide)[i] =
        static_cast<double>(static_cast<int64_t>(state >> 8) % range - (dtype == kUInt8 ? 0 : 4));
  }
  Handle tensor = make(sizes, dtype);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(tensor.get(), wide.get(), 0) == 0, reason());
  return tensor;
}

inline Handle to_gpu(const Handle& host, const Ints& strides) {
  Handle device = make_on(kCuda, sizes_of(host), strides, unwrap(host.get())->dtype());
  BOOST_TEST_REQUIRE(static_cast<bool>(device), reason());
  BOOST_TEST_REQUIRE(aoti_torch_copy_(device.get(), host.get(), 0) == 0, reason());
  return device;
}

inline Handle to_gpu(const Handle& host) {
  return to_gpu(host, row_major(sizes_of(host)));
}

inline std::vector<double> numbers(const Handle& tensor) {
  Handle host = make(sizes_of(tensor), unwrap(tensor.get())->dtype());
  Handle wide = make(sizes_of(tensor), kFloat64);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(host.get(), tensor.get(), 0) == 0, reason());
  BOOST_TEST_REQUIRE(aoti_torch_copy_(wide.get(), host.get(), 0) == 0, reason());
  return {data_of<double>(wide), data_of<double>(wide) + unwrap(wide.get())->numel()};
}

/// Checks that two tensors have the same sizes and elements; NaN equals NaN.
inline void check_same(const Handle& found, const Handle& expected) {
  BOOST_TEST(sizes_of(found) == sizes_of(expected), boost::test_tools::per_element());
  const std::vector<double> a = numbers(found);
  const std::vector<double> b = numbers(expected);
  size_t i = 0;
  while (i < a.size() && (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) {
    ++i;
  }
  BOOST_TEST(i == a.size(), "element " << i << " differs");
}

/// Runs a shim with one result.
template <typename Call>
Handle one(const Call& call) {
  AtenTensorHandle raw = nullptr;
  BOOST_TEST_REQUIRE(call(&raw) == 0, reason());
  return Handle(raw);
}

/// Runs a shim with two results.
template <typename Call>
std::pair<Handle, Handle> two(const Call& call) {
  AtenTensorHandle first = nullptr;
  AtenTensorHandle second = nullptr;
  BOOST_TEST_REQUIRE(call(&first, &second) == 0, reason());
  return {Handle(first), Handle(second)};
}

}  // namespace aoti_plugins::testing
