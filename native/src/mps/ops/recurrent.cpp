// A step of recurrent layers.

#include <string>

#include "mps/driver/kernel.h"
#include "mps/kernels/sources.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/operators.h"

namespace aoti_plugins::mps {

Status Operators::recurrent_cell(const ops::RecurrentStep& step) {
  const Tensor& hidden = *step.hidden;
  const std::string defines = define("T", metal_type(hidden.dtype())) +
                              define("KIND", static_cast<int64_t>(step.kind)) +
                              define("BIAS", step.bias != nullptr ? 1 : 0);
  const RecurrentArgs args{hidden.size(1)};
  Launch launch(find_kernel(metal_recurrent, "recurrent_cell", defines));
  return launch.tensor(*step.gates)
      .tensor(*step.inputs)
      .tensor(step.bias != nullptr ? *step.bias : *step.inputs)
      .tensor(*step.before)
      .tensor(step.kind == RecurrentKind::kLstm ? *step.cell : hidden)
      .tensor(hidden)
      .value(args)
      .threads({static_cast<size_t>(hidden.size(1)), static_cast<size_t>(hidden.size(0))}, {32});
}

}  // namespace aoti_plugins::mps
