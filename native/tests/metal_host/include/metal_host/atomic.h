// Atomics. Threads of the host's GPU give up their turn at meetings only, so plain memory does. A
// weak exchange fails now and then for no reason where the schedule is shuffled.
#pragma once

namespace metal {

enum memory_order { memory_order_relaxed };
enum class thread_scope {
  thread_scope_thread,
  thread_scope_simdgroup,
  thread_scope_threadgroup,
  thread_scope_device
};

template <typename T>
struct atomic {
  static_assert(sizeof(T) == 4 || is_same_v<T, bool> || is_same_v<T, ulong>,
                "atomics are int, uint, float, bool and ulong");
  alignas(sizeof(T) < 4 ? 4 : sizeof(T)) T value;
};
using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;
using atomic_ulong = atomic<ulong>;
using atomic_float = atomic<float>;
using atomic_bool = atomic<bool>;

template <typename T>
T atomic_load_explicit(const volatile atomic<T>* object, memory_order) {
  return object->value;
}
template <typename T, typename U>
void atomic_store_explicit(volatile atomic<T>* object, U value, memory_order) {
  object->value = T(value);
}
template <typename T, typename U>
T atomic_exchange_explicit(volatile atomic<T>* object, U value, memory_order) {
  const T old = object->value;
  object->value = T(value);
  return old;
}

#define METAL_HOST_FETCH(name, expression)                                                \
  template <typename T, typename U>                                                       \
  T atomic_fetch_##name##_explicit(volatile atomic<T>* object, U operand, memory_order) { \
    static_assert(!is_same_v<T, bool>, "atomic_bool has no arithmetic");                  \
    const T a = object->value;                                                            \
    const T b = T(operand);                                                               \
    object->value = T(expression);                                                        \
    return a;                                                                             \
  }
METAL_HOST_FETCH(add, a + b)
METAL_HOST_FETCH(sub, a - b)
METAL_HOST_FETCH(max, a < b ? b : a)
METAL_HOST_FETCH(min, b < a ? b : a)
METAL_HOST_FETCH(and, a& b)
METAL_HOST_FETCH(or, a | b)
METAL_HOST_FETCH(xor, a ^ b)
#undef METAL_HOST_FETCH

template <typename T, typename U>
bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* object, T* expected, U desired,
                                           memory_order, memory_order) {
  metal_host::Schedule& schedule = metal_host::runtime.schedule;
  const bool spurious =
      schedule.kind() == metal_host::Schedule::kShuffle && schedule.random(8) == 0;
  const T found = object->value;
  if (!spurious && memcmp(&found, expected, sizeof(T)) == 0) {
    object->value = T(desired);
    return true;
  }
  *expected = found;
  return false;
}

inline void atomic_thread_fence(mem_flags, memory_order = memory_order_relaxed,
                                thread_scope = thread_scope::thread_scope_device) {}

}  // namespace metal
