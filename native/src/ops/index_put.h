#pragma once

#include <cstdint>

#include "slim/export.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::ops {

/// index_put of one device: writes `values` into `out` (or adds them), which becomes a copy of
/// `self` first, where the indices say. Null stands for a dim without an index. Devices, dtypes,
/// and that `out` and `self` have equal sizes, are checked; indices and sizes of `values` are not.
using IndexPut = Status (*)(Tensor& out, const Tensor& self, const Tensor* const* indices,
                            uint32_t count, const Tensor& values, bool accumulate);

/// Makes `aoti_torch_index_put_out`, which PyTorch does not name by device, call `function` for
/// tensors of this device type.
AOTIP_CORE void register_index_put(int32_t device_type, IndexPut function) noexcept;

}  // namespace aoti_plugins::ops
