#pragma once

#include <cstdint>

#include "slim/export.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins {

/// index_put of one device: writes `values` into `out` (or adds them), which becomes a copy of
/// `self` first, where the indices say. Null stands for a dim without an index. `out` is on that
/// device; everything else is for the function to check.
using IndexPut = Status (*)(Tensor& out, const Tensor& self, const Tensor* const* indices,
                            uint32_t count, const Tensor& values, bool accumulate) noexcept;

/// Makes `aoti_torch_index_put_out`, which PyTorch does not name by device, call `function` for
/// tensors of this device type. The CPU's needs no registration.
AOTIP_CORE void register_index_put(int32_t device_type, IndexPut function) noexcept;

}  // namespace aoti_plugins
