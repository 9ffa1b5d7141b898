#pragma once

// Elements as keys: integers that are ordered as the elements are, and pairs of a key and a place,
// which are all different, so that any sort of them is stable.

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/lines.cuh"
#include "cuda/kernels/sort.h"

namespace aoti_plugins::cuda {

/// The key of an element whose bits are a `T`.
template <typename T>
using KeyOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

/// What comes after all elements, or with the last of them.
template <typename Key>
inline constexpr Key kLastKey = static_cast<Key>(~Key{0});

/// NaN is above everything, and the two zeros are equal.
template <typename T>
__device__ KeyOf<T> key_of(T bits, const SortOrder& order) {
  const T most = static_cast<T>(order.most);
  bits = bits < most ? bits : most;
  const T magnitude = static_cast<T>(bits & order.magnitude);
  bits = magnitude == 0 ? static_cast<T>(bits & order.zero) : bits;
  const bool is_high = bits >> (8 * sizeof(T) - 1) != 0;
  T key = static_cast<T>(bits ^ (is_high ? order.flip_negative : order.flip_positive));
  key = magnitude > static_cast<T>(order.infinity) ? static_cast<T>(~T{0}) : key;
  return static_cast<T>(key ^ order.flip_last);
}

/// One line of the tensors of a sort.
template <typename T>
struct SortLine {
  __device__ SortLine(const SortTensors& tensors, const Lines& lines, int64_t line)
      : src(static_cast<const T*>(tensors.src) + line_start(lines, line, 2)),
        values(static_cast<T*>(tensors.values) + line_start(lines, line, 0)),
        places(tensors.places + line_start(lines, line, 1)),
        src_step(lines.steps[2]),
        values_step(lines.steps[0]),
        places_step(lines.steps[1]) {}

  __device__ T load(int64_t i) const { return src[i * src_step]; }

  /// Writes the element of a place as the `i`-th.
  __device__ void store(int64_t i, uint32_t place) const {
    values[i * values_step] = load(place);
    places[i * places_step] = place;
  }

  const T* src;
  T* values;
  int64_t* places;
  int64_t src_step;
  int64_t values_step;
  int64_t places_step;
};

template <typename Key>
struct Pair {
  Key key;
  uint32_t place;
};

/// A key of 32 bits and its place are compared at once.
template <>
struct Pair<uint32_t> {
  uint64_t bits;
};

inline __device__ void set_pair(uint32_t key, uint32_t place, Pair<uint32_t>* ret) {
  ret->bits = uint64_t{key} << 32 | place;
}

inline __device__ void set_pair(uint64_t key, uint32_t place, Pair<uint64_t>* ret) {
  ret->key = key;
  ret->place = place;
}

inline __device__ uint32_t place_of(const Pair<uint32_t>& pair) {
  return static_cast<uint32_t>(pair.bits);
}

inline __device__ uint32_t place_of(const Pair<uint64_t>& pair) {
  return pair.place;
}

inline __device__ bool is_before(const Pair<uint32_t>& a, const Pair<uint32_t>& b) {
  return a.bits < b.bits;
}

inline __device__ bool is_before(const Pair<uint64_t>& a, const Pair<uint64_t>& b) {
  return a.key < b.key || (a.key == b.key && a.place < b.place);
}

/// Puts two pairs in order, the smaller first where `up`.
template <typename Key>
__device__ void exchange(Pair<Key>& a, Pair<Key>& b, bool up) {
  if (is_before(b, a) == up) {
    const Pair<Key> first = a;
    a = b;
    b = first;
  }
}

}  // namespace aoti_plugins::cuda
