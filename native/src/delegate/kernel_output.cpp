#include "delegate/kernel_output.h"

#include <executorch/runtime/core/portable_type/tensor.h>
#include <executorch/runtime/core/portable_type/tensor_impl.h>
#include <executorch/runtime/platform/log.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "slim/device.h"
#include "slim/dtype.h"
#include "slim/element.h"
#include "slim/status.h"

namespace aoti_plugins {
namespace {

using ::executorch::aten::DimOrderType;
using ::executorch::aten::ScalarType;
using ::executorch::aten::SizesType;
using ::executorch::aten::StridesType;
using ::executorch::runtime::EventTracer;
using ::executorch::runtime::EventTracerDebugLogLevel;
using ::executorch::runtime::kUnsetDelegateDebugIntId;

/// The dtype that a tensor is shown in; -1 for none.
int32_t shown_dtype(int32_t dtype) {
  switch (dtype) {
    case kUInt8:
    case kInt8:
    case kInt16:
    case kInt32:
    case kInt64:
    case kFloat16:
    case kFloat32:
    case kFloat64:
    case kBool:
      return dtype;
    default:
      return is_convertible(dtype) && dtype != kComplex64 && dtype != kComplex128 ? kFloat32 : -1;
  }
}

/// The elements, row-major, in host memory. Null with a reason.
OwnedTensor on_host(const Tensor& tensor, int32_t dtype) {
  DeviceInterface* device = find_device(tensor.device().type);
  if (device == nullptr) {
    (void)fail("it is on a device that is not here: %s", device_type_name(tensor.device().type));
    return nullptr;
  }
  OwnedTensor host(Tensor::empty(tensor.ndim(), tensor.sizes(), dtype, Device{}));
  const bool done = host != nullptr && device->copy(*host, tensor) == Status::kOk;
  return done ? std::move(host) : nullptr;
}

Status log(EventTracer& tracer, const char* name, const Tensor& tensor, int64_t ndim,
           const int64_t* sizes) {
  const int32_t dtype = shown_dtype(tensor.dtype());
  AOTIP_CHECK(dtype >= 0, "dumps have no %s", dtype_name(tensor.dtype()));
  const OwnedTensor host = on_host(tensor, dtype);
  AOTIP_RETURN_IF_NULL(host);
  if (ndim < 0) {
    ndim = tensor.ndim();
    sizes = tensor.sizes();
  }
  const size_t count = static_cast<size_t>(ndim);
  std::vector<SizesType> shown(sizes, sizes + count);
  std::vector<DimOrderType> order(count);
  std::vector<StridesType> strides(count);
  int64_t numel = 1;
  for (size_t d = count; d-- > 0;) {
    order[d] = static_cast<DimOrderType>(d);
    strides[d] = static_cast<StridesType>(numel);
    numel *= sizes[d];
  }
  AOTIP_CHECK(numel == tensor.numel(), "it has %lld elements, not %lld",
              static_cast<long long>(tensor.numel()), static_cast<long long>(numel));
  ::executorch::aten::TensorImpl impl(static_cast<ScalarType>(dtype), static_cast<ssize_t>(count),
                                      shown.data(), host->data(), order.data(), strides.data());
  const auto logged = tracer.log_intermediate_output_delegate(name, kUnsetDelegateDebugIntId,
                                                              ::executorch::aten::Tensor(&impl));
  AOTIP_CHECK(logged.ok(), "the tracer refused it (%s); has its buffer room for all of them?",
              ::executorch::runtime::to_string(logged.error()));
  return Status::kOk;
}

}  // namespace

bool wants_kernel_outputs(EventTracer* tracer) noexcept {
  return tracer != nullptr &&
         tracer->event_tracer_debug_level() >= EventTracerDebugLogLevel::kIntermediateOutputs;
}

void log_kernel_output(EventTracer& tracer, const char* name, const Tensor& tensor, int64_t ndim,
                       const int64_t* sizes) noexcept {
  try {
    const std::string before = last_failure();
    if (log(tracer, name, tensor, ndim, sizes) != Status::kOk) {
      ET_LOG(Error, "the dump lacks the output %s: %s", name, last_failure());
      (void)fail("%s", before.c_str());
    }
  } catch (const std::exception& error) {
    ET_LOG(Error, "the dump lacks the output %s: %s", name, error.what());
  }
}

}  // namespace aoti_plugins
