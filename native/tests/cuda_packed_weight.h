#pragma once

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
      const int64_t place = place_of(form.bits, row, column, tiles);
      uint8_t& byte = data_of<uint8_t>(codes)[place / 8];
      const uint32_t code = state >> 24 & (form.bits == 4 ? 15 : 255);
      byte = form.bits == 4 ? static_cast<uint8_t>((byte & ~(15 << place % 8)) | code << place % 8)
                            : static_cast<uint8_t>(code);
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
