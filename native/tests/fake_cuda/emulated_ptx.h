#pragma once

/// What kernels/ptx.cuh has, on the host. Included before the kernels, after emulated_device.h.

#include <vector_functions.h>
#include <vector_types.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <thread>

#include "emulated_device.h"
#include "emulated_tensor_map.h"

using std::max;
using std::min;

inline float __expf(float x) {
  return std::exp(x);
}

inline float __fdividef(float x, float y) {
  return x / y;
}

inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}

template <typename T>
T __shfl_sync(unsigned int, T value, unsigned int lane) {
  return fake_cuda::lane_value(value, lane);
}

inline unsigned int __float_as_uint(float value) {
  unsigned int bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline unsigned int __reduce_max_sync(unsigned int, unsigned int value) {
  const uint64_t* values = fake_cuda::meet_lanes(value);
  return static_cast<unsigned int>(*std::max_element(values, values + fake_cuda::kLanes));
}

inline float __uint_as_float(unsigned int bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// The upper word of two that were shifted, as one number, to the left.
inline unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
  return static_cast<unsigned int>((uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}

/// Four of the eight bytes of two words, one for each of the lowest four digits of `selector`.
inline unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int selector) {
  const uint64_t bytes = low | static_cast<uint64_t>(high) << 32;
  unsigned int found = 0;
  for (unsigned int i = 0; i < 4; ++i) {
    found |= static_cast<unsigned int>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  }
  return found;
}

namespace aoti_plugins::cuda {

/// Warps find what is there, and what may have been there before.
inline int4 load_hint(const int4* from) {
  constexpr int kMost = std::numeric_limits<int>::max();
  const int4 others[] = {
      *from, {0, kMost, 1, 0}, {kMost, kMost, 0, 0}, {-300, 7, 1, 0}, {128, 512, 0, 0}};
  return others[(blockIdx.x * 8 + threadIdx.x / 32) % std::size(others)];
}

/// The halves of 16 bytes; other processes write them, too.
inline void store_for_peer(uint4* to, uint4 value) {
  uint64_t halves[2];
  std::memcpy(halves, &value, sizeof(value));
  for (int i = 0; i < 2; ++i) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(to) + i, halves[i], __ATOMIC_RELEASE);
  }
}

/// Others may need this processor to write what is looked for.
inline void count_look() {
  static uint32_t looks = 0;
  if (++looks % 64 == 0) {
    std::this_thread::yield();
  }
}

inline uint4 load_of_peer(const uint4* from) {
  count_look();
  uint64_t halves[2];
  for (int i = 0; i < 2; ++i) {
    halves[i] = __atomic_load_n(reinterpret_cast<const uint64_t*>(from) + i, __ATOMIC_ACQUIRE);
  }
  uint4 value;
  std::memcpy(&value, halves, sizeof(value));
  return value;
}

inline void show_to_peer(uint32_t* to, uint32_t value) {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

inline uint32_t seen_of_peer(const uint32_t* from) {
  count_look();
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

inline int32_t load_of_host(const int32_t* from) {
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

/// The 16-bit float in one half of a lane's word.
template <typename T>
float half_of(uint64_t words, unsigned int i) {
  const uint16_t bits = static_cast<uint16_t>(words >> 16 * i);
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(value));
  return static_cast<float>(value);
}

/// What all lanes of a warp give to a tile product: words of rows of the first factor and of
/// columns of the second. Words 0 and 1 of a lane are of rows lane / 4 and lane / 4 + 8, words 2
/// and 3 further along k.
struct TileFactors {
  uint64_t rows[2][fake_cuda::kLanes];
  uint64_t columns[fake_cuda::kLanes];

  TileFactors(const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    meet(a[0], a[2], rows[0]);
    meet(a[1], a[3], rows[1]);
    meet(b0, b1, columns);
  }

  static void meet(uint32_t low, uint32_t high, uint64_t (&ret)[fake_cuda::kLanes]) {
    std::copy_n(fake_cuda::meet_lanes(low | static_cast<uint64_t>(high) << 32), fake_cuda::kLanes,
                ret);
  }

  /// Adds to a lane's four sums the products of so many elements, four lanes' words along k.
  /// @param element of two words, by its number there.
  template <int DEPTH, typename Sum, typename Element>
  void add_to(Sum (&sum)[4], const Element& element) const {
    constexpr unsigned int kOfWord = DEPTH / 8;
    const unsigned int lane = threadIdx.x % fake_cuda::kLanes;
    for (unsigned int i = 0; i < 4; ++i) {
      const unsigned int column = lane % 4 * 2 + i % 2;
      for (unsigned int k = 0; k < DEPTH; ++k) {
        const unsigned int quarter = k % (DEPTH / 2) / kOfWord;
        const unsigned int at = k / (DEPTH / 2) * kOfWord + k % kOfWord;
        sum[i] += element(rows[i / 2][lane / 4 * 4 + quarter], at) *
                  element(columns[column * 4 + quarter], at);
      }
    }
  }
};

/// The tile product of a warp: every lane gives its part and computes four sums.
template <typename T>
void multiply_tile(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  TileFactors(a, b0, b1).add_to<16>(sum, half_of<T>);
}

using SharedLines = uintptr_t;
inline constexpr int kLinesUnit = 1;

inline SharedLines lines_at(const char* in_shared) {
  return reinterpret_cast<uintptr_t>(in_shared);
}

/// A word of a line, whose 16-byte pieces are swapped.
inline uint32_t word_of_line(SharedLines lines, unsigned int line, unsigned int word) {
  const unsigned int piece = word / 4 ^ line % 8;
  uint32_t found = 0;
  std::memcpy(&found, reinterpret_cast<const char*>(lines) + line * 128 + piece * 16 + word % 4 * 4,
              sizeof(found));
  return found;
}

/// Here it has ended at once: each warp has its own rows.
template <typename T, int COLUMNS>
void multiply_group_tile(float (&sum)[COLUMNS / 2], const uint32_t (&a)[4], SharedLines lines,
                         int step, bool adds) {
  const unsigned int lane = threadIdx.x % fake_cuda::kLanes;
  for (unsigned int block = 0; block < COLUMNS / 8; ++block) {
    float four[4] = {};
    if (adds) {
      std::copy_n(sum + block * 4, 4, four);
    }
    const unsigned int line = block * 8 + lane / 4;
    const unsigned int word = static_cast<unsigned int>(step) * 8 + lane % 4;
    multiply_tile<T>(four, a, word_of_line(lines, line, word), word_of_line(lines, line, word + 4));
    std::copy_n(four, 4, sum + block * 4);
  }
}

inline void begin_group_tiles() {}
inline void end_group_tiles() {}

template <int PENDING>
void wait_for_group_tiles() {}

/// Four E4M3 as two pairs of float16: 256 times too small where their bits come to lie.
inline void halves_of_e4m3(uint32_t word, uint32_t& low, uint32_t& high) {
  uint32_t pairs[2] = {};
  for (unsigned int i = 0; i < 4; ++i) {
    const uint32_t byte = word >> i * 8 & 0xff;
    const uint32_t bits = (byte & 0x80) << 8 | (byte & 0x7f) << 7;
    const float number = half_of<__half>(bits, 0) * 256;
    const __half half = static_cast<__half>((byte & 0x7f) == 0x7f ? NAN : number);
    uint16_t found = 0;
    std::memcpy(&found, &half, sizeof(found));
    pairs[i / 2] |= uint32_t{found} << i % 2 * 16;
  }
  low = pairs[0];
  high = pairs[1];
}

template <typename T>
uint32_t fused_pairs(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t found = 0;
  for (unsigned int i = 0; i < 2; ++i) {
    const T half = static_cast<T>(std::fma(half_of<T>(a, i), half_of<T>(b, i), half_of<T>(c, i)));
    uint16_t bits = 0;
    std::memcpy(&bits, &half, sizeof(bits));
    found |= uint32_t{bits} << 16 * i;
  }
  return found;
}

/// The same of integers of 8 bits, 32 along k.
inline void multiply_tile_of_bytes(int32_t (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                                   uint32_t b1) {
  TileFactors(a, b0, b1).add_to<32>(sum, [](uint64_t words, unsigned int i) {
    return static_cast<int32_t>(static_cast<int8_t>(words >> 8 * i & 0xff));
  });
}

inline bool is_chosen_lane() {
  (void)fake_cuda::meet_lanes(0);
  return threadIdx.x % fake_cuda::kLanes == 0;
}

using Arrivals = uint64_t;

/// What an `Arrivals` holds here.
struct Turns {
  uint8_t count;
  uint8_t missing;
  uint16_t parity;  ///< of the present turn
  int32_t nbytes;   ///< that are yet to come
};
static_assert(sizeof(Turns) == sizeof(Arrivals));

inline Turns turns_of(const Arrivals* arrivals) {
  Turns turns;
  std::memcpy(&turns, arrivals, sizeof(turns));
  return turns;
}

inline void set_turns(Arrivals* arrivals, Turns turns) {
  if (turns.missing == 0 && turns.nbytes == 0) {
    turns.missing = turns.count;
    turns.parity ^= 1;
  }
  std::memcpy(arrivals, &turns, sizeof(turns));
}

inline void begin_arrivals(Arrivals* arrivals, uint32_t count) {
  set_turns(arrivals, {static_cast<uint8_t>(count), static_cast<uint8_t>(count), 0, 0});
}

inline void show_arrivals_to_copies() {}

inline void arrive_before(Arrivals* arrivals, uint32_t nbytes) {
  Turns turns = turns_of(arrivals);
  fake_cuda::check(turns.missing > 0, "more threads arrive than a turn has");
  --turns.missing;
  turns.nbytes += static_cast<int32_t>(nbytes);
  set_turns(arrivals, turns);
}

inline void arrive(Arrivals* arrivals) {
  arrive_before(arrivals, 0);
}

inline void wait_for_turn(Arrivals* arrivals, uint32_t parity) {
  fake_cuda::wait_until([=] { return turns_of(arrivals).parity != parity; });
}

inline void copy_to_shared(void* to, const void* from, uint32_t nbytes, Arrivals* arrivals) {
  const auto is_aligned = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; };
  fake_cuda::check(is_aligned(to) && is_aligned(from) && nbytes % 16 == 0,
                   "a copy to shared memory is not of whole 16 bytes");
  std::memcpy(to, from, nbytes);
  Turns turns = turns_of(arrivals);
  turns.nbytes -= static_cast<int32_t>(nbytes);
  set_turns(arrivals, turns);
}

struct alignas(64) TensorMap {
  uint64_t words[16];
};

/// As the stand-in for the driver has encoded the map.
inline void copy_box(void* to, const TensorMap& map, int column, int row, Arrivals* arrivals) {
  fake_cuda::FakeTensorMap matrix;
  std::memcpy(&matrix, &map, sizeof(matrix));
  const auto is_inside = [&](uint64_t x, uint64_t y) {
    return x < matrix.columns && y < matrix.rows;
  };
  for (uint32_t line = 0; line < matrix.box_rows; ++line) {
    for (uint32_t i = 0; i < matrix.box_columns; ++i) {
      const uint64_t x = static_cast<uint64_t>(column) + i;
      const uint64_t y = static_cast<uint64_t>(row) + line;
      uint16_t element = 0;
      if (is_inside(x, y)) {
        std::memcpy(&element, matrix.address + y * matrix.row_nbytes + x * 2, sizeof(element));
      }
      const uint32_t piece = i / 8 ^ line % 8;
      std::memcpy(static_cast<char*>(to) + line * 128 + piece * 16 + i % 8 * 2, &element,
                  sizeof(element));
    }
  }
  Turns turns = turns_of(arrivals);
  turns.nbytes -= static_cast<int32_t>(matrix.box_rows * 128);
  set_turns(arrivals, turns);
}

inline char* launched_lines() {
  return fake_cuda::block_memory();
}

template <int THREADS>
void meet_first_threads() {
  fake_cuda::wait_at_barrier(THREADS);
}

template <uint32_t MASK>
uint32_t masked_xor(uint32_t bits, uint32_t others) {
  return (bits & MASK) ^ others;
}

inline void* launched_memory() {
  return fake_cuda::block_memory();
}

inline uint4 load_once(const uint4* from) {
  return *from;
}

inline void prefetch_line(const void*) {}

inline void wait_for_inputs() {}
inline void let_next_begin() {}

inline void begin_cluster() {}

inline void wait_for_cluster() {
  fake_cuda::meet_cluster();
}

inline void meet_cluster() {
  fake_cuda::meet_cluster();
}

inline void leave_cluster() {
  fake_cuda::meet_cluster();
}

inline float* shared_of_block(float* own, int rank) {
  char* const there = fake_cuda::block_memory(static_cast<unsigned int>(rank));
  return reinterpret_cast<float*>(there +
                                  (reinterpret_cast<char*>(own) - fake_cuda::block_memory()));
}

inline float4 load_of_block(const float4* own, int rank) {
  auto* const words = reinterpret_cast<float*>(const_cast<float4*>(own));
  return *reinterpret_cast<const float4*>(shared_of_block(words, rank));
}

inline void store_columns(void* to, uint32_t pair0, uint32_t pair1) {
  const unsigned int lane = threadIdx.x % fake_cuda::kLanes;
  const uint64_t own = reinterpret_cast<uint64_t>(to);
  for (unsigned int i = 0; i < 4; ++i) {
    const unsigned int from = i / 2 * 8 + lane % 4 * 2 + i % 2;
    auto* const line = reinterpret_cast<uint16_t*>(fake_cuda::lane_value(own, from));
    line[lane / 4] = static_cast<uint16_t>((i < 2 ? pair0 : pair1) >> i % 2 * 16);
  }
}

}  // namespace aoti_plugins::cuda
