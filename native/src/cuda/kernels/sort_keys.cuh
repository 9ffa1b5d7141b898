#pragma once

// Elements as keys: integers that are ordered as the elements are, and pairs of a key and a place,
// which are all different, so that any sort of them is stable.

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/lines.cuh"
#include "cuda/kernels/sort.h"

namespace aoti_plugins::cuda {

/// What comes after all elements, or with the last of them.
template <typename Key>
inline constexpr Key kLastKey = static_cast<Key>(~Key{0});

/// The key of an element with these bits. NaN is above everything, and the two zeros are equal.
template <typename Key>
__device__ Key key_of(Key bits, const SortOrder& order) {
  const Key most = static_cast<Key>(order.most);
  bits = bits < most ? bits : most;
  const Key all_but_sign = static_cast<Key>(order.magnitude);
  const Key magnitude = bits & all_but_sign;
  bits = magnitude == 0 ? bits & static_cast<Key>(order.zero) : bits;
  const Key sign = static_cast<Key>(order.sign);
  Key key = bits ^ sign ^ ((bits & sign) != 0 ? all_but_sign : 0);
  key = magnitude > static_cast<Key>(order.infinity) ? most : key;
  return key ^ static_cast<Key>(order.flip_last);
}

/// The bytes of an element: 8 where its key has them, else up to 4.
template <typename Key>
__device__ uint32_t nbytes_of(const SortOrder& order) {
  return sizeof(Key) == 8 ? 8 : order.nbytes;
}

/// Calls `call` with an element of that many bytes.
template <typename Key, typename Call>
__device__ void with_element(uint32_t nbytes, const Call& call) {
  if constexpr (sizeof(Key) == 8) {
    call(uint64_t{});
  } else if (nbytes == 1) {
    call(uint8_t{});
  } else if (nbytes == 2) {
    call(uint16_t{});
  } else {
    call(uint32_t{});
  }
}

/// One line of the tensors of a sort, which is not empty.
template <typename Key>
struct SortLine {
  __device__ SortLine(const SortTensors& tensors, const Lines& lines, int64_t line)
      : nbytes(nbytes_of<Key>(tensors.order)),
        src_step(lines.steps[2] * nbytes),
        values_step(lines.steps[0] * nbytes),
        places_step(lines.steps[1]) {
    int64_t starts[kLinesMaxTensors] = {0, 0, 0};
#pragma unroll 1
    for (int32_t d = 0; d < lines.ndim; ++d) {
      const int64_t rest = line / lines.sizes[d];
      const int64_t index = line - rest * lines.sizes[d];
#pragma unroll
      for (int32_t tensor = 0; tensor < kLinesMaxTensors; ++tensor) {
        starts[tensor] += index * lines.starts[tensor][d];
      }
      line = rest;
    }
    src = static_cast<const char*>(tensors.src) + starts[2] * nbytes;
    values = static_cast<char*>(tensors.values) + starts[0] * nbytes;
    places = tensors.places + starts[1];
  }

  /// The bits of the elements at `place(j)`, of the first one where not `is_in(j)`.
  template <uint32_t kItems, typename Place, typename IsIn>
  __device__ void load(const Place& place, const IsIn& is_in, Key (&bits)[kItems]) const {
    const char* at[kItems];
#pragma unroll
    for (uint32_t j = 0; j < kItems; ++j) {
      at[j] = src + (is_in(j) ? place(j) : 0) * src_step;
    }
    with_element<Key>(nbytes, [&](auto element) {
#pragma unroll
      for (uint32_t j = 0; j < kItems; ++j) {
        bits[j] = *reinterpret_cast<const decltype(element)*>(at[j]);
      }
    });
  }

  /// The keys of the elements at `place(j)`, the last key from `end` on.
  template <uint32_t kItems, typename Place>
  __device__ void load_keys(const Place& place, int64_t end, const SortOrder& order,
                            Key (&keys)[kItems]) const {
    const auto is_in = [&](uint32_t j) { return place(j) < end; };
    load(place, is_in, keys);
#pragma unroll
    for (uint32_t j = 0; j < kItems; ++j) {
      keys[j] = is_in(j) ? key_of(keys[j], order) : kLastKey<Key>;
    }
  }

  /// Writes the elements of `from` as those at `to(j)`, but for those from `end` on.
  template <uint32_t kItems, typename Place>
  __device__ void store(const Place& to, int64_t end, const uint32_t (&from)[kItems]) const {
    const auto is_in = [&](uint32_t j) { return to(j) < end; };
    Key bits[kItems];
    load([&](uint32_t j) { return from[j]; }, is_in, bits);
    with_element<Key>(nbytes, [&](auto element) {
#pragma unroll
      for (uint32_t j = 0; j < kItems; ++j) {
        if (is_in(j)) {
          *reinterpret_cast<decltype(element)*>(values + to(j) * values_step) =
              static_cast<decltype(element)>(bits[j]);
        }
      }
    });
#pragma unroll
    for (uint32_t j = 0; j < kItems; ++j) {
      if (is_in(j)) {
        places[to(j) * places_step] = from[j];
      }
    }
  }

  uint32_t nbytes;
  const char* src;
  char* values;
  int64_t* places;
  int64_t src_step;  ///< in bytes, as that of the values
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
