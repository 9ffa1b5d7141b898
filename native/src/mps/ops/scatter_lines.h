#pragma once

#include "mps/driver/kernel_arguments.h"
#include "ops/combine.h"
#include "slim/tensor.h"

namespace aoti_plugins::mps {

/// What a scatter reads beside its index: `src`, at the offsets `sources` where that is not null;
/// or, with a null `src`, the value of the arguments.
struct ScatterSource {
  const Tensor* src;
  const Tensor* sources;
};

/// Runs a scatter into `out` over the lines of `index` (int64). `args.owners` is chosen here.
/// Elements that meet at a place come there in the order of their line; numbers out of range are
/// skipped, and make the call of the program fail.
Status scatter_lines(const Tensor& out, const Tensor& index, const ScatterSource& source,
                     ScatterArgs args, Combine combine) noexcept;

}  // namespace aoti_plugins::mps
