#include <cstdint>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/gpu.h"
#include "cuda/memory/workspace.h"
#include "cuda/ops/conv_algorithm.h"
#include "cuda/ops/operators.h"

namespace aoti_plugins::cuda {
namespace {

// What kernels that load several elements at once want.
constexpr uintptr_t kAlignment = 16;

/// A tensor as cuDNN is told it is: itself, or a copy that `owner` keeps.
Status place(const Tensor& tensor, bool channels_last, OwnedTensor* owner, const Tensor** ret) {
  const bool aligned = reinterpret_cast<uintptr_t>(tensor.data()) % kAlignment == 0;
  *ret = &tensor;
  if (aligned && has_conv_strides(tensor, channels_last)) {
    return Status::kOk;
  }
  int64_t strides[Tensor::kMaxDims];
  conv_strides(tensor.ndim(), tensor.sizes(), channels_last, strides);
  owner->reset(Tensor::empty_strided(tensor.ndim(), tensor.sizes(), strides, tensor.dtype(),
                                     tensor.device()));
  *ret = owner->get();
  return *ret != nullptr ? cuda_device().copy(**owner, tensor) : Status::kFailed;
}

Status run(const ConvPlan& plan, const Tensor& input, const Tensor& weight, const Tensor* bias,
           Tensor& out) {
  const int32_t gpu = out.device().index;
  AOTIP_CHECK(plan.in_channels > 0, "the input has no channels");
  const dnn::HandleScope handle(gpu);
  const auto algorithm =
      handle.get() != nullptr ? ConvAlgorithm::find(plan, out.dtype(), handle.get()) : nullptr;
  AOTIP_RETURN_IF_NULL(algorithm);
  OwnedTensor owners[4];
  const bool layout = algorithm->channels_last();
  const Tensor* b = bias;
  const Tensor* in = nullptr;
  const Tensor* w = nullptr;
  AOTIP_RETURN_IF_FAILED(place(input, layout, &owners[0], &in));
  AOTIP_RETURN_IF_FAILED(place(weight, layout, &owners[1], &w));
  if (bias != nullptr) {
    AOTIP_RETURN_IF_FAILED(place(*bias, false, &owners[2], &b));
  }
  Tensor* to = &out;
  if (layout != plan.channels_last) {
    owners[3].reset(Tensor::empty(out.ndim(), out.sizes(), out.dtype(), out.device()));
    to = owners[3].get();
  }
  const Workspace workspace(algorithm->workspace_nbytes(), gpu);
  if (to == nullptr || workspace.status() != Status::kOk) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(algorithm->run(
      {in->data(), w->data(), b != nullptr ? b->data() : nullptr, to->data(), workspace.data()}));
  return to == &out ? Status::kOk : cuda_device().copy(out, *to);
}

}  // namespace

Tensor* Operators::convolution(const ConvPlan& plan, const Tensor& input, const Tensor& weight,
                               const Tensor* bias) {
  const int32_t dtype = input.dtype();
  if (dtype != kFloat32 && dtype != kFloat64 && dtype != kFloat16 && dtype != kBFloat16) {
    (void)fail("no convolution for %s on cuda", dtype_name(dtype));
    return nullptr;
  }
  const ContextGuard guard;
  if (use_gpu(input.device().index) != Status::kOk) {
    return nullptr;
  }
  ConvPlan chosen = plan;
  chosen.channels_last = plan.channels_last && dtype != kFloat64;  // as PyTorch
  OwnedTensor out(make_conv_output(chosen, dtype, input.device()));
  if (out == nullptr ||
      (out->numel() > 0 && run(chosen, input, weight, bias, *out) != Status::kOk)) {
    return nullptr;
  }
  return out.release();
}

}  // namespace aoti_plugins::cuda
