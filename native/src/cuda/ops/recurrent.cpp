// A step of recurrent layers.

#include <cstdio>

#include "cuda/driver/device_kernels.h"
#include "cuda/kernels/recurrent_cell.h"
#include "cuda/ops/operators.h"

namespace aoti_plugins::cuda {

Status Operators::recurrent_cell(const ops::RecurrentStep& step) {
  RecurrentCell cell{};
  cell.gates = step.gates->data();
  cell.inputs = step.inputs->data();
  cell.bias = step.bias != nullptr ? step.bias->data() : nullptr;
  cell.before = step.before->data();
  cell.cell = step.kind == RecurrentKind::kLstm ? step.cell->data() : nullptr;
  cell.hidden = step.hidden->data();
  cell.numel = step.hidden->numel();
  cell.width = step.hidden->size(1);
  cell.kind = static_cast<int64_t>(step.kind);
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_recurrent_cell_%s",
                      dtype_name(step.hidden->dtype()));
  void* arguments[] = {&cell};
  return launch_elements(step.hidden->device().index, name, cell.numel, arguments);
}

}  // namespace aoti_plugins::cuda
