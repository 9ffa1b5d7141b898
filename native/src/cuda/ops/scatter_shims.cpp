// scatter: elements written, or combined, where an index tensor says.

#include <aoti_plugins/cuda_shim.h>

#include <cstring>
#include <utility>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/stream.h"
#include "cuda/kernels/scatter.h"
#include "cuda/ops/strided_loops.h"
#include "shim/run_shim.h"
#include "shim/scatter.h"
#include "slim/element.h"

using namespace aoti_plugins;
using aoti_plugins::cuda::Combine;

namespace {

Status check_tensor(const Tensor& t, const char* name, Device device) {
  AOTIP_CHECK(t.device().type == kCuda, "%s is on %s, expected cuda", name,
              device_type_name(t.device().type));
  AOTIP_CHECK(t.device() == device, "%s is on cuda:%d, expected cuda:%d as out", name,
              t.device().index, device.index);
  return Status::kOk;
}

Status check(const Scatter& s) {
  const Device device = s.out->device();
  const int32_t dtype = s.out->dtype();
  AOTIP_RETURN_IF_FAILED(check_tensor(*s.out, "out", device));
  AOTIP_RETURN_IF_FAILED(check_tensor(*s.self, "self", device));
  AOTIP_RETURN_IF_FAILED(check_tensor(*s.index, "index", device));
  if (s.src != nullptr) {
    AOTIP_RETURN_IF_FAILED(check_tensor(*s.src, "src", device));
  }
  AOTIP_CHECK(is_integer(dtype) || is_real(dtype), "no scatter for %s", dtype_name(dtype));
  return check_scatter(s, cuda::kScatterMaxDims);
}

/// Launches one pass over the index into `out`; a null `src` stands for `value`.
Status launch(const Scatter& s, Tensor& out, const Tensor* src, double value, Combine combine) {
  cuda::ScatterLoops loops{};
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
  cuda::ElementBytes element{};
  Element number;
  number.kind = Element::kReal;
  number.real = value;
  store_element(element.bytes, out.dtype(), number);
  cuda::Stream* stream = cuda::current_stream().owner;
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
  return cuda::launch_elements(out.device().index, "aotip_scatter", loops.numel, arguments);
}

/// Makes out what scatter starts from. Its old elements are gone from here on.
Status begin(const Scatter& s) {
  return s.out->data() != s.self->data() ? cuda::cuda_device().copy(*s.out, *s.self) : Status::kOk;
}

Status write(const Scatter& s) {
  const cuda::ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(cuda::use_gpu(s.out->device().index));
  AOTIP_RETURN_IF_FAILED(begin(s));
  return s.index->numel() > 0 && s.out->numel() > 0
             ? launch(s, *s.out, s.src, s.value, Combine::kWrite)
             : Status::kOk;
}

/// Divides each place by how many elements met there.
Status divide_by_counts(const Scatter& s, bool include_self) {
  const OwnedTensor counts(Tensor::empty(s.out->ndim(), s.out->sizes(), kInt32, s.out->device()));
  const int32_t first = include_self ? 1 : 0;
  if (counts == nullptr || cuda::fill(*counts, &first) != Status::kOk) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(launch(s, *counts, nullptr, 1.0, Combine::kSum));
  cuda::StridedLoops loops;
  AOTIP_RETURN_IF_FAILED(cuda::make_strided_loops(*s.out, counts->strides(), &loops));
  void* to = s.out->data();
  int32_t dtype = s.out->dtype();
  const void* from = counts->data();
  void* arguments[] = {&to, &dtype, &from, &loops};
  return cuda::launch_elements(s.out->device().index, "aotip_divide", loops.numel, arguments);
}

Status reduce(const Scatter& s, Combine combine, bool mean, bool include_self) {
  const cuda::ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(cuda::use_gpu(s.out->device().index));
  AOTIP_RETURN_IF_FAILED(begin(s));
  if (s.index->numel() == 0 || s.out->numel() == 0) {
    return Status::kOk;
  }
  if (!include_self) {
    // Any one of the elements that meet at a place does not change their extreme.
    const bool extreme = combine == Combine::kMax || combine == Combine::kMin;
    AOTIP_RETURN_IF_FAILED(launch(s, *s.out, extreme ? s.src : nullptr,
                                  combine == Combine::kProd ? 1.0 : 0.0, Combine::kWrite));
  }
  AOTIP_RETURN_IF_FAILED(launch(s, *s.out, s.src, 0.0, combine));
  return mean ? divide_by_counts(s, include_self) : Status::kOk;
}

Status scatter(AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index,
               AtenTensorHandle src, double value, Scatter* ret) {
  AOTIP_RETURN_IF_FAILED(read_scatter(out, self, dim, index, src, value, ret));
  return check(*ret);
}

Status scatter_reduce(const Scatter& s, const char* name, bool include_self) {
  AOTIP_CHECK(name != nullptr, "reduce is null");
  const std::pair<const char*, Combine> names[] = {
      {"sum", Combine::kSum},  {"prod", Combine::kProd}, {"mean", Combine::kSum},
      {"amax", Combine::kMax}, {"amin", Combine::kMin},
  };
  for (const auto& [known, combine] : names) {
    if (std::strcmp(name, known) == 0) {
      return reduce(s, combine, std::strcmp(name, "mean") == 0, include_self);
    }
  }
  return fail("reduce is '%s', expected sum, prod, mean, amax or amin", name);
}

}  // namespace

AOTITorchError aoti_torch_cuda_scatter_src_out(AtenTensorHandle out, AtenTensorHandle self,
                                               int64_t dim, AtenTensorHandle index,
                                               AtenTensorHandle src) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(src);
    Scatter s{};
    AOTIP_RETURN_IF_FAILED(scatter(out, self, dim, index, src, 0.0, &s));
    return write(s);
  });
}

AOTITorchError aoti_torch_cuda_scatter_value_out(AtenTensorHandle out, AtenTensorHandle self,
                                                 int64_t dim, AtenTensorHandle index,
                                                 double value) {
  return run_shim(__func__, [&] {
    Scatter s{};
    AOTIP_RETURN_IF_FAILED(scatter(out, self, dim, index, nullptr, value, &s));
    return write(s);
  });
}

AOTITorchError aoti_torch_cuda_scatter_reduce_two_out(AtenTensorHandle out, AtenTensorHandle self,
                                                      int64_t dim, AtenTensorHandle index,
                                                      AtenTensorHandle src, const char* reduce,
                                                      int32_t include_self) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(src);
    Scatter s{};
    AOTIP_RETURN_IF_FAILED(scatter(out, self, dim, index, src, 0.0, &s));
    return scatter_reduce(s, reduce, include_self != 0);
  });
}
