// Weights of 4 to 8 bits that lie row after row become 16-bit floats.

#include "cuda/kernels/plain_forms.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// Eight weights in a row.
struct alignas(16) EightHalves {
  __nv_bfloat16 values[8];
};

/// Weights as floats, `rows` from row `first` on, [rows, k]; a thread for eight of them.
template <typename Form>
__device__ void unpack_plain(const PlainProduct& p, int64_t first, int64_t eights) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int eights_of_row = p.k / 8;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < eights;
       at += threads) {
    const int64_t row = first + at / eights_of_row;
    const int begin = static_cast<int>(at % eights_of_row) * 8;
    const int64_t group = row * p.groups + (begin >> p.group_shift);
    const int64_t step = row * (p.k / kPlainStepDepth) + begin / kPlainStepDepth;
    const float scale = Form::scale_at(p, group, step);
    const float zero = Form::zero_at(p, group, step);
    EightHalves eight;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      eight.values[i] =
          static_cast<__nv_bfloat16>((Form::code(p, row, begin + i) - zero) * scale);
    }
    static_cast<EightHalves*>(p.out)[at] = eight;
  }
}

}  // namespace

#define AOTIP_UNPACK_PLAIN(NAME, FORM)                                       \
  extern "C" __global__ void aotip_unpack_plain_##NAME(                      \
      const PlainProduct p, int64_t first, int64_t eights) {                 \
    unpack_plain<FORM>(p, first, eights);                                    \
  }

AOTIP_UNPACK_PLAIN(int4, Int4)
AOTIP_UNPACK_PLAIN(int5, Int5)
AOTIP_UNPACK_PLAIN(int6, Int6)
AOTIP_UNPACK_PLAIN(int8, Int8)
