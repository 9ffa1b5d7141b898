#pragma once

/// What the kernels that sort and select are told. Read by the host code and by the kernels.

#include <cstdint>

namespace aoti_plugins::cuda {

/// How elements of a dtype become keys: bits of their width.
struct SortOrder {
  int32_t nbytes;      ///< of an element: 1, 2, 4 or 8
  uint64_t most;       ///< what larger bits count as: a bool is 0 or 1
  uint64_t sign;       ///< the bit of negative numbers; 0 for dtypes without any
  uint64_t magnitude;  ///< all bits of a real number but its sign; 0 for other dtypes
  uint64_t zero;       ///< what is kept where the magnitude is 0: not the sign of a real zero
  uint64_t infinity;   ///< a larger magnitude is NaN
  uint64_t flip_last;  ///< what is flipped in the end: everything in descending order
};

/// The tensors of one sort: `src` has the lines, `values` and `places` get the first `count`
/// elements of each.
struct SortTensors {
  void* values;
  int64_t* places;
  const void* src;
  int64_t count;
  SortOrder order;
};

/// The longest lines that a warp sorts, and the threads of a block that does so.
inline constexpr int64_t kSortWarpLength = 128;
inline constexpr unsigned int kSortWarpThreads = 128;

/// A digit of a key, and the threads of a block that sorts by digits: one for each value of it.
inline constexpr int32_t kDigitBits = 8;
inline constexpr int32_t kDigits = 1 << kDigitBits;

/// The most items that a block has in its own memory: of keys of 32 bits, and of 64.
inline constexpr int64_t kTile32 = 4096;
inline constexpr int64_t kTile64 = 2048;

/// The elements that a block of `aotip_radix_count` counts at a time.
inline constexpr int64_t kRadixCountPiece = 8192;

/// One pass of a radix sort, from the least significant digit on. Lines are cut into tiles, which
/// blocks take in turns.
struct RadixPass {
  const void* keys_in;
  const uint32_t* places_in;
  void* keys_out;
  uint32_t* places_out;
  const uint32_t* totals;  ///< [lines, passes, digits]: how often each digit is in a line
  uint64_t* states;        ///< [lines, tiles, digits]: what is known of a tile, zero at first
  uint32_t* ticket;        ///< the next tile, zero at first
  int64_t tiles;           ///< of a line
  int32_t pass;
};

/// The most elements that are put in order after they were selected.
inline constexpr int64_t kSelectOrdered = 2048;

/// What the lines of a selection are: whole, or cut into parts that have a block each, or what was
/// selected from parts before.
struct SelectParts {
  int64_t count;         ///< of each line, as long as each other or longer by one; 1 if it is whole
  const int64_t* names;  ///< [lines, length]: what the places are called; null for themselves
};

/// The bits of a key that are decided at a time while selecting.
inline constexpr int32_t kSelectBits = 11;
inline constexpr int32_t kSelectBins = 1 << kSelectBits;

}  // namespace aoti_plugins::cuda
