// Metal for the compiler's type checker only: address spaces are those of the compiler, so that a
// pointer into one cannot become a pointer into another. Nothing of it can be run; see
// ../../address_spaces.py. Vectors are the compiler's own, as structs would be copied by functions
// that take references without an address space.
#pragma once

// clang-format off
#include <metal_host/types.h>
#include <metal_host/traits.h>
// clang-format on

#define METAL_HOST_VECTORS(T)                             \
  typedef T T##2 __attribute__((ext_vector_type(2)));     \
  typedef T T##3 __attribute__((ext_vector_type(3)));     \
  typedef T T##4 __attribute__((ext_vector_type(4)));     \
  typedef T##2 packed_##T##2 __attribute__((aligned(1))); \
  typedef T##3 packed_##T##3 __attribute__((aligned(1))); \
  typedef T##4 packed_##T##4 __attribute__((aligned(1)));
METAL_HOST_VECTORS(bool)
METAL_HOST_VECTORS(char)
METAL_HOST_VECTORS(uchar)
METAL_HOST_VECTORS(short)
METAL_HOST_VECTORS(ushort)
METAL_HOST_VECTORS(int)
METAL_HOST_VECTORS(uint)
METAL_HOST_VECTORS(long)
METAL_HOST_VECTORS(ulong)
METAL_HOST_VECTORS(half)
METAL_HOST_VECTORS(bfloat)
METAL_HOST_VECTORS(float)
#undef METAL_HOST_VECTORS

/// What address_spaces.py makes of a constructor with several arguments, or of a vector.
template <typename T, typename... Arguments>
T metal_host_make(Arguments...);

#define METAL_HOST_DEVICE __attribute__((address_space(1)))
#define METAL_HOST_CONSTANT __attribute__((address_space(2)))
#define METAL_HOST_GROUP __attribute__((address_space(3)))

namespace metal {

template <typename T, int kSize>
struct vector_of;
template <typename T>
struct vector_of<T, 2> {
  typedef T type __attribute__((ext_vector_type(2)));
};
template <typename T>
struct vector_of<T, 3> {
  typedef T type __attribute__((ext_vector_type(3)));
};
template <typename T>
struct vector_of<T, 4> {
  typedef T type __attribute__((ext_vector_type(4)));
};
template <typename T, int kSize>
using vec = typename vector_of<T, kSize>::type;

// Functions of values: of any type, as only pointers matter here.
#define METAL_HOST_FUNCTION(name)               \
  template <typename T>                         \
  T name(T);                                    \
  template <typename T, typename U>             \
  T name(T, U);                                 \
  template <typename T, typename U, typename V> \
  T name(T, U, V);
// clang-format off
#define METAL_HOST_FLOAT_FUNCTIONS\
  METAL_HOST_FUNCTION(exp)        \
  METAL_HOST_FUNCTION(exp2)       \
  METAL_HOST_FUNCTION(exp10)      \
  METAL_HOST_FUNCTION(log)        \
  METAL_HOST_FUNCTION(log2)       \
  METAL_HOST_FUNCTION(log10)      \
  METAL_HOST_FUNCTION(sin)        \
  METAL_HOST_FUNCTION(cos)        \
  METAL_HOST_FUNCTION(tan)        \
  METAL_HOST_FUNCTION(asin)       \
  METAL_HOST_FUNCTION(acos)       \
  METAL_HOST_FUNCTION(atan)       \
  METAL_HOST_FUNCTION(atan2)      \
  METAL_HOST_FUNCTION(sinh)       \
  METAL_HOST_FUNCTION(cosh)       \
  METAL_HOST_FUNCTION(tanh)       \
  METAL_HOST_FUNCTION(asinh)      \
  METAL_HOST_FUNCTION(acosh)      \
  METAL_HOST_FUNCTION(atanh)      \
  METAL_HOST_FUNCTION(sinpi)      \
  METAL_HOST_FUNCTION(cospi)      \
  METAL_HOST_FUNCTION(tanpi)      \
  METAL_HOST_FUNCTION(sqrt)       \
  METAL_HOST_FUNCTION(rsqrt)      \
  METAL_HOST_FUNCTION(floor)      \
  METAL_HOST_FUNCTION(ceil)       \
  METAL_HOST_FUNCTION(trunc)      \
  METAL_HOST_FUNCTION(rint)       \
  METAL_HOST_FUNCTION(round)      \
  METAL_HOST_FUNCTION(fabs)       \
  METAL_HOST_FUNCTION(fract)      \
  METAL_HOST_FUNCTION(pow)        \
  METAL_HOST_FUNCTION(powr)       \
  METAL_HOST_FUNCTION(fmod)       \
  METAL_HOST_FUNCTION(copysign)   \
  METAL_HOST_FUNCTION(fmin)       \
  METAL_HOST_FUNCTION(fmax)       \
  METAL_HOST_FUNCTION(fdim)       \
  METAL_HOST_FUNCTION(divide)     \
  template <typename T>           \
  T sincos(T, T&);
// clang-format on
METAL_HOST_FLOAT_FUNCTIONS
namespace precise {
METAL_HOST_FLOAT_FUNCTIONS
}
namespace fast {
METAL_HOST_FLOAT_FUNCTIONS
}
METAL_HOST_FUNCTION(fma)
METAL_HOST_FUNCTION(mad)
METAL_HOST_FUNCTION(ldexp)
METAL_HOST_FUNCTION(abs)
METAL_HOST_FUNCTION(sign)
METAL_HOST_FUNCTION(min)
METAL_HOST_FUNCTION(max)
METAL_HOST_FUNCTION(min3)
METAL_HOST_FUNCTION(max3)
METAL_HOST_FUNCTION(clamp)
METAL_HOST_FUNCTION(saturate)
METAL_HOST_FUNCTION(select)
METAL_HOST_FUNCTION(mix)
METAL_HOST_FUNCTION(step)
METAL_HOST_FUNCTION(nextafter)
METAL_HOST_FUNCTION(ctz)
METAL_HOST_FUNCTION(clz)
METAL_HOST_FUNCTION(popcount)
METAL_HOST_FUNCTION(reverse_bits)
METAL_HOST_FUNCTION(rotate)
METAL_HOST_FUNCTION(mulhi)
METAL_HOST_FUNCTION(absdiff)
METAL_HOST_FUNCTION(addsat)
METAL_HOST_FUNCTION(subsat)
METAL_HOST_FUNCTION(extract_bits)
float frexp(float, int&);
float modf(float, float&);
int ilogb(float);
template <typename T, typename = enable_if_t<!is_scalar_v<T>>>
auto dot(T a, T) -> decltype(a.x + a.x);
template <typename T>
auto length(T a) -> decltype(a.x + a.x);
template <typename T>
auto length_squared(T a) -> decltype(a.x + a.x);
#define METAL_HOST_TEST(name) \
  template <typename T>       \
  bool name(T);
METAL_HOST_TEST(isnan)
METAL_HOST_TEST(isinf)
METAL_HOST_TEST(isfinite)
METAL_HOST_TEST(signbit)
METAL_HOST_TEST(all)
METAL_HOST_TEST(any)
template <typename T>
bool isunordered(T, T);

enum class mem_flags : uint { mem_none, mem_device, mem_threadgroup, mem_texture };
mem_flags operator|(mem_flags, mem_flags);
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);

METAL_HOST_FUNCTION(simd_sum)
METAL_HOST_FUNCTION(simd_product)
METAL_HOST_FUNCTION(simd_max)
METAL_HOST_FUNCTION(simd_min)
METAL_HOST_FUNCTION(simd_and)
METAL_HOST_FUNCTION(simd_or)
METAL_HOST_FUNCTION(simd_xor)
METAL_HOST_FUNCTION(simd_prefix_exclusive_sum)
METAL_HOST_FUNCTION(simd_prefix_inclusive_sum)
METAL_HOST_FUNCTION(simd_prefix_exclusive_product)
METAL_HOST_FUNCTION(simd_prefix_inclusive_product)
METAL_HOST_FUNCTION(simd_broadcast)
METAL_HOST_FUNCTION(simd_broadcast_first)
METAL_HOST_FUNCTION(simd_shuffle)
METAL_HOST_FUNCTION(simd_shuffle_xor)
METAL_HOST_FUNCTION(simd_shuffle_up)
METAL_HOST_FUNCTION(simd_shuffle_down)
METAL_HOST_FUNCTION(simd_shuffle_rotate_up)
METAL_HOST_FUNCTION(simd_shuffle_rotate_down)
METAL_HOST_FUNCTION(simd_shuffle_and_fill_up)
METAL_HOST_FUNCTION(simd_shuffle_and_fill_down)
struct simd_vote {
  using vote_t = ulong;
  explicit operator ulong() const;
  bool all() const;
  bool any() const;
};
simd_vote simd_ballot(bool);
bool simd_any(bool);
bool simd_all(bool);
bool simd_is_first();
simd_vote simd_active_threads_mask();

template <typename T, int kColumns, int kRows>
struct simdgroup_matrix {
  simdgroup_matrix();
  explicit simdgroup_matrix(T);
  vec<T, 2>& thread_elements();
};
using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat, 8, 8>;
template <typename T, int kColumns, int kRows>
simdgroup_matrix<T, kColumns, kRows> make_filled_simdgroup_matrix(T);
#define METAL_HOST_MATRIX_MEMORY(space)                                                           \
  template <typename T>                                                                           \
  void simdgroup_load(simdgroup_matrix<T, 8, 8>&, const space T*, ulong = 8, ulong2 = ulong2(0),  \
                      bool = false);                                                              \
  template <typename T>                                                                           \
  void simdgroup_store(const simdgroup_matrix<T, 8, 8>&, space T*, ulong = 8, ulong2 = ulong2(0), \
                       bool = false);
METAL_HOST_MATRIX_MEMORY(METAL_HOST_DEVICE)
METAL_HOST_MATRIX_MEMORY(METAL_HOST_GROUP)
template <typename T>
void simdgroup_load(simdgroup_matrix<T, 8, 8>&, const METAL_HOST_CONSTANT T*, ulong = 8,
                    ulong2 = ulong2(0), bool = false);
template <typename D, typename A, typename B, typename C>
void simdgroup_multiply_accumulate(D&, const A&, const B&, const C&);
template <typename D, typename A, typename B>
void simdgroup_multiply(D&, const A&, const B&);

enum memory_order { memory_order_relaxed };
template <typename T>
struct atomic {
  T value;
};
using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;
using atomic_ulong = atomic<ulong>;
using atomic_float = atomic<float>;
using atomic_bool = atomic<bool>;
#define METAL_HOST_ATOMIC(space, name) \
  template <typename T, typename U>    \
  T atomic_##name##_explicit(volatile space atomic<T>*, U, memory_order);
#define METAL_HOST_ATOMICS(space)                                                            \
  template <typename T>                                                                      \
  T atomic_load_explicit(const volatile space atomic<T>*, memory_order);                     \
  template <typename T, typename U>                                                          \
  void atomic_store_explicit(volatile space atomic<T>*, U, memory_order);                    \
  template <typename T, typename U>                                                          \
  bool atomic_compare_exchange_weak_explicit(volatile space atomic<T>*, T*, U, memory_order, \
                                             memory_order);                                  \
  METAL_HOST_ATOMIC(space, exchange)                                                         \
  METAL_HOST_ATOMIC(space, fetch_add)                                                        \
  METAL_HOST_ATOMIC(space, fetch_sub)                                                        \
  METAL_HOST_ATOMIC(space, fetch_max)                                                        \
  METAL_HOST_ATOMIC(space, fetch_min)                                                        \
  METAL_HOST_ATOMIC(space, fetch_and)                                                        \
  METAL_HOST_ATOMIC(space, fetch_or)                                                         \
  METAL_HOST_ATOMIC(space, fetch_xor)
METAL_HOST_ATOMICS(METAL_HOST_DEVICE)
METAL_HOST_ATOMICS(METAL_HOST_GROUP)

}  // namespace metal

#define __METAL__ 1
#ifndef __METAL_VERSION__
#define __METAL_VERSION__ 310
#endif
#define __HAVE_BFLOAT__ 1
#define device METAL_HOST_DEVICE
#define constant const METAL_HOST_CONSTANT
#define threadgroup METAL_HOST_GROUP
#define thread
#define kernel static
#define double double_is_not_a_type_of_metal
