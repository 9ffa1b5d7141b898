#pragma once

// Tensors on the device of a build, as numbers, and what is expected of them.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "conformance/device.h"

namespace aoti_plugins::testing {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Numbers = std::vector<double>;

inline int64_t count_of(const Ints& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// Small whole numbers in no order, which every dtype holds and adds exactly.
inline Numbers some(const Ints& sizes, int32_t dtype, uint32_t seed = 7) {
  Numbers values(static_cast<size_t>(count_of(sizes)));
  for (double& value : values) {
    seed = seed * 1664525u + 1013904223u;
    const int number = static_cast<int>(seed >> 8) % 4;
    value = dtype == kBool ? number % 2 : dtype == kUInt8 ? number : number - 1;
  }
  return values;
}

/// The ways in which a tensor of these sizes may lie in memory.
inline std::vector<Ints> layouts(const Ints& sizes) {
  Ints dense(sizes.size());
  Ints reversed(sizes.size());
  Ints gaps(sizes.size());
  int64_t step = 1;
  int64_t wide = 2;
  for (size_t d = sizes.size(); d-- > 0;) {
    dense[d] = step;
    gaps[d] = wide;
    step *= std::max<int64_t>(sizes[d], 1);
    wide = (wide + 1) * std::max<int64_t>(sizes[d], 1);
  }
  step = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    reversed[d] = step;
    step *= std::max<int64_t>(sizes[d], 1);
  }
  return {dense, reversed, gaps};
}

inline Handle empty(const Ints& sizes, const Ints& strides, int32_t dtype) {
  AtenTensorHandle raw = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(),
                                              strides.data(), dtype, kDevice, 0, &raw) == 0,
                     reason());
  return Handle(raw);
}

inline Handle empty(const Ints& sizes, int32_t dtype) {
  return empty(sizes, layouts(sizes)[0], dtype);
}

/// A tensor on the device with elements in the order of its indices, whatever its strides.
inline Handle tensor(const Ints& sizes, const Ints& strides, int32_t dtype, const Numbers& values) {
  const Handle wide = make(sizes, kFloat64);
  std::copy(values.begin(), values.end(), data_of<double>(wide));
  const Handle host = make(sizes, dtype);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(host.get(), wide.get(), 0) == 0, reason());
  Handle device = empty(sizes, strides, dtype);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(device.get(), host.get(), 0) == 0, reason());
  return device;
}

inline Handle tensor(const Ints& sizes, int32_t dtype, const Numbers& values) {
  return tensor(sizes, layouts(sizes)[0], dtype, values);
}

inline Handle indices(const Ints& sizes, const Numbers& values, int32_t dtype = kInt64) {
  return tensor(sizes, dtype, values);
}

/// The elements in the order of the indices.
inline Numbers read_all(const Handle& tensor) {
  const Tensor& t = *unwrap(tensor.get());
  const Ints sizes(t.sizes(), t.sizes() + t.ndim());
  const Handle host = make(sizes, t.dtype());
  const Handle wide = make(sizes, kFloat64);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(host.get(), tensor.get(), 0) == 0, reason());
  BOOST_TEST_REQUIRE(aoti_torch_copy_(wide.get(), host.get(), 0) == 0, reason());
  return {data_of<double>(wide), data_of<double>(wide) + t.numel()};
}

inline void check_equal(const Handle& tensor, const Numbers& expected, const std::string& what) {
  const Numbers found = read_all(tensor);
  BOOST_TEST_REQUIRE(found.size() == expected.size(), what);
  for (size_t i = 0; i < found.size(); ++i) {
    BOOST_TEST((found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))),
               what << ": element " << i << " is " << found[i] << ", expected " << expected[i]);
  }
}

inline void check_close(const Handle& tensor, const Numbers& expected, double tolerance,
                        const std::string& what) {
  const Numbers found = read_all(tensor);
  BOOST_TEST_REQUIRE(found.size() == expected.size(), what);
  for (size_t i = 0; i < found.size(); ++i) {
    BOOST_TEST(std::abs(found[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])),
               what << ": element " << i << " is " << found[i] << ", expected " << expected[i]);
  }
}

inline void refused(AOTITorchError code, const std::string& part) {
  BOOST_TEST(code != 0, part);
  BOOST_TEST(reason().find(part) != std::string::npos, "'" << reason() << "' lacks " << part);
}

/// Runs a shim with one result.
template <typename Call>
Handle result_of(const Call& call) {
  AtenTensorHandle raw = nullptr;
  BOOST_TEST_REQUIRE(call(&raw) == 0, reason());
  return Handle(raw);
}

template <typename Call>
std::pair<Handle, Handle> results_of(const Call& call) {
  AtenTensorHandle first = nullptr;
  AtenTensorHandle second = nullptr;
  BOOST_TEST_REQUIRE(call(&first, &second) == 0, reason());
  return {Handle(first), Handle(second)};
}

/// Calls `body(positions)` with the positions, in the order of indices, of the elements of each
/// line along `dim`.
template <typename Body>
void each_line(const Ints& sizes, int64_t dim, const Body& body) {
  const size_t d = static_cast<size_t>(dim);
  const int64_t length = sizes.empty() ? 1 : sizes[d];
  const int64_t inner =
      sizes.empty() ? 1
                    : count_of(Ints(sizes.begin() + static_cast<ptrdiff_t>(d) + 1, sizes.end()));
  const int64_t lines = length > 0 ? count_of(sizes) / length : 0;
  for (int64_t line = 0; line < lines; ++line) {
    std::vector<size_t> positions;
    for (int64_t i = 0; i < length; ++i) {
      positions.push_back(
          static_cast<size_t>(line / inner * inner * length + i * inner + line % inner));
    }
    body(positions);
  }
}

inline const std::vector<Ints> kSizes = {{2, 3, 4}, {5}, {}, {3, 0, 2}, {1, 1}, {0}};

inline std::string title(const char* op, int32_t dtype, const Ints& sizes, int64_t dim) {
  std::string text = std::string(op) + " of " + dtype_name(dtype) + " [";
  for (const int64_t size : sizes) {
    text += std::to_string(size) + ",";
  }
  return text + "] along " + std::to_string(dim);
}

inline Handle on_another_device(const Ints& sizes, int32_t dtype) {
  AtenTensorHandle raw = nullptr;
  const Ints strides = layouts(sizes)[0];
  (void)aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
                                 dtype, kCpu, 0, &raw);
  return Handle(raw);
}

}  // namespace aoti_plugins::testing
