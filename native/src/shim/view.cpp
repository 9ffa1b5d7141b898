// Views that change how the bytes are read.

#include "shim/run_shim.h"
#include "slim/element.h"

using namespace aoti_plugins;

namespace {

Status view_dtype(AtenTensorHandle self, int32_t dtype, AtenTensorHandle* ret) {
  AOTIP_CHECK_TENSORS(self);
  AOTIP_CHECK(ret != nullptr, "the address for the result is null");
  const Tensor& t = *unwrap(self);
  const int64_t to = static_cast<int64_t>(element_nbytes(dtype));
  const int64_t from = static_cast<int64_t>(t.itemsize());
  AOTIP_CHECK(to > 0, "%d is not the code of a known dtype", dtype);
  int64_t sizes[Tensor::kMaxDims];
  int64_t strides[Tensor::kMaxDims];
  const int64_t last = t.ndim() - 1;
  for (int64_t d = 0; d <= last; ++d) {
    sizes[d] = t.size(d);
    strides[d] = d == last ? t.stride(d) : t.stride(d) * from / to;
    AOTIP_CHECK(d == last || t.stride(d) * from % to == 0,
                "stride %lld of dim %lld is not a whole number of %s elements",
                static_cast<long long>(t.stride(d)), static_cast<long long>(d), dtype_name(dtype));
  }
  if (to != from) {
    AOTIP_CHECK(last >= 0, "a 0-dim tensor cannot be viewed as a dtype of another size");
    AOTIP_CHECK(t.stride(last) == 1 || t.size(last) == 1, "the last dim must have stride 1");
    AOTIP_CHECK(sizes[last] * from % to == 0 && t.storage_offset() * from % to == 0,
                "size and offset are not a whole number of %s elements", dtype_name(dtype));
    sizes[last] = sizes[last] * from / to;
    strides[last] = 1;
  }
  return give(t.view(t.ndim(), sizes, strides, t.storage_offset() * from / to, dtype), ret);
}

Status view_as_real(AtenTensorHandle self, AtenTensorHandle* ret) {
  AOTIP_CHECK_TENSORS(self);
  AOTIP_CHECK(ret != nullptr, "the address for the result is null");
  const Tensor& t = *unwrap(self);
  AOTIP_CHECK(t.dtype() == kComplex64 || t.dtype() == kComplex128,
              "expected a complex tensor, found %s", dtype_name(t.dtype()));
  AOTIP_CHECK(t.ndim() < Tensor::kMaxDims, "too many dimensions");
  int64_t sizes[Tensor::kMaxDims];
  int64_t strides[Tensor::kMaxDims];
  for (int64_t d = 0; d < t.ndim(); ++d) {
    sizes[d] = t.size(d);
    strides[d] = 2 * t.stride(d);
  }
  sizes[t.ndim()] = 2;
  strides[t.ndim()] = 1;
  return give(t.view(t.ndim() + 1, sizes, strides, 2 * t.storage_offset(),
                     t.dtype() == kComplex64 ? kFloat32 : kFloat64),
              ret);
}

}  // namespace

AOTITorchError aoti_torch_view_dtype(AtenTensorHandle self, int32_t dtype, AtenTensorHandle* ret) {
  return run_shim(__func__, [&] { return view_dtype(self, dtype, ret); });
}

AOTITorchError aoti_torch_view_as_real(AtenTensorHandle self, AtenTensorHandle* ret) {
  return run_shim(__func__, [&] { return view_as_real(self, ret); });
}

#ifdef AOTIP_WITHOUT_CPU_KERNELS
AOTITorchError aoti_torch_cpu_view_dtype(AtenTensorHandle self, int32_t dtype,
                                         AtenTensorHandle* ret0) {
  return aoti_torch_view_dtype(self, dtype, ret0);
}

AOTITorchError aoti_torch_cpu_view_as_real(AtenTensorHandle self, AtenTensorHandle* ret0) {
  return aoti_torch_view_as_real(self, ret0);
}
#endif
