// Matrices of 8 by 8 that a simdgroup holds, two elements per lane.
//
// Metal does not document which lane holds what; here it is what Apple's GPUs are known to do. All
// lanes must take part in every operation, with the same arguments.
#pragma once

namespace metal_host {

/// Row of both elements of a lane, and column of the first.
inline uint matrix_row(uint lane) {
  return ((lane / 4) & 4) + (lane / 2) % 4;
}
inline uint matrix_column(uint lane) {
  return ((lane / 4) & 2) * 2 + (lane % 2) * 2;
}
/// The lane that holds an element.
inline uint matrix_lane(uint row, uint column) {
  return (row & 4) * 4 + (column & 4) * 2 + (row % 4) * 2 + (column % 4) / 2;
}

/// What all lanes must agree on.
struct MatrixAddress {
  const void* start;
  ulong stride;
};

inline uint agree(const void* start, ulong stride, const char* operation, Place place) {
  const Met met = meet_all(MatrixAddress{start, stride}, operation, place, true);
  const MatrixAddress other = met.get<MatrixAddress>((met.lane() + 1) % kSimdgroupSize);
  if (other.start != start || other.stride != stride) {
    fail("line %d: lanes give %s different addresses or strides", place.line, operation);
  }
  return met.lane();
}

}  // namespace metal_host

namespace metal {

template <typename T, int kColumns, int kRows>
struct simdgroup_matrix {
  static_assert(kColumns == 8 && kRows == 8, "simdgroup matrices are 8 by 8");
  static_assert(is_floating_point_v<T>, "simdgroup matrices are half, bfloat or float");
  using storage_type = vec<T, 2>;

  simdgroup_matrix() { memset(&elements_, 0xFF, sizeof(elements_)); }
  /// A diagonal matrix.
  explicit simdgroup_matrix(T diagonal, metal_host::Place place = metal_host::Place::here()) {
    const metal_host::Met met = metal_host::meet_all(0, "simdgroup_matrix", place, true);
    const uint row = metal_host::matrix_row(met.lane());
    const uint column = metal_host::matrix_column(met.lane());
    elements_ = storage_type(row == column ? diagonal : T(0), row == column + 1 ? diagonal : T(0));
  }

  storage_type& thread_elements() { return elements_; }
  const storage_type& thread_elements() const { return elements_; }

 private:
  storage_type elements_;
};

using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat, 8, 8>;

template <typename T, int kColumns, int kRows>
simdgroup_matrix<T, kColumns, kRows> make_filled_simdgroup_matrix(
    T value, metal_host::Place place = metal_host::Place::here()) {
  (void)metal_host::meet_all(0, "make_filled_simdgroup_matrix", place, true);
  simdgroup_matrix<T, kColumns, kRows> result;
  result.thread_elements() = vec<T, 2>(value);
  return result;
}

template <typename T>
void simdgroup_load(simdgroup_matrix<T, 8, 8>& matrix, const T* source, ulong elements_per_row = 8,
                    ulong2 origin = ulong2(0), bool transpose = false,
                    metal_host::Place place = metal_host::Place::here()) {
  const uint lane = metal_host::agree(source, elements_per_row, "simdgroup_load", place);
  const uint row = metal_host::matrix_row(lane);
  for (uint i = 0; i < 2; ++i) {
    const uint column = metal_host::matrix_column(lane) + i;
    matrix.thread_elements()[i] =
        transpose ? source[(origin.y + column) * elements_per_row + origin.x + row]
                  : source[(origin.y + row) * elements_per_row + origin.x + column];
  }
}

template <typename T>
void simdgroup_store(const simdgroup_matrix<T, 8, 8>& matrix, T* target, ulong elements_per_row = 8,
                     ulong2 origin = ulong2(0), bool transpose = false,
                     metal_host::Place place = metal_host::Place::here()) {
  const uint lane = metal_host::agree(target, elements_per_row, "simdgroup_store", place);
  const uint row = metal_host::matrix_row(lane);
  for (uint i = 0; i < 2; ++i) {
    const uint column = metal_host::matrix_column(lane) + i;
    const ulong at = transpose ? (origin.y + column) * elements_per_row + origin.x + row
                               : (origin.y + row) * elements_per_row + origin.x + column;
    target[at] = matrix.thread_elements()[i];
  }
}

/// d = a * b + c, summed in float.
template <typename D, typename A, typename B, typename C>
void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                   const simdgroup_matrix<B, 8, 8>& b,
                                   const simdgroup_matrix<C, 8, 8>& c,
                                   metal_host::Place place = metal_host::Place::here()) {
  const float4 own(float(a.thread_elements().x), float(a.thread_elements().y),
                   float(b.thread_elements().x), float(b.thread_elements().y));
  const metal_host::Met met =
      metal_host::meet_all(own, "simdgroup_multiply_accumulate", place, true);
  const uint row = metal_host::matrix_row(met.lane());
  const uint column = metal_host::matrix_column(met.lane());
  float sum[2] = {float(c.thread_elements().x), float(c.thread_elements().y)};
  for (uint k = 0; k < 8; ++k) {
    const float factor = met.get<float4>(metal_host::matrix_lane(row, k))[k % 2];
    const float4 others = met.get<float4>(metal_host::matrix_lane(k, column));
    sum[0] += factor * others.z;
    sum[1] += factor * others.w;
  }
  d.thread_elements() = vec<D, 2>(D(sum[0]), D(sum[1]));
}

template <typename D, typename A, typename B>
void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                        const simdgroup_matrix<B, 8, 8>& b,
                        metal_host::Place place = metal_host::Place::here()) {
  simdgroup_matrix<float, 8, 8> zero;
  zero.thread_elements() = float2(0.0f);
  simdgroup_multiply_accumulate(d, a, b, zero, place);
}

}  // namespace metal
