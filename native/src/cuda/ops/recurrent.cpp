// A step of recurrent layers.

#include <limits>

#include "cuda/driver/device_kernels.h"
#include "cuda/kernels/recurrent_cell.h"
#include "cuda/ops/operators.h"

namespace aoti_plugins::cuda {

Status Operators::recurrent_cell(const ops::RecurrentStep& step) {
  AOTIP_CHECK(step.gates->numel() <= std::numeric_limits<int32_t>::max(),
              "too many elements in a step of a recurrent layer");
  RecurrentCell cell{};
  cell.gates = step.gates->data();
  cell.inputs = step.inputs->data();
  cell.bias = step.bias != nullptr ? step.bias->data() : nullptr;
  cell.before = step.before->data();
  cell.cell = step.kind == RecurrentKind::kLstm ? step.cell->data() : nullptr;
  cell.hidden = step.hidden->data();
  cell.numel = static_cast<uint32_t>(step.hidden->numel());
  cell.width = static_cast<uint32_t>(step.hidden->size(1));
  cell.kind = static_cast<uint32_t>(step.kind);
  cell.dtype = step.hidden->dtype();
  void* arguments[] = {&cell};
  return launch_elements(step.hidden->device().index, "aotip_recurrent_cell", cell.numel,
                         arguments);
}

}  // namespace aoti_plugins::cuda
