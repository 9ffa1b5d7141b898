#pragma once

#include <cstddef>
#include <cstdint>

#include "runner/flatbuffer.h"

namespace aoti_plugins::runner {

/// What a tensor of a file takes.
struct TensorBytes {
  int32_t dtype;
  size_t itemsize;
  size_t nbytes;
};

/// Checks that dtype, sizes and order of dims are ones that ExecuTorch can count with; throws
/// `Damaged`.
TensorBytes check_tensor_layout(const FlatTable& table, Field scalar_type, Field sizes,
                                Field dim_order);

}  // namespace aoti_plugins::runner
