#pragma once

#include <cstdint>

#include "slim/half.h"

namespace aoti_plugins::cpu {

/// Writes a 16-bit float matrix as float32 without gaps, in the order of memory it has (row-major,
/// or column-major when its columns are what is contiguous), and returns the strides of the copy.
template <float (*kToFloat)(uint16_t)>
void widen(const uint16_t* from, int64_t rows, int64_t cols, int64_t row, int64_t col, float* to,
           int64_t* ret_row, int64_t* ret_col) noexcept {
  const bool by_columns = row == 1 && col != 1;
  const int64_t outer = by_columns ? cols : rows;
  const int64_t inner = by_columns ? rows : cols;
  const int64_t outer_step = by_columns ? col : row;
  const int64_t inner_step = by_columns ? row : col;
  for (int64_t i = 0; i < outer; ++i) {
    const uint16_t* line = from + i * outer_step;
    float* out = to + i * inner;
    if (inner_step == 1) {
      for (int64_t j = 0; j < inner; ++j) out[j] = kToFloat(line[j]);
    } else {
      for (int64_t j = 0; j < inner; ++j) out[j] = kToFloat(line[j * inner_step]);
    }
  }
  *ret_row = by_columns ? 1 : inner;
  *ret_col = by_columns ? inner : 1;
}

}  // namespace aoti_plugins::cpu
