// scatter: elements written, or combined, where an index tensor says.

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/device_kernels.h"
#include "cuda/driver/stream.h"
#include "cuda/ops/operators.h"
#include "cuda/ops/strided_loops.h"
#include "slim/element.h"

namespace aoti_plugins::cuda {

Status Operators::scatter_pass(const ops::Scatter& s, Tensor& out, const Tensor* src, double value,
                               Combine combine) {
  ScatterLoops loops{};
  loops.numel = s.index->numel();
  loops.ndim = static_cast<int32_t>(out.ndim());
  loops.out_length = out.ndim() > 0 ? out.size(s.dim) : 1;
  loops.out_step = out.ndim() > 0 ? out.stride(s.dim) : 0;
  for (int64_t d = 0; d < out.ndim(); ++d) {
    loops.sizes[d] = s.index->size(d);
    loops.index[d] = s.index->stride(d);
    loops.src[d] = src != nullptr ? src->stride(d) : 0;
    loops.out[d] = d == s.dim ? 0 : out.stride(d);
  }
  ElementBytes element{};
  Element number;
  number.kind = Element::kReal;
  number.real = value;
  store_element(element.bytes, out.dtype(), number);
  Stream* stream = current_stream().owner;
  int32_t* fault = nullptr;
  if (stream != nullptr) {
    AOTIP_RETURN_IF_FAILED(stream->fault_word(&fault));
  }
  void* to = out.data();
  int32_t dtype = out.dtype();
  int32_t itemsize = static_cast<int32_t>(out.itemsize());
  const void* index = s.index->data();
  const void* from = src != nullptr ? src->data() : nullptr;
  int32_t how = static_cast<int32_t>(combine);
  void* arguments[] = {&to, &dtype, &itemsize, &index, &from, &element, &how, &fault, &loops};
  return launch_elements(out.device().index, "aotip_scatter", loops.numel, arguments);
}

Status Operators::fill_counts(Tensor& counts, int32_t number) {
  return cuda::fill(counts, &number);
}

Status Operators::divide(Tensor& out, const Tensor& counts) {
  StridedLoops loops;
  AOTIP_RETURN_IF_FAILED(make_strided_loops(out, counts.strides(), &loops));
  void* to = out.data();
  int32_t dtype = out.dtype();
  const void* from = counts.data();
  void* arguments[] = {&to, &dtype, &from, &loops};
  return launch_elements(out.device().index, "aotip_divide", loops.numel, arguments);
}

}  // namespace aoti_plugins::cuda
