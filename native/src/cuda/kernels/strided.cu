// Copies and fills of tensors with any strides, and conversions between dtypes. One thread per
// element, in a grid-stride loop; compiled for several GPUs into one image (see CMakeLists.txt).

#include "cuda/kernels/element.cuh"
#include "cuda/kernels/strided.cuh"

using namespace aoti_plugins;
using aoti_plugins::cuda::ElementBytes;
using aoti_plugins::cuda::StridedLoops;

namespace {

struct Wide {
  uint64_t words[2];
};

template <typename T>
__device__ void copy_elements(T* dst, const T* src, const StridedLoops& loops) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < loops.numel; i += step) {
    int64_t to = 0;
    int64_t from = 0;
    offsets_of(loops, i, &to, &from);
    dst[to] = src[from];
  }
}

template <typename T>
__device__ void fill_elements(T* dst, const ElementBytes& value, const StridedLoops& loops) {
  const T element = *reinterpret_cast<const T*>(value.bytes);
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < loops.numel; i += step) {
    int64_t to = 0;
    int64_t unused = 0;
    offsets_of(loops, i, &to, &unused);
    dst[to] = element;
  }
}

}  // namespace

#define AOTIP_STRIDED_KERNELS(nbytes, type)                                           \
  extern "C" __global__ void aotip_copy_##nbytes(void* dst, const void* src,          \
                                                 const StridedLoops loops) {          \
    copy_elements(static_cast<type*>(dst), static_cast<const type*>(src), loops);     \
  }                                                                                   \
  extern "C" __global__ void aotip_fill_##nbytes(void* dst, const ElementBytes value, \
                                                 const StridedLoops loops) {          \
    fill_elements(static_cast<type*>(dst), value, loops);                             \
  }

AOTIP_STRIDED_KERNELS(1, uint8_t)
AOTIP_STRIDED_KERNELS(2, uint16_t)
AOTIP_STRIDED_KERNELS(4, uint32_t)
AOTIP_STRIDED_KERNELS(8, uint64_t)
AOTIP_STRIDED_KERNELS(16, Wide)

extern "C" __global__ void aotip_convert(void* dst, int32_t dst_dtype, const void* src,
                                         int32_t src_dtype, const StridedLoops loops) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < loops.numel; i += step) {
    int64_t to = 0;
    int64_t from = 0;
    offsets_of(loops, i, &to, &from);
    store(dst, to, dst_dtype, load(src, from, src_dtype));
  }
}
