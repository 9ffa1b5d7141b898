// Mathematical functions, in float for every floating-point type, elementwise for vectors.
#pragma once

namespace metal_host {

/// What a function of a T computes in and gives: integers are taken as floats.
template <typename T>
using Computed = metal::conditional_t<metal::is_integral_v<T>, float, T>;
template <typename T, typename R = T>
using IfFloating = metal::enable_if_t<metal::is_floating_point_v<T>, R>;
template <typename T, typename R = T>
using IfIntegral = metal::enable_if_t<metal::is_integral_v<T>, R>;
template <typename T, typename R = T>
using IfScalar = metal::enable_if_t<metal::is_arithmetic_v<T>, R>;

}  // namespace metal_host

#define METAL_HOST_VECTOR_1(name)                                         \
  template <typename T, int kSize>                                        \
  auto name(const vec<T, kSize>& a) -> vec<decltype(name(a[0])), kSize> { \
    vec<decltype(name(a[0])), kSize> result;                              \
    for (int i = 0; i < kSize; ++i) result[i] = name(a[i]);               \
    return result;                                                        \
  }
#define METAL_HOST_VECTOR_2(name)                                              \
  template <typename T, int kSize>                                             \
  auto name(const vec<T, kSize>& a, const vec<T, kSize>& b)                    \
      -> vec<decltype(name(a[0], b[0])), kSize> {                              \
    vec<decltype(name(a[0], b[0])), kSize> result;                             \
    for (int i = 0; i < kSize; ++i) result[i] = name(a[i], b[i]);              \
    return result;                                                             \
  }                                                                            \
  template <typename T, int kSize, typename S, enable_if_element<S, T> = true> \
  auto name(const vec<T, kSize>& a, S b) {                                     \
    return name(a, vec<T, kSize>(T(b)));                                       \
  }
#define METAL_HOST_VECTOR_3(name)                                                              \
  template <typename T, int kSize>                                                             \
  vec<T, kSize> name(const vec<T, kSize>& a, const vec<T, kSize>& b, const vec<T, kSize>& c) { \
    vec<T, kSize> result;                                                                      \
    for (int i = 0; i < kSize; ++i) result[i] = name(a[i], b[i], c[i]);                        \
    return result;                                                                             \
  }
#define METAL_HOST_FLOAT_1(name, expression)                           \
  template <typename T>                                                \
  inline metal_host::IfScalar<T, metal_host::Computed<T>> name(T a_) { \
    const float a = float(a_);                                         \
    return metal_host::Computed<T>(expression);                        \
  }                                                                    \
  METAL_HOST_VECTOR_1(name)
#define METAL_HOST_FLOAT_2(name, expression)          \
  template <typename T>                               \
  inline metal_host::IfFloating<T> name(T a_, T b_) { \
    const float a = float(a_), b = float(b_);         \
    return T(expression);                             \
  }                                                   \
  METAL_HOST_VECTOR_2(name)

#define METAL_HOST_FLOAT_FUNCTIONS                                                    \
  METAL_HOST_FLOAT_1(exp, __builtin_expf(a))                                          \
  METAL_HOST_FLOAT_1(exp2, __builtin_exp2f(a))                                        \
  METAL_HOST_FLOAT_1(exp10, __builtin_powf(10.0f, a))                                 \
  METAL_HOST_FLOAT_1(log, __builtin_logf(a))                                          \
  METAL_HOST_FLOAT_1(log2, __builtin_log2f(a))                                        \
  METAL_HOST_FLOAT_1(log10, __builtin_log10f(a))                                      \
  METAL_HOST_FLOAT_1(sin, __builtin_sinf(a))                                          \
  METAL_HOST_FLOAT_1(cos, __builtin_cosf(a))                                          \
  METAL_HOST_FLOAT_1(tan, __builtin_tanf(a))                                          \
  METAL_HOST_FLOAT_1(asin, __builtin_asinf(a))                                        \
  METAL_HOST_FLOAT_1(acos, __builtin_acosf(a))                                        \
  METAL_HOST_FLOAT_1(atan, __builtin_atanf(a))                                        \
  METAL_HOST_FLOAT_1(sinh, __builtin_sinhf(a))                                        \
  METAL_HOST_FLOAT_1(cosh, __builtin_coshf(a))                                        \
  METAL_HOST_FLOAT_1(tanh, __builtin_tanhf(a))                                        \
  METAL_HOST_FLOAT_1(asinh, __builtin_asinhf(a))                                      \
  METAL_HOST_FLOAT_1(acosh, __builtin_acoshf(a))                                      \
  METAL_HOST_FLOAT_1(atanh, __builtin_atanhf(a))                                      \
  METAL_HOST_FLOAT_1(sinpi, __builtin_sinf(M_PI_F* __builtin_fmodf(a, 2.0f)))         \
  METAL_HOST_FLOAT_1(cospi, __builtin_cosf(M_PI_F* __builtin_fmodf(a, 2.0f)))         \
  METAL_HOST_FLOAT_1(tanpi, __builtin_tanf(M_PI_F* __builtin_fmodf(a, 1.0f)))         \
  METAL_HOST_FLOAT_1(sqrt, __builtin_sqrtf(a))                                        \
  METAL_HOST_FLOAT_1(rsqrt, 1.0f / __builtin_sqrtf(a))                                \
  METAL_HOST_FLOAT_1(floor, __builtin_floorf(a))                                      \
  METAL_HOST_FLOAT_1(ceil, __builtin_ceilf(a))                                        \
  METAL_HOST_FLOAT_1(trunc, __builtin_truncf(a))                                      \
  METAL_HOST_FLOAT_1(rint, __builtin_rintf(a))                                        \
  METAL_HOST_FLOAT_1(round, __builtin_roundf(a))                                      \
  METAL_HOST_FLOAT_1(fabs, __builtin_fabsf(a))                                        \
  METAL_HOST_FLOAT_1(fract, __builtin_fminf(a - __builtin_floorf(a), 0x1.fffffep-1f)) \
  METAL_HOST_FLOAT_2(pow, __builtin_powf(a, b))                                       \
  METAL_HOST_FLOAT_2(powr, a < 0 ? NAN : __builtin_powf(a, b))                        \
  METAL_HOST_FLOAT_2(atan2, __builtin_atan2f(a, b))                                   \
  METAL_HOST_FLOAT_2(fmod, __builtin_fmodf(a, b))                                     \
  METAL_HOST_FLOAT_2(copysign, __builtin_copysignf(a, b))                             \
  METAL_HOST_FLOAT_2(fmin, __builtin_fminf(a, b))                                     \
  METAL_HOST_FLOAT_2(fmax, __builtin_fmaxf(a, b))                                     \
  METAL_HOST_FLOAT_2(fdim, __builtin_fdimf(a, b))                                     \
  template <typename T>                                                               \
  inline metal_host::IfFloating<T> sincos(T a, T& cosine) {                           \
    cosine = cos(a);                                                                  \
    return sin(a);                                                                    \
  }                                                                                   \
  template <typename T>                                                               \
  inline metal_host::IfFloating<T> divide(T a, T b) {                                 \
    return T(a / b);                                                                  \
  }

namespace metal {

METAL_HOST_FLOAT_FUNCTIONS
inline float pow(float a, int b) {
  return __builtin_powf(a, float(b));
}
namespace precise {
METAL_HOST_FLOAT_FUNCTIONS
}
namespace fast {
METAL_HOST_FLOAT_FUNCTIONS
}

template <typename T>
inline metal_host::IfFloating<T> fma(T a, T b, T c) {
  return T(__builtin_fmaf(float(a), float(b), float(c)));
}
METAL_HOST_VECTOR_3(fma)
inline float mad(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline float ldexp(float a, int exponent) {
  return __builtin_ldexpf(a, exponent);
}
inline float frexp(float a, int& exponent) {
  return __builtin_frexpf(a, &exponent);
}
inline float modf(float a, float& whole) {
  return __builtin_modff(a, &whole);
}
inline float nextafter(float a, float b) {
  return __builtin_nextafterf(a, b);
}
inline int ilogb(float a) {
  return __builtin_ilogbf(a);
}

template <typename T>
inline metal_host::IfScalar<T, bool> isnan(T a) {
  return float(a) != float(a);
}
METAL_HOST_VECTOR_1(isnan)
template <typename T>
inline metal_host::IfScalar<T, bool> isinf(T a) {
  return __builtin_fabsf(float(a)) == INFINITY;
}
METAL_HOST_VECTOR_1(isinf)
template <typename T>
inline metal_host::IfScalar<T, bool> isfinite(T a) {
  return __builtin_fabsf(float(a)) < INFINITY;
}
METAL_HOST_VECTOR_1(isfinite)
template <typename T>
inline metal_host::IfScalar<T, bool> signbit(T a) {
  return __builtin_signbit(float(a)) != 0;
}
METAL_HOST_VECTOR_1(signbit)
template <typename T>
inline metal_host::IfFloating<T, bool> isunordered(T a, T b) {
  return isnan(a) || isnan(b);
}

template <typename T>
constexpr metal_host::IfScalar<T> abs(T a) {
  if constexpr (is_floating_point_v<T>) {
    return T(__builtin_fabsf(float(a)));
  } else {
    return a < 0 ? T(-a) : a;
  }
}
METAL_HOST_VECTOR_1(abs)
template <typename T>
inline metal_host::IfScalar<T> sign(T a) {
  if constexpr (is_floating_point_v<T>) {
    return isnan(a) ? T(0) : a > T(0) ? T(1) : a < T(0) ? T(-1) : a;
  } else {
    return T((a > 0) - (a < 0));
  }
}
METAL_HOST_VECTOR_1(sign)
template <typename T>
constexpr metal_host::IfScalar<T> min(T a, T b) {
  if constexpr (is_floating_point_v<T>) {
    return T(__builtin_fminf(float(a), float(b)));
  } else {
    return b < a ? b : a;
  }
}
METAL_HOST_VECTOR_2(min)
template <typename T>
constexpr metal_host::IfScalar<T> max(T a, T b) {
  if constexpr (is_floating_point_v<T>) {
    return T(__builtin_fmaxf(float(a), float(b)));
  } else {
    return a < b ? b : a;
  }
}
METAL_HOST_VECTOR_2(max)
template <typename T>
inline T min3(T a, T b, T c) {
  return min(a, min(b, c));
}
template <typename T>
inline T max3(T a, T b, T c) {
  return max(a, max(b, c));
}
template <typename T>
inline T clamp(T value, T low, T high) {
  return min(max(value, low), high);
}
template <typename T, int kSize>
inline vec<T, kSize> clamp(const vec<T, kSize>& value, T low, T high) {
  return min(max(value, low), high);
}
template <typename T>
inline T saturate(T value) {
  return clamp(value, T(0), T(1));
}
template <typename T>
inline T select(T if_false, T if_true, bool condition) {
  return condition ? if_true : if_false;
}
template <typename T, int kSize>
inline vec<T, kSize> select(const vec<T, kSize>& if_false, const vec<T, kSize>& if_true,
                            const vec<bool, kSize>& condition) {
  vec<T, kSize> result;
  for (int i = 0; i < kSize; ++i) result[i] = condition[i] ? if_true[i] : if_false[i];
  return result;
}
template <typename T, typename S>
inline T mix(T a, T b, S weight) {
  return a + (b - a) * weight;
}
template <typename T>
inline metal_host::IfFloating<T> step(T edge, T a) {
  return a < edge ? T(0) : T(1);
}

template <int kSize>
inline bool all(const vec<bool, kSize>& a) {
  bool result = true;
  for (int i = 0; i < kSize; ++i) result = result && a[i];
  return result;
}
template <int kSize>
inline bool any(const vec<bool, kSize>& a) {
  bool result = false;
  for (int i = 0; i < kSize; ++i) result = result || a[i];
  return result;
}
inline bool all(bool a) {
  return a;
}
inline bool any(bool a) {
  return a;
}
template <typename T, int kSize>
inline T dot(const vec<T, kSize>& a, const vec<T, kSize>& b) {
  T result = a[0] * b[0];
  for (int i = 1; i < kSize; ++i) result += a[i] * b[i];
  return result;
}
template <typename T, int kSize>
inline T length_squared(const vec<T, kSize>& a) {
  return dot(a, a);
}
template <typename T, int kSize>
inline T length(const vec<T, kSize>& a) {
  return sqrt(dot(a, a));
}

template <typename T>
inline metal_host::IfIntegral<T> ctz(T a) {
  return a == 0 ? T(8 * sizeof(T)) : T(__builtin_ctzll(ulong(a)));
}
METAL_HOST_VECTOR_1(ctz)
template <typename T>
inline metal_host::IfIntegral<T> clz(T a) {
  constexpr int unused = 64 - 8 * int(sizeof(T));
  const ulong bits = ulong(make_unsigned_t<T>(a));
  return bits == 0 ? T(8 * sizeof(T)) : T(__builtin_clzll(bits) - unused);
}
METAL_HOST_VECTOR_1(clz)
template <typename T>
inline metal_host::IfIntegral<T> popcount(T a) {
  return T(__builtin_popcountll(ulong(make_unsigned_t<T>(a))));
}
METAL_HOST_VECTOR_1(popcount)
template <typename T>
inline metal_host::IfIntegral<T> reverse_bits(T a) {
  T result = 0;
  for (size_t i = 0; i < 8 * sizeof(T); ++i) {
    result = T(result << 1) | T((a >> i) & 1);
  }
  return result;
}
template <typename T>
inline metal_host::IfIntegral<T> rotate(T a, T places) {
  using Bits = make_unsigned_t<T>;
  constexpr uint width = 8 * sizeof(T);
  const uint n = uint(places) % width;
  return n == 0 ? a : T(Bits(Bits(a) << n) | Bits(Bits(a) >> (width - n)));
}
template <typename T>
inline metal_host::IfIntegral<T> mulhi(T a, T b) {
  using Wide = conditional_t<is_signed_v<T>, __int128, unsigned __int128>;
  return T((Wide(a) * Wide(b)) >> (8 * sizeof(T)));
}
METAL_HOST_VECTOR_2(mulhi)
template <typename T>
inline metal_host::IfIntegral<T, make_unsigned_t<T>> absdiff(T a, T b) {
  using Bits = make_unsigned_t<T>;
  return a < b ? Bits(Bits(b) - Bits(a)) : Bits(Bits(a) - Bits(b));
}
template <typename T>
inline metal_host::IfIntegral<T> addsat(T a, T b) {
  T result;
  if (!__builtin_add_overflow(a, b, &result)) return result;
  return a < 0 ? numeric_limits<T>::min() : numeric_limits<T>::max();
}
template <typename T>
inline metal_host::IfIntegral<T> subsat(T a, T b) {
  T result;
  if (!__builtin_sub_overflow(a, b, &result)) return result;
  return a < b ? numeric_limits<T>::min() : numeric_limits<T>::max();
}
template <typename T>
inline metal_host::IfIntegral<T> extract_bits(T a, uint offset, uint bits) {
  if (bits == 0) return 0;
  constexpr uint width = 8 * sizeof(T);
  return T(make_unsigned_t<T>(a) << (width - offset - bits)) >> (width - bits);
}

}  // namespace metal

#undef METAL_HOST_FLOAT_FUNCTIONS
#undef METAL_HOST_FLOAT_2
#undef METAL_HOST_FLOAT_1
#undef METAL_HOST_VECTOR_3
#undef METAL_HOST_VECTOR_2
#undef METAL_HOST_VECTOR_1
