// Recurrent layers: a product and a kernel for the gates of each step.

#include <aoti_plugins/cuda_shim.h>

#include <string>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/kernels/recurrent_cell.h"
#include "cuda/ops/matmul.h"
#include "ops/recurrent_plan.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

/// A row-major part of a tensor without gaps.
OwnedTensor rows_of(const Tensor& tensor, int64_t offset, int64_t rows, int64_t columns) {
  const int64_t sizes[] = {rows, columns};
  const int64_t strides[] = {columns, 1};
  return OwnedTensor(
      tensor.view(2, sizes, strides, tensor.storage_offset() + offset, tensor.dtype()));
}

Status compute_step(const RecurrentPlan& plan, const Tensor& inputs, const Tensor& before,
                    const Tensor& weight, Tensor& gates, Tensor& hidden) {
  AOTIP_RETURN_IF_FAILED(cuda::matmul(gates, nullptr, before, weight, 0.0, 1.0));
  cuda::RecurrentCell cell{};
  cell.gates = gates.data();
  cell.inputs = inputs.data();
  cell.bias = plan.bias != nullptr ? plan.bias->data() : nullptr;
  cell.before = before.data();
  cell.cell = plan.kind == RecurrentKind::kLstm ? plan.last_cell->data() : nullptr;
  cell.hidden = hidden.data();
  cell.numel = hidden.numel();
  cell.width = plan.width;
  cell.kind = static_cast<int64_t>(plan.kind);
  const std::string name = std::string("aotip_recurrent_cell_") + dtype_name(gates.dtype());
  void* arguments[] = {&cell};
  return cuda::launch_elements(gates.device().index, name.c_str(), cell.numel, arguments);
}

Status run(const RecurrentPlan& plan) {
  const int64_t columns = plan.gates * plan.width;
  const int64_t state = plan.batch * plan.width;
  if (plan.steps == 0 || state == 0) {
    return Status::kOk;
  }
  const int64_t sizes[] = {plan.width, columns};
  const int64_t strides[] = {1, plan.width};
  const OwnedTensor weight(
      plan.weight->view(2, sizes, strides, plan.weight->storage_offset(), plan.weight->dtype()));
  const int64_t gate_sizes[] = {plan.batch, columns};
  const OwnedTensor gates(
      Tensor::empty(2, gate_sizes, plan.inputs->dtype(), plan.inputs->device()));
  OwnedTensor before = rows_of(*plan.hidden, 0, plan.batch, plan.width);
  if (weight == nullptr || gates == nullptr || before == nullptr) {
    return Status::kFailed;
  }
  for (int64_t index = 0; index < plan.steps; ++index) {
    const int64_t step = plan.step_at(index);
    const OwnedTensor inputs =
        rows_of(*plan.inputs, step * plan.batch * columns, plan.batch, columns);
    OwnedTensor hidden = rows_of(*plan.outputs, step * state, plan.batch, plan.width);
    if (inputs == nullptr || hidden == nullptr) {
      return Status::kFailed;
    }
    AOTIP_RETURN_IF_FAILED(compute_step(plan, *inputs, *before, *weight, *gates, *hidden));
    before = std::move(hidden);
  }
  return cuda::cuda_device().copy(*plan.last_hidden, *before);
}

}  // namespace

AOTITorchError aoti_torch_cuda_recurrent_layer(AtenTensorHandle inputs, AtenTensorHandle hidden,
                                               AtenTensorHandle* cell, AtenTensorHandle weight,
                                               AtenTensorHandle* bias, int64_t kind,
                                               int32_t reverse, AtenTensorHandle* ret0,
                                               AtenTensorHandle* ret1, AtenTensorHandle* ret2) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret0);
    AOTIP_CHECK_ARG(ret1);
    AOTIP_CHECK_ARG(ret2);
    AOTIP_CHECK_TENSORS(inputs);
    const cuda::ContextGuard guard;
    AOTIP_RETURN_IF_FAILED(
        unwrap(inputs)->device().type == kCuda ? cuda::use_gpu(unwrap(inputs)->device().index)
                                               : Status::kOk);
    RecurrentPlan plan;
    const RecurrentCall call{inputs, hidden, cell, weight, bias, kind, reverse != 0};
    AOTIP_RETURN_IF_FAILED(make_recurrent_plan(call, kCuda, &plan));
    AOTIP_RETURN_IF_FAILED(run(plan));
    return give_recurrent(plan, ret0, ret1, ret2);
  });
}
