#include "ops/conv_plan.h"

#include <algorithm>

namespace aoti_plugins {
namespace {

long long ll(int64_t value) {
  return static_cast<long long>(value);
}

/// Reads a list into the last `ndim` of three places; one number stands for all.
Status read_list(const ConvList& list, int64_t ndim, int64_t least, int64_t* ret) {
  AOTIP_CHECK(list.values != nullptr && (list.count == ndim || list.count == 1),
              "%s has %lld numbers, expected %lld", list.name, ll(list.count), ll(ndim));
  for (int64_t d = 0; d < ndim; ++d) {
    const int64_t value = list.values[list.count == 1 ? 0 : d];
    AOTIP_CHECK(value >= least, "%s is %lld in dim %lld, expected %lld or more", list.name,
                ll(value), ll(d), ll(least));
    ret[3 - ndim + d] = value;
  }
  return Status::kOk;
}

Status check_tensor(const Tensor& t, const char* name, const Tensor& input, int32_t device_type) {
  AOTIP_CHECK(t.device().type == device_type, "%s is on %s, expected %s", name,
              device_type_name(t.device().type), device_type_name(device_type));
  AOTIP_CHECK(t.device() == input.device(), "%s is on %s:%d, expected %s:%d as the input", name,
              device_type_name(device_type), t.device().index, device_type_name(device_type),
              input.device().index);
  AOTIP_CHECK(t.dtype() == input.dtype(), "%s is %s, expected %s as the input", name,
              dtype_name(t.dtype()), dtype_name(input.dtype()));
  return Status::kOk;
}

Status output_sizes(ConvPlan* plan, const int64_t* output_padding) {
  for (int d = 0; d < 3; ++d) {
    const int64_t reach = plan->dilation[d] * (plan->kernel[d] - 1) + 1;
    if (plan->transposed) {
      plan->out[d] =
          (plan->in[d] - 1) * plan->stride[d] - 2 * plan->padding[d] + reach + output_padding[d];
      AOTIP_CHECK(plan->out[d] >= 0, "the result would have size %lld in spatial dim %d",
                  ll(plan->out[d]), d);
    } else {
      const int64_t padded = plan->in[d] + plan->padding[d] + plan->padding_end[d];
      AOTIP_CHECK(padded >= reach, "kernel of %lld does not fit into the padded input of %lld",
                  ll(reach), ll(padded));
      plan->out[d] = (padded - reach) / plan->stride[d] + 1;
    }
  }
  return Status::kOk;
}

}  // namespace

bool ConvPlan::is_pointwise() const {
  for (int d = 0; d < 3; ++d) {
    if (kernel[d] != 1 || stride[d] != 1 || padding[d] != 0 || padding_end[d] != 0) {
      return false;
    }
  }
  return true;
}

bool is_channels_last(const Tensor& t) noexcept {
  const int64_t ndim = t.ndim();
  if ((ndim != 4 && ndim != 5) || t.stride(1) == 0) {
    return false;
  }
  int64_t least = 0;
  for (int64_t i = 0; i < ndim; ++i) {
    // From the innermost: channels, then the spatial dims from the last to the first, then the
    // batch.
    const int64_t d = i == 0 ? 1 : (i == ndim - 1 ? 0 : ndim - i);
    if (t.size(d) == 0 || t.stride(d) < least || (d == 0 && least == t.stride(1))) {
      return false;
    }
    least = t.stride(d) * t.size(d);
  }
  return true;
}

Status make_conv_plan(const Tensor& input, const Tensor& weight, const Tensor* bias,
                      const ConvList& stride, const ConvList& padding, const ConvList& dilation,
                      const ConvList& output_padding, bool transposed, int64_t groups,
                      int32_t device_type, ConvPlan* plan, bool both_ends) noexcept {
  const int64_t ndim = weight.ndim() - 2;
  AOTIP_CHECK(ndim >= 1 && ndim <= 3, "weight has %lld dims, expected 3 to 5", ll(weight.ndim()));
  AOTIP_CHECK(input.ndim() == ndim + 2 || input.ndim() == ndim + 1,
              "input has %lld dims, expected %lld for this weight", ll(input.ndim()), ll(ndim + 2));
  AOTIP_RETURN_IF_FAILED(check_tensor(input, "input", input, device_type));
  AOTIP_RETURN_IF_FAILED(check_tensor(weight, "weight", input, device_type));
  AOTIP_CHECK(groups >= 1, "groups is %lld, expected 1 or more", ll(groups));
  plan->spatial_ndim = ndim;
  plan->batched = input.ndim() == ndim + 2;
  plan->transposed = transposed;
  plan->groups = groups;
  const int64_t first = plan->batched ? 1 : 0;
  plan->batch = plan->batched ? input.size(0) : 1;
  plan->in_channels = input.size(first);
  plan->out_channels = transposed ? weight.size(1) * groups : weight.size(0);
  const int64_t expected = transposed ? weight.size(0) : weight.size(1) * groups;
  AOTIP_CHECK(plan->in_channels == expected, "input has %lld channels, the weight expects %lld",
              ll(plan->in_channels), ll(expected));
  AOTIP_CHECK(plan->in_channels % groups == 0 && plan->out_channels % groups == 0,
              "%lld groups divide neither %lld input nor %lld output channels", ll(groups),
              ll(plan->in_channels), ll(plan->out_channels));
  for (int64_t d = 0; d < ndim; ++d) {
    plan->in[3 - ndim + d] = input.size(first + 1 + d);
    plan->kernel[3 - ndim + d] = weight.size(2 + d);
    AOTIP_CHECK(weight.size(2 + d) >= 1, "the kernel has size 0 in spatial dim %lld", ll(d));
  }
  int64_t extra[3] = {0, 0, 0};
  AOTIP_RETURN_IF_FAILED(read_list(stride, ndim, 1, plan->stride));
  ConvList begin = padding;
  ConvList end = padding;
  if (both_ends && padding.count == 2 * ndim && padding.values != nullptr) {
    begin.count = ndim;
    end = {padding.name, padding.values + ndim, ndim};
  }
  AOTIP_RETURN_IF_FAILED(read_list(begin, ndim, 0, plan->padding));
  AOTIP_RETURN_IF_FAILED(read_list(end, ndim, 0, plan->padding_end));
  AOTIP_RETURN_IF_FAILED(read_list(dilation, ndim, 1, plan->dilation));
  if (transposed) {
    AOTIP_RETURN_IF_FAILED(read_list(output_padding, ndim, 0, extra));
  }
  if (bias != nullptr) {
    AOTIP_RETURN_IF_FAILED(check_tensor(*bias, "bias", input, device_type));
    AOTIP_CHECK(bias->ndim() == 1 && bias->size(0) == plan->out_channels,
                "bias has %lld elements in %lld dims, expected [%lld]", ll(bias->numel()),
                ll(bias->ndim()), ll(plan->out_channels));
  }
  plan->channels_last = plan->batched && (is_channels_last(input) || is_channels_last(weight));
  return output_sizes(plan, extra);
}

void conv_strides(int64_t ndim, const int64_t* sizes, bool channels_last, int64_t* ret) noexcept {
  contiguous_strides(ndim, sizes, ret);
  if (!channels_last) {
    return;
  }
  int64_t stride = std::max<int64_t>(sizes[1], 1);
  for (int64_t d = ndim - 1; d >= 2; --d) {
    ret[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  ret[0] = stride;
  ret[1] = 1;
}

bool has_conv_strides(const Tensor& t, bool channels_last) noexcept {
  int64_t strides[Tensor::kMaxDims];
  conv_strides(t.ndim(), t.sizes(), channels_last, strides);
  for (int64_t d = 0; d < t.ndim(); ++d) {
    if (t.size(d) != 1 && t.stride(d) != strides[d]) {
      return false;
    }
  }
  return true;
}

Tensor* make_conv_output(const ConvPlan& plan, int32_t dtype, Device device) noexcept {
  int64_t sizes[5];
  int64_t strides[5];
  int64_t ndim = 0;
  if (plan.batched) {
    sizes[ndim++] = plan.batch;
  }
  sizes[ndim++] = plan.out_channels;
  for (int64_t d = 3 - plan.spatial_ndim; d < 3; ++d) {
    sizes[ndim++] = plan.out[d];
  }
  conv_strides(ndim, sizes, plan.channels_last, strides);
  return Tensor::empty_strided(ndim, sizes, strides, dtype, device);
}

}  // namespace aoti_plugins
