// Elements written, or combined, where an index tensor says. Several elements may meet at one
// place: they are combined by comparing and swapping the word that the place is in.

#include "cuda/kernels/element.cuh"
#include "cuda/kernels/scatter.h"
#include "cuda/kernels/strided.cuh"

using namespace aoti_plugins;
using namespace aoti_plugins::cuda;

namespace {

__device__ double combine_reals(Combine combine, double a, double b) {
  switch (combine) {
    case Combine::kSum:
      return a + b;
    case Combine::kProd:
      return a * b;
    case Combine::kMax:
      return a != a || a > b ? a : b;
    case Combine::kMin:
      return a != a || a < b ? a : b;
    default:
      return b;
  }
}

__device__ int64_t combine_integers(Combine combine, int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a);
  const uint64_t y = static_cast<uint64_t>(b);
  switch (combine) {
    case Combine::kSum:
      return static_cast<int64_t>(x + y);
    case Combine::kProd:
      return static_cast<int64_t>(x * y);
    case Combine::kMax:
      return a > b ? a : b;
    case Combine::kMin:
      return a < b ? a : b;
    default:
      return b;
  }
}

__device__ Number combined(Combine combine, const Number& a, const Number& b) {
  return a.kind == Number::kReal ? real(combine_reals(combine, a.real, b.real))
                                 : integer(combine_integers(combine, a.integer, b.integer));
}

/// Combines the element in one of the places of a word of memory.
template <typename Word>
__device__ void combine_in(Word* word, int64_t place, int32_t dtype, Combine combine,
                           const Number& value) {
  Word seen = *word;
  for (;;) {
    Word next = seen;
    store(&next, place, dtype, combined(combine, load(&seen, place, dtype), value));
    const Word found = atomicCAS(word, seen, next);
    if (found == seen) {
      return;
    }
    seen = found;
  }
}

__device__ void combine_at(void* out, int64_t at, int32_t dtype, int32_t itemsize, Combine combine,
                           const Number& value) {
  char* address = static_cast<char*>(out) + at * itemsize;
  if (itemsize == 8) {
    combine_in(reinterpret_cast<unsigned long long*>(address), 0, dtype, combine, value);
    return;
  }
  const uintptr_t bits = reinterpret_cast<uintptr_t>(address);
  combine_in(reinterpret_cast<unsigned int*>(bits & ~uintptr_t{3}),
             static_cast<int64_t>(bits & 3) / itemsize, dtype, combine, value);
}

}  // namespace

/// `src` may be null: then all elements are `value`, one of dtype `dtype`. Indices out of range are
/// left out, and told in `fault` where that is not null.
extern "C" __global__ void aotip_scatter(void* out, int32_t dtype, int32_t itemsize,
                                         const int64_t* index, const void* src,
                                         const ElementBytes value, int32_t combine, int32_t* fault,
                                         const ScatterLoops loops) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < loops.numel; i += step) {
    int64_t rest = i;
    int64_t in_index = 0;
    int64_t in_src = 0;
    int64_t in_out = 0;
    for (int32_t d = loops.ndim - 1; d >= 0; --d) {
      const int64_t at_dim = rest % loops.sizes[d];
      rest /= loops.sizes[d];
      in_index += at_dim * loops.index[d];
      in_src += at_dim * loops.src[d];
      in_out += at_dim * loops.out[d];
    }
    const int64_t place = index[in_index];
    if (place < 0 || place >= loops.out_length) {
      if (fault != nullptr) {
        *fault = kFaultIndex;
      }
      continue;
    }
    in_out += place * loops.out_step;
    const Number number = src != nullptr ? load(src, in_src, dtype) : load(value.bytes, 0, dtype);
    if (combine == static_cast<int32_t>(Combine::kWrite)) {
      store(out, in_out, dtype, number);
    } else {
      combine_at(out, in_out, dtype, itemsize, static_cast<Combine>(combine), number);
    }
  }
}

/// dst[i] /= src[i], where src is int32 and more than 1; integers are rounded down.
extern "C" __global__ void aotip_divide(void* dst, int32_t dtype, const int32_t* src,
                                        const StridedLoops loops) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < loops.numel; i += step) {
    int64_t to = 0;
    int64_t from = 0;
    offsets_of(loops, i, &to, &from);
    const int64_t count = src[from];
    if (count > 1) {
      const Number n = load(dst, to, dtype);
      store(dst, to, dtype,
            n.kind == Number::kReal ? real(n.real / static_cast<double>(count))
                                    : integer(n.integer / count - (n.integer % count < 0 ? 1 : 0)));
    }
  }
}
