// Type traits, limits and arrays of the namespace metal.
#pragma once

namespace metal {

template <typename T, T kValue>
struct integral_constant {
  static constexpr T value = kValue;
  using type = integral_constant;
  constexpr operator T() const { return kValue; }
};
template <bool kValue>
using bool_constant = integral_constant<bool, kValue>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <bool kCondition, typename T = void>
struct enable_if {};
template <typename T>
struct enable_if<true, T> {
  using type = T;
};
template <bool kCondition, typename T = void>
using enable_if_t = typename enable_if<kCondition, T>::type;

template <bool kCondition, typename T, typename U>
struct conditional {
  using type = T;
};
template <typename T, typename U>
struct conditional<false, T, U> {
  using type = U;
};
template <bool kCondition, typename T, typename U>
using conditional_t = typename conditional<kCondition, T, U>::type;

template <typename T>
using remove_cv_t = __remove_cv(T);
template <typename T>
using remove_reference_t = __remove_reference_t(T);
template <typename T>
using remove_const_t = __remove_const(T);
template <typename T>
using make_unsigned_t = __make_unsigned(T);
template <typename T>
using make_signed_t = __make_signed(T);
template <typename T>
using decay_t = __decay(T);
template <typename T>
__add_rvalue_reference(T) declval();

template <typename T, typename U>
constexpr bool is_same_v = __is_same(T, U);
template <typename T, typename U>
struct is_same : bool_constant<__is_same(T, U)> {};
template <typename T>
constexpr bool is_floating_point_v =
    is_same_v<remove_cv_t<T>, float> || is_same_v<remove_cv_t<T>, half> ||
    is_same_v<remove_cv_t<T>, bfloat>;
template <typename T>
struct is_floating_point : bool_constant<is_floating_point_v<T>> {};
template <typename T>
constexpr bool is_integral_v = __is_integral(T);
template <typename T>
struct is_integral : bool_constant<is_integral_v<T>> {};
template <typename T>
constexpr bool is_arithmetic_v = is_floating_point_v<T> || is_integral_v<T>;
template <typename T>
struct is_arithmetic : bool_constant<is_arithmetic_v<T>> {};
template <typename T>
constexpr bool is_scalar_v = is_arithmetic_v<T> || __is_enum(T);
template <typename T>
constexpr bool is_signed_v = is_floating_point_v<T> || __is_signed(T);
template <typename T>
constexpr bool is_unsigned_v = __is_unsigned(T);
template <typename T>
struct is_signed : bool_constant<is_signed_v<T>> {};
template <typename T>
struct is_unsigned : bool_constant<is_unsigned_v<T>> {};
template <typename T, typename U>
constexpr bool is_convertible_v = __is_convertible(T, U);
template <typename T, typename U>
struct is_convertible : bool_constant<__is_convertible(T, U)> {};
template <typename...>
using void_t = void;

template <typename T, size_t kSize>
struct array {
  T elements[kSize];
  constexpr T& operator[](size_t i) { return elements[i]; }
  constexpr const T& operator[](size_t i) const { return elements[i]; }
  constexpr size_t size() const { return kSize; }
  constexpr T* data() { return elements; }
  constexpr const T* data() const { return elements; }
  constexpr T* begin() { return elements; }
  constexpr T* end() { return elements + kSize; }
  constexpr const T* begin() const { return elements; }
  constexpr const T* end() const { return elements + kSize; }
};

template <typename T>
struct numeric_limits {
  static_assert(is_integral_v<T>, "numeric_limits of this type");
  static constexpr bool is_signed = is_signed_v<T>;
  static constexpr int digits = 8 * sizeof(T) - (is_signed ? 1 : 0);
  static constexpr T max() { return is_same_v<T, bool> ? T(1) : T(~ulong{0} >> (64 - digits)); }
  static constexpr T min() { return is_signed ? T(-max() - 1) : T(0); }
  static constexpr T lowest() { return min(); }
};

/// Limits of a floating-point type from its two outermost values.
template <typename T, int kDigits>
struct floating_limits {
  static constexpr bool is_signed = true;
  static constexpr int digits = kDigits;
  static constexpr T infinity() { return T(INFINITY); }
  static constexpr T quiet_NaN() { return T(NAN); }
  static constexpr T signaling_NaN() { return T(NAN); }
  static constexpr T epsilon() { return T(1.0f / float(1u << (kDigits - 1))); }
};
template <>
struct numeric_limits<float> : floating_limits<float, 24> {
  static constexpr float max() { return __FLT_MAX__; }
  static constexpr float min() { return __FLT_MIN__; }
  static constexpr float lowest() { return -__FLT_MAX__; }
  static constexpr float denorm_min() { return 1.401298464e-45f; }
};
template <>
struct numeric_limits<half> : floating_limits<half, 11> {
  static constexpr half max() { return half(65504.0f); }
  static constexpr half min() { return half(6.103515625e-05f); }
  static constexpr half lowest() { return half(-65504.0f); }
};
template <>
struct numeric_limits<bfloat> : floating_limits<bfloat, 8> {
  static constexpr bfloat max() { return bfloat(3.3895313892515355e38f); }
  static constexpr bfloat min() { return bfloat(1.1754943508222875e-38f); }
  static constexpr bfloat lowest() { return bfloat(-3.3895313892515355e38f); }
};

}  // namespace metal

/// The bits of one type as another of the same size.
template <typename To, typename From>
constexpr To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type between types of one size");
  return __builtin_bit_cast(To, from);
}
