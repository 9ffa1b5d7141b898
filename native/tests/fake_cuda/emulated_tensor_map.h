#pragma once

#include <cstdint>

namespace fake_cuda {

/// What the stand-in for the driver writes into a map of a matrix of 16-bit elements, of which
/// parts are copied as lines of 128 bytes with swapped pieces.
struct FakeTensorMap {
  const char* address;
  uint64_t columns;
  uint64_t rows;
  uint64_t row_nbytes;
  uint32_t box_columns;
  uint32_t box_rows;
};

}  // namespace fake_cuda
