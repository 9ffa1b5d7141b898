// Operations of a simdgroup. The lanes that arrive at one place of the text together are the active
// ones. What Metal leaves open, the value of an inactive lane, is poison or zero (schedule.h).
#pragma once

namespace metal_host {

/// What the lanes that met brought.
class Met {
 public:
  Met(const Meeting& meeting, uint32_t lane) : meeting_(&meeting), lane_(lane) {}

  uint32_t lane() const { return lane_; }
  uint32_t active() const { return meeting_->active; }
  bool has(uint32_t lane) const { return lane < kSimdgroupSize && ((active() >> lane) & 1) != 0; }

  /// Of any lane, active or not.
  template <typename T>
  T get(uint32_t lane) const {
    T value;
    memcpy(&value, meeting_->slots[lane % kSimdgroupSize], sizeof(T));
    return value;
  }

  /// What the lane `source` brought, or what there is where no lane is.
  template <typename T>
  T read(int source) const {
    if (source >= 0 && source < int(kSimdgroupSize)) {
      return get<T>(uint32_t(source));
    }
    T value;
    memset(&value, runtime.schedule.inactive(), sizeof(T));
    return value;
  }

 private:
  const Meeting* meeting_;
  uint32_t lane_;
};

/// Waits for the other lanes that arrive at this place.
template <typename T>
__attribute__((noinline)) Met meet_with(const T& value, const char* operation, Place place,
                                        bool orders_memory = false) {
  static_assert(sizeof(T) <= kSlotNbytes, "simdgroup operations take at most 16 bytes");
  const uint32_t index = runtime.running;
  if (!runtime.alone) {
    memcpy(runtime.lanes[index].slot, &value, sizeof(T));
  }
  wait(Lane::kMeeting, {operation, place.line, place.column, orders_memory});
  return {runtime.meetings[index / kSimdgroupSize], index % kSimdgroupSize};
}

/// The same where Metal asks that all lanes of the simdgroup take part.
template <typename T>
Met meet_all(const T& value, const char* operation, Place place, bool full,
             bool orders_memory = false) {
  const Met met = meet_with(value, operation, place, orders_memory);
  const uint32_t rest = runtime.count - runtime.running / kSimdgroupSize * kSimdgroupSize;
  const uint32_t all = full || rest >= kSimdgroupSize ? ~0u : (1u << rest) - 1;
  if (met.active() != all) {
    fail("line %d: %s is reached by %d of %d lanes", place.line, operation,
         __builtin_popcount(met.active()), __builtin_popcount(all));
  }
  return met;
}

/// Folds the values of the active lanes, in the order of the lanes.
template <typename T, typename Combine>
T fold(T value, const char* operation, Place place, Combine combine) {
  const Met met = meet_with(value, operation, place);
  bool first = true;
  for (uint32_t lane = 0; lane < kSimdgroupSize; ++lane) {
    if (met.has(lane)) {
      value = first ? met.get<T>(lane) : combine(value, met.get<T>(lane));
      first = false;
    }
  }
  return value;
}

/// Folds those of the active lanes in front of this one, from `start` on.
template <typename T, typename Combine>
T prefix(T value, T start, bool inclusive, const char* operation, Place place, Combine combine) {
  const Met met = meet_with(value, operation, place);
  for (uint32_t lane = 0; lane < met.lane(); ++lane) {
    if (met.has(lane)) {
      start = combine(start, met.get<T>(lane));
    }
  }
  return inclusive ? combine(start, value) : start;
}

}  // namespace metal_host

namespace metal {

inline void simdgroup_barrier(mem_flags, metal_host::Place place = metal_host::Place::here()) {
  metal_host::meet_all(0, "simdgroup_barrier", place, false, true);
}

// Metal has no reductions of 64-bit integers, nor of bfloat.
#define METAL_HOST_FOLD(name, expression)                                                 \
  template <typename T>                                                                   \
  T name(T value, metal_host::Place place = metal_host::Place::here()) {                  \
    static_assert(!is_integral_v<T> || sizeof(T) < 8, #name " of a 64-bit integer");      \
    static_assert(!is_same_v<T, bfloat>, #name " of a bfloat");                           \
    return metal_host::fold(value, #name, place, [](T a, T b) { return T(expression); }); \
  }
METAL_HOST_FOLD(simd_sum, a + b)
METAL_HOST_FOLD(simd_product, a* b)
METAL_HOST_FOLD(simd_max, max(a, b))
METAL_HOST_FOLD(simd_min, min(a, b))
METAL_HOST_FOLD(simd_and, a& b)
METAL_HOST_FOLD(simd_or, a | b)
METAL_HOST_FOLD(simd_xor, a ^ b)
#undef METAL_HOST_FOLD

#define METAL_HOST_PREFIX(name, start, inclusive, expression)                        \
  template <typename T>                                                              \
  T name(T value, metal_host::Place place = metal_host::Place::here()) {             \
    static_assert(!is_integral_v<T> || sizeof(T) < 8, #name " of a 64-bit integer"); \
    static_assert(!is_same_v<T, bfloat>, #name " of a bfloat");                      \
    return metal_host::prefix(value, T(start), inclusive, #name, place,              \
                              [](T a, T b) { return T(expression); });               \
  }
METAL_HOST_PREFIX(simd_prefix_exclusive_sum, 0, false, a + b)
METAL_HOST_PREFIX(simd_prefix_inclusive_sum, 0, true, a + b)
METAL_HOST_PREFIX(simd_prefix_exclusive_product, 1, false, a* b)
METAL_HOST_PREFIX(simd_prefix_inclusive_product, 1, true, a* b)
#undef METAL_HOST_PREFIX

class simd_vote {
 public:
  using vote_t = ulong;
  explicit constexpr simd_vote(vote_t bits = 0) : bits_(bits) {}
  explicit constexpr operator vote_t() const { return bits_; }
  constexpr bool all() const { return bits_ == 0xFFFFFFFFul; }
  constexpr bool any() const { return bits_ != 0; }

 private:
  vote_t bits_;
};

inline simd_vote simd_ballot(bool value, metal_host::Place place = metal_host::Place::here()) {
  const metal_host::Met met = metal_host::meet_with(value, "simd_ballot", place);
  ulong bits = 0;
  for (uint lane = 0; lane < metal_host::kSimdgroupSize; ++lane) {
    bits |= met.has(lane) && met.get<bool>(lane) ? 1ul << lane : 0;
  }
  return simd_vote(bits);
}
inline bool simd_any(bool value, metal_host::Place place = metal_host::Place::here()) {
  return metal_host::fold(value, "simd_any", place, [](bool a, bool b) { return a || b; });
}
inline bool simd_all(bool value, metal_host::Place place = metal_host::Place::here()) {
  return metal_host::fold(value, "simd_all", place, [](bool a, bool b) { return a && b; });
}
inline simd_vote simd_active_threads_mask(metal_host::Place place = metal_host::Place::here()) {
  return simd_vote(metal_host::meet_with(0, "simd_active_threads_mask", place).active());
}
inline bool simd_is_first(metal_host::Place place = metal_host::Place::here()) {
  const metal_host::Met met = metal_host::meet_with(0, "simd_is_first", place);
  return met.lane() == uint(__builtin_ctz(met.active()));
}
template <typename T>
T simd_broadcast_first(T value, metal_host::Place place = metal_host::Place::here()) {
  return metal_host::fold(value, "simd_broadcast_first", place, [](T a, T) { return a; });
}

// `k` is the own lane.
#define METAL_HOST_SHUFFLE(name, amount, source)                                        \
  template <typename T>                                                                 \
  T name(T value, ushort amount, metal_host::Place place = metal_host::Place::here()) { \
    static_assert(!is_same_v<T, bfloat>, #name " of a bfloat");                         \
    static_assert(sizeof(T) < 8 || !is_integral_v<T>, #name " of a 64-bit integer");    \
    const metal_host::Met met = metal_host::meet_with(value, #name, place);             \
    [[maybe_unused]] const int k = int(met.lane());                                     \
    return met.read<T>(source);                                                         \
  }
METAL_HOST_SHUFFLE(simd_broadcast, lane, int(lane))
METAL_HOST_SHUFFLE(simd_shuffle, lane, int(lane))
METAL_HOST_SHUFFLE(simd_shuffle_xor, mask, k ^ int(mask))
METAL_HOST_SHUFFLE(simd_shuffle_up, delta, k - int(delta))
METAL_HOST_SHUFFLE(simd_shuffle_down, delta, k + int(delta))
METAL_HOST_SHUFFLE(simd_shuffle_rotate_up, delta, (k - int(delta)) & 31)
METAL_HOST_SHUFFLE(simd_shuffle_rotate_down, delta, (k + int(delta)) & 31)
#undef METAL_HOST_SHUFFLE

template <typename T>
T simd_shuffle_and_fill_down(T value, T fill, ushort delta,
                             metal_host::Place place = metal_host::Place::here()) {
  const metal_host::Met met = metal_host::meet_with(value, "simd_shuffle_and_fill_down", place);
  const uint source = met.lane() + delta;
  return source < metal_host::kSimdgroupSize ? met.get<T>(source) : fill;
}
template <typename T>
T simd_shuffle_and_fill_up(T value, T fill, ushort delta,
                           metal_host::Place place = metal_host::Place::here()) {
  const metal_host::Met met = metal_host::meet_with(value, "simd_shuffle_and_fill_up", place);
  return met.lane() < delta ? fill : met.get<T>(met.lane() - delta);
}

}  // namespace metal
