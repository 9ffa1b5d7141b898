#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <random>
#include <vector>

#include "cpu/memory/constant_memory.h"
#include "handle.h"
#include "slim/tensor.h"

namespace aoti_plugins::testing {

using cpu::ConstantMemory;

inline Handle floats(const Ints& sizes, const Ints& strides, unsigned seed) {
  Handle handle = make(sizes, strides, kFloat32);
  const auto* t = reinterpret_cast<Tensor*>(handle.get());
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> numbers(-1, 1);
  for (size_t i = 0; i < t->storage_nbytes() / sizeof(float); ++i) {
    static_cast<float*>(t->storage_data())[i] = numbers(random);
  }
  return handle;
}

inline Ints row_major(const Ints& sizes) {
  Ints strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * sizes[i];
  }
  return strides;
}

inline Ints channels_last(const Ints& s) {
  return {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]};
}

/// Says of tensors' bytes that they stay.
class Kept {
 public:
  explicit Kept(std::initializer_list<const Handle*> handles) {
    for (const Handle* handle : handles) {
      const auto* t = reinterpret_cast<Tensor*>(handle->get());
      ranges_.push_back(std::make_unique<ConstantMemory>(t->storage_data(), t->storage_nbytes()));
    }
  }

 private:
  std::vector<std::unique_ptr<ConstantMemory>> ranges_;
};

inline std::vector<float> values(const Handle& handle) {
  const auto* t = reinterpret_cast<Tensor*>(handle.get());
  const auto* data = static_cast<const float*>(t->storage_data());
  return {data, data + t->storage_nbytes() / sizeof(float)};
}

/// x [m, k] times the transpose of weights [n, k], plus the bias; sums of float64.
inline std::vector<float> products_of(const Handle& x, const std::vector<double>& weights,
                                      const Handle& bias, int64_t m, int64_t n, int64_t k) {
  std::vector<float> products;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = data_of<float>(bias)[j];
      for (int64_t p = 0; p < k; ++p) {
        sum += data_of<float>(x)[i * k + p] * weights[j * k + p];
      }
      products.push_back(static_cast<float>(sum));
    }
  }
  return products;
}

/// Bits `first` on of a byte, `count` of them.
inline int bits_of(uint8_t byte, int first, int count) {
  return byte >> first & ((1 << count) - 1);
}

inline void check_close(const std::vector<float>& found, const std::vector<float>& expected,
                        double most) {
  BOOST_REQUIRE_EQUAL(found.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(found[i]) - expected[i]));
  }
  BOOST_TEST(worst <= most, "differs by " << worst << " of " << most);
}

/// Where a kernel stands, over two dims, and on what.
struct Convolution {
  Ints input;
  Ints weight;
  Ints stride;
  Ints padding;
  Ints dilation;
  int64_t groups;
};

}  // namespace aoti_plugins::testing
