#pragma once

#include "cuda_fixture.h"

namespace aoti_plugins::testing {

/// Small whole numbers, which every dtype holds exactly; so sums do not depend on their order.
template <typename T>
std::vector<T> numbers(size_t count, int seed) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(static_cast<int>(i * 7 + static_cast<size_t>(seed)) % 11 - 5);
  }
  return values;
}

/// beta * self + alpha * a @ b for row-major values; self may have 0, n or m * n elements.
template <typename T, typename Out = T>
std::vector<Out> expected(int64_t batch, int64_t m, int64_t n, int64_t k, const std::vector<T>& a,
                          const std::vector<T>& b, const std::vector<Out>& self = {},
                          double beta = 0.0, double alpha = 1.0) {
  std::vector<Out> out(static_cast<size_t>(batch * m * n));
  for (int64_t i = 0; i < batch * m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t x = 0; x < k; ++x) {
        sum += static_cast<double>(a[static_cast<size_t>(i * k + x)]) *
               static_cast<double>(b[static_cast<size_t>((i / m * k + x) * n + j)]);
      }
      const size_t at = static_cast<size_t>(i * n + j);
      const size_t s = self.size() == static_cast<size_t>(n) ? static_cast<size_t>(j) : at;
      out[at] = static_cast<Out>(alpha * sum +
                                 (self.empty() ? 0.0 : beta * static_cast<double>(self[s])));
    }
  }
  return out;
}

/// A view of the same memory.
inline Handle seen_as(const Handle& tensor, const Ints& sizes, const Ints& strides) {
  AtenTensorHandle raw = nullptr;
  BOOST_TEST_REQUIRE(
      aoti_torch__reinterpret_tensor(tensor.get(), static_cast<int64_t>(sizes.size()), sizes.data(),
                                     strides.data(), 0, &raw) == 0,
      reason());
  return Handle(raw);
}

/// Row-major memory on the GPU for a result, or for an operand that nothing reads.
inline Handle empty_on_gpu(const Ints& sizes, int32_t dtype = kFloat32) {
  return make_on(kCuda, sizes, row_major(sizes), dtype);
}

}  // namespace aoti_plugins::testing
