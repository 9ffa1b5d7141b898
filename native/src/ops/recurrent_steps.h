#pragma once

// Recurrent layers of GPUs: a product and a kernel for the gates of each step.

#include <utility>

#include "ops/operand.h"
#include "ops/recurrent_plan.h"

namespace aoti_plugins::ops {

/// A step of a layer behind its product, all without gaps and of one dtype.
struct RecurrentStep {
  RecurrentKind kind;
  const Tensor* gates;   ///< [batch, gates * width], the state times the weight
  const Tensor* inputs;  ///< as `gates`, what the input contributes
  const Tensor* bias;    ///< [gates * width], added to `gates`, or null
  const Tensor* before;  ///< [batch, width]
  Tensor* cell;          ///< [batch, width] of an LSTM, read and written
  Tensor* hidden;        ///< [batch, width]
};

/// [rows, columns] of a tensor without gaps.
inline OwnedTensor rows_of(const Tensor& tensor, int64_t offset, int64_t rows, int64_t columns) {
  const int64_t sizes[] = {rows, columns};
  const int64_t strides[] = {columns, 1};
  return OwnedTensor(
      tensor.view(2, sizes, strides, tensor.storage_offset() + offset, tensor.dtype()));
}

/// Computes all steps of a plan that has elements.
///
/// @tparam D has `matmul` as ops/products.h wants it, `recurrent_cell` and `copy`.
template <typename D>
Status recurrent_steps(const RecurrentPlan& plan) {
  const int64_t columns = plan.gates * plan.width;
  const int64_t state = plan.batch * plan.width;
  const int64_t weight_sizes[] = {plan.width, columns};
  const int64_t weight_strides[] = {1, plan.width};
  const OwnedTensor weight(plan.weight->view(2, weight_sizes, weight_strides,
                                             plan.weight->storage_offset(), plan.weight->dtype()));
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
    AOTIP_RETURN_IF_FAILED(D::matmul(*gates, nullptr, *before, *weight, 0.0, 1.0));
    AOTIP_RETURN_IF_FAILED(D::recurrent_cell({plan.kind, gates.get(), inputs.get(), plan.bias,
                                              before.get(), plan.last_cell.get(), hidden.get()}));
    before = std::move(hidden);
  }
  return D::copy(*plan.last_hidden, *before);
}

template <typename D>
Status recurrent_layer(const RecurrentCall& call, AtenTensorHandle* ret0, AtenTensorHandle* ret1,
                       AtenTensorHandle* ret2) {
  AOTIP_CHECK_ARG(ret0);
  AOTIP_CHECK_ARG(ret1);
  AOTIP_CHECK_ARG(ret2);
  AOTIP_CHECK_TENSORS(call.inputs);
  AOTIP_RETURN_IF_FAILED(check_on(*unwrap(call.inputs), "inputs", D::kType));
  const typename D::Scope scope(*unwrap(call.inputs));
  AOTIP_RETURN_IF_FAILED(scope.status());
  RecurrentPlan plan;
  AOTIP_RETURN_IF_FAILED(make_recurrent_plan(call, D::kType, &plan));
  AOTIP_CHECK(D::computes(plan.inputs->dtype()), "no recurrent layer of %s here",
              dtype_name(plan.inputs->dtype()));
  if (plan.outputs->numel() > 0) {
    AOTIP_RETURN_IF_FAILED(recurrent_steps<D>(plan));
  }
  return give_recurrent(plan, ret0, ret1, ret2);
}

}  // namespace aoti_plugins::ops
