#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda_numbers.h"

/// Products and what stands around them in language models, against sums in float64.

namespace aoti_plugins::testing {

/// What stands around a product; handles are null for none.
struct Around {
  Handle bias;
  Handle norm;
  Handle residual;
  int64_t gate = 0;
};

inline constexpr double kEpsilon = 0.5;

inline double activated(double x, int64_t gate) {
  if (gate == 1) {
    return x / (1 + std::exp(-x));
  }
  const double inner = gate == 2 ? std::erf(x / std::sqrt(2.0))
                                 : std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return x / 2 * (1 + inner);
}

/// Which parts there are around a product.
struct Parts {
  bool bias = false;
  bool norm = false;
  bool residual = false;
  int64_t gate = 0;
};

/// The largest error of a product of `m` rows of `dtype` with a weight whose values [n, k] are
/// given, beyond the result's rounding, for each unit of what was added up. `call(x, around, ret)`
/// runs the shim.
template <typename Call>
double worst_error(const std::vector<double>& values, int32_t dtype, int64_t m, int64_t n,
                   int64_t k, const Parts& parts, const Call& call) {
  const int64_t columns = parts.gate != 0 ? n / 2 : n;
  const Handle x = host_numbers({m, k}, dtype, 7);
  const Handle bias = host_numbers({n}, dtype, 9);
  const Handle norm = host_numbers({k}, dtype, 5);
  const Handle residual = host_numbers({m, columns}, dtype, 6);
  const Around around{parts.bias ? to_gpu(bias) : nullptr, parts.norm ? to_gpu(norm) : nullptr,
                      parts.residual ? to_gpu(residual) : nullptr, parts.gate};
  const Handle found = one([&](auto* ret) { return call(to_gpu(x), around, ret); });
  const std::vector<double> left = numbers(x);
  const std::vector<double> added = numbers(bias);
  const std::vector<double> factors = numbers(norm);
  const std::vector<double> residuals = numbers(residual);
  const std::vector<double> result = numbers(found);
  BOOST_TEST_REQUIRE(result.size() == static_cast<size_t>(m * columns));
  const auto at = [](int64_t row, int64_t length, int64_t i) {
    return static_cast<size_t>(row * length + i);
  };
  double worst = 0;
  for (int64_t row = 0; row < m; ++row) {
    double inverse = 0;
    for (int64_t i = 0; i < k; ++i) {
      inverse += left[at(row, k, i)] * left[at(row, k, i)] / static_cast<double>(k);
    }
    inverse = 1 / std::sqrt(inverse + kEpsilon);
    std::vector<double> sums;
    std::vector<double> magnitudes;
    for (int64_t column = 0; column < n; ++column) {
      double sum = parts.bias ? added[static_cast<size_t>(column)] : 0;
      double magnitude = 1;
      for (int64_t i = 0; i < k; ++i) {
        const double factor = parts.norm ? factors[static_cast<size_t>(i)] * inverse : 1;
        const double one = left[at(row, k, i)] * factor * values[at(column, k, i)];
        sum += one;
        magnitude += std::abs(one);
      }
      sums.push_back(sum);
      magnitudes.push_back(magnitude);
    }
    for (int64_t column = 0; column < columns; ++column) {
      const size_t first = static_cast<size_t>(column);
      const size_t second = static_cast<size_t>(column + columns);
      double expected = sums[first];
      double magnitude = magnitudes[first];
      if (parts.gate != 0) {
        expected = activated(sums[first], parts.gate) * sums[second];
        magnitude = magnitudes[first] * (std::abs(sums[second]) + 1) +
                    magnitudes[second] * (std::abs(sums[first]) + 1);
      }
      expected += parts.residual ? residuals[at(row, columns, column)] : 0;
      const double error = std::abs(result[at(row, columns, column)] - expected);
      worst = std::max(worst, (error - std::abs(expected) / 250) / magnitude);
    }
  }
  return worst;
}

}  // namespace aoti_plugins::testing
