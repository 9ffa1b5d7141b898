#pragma once

#include "slim/device.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// CUDA for SlimTensor: memory from this thread's current stream, copies and fills on it.
DeviceInterface& cuda_device() noexcept;

/// The GPU that has the memory at an address, whatever the tensor says; -1 for memory of the host.
int32_t gpu_of_address(const void* ptr) noexcept;

/// A row-major copy on the tensor's own GPU; null, with a reason, when it fails.
OwnedTensor row_major_copy(const Tensor& from) noexcept;

/// Sets all elements to one value, given as the bytes of an element.
Status fill(Tensor& tensor, const void* element) noexcept;

}  // namespace aoti_plugins::cuda
