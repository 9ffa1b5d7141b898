// Vectors of 2 to 4 elements with swizzles, constructors and elementwise operators.
//
// A swizzle of neighbouring elements from the first on (xy, zw, xyz) can be written; others, as
// far as they are listed here, are read only.
#pragma once

namespace metal {
template <typename T, int kSize>
struct vec;
}

namespace metal_host {

/// Elements of a vector in another order, to read.
template <typename T, int kSize, int... kPlaces>
struct Swizzle {
  T elements[kSize];
  using Vector = metal::vec<T, sizeof...(kPlaces)>;
  constexpr operator Vector() const { return Vector(elements[kPlaces]...); }
};

/// The first three elements: unlike a vector of three it has no padding, which a copy might write.
template <typename T>
struct FirstThree {
  T x, y, z;
  using Vector = metal::vec<T, 3>;
  constexpr operator Vector() const { return Vector(x, y, z); }
  FirstThree& operator=(const Vector& v) {
    x = v.x;
    y = v.y;
    z = v.z;
    return *this;
  }
};

}  // namespace metal_host

namespace metal {

template <typename T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
  union {
    struct {
      T x, y;
    };
    struct {
      T r, g;
    };
    metal_host::Swizzle<T, 2, 0, 1> xy;
    metal_host::Swizzle<T, 2, 1, 0> yx;
    metal_host::Swizzle<T, 2, 0, 0> xx;
    metal_host::Swizzle<T, 2, 1, 1> yy;
  };
  vec() = default;
  constexpr vec(T all) : x(all), y(all) {}
  constexpr vec(T x, T y) : x(x), y(y) {}
  template <typename U>
  constexpr explicit vec(const vec<U, 2>& v) : x(T(v.x)), y(T(v.y)) {}
  T& operator[](int i) { return (&x)[i]; }
  constexpr const T& operator[](int i) const { return i == 0 ? x : y; }
};

template <typename T>
struct alignas(4 * sizeof(T)) vec<T, 3> {
  union {
    struct {
      T x, y, z;
    };
    struct {
      T r, g, b;
    };
    vec<T, 2> xy;
    metal_host::Swizzle<T, 3, 1, 2> yz;
    metal_host::Swizzle<T, 3, 0, 2> xz;
    metal_host::Swizzle<T, 3, 0, 1, 2> xyz;
    metal_host::Swizzle<T, 3, 2, 1, 0> zyx;
  };
  vec() = default;
  constexpr vec(T all) : x(all), y(all), z(all) {}
  constexpr vec(T x, T y, T z) : x(x), y(y), z(z) {}
  constexpr vec(vec<T, 2> xy, T z) : x(xy.x), y(xy.y), z(z) {}
  constexpr vec(T x, vec<T, 2> yz) : x(x), y(yz.x), z(yz.y) {}
  template <typename U>
  constexpr explicit vec(const vec<U, 3>& v) : x(T(v.x)), y(T(v.y)), z(T(v.z)) {}
  T& operator[](int i) { return (&x)[i]; }
  constexpr const T& operator[](int i) const { return i == 0 ? x : i == 1 ? y : z; }
};

template <typename T>
struct alignas(4 * sizeof(T)) vec<T, 4> {
  union {
    struct {
      T x, y, z, w;
    };
    struct {
      T r, g, b, a;
    };
    struct {
      vec<T, 2> xy, zw;
    };
    metal_host::FirstThree<T> xyz;
    metal_host::FirstThree<T> rgb;
    metal_host::Swizzle<T, 4, 1, 2, 3> yzw;
    metal_host::Swizzle<T, 4, 1, 2> yz;
    metal_host::Swizzle<T, 4, 0, 2> xz;
    metal_host::Swizzle<T, 4, 1, 3> yw;
    metal_host::Swizzle<T, 4, 0, 3> xw;
    metal_host::Swizzle<T, 4, 3, 2, 1, 0> wzyx;
    metal_host::Swizzle<T, 4, 2, 3, 0, 1> zwxy;
  };
  vec() = default;
  constexpr vec(T all) : x(all), y(all), z(all), w(all) {}
  constexpr vec(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
  constexpr vec(vec<T, 2> xy, vec<T, 2> zw) : x(xy.x), y(xy.y), z(zw.x), w(zw.y) {}
  constexpr vec(vec<T, 2> xy, T z, T w) : x(xy.x), y(xy.y), z(z), w(w) {}
  constexpr vec(T x, T y, vec<T, 2> zw) : x(x), y(y), z(zw.x), w(zw.y) {}
  constexpr vec(vec<T, 3> xyz, T w) : x(xyz.x), y(xyz.y), z(xyz.z), w(w) {}
  constexpr vec(T x, vec<T, 3> yzw) : x(x), y(yzw.x), z(yzw.y), w(yzw.z) {}
  template <typename U>
  constexpr explicit vec(const vec<U, 4>& v) : x(T(v.x)), y(T(v.y)), z(T(v.z)), w(T(v.w)) {}
  T& operator[](int i) { return (&x)[i]; }
  constexpr const T& operator[](int i) const { return i == 0 ? x : i == 1 ? y : i == 2 ? z : w; }
};

/// As in memory of packed_float3 and the like: no padding, aligned as an element.
template <typename T, int kSize>
struct packed_vec {
  using Vector = vec<T, kSize>;
  T elements[kSize];
  packed_vec() = default;
  packed_vec(const vec<T, kSize>& v) {
    for (int i = 0; i < kSize; ++i) elements[i] = v[i];
  }
  template <typename View, typename = typename View::Vector>
  packed_vec(const View& view) : packed_vec(Vector(view)) {}
  operator vec<T, kSize>() const {
    vec<T, kSize> result;
    for (int i = 0; i < kSize; ++i) result[i] = elements[i];
    return result;
  }
  T& operator[](int i) { return elements[i]; }
  const T& operator[](int i) const { return elements[i]; }
};

template <typename T>
constexpr int vector_size_v = 1;
template <typename T, int kSize>
constexpr int vector_size_v<vec<T, kSize>> = kSize;

/// What a swizzle or a packed vector stands for; substitution fails for other types.
template <typename View>
using viewed = typename View::Vector;

template <typename S, typename T>
using enable_if_element = enable_if_t<is_arithmetic_v<S> && is_convertible_v<S, T>, bool>;

#define METAL_HOST_BINARY(op, R)                                                        \
  template <typename T, int kSize>                                                      \
  constexpr vec<R, kSize> operator op(const vec<T, kSize>& a, const vec<T, kSize>& b) { \
    vec<R, kSize> result(R(0));                                                         \
    for (int i = 0; i < kSize; ++i) result[i] = R(a[i] op b[i]);                        \
    return result;                                                                      \
  }                                                                                     \
  template <typename T, int kSize, typename S, enable_if_element<S, T> = true>          \
  constexpr vec<R, kSize> operator op(const vec<T, kSize>& a, S b) {                    \
    return a op vec<T, kSize>(T(b));                                                    \
  }                                                                                     \
  template <typename T, int kSize, typename S, enable_if_element<S, T> = true>          \
  constexpr vec<R, kSize> operator op(S a, const vec<T, kSize>& b) {                    \
    return vec<T, kSize>(T(a)) op b;                                                    \
  }                                                                                     \
  template <typename View, typename Other, typename Vector = viewed<View>>              \
  constexpr auto operator op(const View& a, const Other& b) {                           \
    return Vector(a) op b;                                                              \
  }                                                                                     \
  template <typename T, int kSize, typename View, typename Vector = viewed<View>>       \
  constexpr auto operator op(const vec<T, kSize>& a, const View& b) {                   \
    return a op Vector(b);                                                              \
  }                                                                                     \
  template <typename S, typename View, typename Vector = viewed<View>,                  \
            enable_if_t<is_arithmetic_v<S>, bool> = true>                               \
  constexpr auto operator op(S a, const View& b) {                                      \
    return a op Vector(b);                                                              \
  }
#define METAL_HOST_ASSIGNING(op)                                           \
  METAL_HOST_BINARY(op, T)                                                 \
  template <typename T, int kSize, typename S>                             \
  constexpr vec<T, kSize>& operator op##=(vec<T, kSize>& a, const S & b) { \
    return a = a op b;                                                     \
  }                                                                        \
  template <typename View, typename S, typename Vector = viewed<View>>     \
  View& operator op##=(View & a, const S & b) {                            \
    return a = Vector(a) op b;                                             \
  }

METAL_HOST_ASSIGNING(+)
METAL_HOST_ASSIGNING(-)
METAL_HOST_ASSIGNING(*)
METAL_HOST_ASSIGNING(/)
METAL_HOST_ASSIGNING(%)
METAL_HOST_ASSIGNING(&)
METAL_HOST_ASSIGNING(|)
METAL_HOST_ASSIGNING(^)
METAL_HOST_ASSIGNING(<<)
METAL_HOST_ASSIGNING(>>)
METAL_HOST_BINARY(==, bool)
METAL_HOST_BINARY(!=, bool)
METAL_HOST_BINARY(<, bool)
METAL_HOST_BINARY(<=, bool)
METAL_HOST_BINARY(>, bool)
METAL_HOST_BINARY(>=, bool)
METAL_HOST_BINARY(&&, bool)
METAL_HOST_BINARY(||, bool)
#undef METAL_HOST_ASSIGNING
#undef METAL_HOST_BINARY

#define METAL_HOST_UNARY(op)                             \
  template <typename T, int kSize>                       \
  constexpr vec<T, kSize> operator op(vec<T, kSize> a) { \
    for (int i = 0; i < kSize; ++i) a[i] = T(op a[i]);   \
    return a;                                            \
  }
METAL_HOST_UNARY(-)
METAL_HOST_UNARY(~)
METAL_HOST_UNARY(!)
#undef METAL_HOST_UNARY

}  // namespace metal

#define METAL_HOST_VECTORS(T)                    \
  using T##2 = metal::vec<T, 2>;                 \
  using T##3 = metal::vec<T, 3>;                 \
  using T##4 = metal::vec<T, 4>;                 \
  using packed_##T##2 = metal::packed_vec<T, 2>; \
  using packed_##T##3 = metal::packed_vec<T, 3>; \
  using packed_##T##4 = metal::packed_vec<T, 4>;
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
