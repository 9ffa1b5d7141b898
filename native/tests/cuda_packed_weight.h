#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "cuda_numbers.h"

/// Weights of 4 and 8 bits in tiles, as docs/small-weights.md has them.

namespace aoti_plugins::testing {

struct Form {
  int64_t bits;
  int64_t group_size;
  int64_t zero_kind;
  int32_t dtype;
  int32_t scale_dtype;
};

/// A weight as the shim takes it, and what its elements stand for.
struct Weight {
  Handle codes;
  Handle scale;
  Handle zero;
  std::vector<double> values;  ///< [n, k]
};

inline int64_t place_of(int64_t bits, int64_t row, int64_t column, int64_t tiles_along_k) {
  const int64_t depth = bits == 4 ? 128 : 64;
  const int64_t tile = row / 8 * tiles_along_k + column / depth;
  const int64_t lane = row % 8 * 4 + column % 32 / 8;
  const int64_t part = column % depth / 32;
  const int64_t i = column % 8;
  const int64_t nibble = part * 8 + i / 2 + i % 2 * 4;
  return (tile * 32 + lane) * 16 * 8 + (bits == 4 ? nibble * 4 : (part * 8 + i) * 8);
}

/// Puts a code where kernels look for it.
inline void put_code(const Handle& codes, int64_t bits, int64_t row, int64_t column,
                     int64_t tiles_along_k, uint32_t code) {
  const int64_t place = place_of(bits, row, column, tiles_along_k);
  uint8_t& byte = data_of<uint8_t>(codes)[place / 8];
  byte = bits == 4 ? static_cast<uint8_t>((byte & ~(15 << place % 8)) | code << place % 8)
                   : static_cast<uint8_t>(code);
}

/// A float of a sign, `exponent` bits and `fraction` bits, which stands for a number.
inline double number_of(uint32_t code, int exponent, int fraction) {
  const int bias = (1 << (exponent - 1)) - 1;
  const int power = static_cast<int>(code >> fraction) & ((1 << exponent) - 1);
  const double part = static_cast<double>(code & ((1u << fraction) - 1)) / (1 << fraction);
  const double size = power == 0 ? std::ldexp(part, 1 - bias) : std::ldexp(1 + part, power - bias);
  return code >> (exponent + fraction) & 1 ? -size : size;
}

/// A weight whose codes are floats: with a scale for each row where its group is the row, else with
/// powers of two for 32 of 8 bits, E4M3 for 16 of 4 bits; `has_factors`: of rows as well.
inline Weight float_weight_of(const Form& form, int64_t n, int64_t k, bool has_factors) {
  const int64_t depth = form.bits == 4 ? 128 : 64;
  const int64_t tiles = (k + depth - 1) / depth;
  const bool is_row = form.group_size == k;
  const int64_t groups = k / form.group_size;
  const int exponent = form.bits == 4 ? 2 : form.zero_kind == 4 ? 5 : 4;
  const int fraction = static_cast<int>(form.bits) - 1 - exponent;
  const Handle codes = make({n / 8, tiles, 512}, kUInt8);
  std::memset(data_of<uint8_t>(codes), 0xa5, static_cast<size_t>(n / 8 * tiles * 512));
  const Handle scale = make({n / 8, groups, 8}, is_row ? kFloat32 : kUInt8);
  const Handle factors = make({n / 8, 1, 8}, kFloat32);
  uint32_t state = 5;
  const auto next = [&state](uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  std::vector<double> scales;
  for (int64_t i = 0; i < n * groups; ++i) {
    if (is_row) {
      const float number = 0.01f + static_cast<float>(next(100)) * 0.03f;
      data_of<float>(scale)[i] = number;
      scales.push_back(number);
    } else {
      const uint32_t byte = form.bits == 4 ? next(120) : 120 + next(10);
      data_of<uint8_t>(scale)[i] = static_cast<uint8_t>(byte);
      scales.push_back(form.bits == 4 ? number_of(byte, 4, 3) : std::ldexp(1.0, int(byte) - 127));
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    data_of<float>(factors)[i] = has_factors ? 0.25f + static_cast<float>(next(8)) * 0.3f : 1.0f;
  }
  Weight weight{nullptr, to_gpu(scale), has_factors ? to_gpu(factors) : nullptr, {}};
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t column = 0; column < k; ++column) {
      const uint32_t sign = next(2) << (form.bits - 1);
      // No infinity, and no NaN.
      const uint32_t code = sign | next(form.bits == 4 ? 8 : form.zero_kind == 4 ? 124 : 127);
      put_code(codes, form.bits, row, column, tiles, code);
      const int64_t group = (row / 8 * groups + column / form.group_size) * 8 + row % 8;
      weight.values.push_back(number_of(code, exponent, fraction) *
                              scales[static_cast<size_t>(group)] * data_of<float>(factors)[row]);
    }
  }
  weight.codes = to_gpu(codes);
  return weight;
}

inline Weight weight_of(const Form& form, int64_t n, int64_t k) {
  const int64_t depth = form.bits == 4 ? 128 : 64;
  const int64_t tiles = (k + depth - 1) / depth;
  const int64_t groups = form.group_size >= k ? 1 : k / form.group_size;
  Handle codes = make({n / 8, tiles, 512}, kUInt8);
  std::memset(data_of<uint8_t>(codes), 0xa5, static_cast<size_t>(n / 8 * tiles * 512));
  const Handle scale = host_numbers({n / 8, groups, 8}, form.scale_dtype, 5);  // -4 to 0
  const Handle zero = host_numbers({n / 8, groups, 8}, form.scale_dtype, 9);   // -4 to 4
  const std::vector<double> scales = numbers(scale);
  const std::vector<double> zeros = numbers(zero);
  Weight weight{nullptr, to_gpu(scale), form.zero_kind != 0 ? to_gpu(zero) : nullptr, {}};
  uint32_t state = 3;
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t column = 0; column < k; ++column) {
      state = state * 1664525u + 1013904223u;
      const uint32_t code = state >> 24 & (form.bits == 4 ? 15 : 255);
      put_code(codes, form.bits, row, column, tiles, code);
      const int64_t group =
          (row / 8 * groups + (groups > 1 ? column / form.group_size : 0)) * 8 + row % 8;
      const double plain = form.bits == 4 ? code : static_cast<double>(static_cast<int8_t>(code));
      const double middle = form.bits == 4 ? 8 : 0;
      weight.values.push_back(
          form.zero_kind == 1
              ? (plain - zeros[static_cast<size_t>(group)]) * scales[static_cast<size_t>(group)]
              : (plain - middle) * scales[static_cast<size_t>(group)] +
                    (form.zero_kind == 2 ? zeros[static_cast<size_t>(group)] : 0));
    }
  }
  weight.codes = to_gpu(codes);
  return weight;
}

}  // namespace aoti_plugins::testing
