#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>

#include "mps/driver/kernel.h"
#include "mps/driver/kernel_arguments.h"
#include "mps/kernels/sources.h"
#include "mps/ops/gemm_tiles.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/operators.h"

namespace aoti_plugins::mps {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

/// Sizes and reaches of one spatial dim, which kernels compute with in 32 bits.
Status narrow(const ConvPlan& plan, int d, ConvArgs* p) {
  const int64_t reach = std::max(plan.out[d], plan.in[d]) * plan.stride[d] + plan.padding[d] +
                        plan.kernel[d] * plan.dilation[d];
  AOTIP_CHECK(reach < kInt32Max, "the convolution reaches over %lld places in spatial dim %d",
              static_cast<long long>(reach), d);
  p->in[d] = static_cast<int32_t>(plan.in[d]);
  p->out[d] = static_cast<int32_t>(plan.out[d]);
  p->window[d] = static_cast<int32_t>(plan.kernel[d]);
  p->stride[d] = static_cast<int32_t>(plan.stride[d]);
  p->padding[d] = static_cast<int32_t>(plan.padding[d]);
  p->dilation[d] = static_cast<int32_t>(plan.dilation[d]);
  return Status::kOk;
}

/// Writes a tensor's strides: of images, of channels, and of the last dims as the last of three.
void read_strides(const ConvPlan& plan, const Tensor& t, int64_t* image, int64_t* channel,
                  int64_t* steps) {
  const int64_t first = plan.batched ? 1 : 0;
  *image = plan.batched ? t.stride(0) : 0;
  *channel = t.stride(first);
  for (int64_t d = 0; d < plan.spatial_ndim; ++d) {
    steps[3 - plan.spatial_ndim + d] = t.stride(first + 1 + d);
  }
}

Status make_args(const ConvPlan& plan, const Tensor& input, const Tensor& weight,
                 const Tensor* bias, const Tensor& out, ConvArgs* p) {
  *p = ConvArgs{};
  for (int d = 0; d < 3; ++d) {
    AOTIP_RETURN_IF_FAILED(narrow(plan, d, p));
  }
  AOTIP_CHECK(plan.kernel_numel() < kInt32Max && plan.in_channels < kInt32Max &&
                  plan.batch * plan.out_pixels() < kInt32Max,
              "the convolution has too many elements");
  p->taps = static_cast<int32_t>(plan.kernel_numel());
  p->channels = plan.in_per_group();
  p->m = plan.out_per_group();
  p->n = plan.batch * plan.out_pixels();
  p->k = p->channels * p->taps;
  read_strides(plan, input, &p->x_image, &p->x_channel, p->x_step);
  read_strides(plan, out, &p->c_image, &p->c_channel, p->c_step);
  // Weights are [out, in / groups, …], those of a transposed convolution [in, out / groups, …].
  p->w_out = weight.stride(plan.transposed ? 1 : 0);
  p->w_in = weight.stride(plan.transposed ? 0 : 1);
  p->w_group = weight.stride(0) * (plan.transposed ? p->channels : p->m);
  for (int64_t d = 0; d < plan.spatial_ndim; ++d) {
    p->w_step[3 - plan.spatial_ndim + d] = weight.stride(2 + d);
  }
  p->has_bias = bias != nullptr ? 1 : 0;
  p->bias_step = bias != nullptr ? bias->stride(0) : 0;
  return Status::kOk;
}

/// An input without channels has no elements, nor have the weights: the result stands for them.
Launch& bind(Launch& launch, const ConvArgs& p, const Tensor& input, const Tensor& weight,
             const Tensor* bias, const Tensor& out) {
  return launch.tensor(p.k == 0 ? out : weight)
      .tensor(input.numel() == 0 ? out : input)
      .tensor(bias != nullptr ? *bias : out)
      .tensor(out)
      .value(p);
}

/// Chooses the kernel: tiles serve groups with channels enough to fill them; a target without
/// simdgroup matrices, and small results, take the plain tiles.
Status run(const ConvPlan& plan, const Tensor& input, const Tensor& weight, const Tensor* bias,
           const Tensor& out) {
  ConvArgs p;
  AOTIP_RETURN_IF_FAILED(make_args(plan, input, weight, bias, out, &p));
  const Tensor* const tensors[] = {&input, &weight, &out};
  const std::string defines = define("T", metal_type(out.dtype())) +
                              define("INDEX", has_small_offsets(tensors, 3) ? "int" : "long") +
                              define("TRANSPOSED", plan.transposed ? 1 : 0);
  const size_t groups = static_cast<size_t>(plan.groups);
  if (p.m < 4) {
    const Kernel* kernel = find_kernel(metal_conv_direct, "conv_direct", defines);
    const size_t threads = kernel != nullptr ? std::min<size_t>(max_threads(*kernel), 256) : 1;
    Launch launch(kernel);
    return bind(launch, p, input, weight, bias, out)
        .threads({static_cast<size_t>(p.n), static_cast<size_t>(p.m), groups}, {threads, 1, 1});
  }
  const std::string tiled = defines + define("CONVOLUTION", 1) +
                            define("A_K_FAST", plan.transposed ? 0 : 1) + define("B_K_FAST", 0);
  const GemmTiles tiles = gemm_tiles(tiled, p.m, p.n, p.k);
  Launch launch(tiles.kernel);
  return bind(launch, p, input, weight, bias, out)
      .groups(tiles.groups(p.m, p.n, plan.groups), tiles.group);
}

}  // namespace

Tensor* Operators::convolution(const ConvPlan& plan, const Tensor& input, const Tensor& weight,
                               const Tensor* bias) {
  const int32_t dtype = input.dtype();
  if (dtype != kFloat32 && dtype != kFloat16 && dtype != kBFloat16) {
    (void)fail("no convolution of %s on mps", dtype_name(dtype));
    return nullptr;
  }
  OwnedTensor out(make_conv_output(plan, dtype, input.device()));
  if (out == nullptr || out->numel() == 0) {
    return out.release();
  }
  return run(plan, input, weight, bias, *out) == Status::kOk ? out.release() : nullptr;
}

}  // namespace aoti_plugins::mps
