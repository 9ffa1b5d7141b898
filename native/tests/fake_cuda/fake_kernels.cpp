// The kernels that the stand-in driver knows: our own strided ones, and that of fake_cuda_model.

#include <cstdint>
#include <cstring>
#include <map>

#include "cuda/kernels/strided.h"
#include "fake_kernels_table.h"
#include "slim/dtype.h"
#include "slim/element.h"

namespace fake_cuda {
namespace {

using aoti_plugins::element_nbytes;
using aoti_plugins::cuda::ElementBytes;
using aoti_plugins::cuda::StridedLoops;

template <typename T>
T value(void* argument) {
  T result;
  std::memcpy(&result, argument, sizeof(result));
  return result;
}

template <typename Visit>
void for_each(const StridedLoops& loops, const Visit& visit) {
  for (int64_t i = 0; i < loops.numel; ++i) {
    int64_t rest = i;
    int64_t dst = 0;
    int64_t src = 0;
    for (int32_t d = 0; d < loops.ndim; ++d) {
      dst += rest % loops.sizes[d] * loops.dst[d];
      src += rest % loops.sizes[d] * loops.src[d];
      rest /= loops.sizes[d];
    }
    visit(dst, src);
  }
}

template <size_t kNbytes>
void copy(void** arguments) {
  char* dst = value<char*>(arguments[0]);
  const char* src = value<const char*>(arguments[1]);
  for_each(value<StridedLoops>(arguments[2]), [&](int64_t to, int64_t from) {
    check_device(dst + to * int64_t{kNbytes}, kNbytes);
    check_device(src + from * int64_t{kNbytes}, kNbytes);
    std::memcpy(dst + to * int64_t{kNbytes}, src + from * int64_t{kNbytes}, kNbytes);
  });
}

template <size_t kNbytes>
void fill(void** arguments) {
  char* dst = value<char*>(arguments[0]);
  const ElementBytes element = value<ElementBytes>(arguments[1]);
  for_each(value<StridedLoops>(arguments[2]), [&](int64_t to, int64_t) {
    check_device(dst + to * int64_t{kNbytes}, kNbytes);
    std::memcpy(dst + to * int64_t{kNbytes}, element.bytes, kNbytes);
  });
}

void convert(void** arguments) {
  char* dst = value<char*>(arguments[0]);
  const int32_t dst_dtype = value<int32_t>(arguments[1]);
  const char* src = value<const char*>(arguments[2]);
  const int32_t src_dtype = value<int32_t>(arguments[3]);
  const int64_t dst_nbytes = static_cast<int64_t>(element_nbytes(dst_dtype));
  const int64_t src_nbytes = static_cast<int64_t>(element_nbytes(src_dtype));
  for_each(value<StridedLoops>(arguments[4]), [&](int64_t to, int64_t from) {
    check_device(dst + to * dst_nbytes, static_cast<size_t>(dst_nbytes));
    check_device(src + from * src_nbytes, static_cast<size_t>(src_nbytes));
    aoti_plugins::store_element(dst + to * dst_nbytes, dst_dtype,
                                aoti_plugins::load_element(src + from * src_nbytes, src_dtype));
  });
}

/// y[i] = x[i] * scale[i % 3] + k + *calls; then ++*calls.
void scale_add(void** arguments) {
  float* y = value<float*>(arguments[0]);
  const float* x = value<const float*>(arguments[1]);
  const float* scale = value<const float*>(arguments[2]);
  int64_t* calls = value<int64_t*>(arguments[3]);
  const int64_t k = value<int64_t>(arguments[4]);
  const int64_t n = value<int64_t>(arguments[5]);
  check_device(scale, 12);
  check_device(calls, 8);
  for (int64_t i = 0; i < n; ++i) {
    check_device(y + i, 4);
    check_device(x + i, 4);
    y[i] = x[i] * scale[i % 3] + static_cast<float>(k + *calls);
  }
  ++*calls;
}

template <size_t kNbytes>
Kernel copy_kernel() {
  return {{8, 8, sizeof(StridedLoops)}, copy<kNbytes>};
}

template <size_t kNbytes>
Kernel fill_kernel() {
  return {{8, sizeof(ElementBytes), sizeof(StridedLoops)}, fill<kNbytes>};
}

}  // namespace

const Kernel* find_kernel(const std::string& name) {
  static const auto* kernels = new std::map<std::string, Kernel>{
      {"aotip_copy_1", copy_kernel<1>()},
      {"aotip_copy_2", copy_kernel<2>()},
      {"aotip_copy_4", copy_kernel<4>()},
      {"aotip_copy_8", copy_kernel<8>()},
      {"aotip_copy_16", copy_kernel<16>()},
      {"aotip_fill_1", fill_kernel<1>()},
      {"aotip_fill_2", fill_kernel<2>()},
      {"aotip_fill_4", fill_kernel<4>()},
      {"aotip_fill_8", fill_kernel<8>()},
      {"aotip_fill_16", fill_kernel<16>()},
      {"aotip_convert", {{8, 4, 8, 4, sizeof(StridedLoops)}, convert}},
      {"fake_scale_add", {{8, 8, 8, 8, 8, 8}, scale_add}},
  };
  const auto found = kernels->find(name);
  return found != kernels->end() ? &found->second : nullptr;
}

}  // namespace fake_cuda
