// Put before every kernel source; the host reads it too, through mps/kernel_arguments.h. What the
// host passes to kernels by value is laid out here, once. Sizes, strides and steps count elements.

#ifndef AOTIP_HOST
#include <metal_stdlib>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>
using namespace metal;
#endif

/// c = alpha * (a @ b) + beta * s for a batch of matrices; `add` says whether s is read at all.
struct MatmulArgs {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t a_batch, a_row, a_col;
  int64_t b_batch, b_row, b_col;
  int64_t s_batch, s_row, s_col;
  int64_t c_batch, c_row, c_col;
  int64_t int_alpha, int_beta;
  float alpha, beta;
  int32_t add;
  int32_t padding;
};

/// A convolution of one to three spatial dims, lifted to three. Per group it is the product of
/// weights [m, k] and patches [k, n]: m output channels, n output elements of all images, k input
/// channels times taps of the window, the taps running fastest.
struct ConvArgs {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t channels;  ///< of the input, per group
  int64_t x_image, x_channel, x_step[3];
  int64_t w_out, w_in, w_step[3];
  int64_t w_group;  ///< from one group's weights to the next one's
  int64_t c_image, c_channel, c_step[3];
  int64_t bias_step;
  int32_t in[3], out[3], window[3], stride[3], padding[3], dilation[3];
  int32_t taps;
  int32_t has_bias;
};

/// softmax(q @ k^T * scale + mask) @ v. A key head serves `group` query heads.
struct AttentionArgs {
  int64_t q_batch, q_head, q_row, q_col;
  int64_t k_batch, k_head, k_row, k_col;
  int64_t v_batch, v_head, v_row, v_col;
  int64_t o_batch, o_head, o_row, o_col;
  int64_t m_batch, m_head, m_row, m_col;  ///< of the mask, 0 where it broadcasts
  int32_t heads;
  int32_t group;
  int32_t rows;  ///< queries
  int32_t keys;
  int32_t splits;  ///< pieces of the keys, each worked on by a group of threads
  int32_t causal;
  float scale;
  int32_t padding;
};

#define LINES_DIMS 15
#define LINES_TENSORS 3

/// All lines of up to three tensors along one dim. `starts` has, for each tensor, how far apart
/// lines are in each of the other dims; `steps` how far apart the elements of a line are.
struct LinesArgs {
  int64_t count;
  int64_t length;
  int64_t sizes[LINES_DIMS];
  int64_t starts[LINES_TENSORS][LINES_DIMS];
  int64_t steps[LINES_TENSORS];
  int32_t ndim;
  int32_t padding;
};

/// A bitonic sort of lines that are padded to `padded` pairs, of which the first `count` are
/// wanted; for steps in device memory also the length of runs, and how far apart couples stand.
struct SortArgs {
  int64_t count;
  int64_t padded;
  int64_t run;
  int64_t reach;
};

/// A walk over the lines of an index, each of `length` numbers. Element `i` of a line belongs to
/// the place `index[i]` of the same line of the result. `owners` threads share a line: each writes
/// the places that are its own.
struct ScatterArgs {
  int64_t lines;
  int64_t length;
  int64_t sizes[LINES_DIMS];
  int64_t index_start[LINES_DIMS], src_start[LINES_DIMS], out_start[LINES_DIMS];
  int64_t index_step, src_step, out_step;
  int64_t out_length;
  int64_t int_value;
  int32_t ndim;
  int32_t owners;
  float value;
  int32_t padding;
};

/// The numbers of one index tensor, broadcast to `sizes`, as offsets along the dim that they index;
/// the first tensor of several also sets the offsets of the values.
struct IndexArgs {
  int64_t numel;
  int64_t sizes[LINES_DIMS];
  int64_t index[LINES_DIMS];
  int64_t src[LINES_DIMS];
  int64_t length;  ///< of the indexed dim
  int64_t stride;  ///< of the indexed dim in the result
  int32_t ndim;
  int32_t first;
};

#define COPY_DIMS 16

/// A copy of `numel` elements from one set of strides to another; the first dim runs fastest.
struct CopyArgs {
  int64_t to[COPY_DIMS];
  int64_t from[COPY_DIMS];
  uint32_t sizes[COPY_DIMS];
  int32_t ndim;
  int32_t padding;
};

/// One pass of a Fourier transform of lines of `length`: `factor` transforms of length `done` become
/// one. `direction` is the sign of the exponent.
struct FftArgs {
  int64_t length;
  int64_t done;
  int64_t factor;
  float direction;
  float scale;
};

/// Rows [m, k] and a weight [n, k] of 4 or 8 bits, in groups of a row, both without gaps. A weight
/// is `code * scale + offset`: see `small_linear_offset`.
struct SmallLinearArgs {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t group;  ///< weights with one scale, a multiple of 32
  float middle;   ///< the code that stands for 0 where there are no zeros
  int32_t zero_kind;  ///< 0 none, 1 what is taken from a code, 2 what is added to a weight
  int32_t has_bias;
  int32_t padding;
};

/// Rows [m, k] and a weight [n, k] in blocks, both without gaps.
struct GgufLinearArgs {
  int64_t n;
  int64_t k;
  int64_t first;  ///< of the rows that a kernel multiplies
  int32_t has_bias;
  int32_t padding;
};

/// A step of a recurrent layer.
struct RecurrentArgs {
  int64_t width;  ///< of the state
};

#ifndef AOTIP_HOST
/// What is added to the codes of a group times their scale.
template <typename S>
static inline float small_linear_offset(constant SmallLinearArgs& p, float scale,
                                        device const S* zero, long group) {
  if (p.zero_kind == 0) {
    return -p.middle * scale;
  }
  const float number = float(zero[group]);
  return p.zero_kind == 1 ? -number * scale : number - p.middle * scale;
}

/// Offset of the first element of a line.
static inline long line_start(constant LinesArgs& p, long line, int tensor) {
  long offset = 0;
  for (int d = 0; d < p.ndim; ++d) {
    offset += line % p.sizes[d] * p.starts[tensor][d];
    line /= p.sizes[d];
  }
  return offset;
}
#endif
