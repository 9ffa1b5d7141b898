#include "ops/recurrent_plan.h"

#include <algorithm>
#include <cinttypes>

#include "shim/run_shim.h"

namespace aoti_plugins {
namespace {

constexpr int64_t kGates[] = {4, 3, 1, 1};

Status check(const char* name, const Tensor& t, const Tensor& like, int64_t ndim,
             const int64_t* sizes) {
  AOTIP_CHECK(t.device() == like.device(), "%s is on %s %d, expected %s %d as inputs", name,
              device_type_name(t.device().type), t.device().index,
              device_type_name(like.device().type), like.device().index);
  AOTIP_CHECK(t.dtype() == like.dtype(), "%s is %s, expected %s as inputs", name,
              dtype_name(t.dtype()), dtype_name(like.dtype()));
  AOTIP_CHECK(t.ndim() == ndim, "%s has %" PRId64 " dims, expected %" PRId64, name, t.ndim(), ndim);
  for (int64_t d = 0; d < ndim; ++d) {
    AOTIP_CHECK(t.size(d) == sizes[d],
                "%s has size %" PRId64 " in dim %" PRId64 ", expected %" PRId64, name, t.size(d), d,
                sizes[d]);
  }
  AOTIP_CHECK(t.is_contiguous(), "%s is not contiguous", name);
  return Status::kOk;
}

/// The dims of the inputs; the other tensors are compared with them.
Status read_inputs(const RecurrentCall& call, int32_t device_type, RecurrentPlan* plan) {
  AOTIP_CHECK(call.kind >= 0 && call.kind < 4, "kind %" PRId64 ", expected 0 to 3", call.kind);
  const Tensor& inputs = *unwrap(call.inputs);
  AOTIP_CHECK(inputs.device().type == device_type, "inputs are on %s, expected %s",
              device_type_name(inputs.device().type), device_type_name(device_type));
  AOTIP_CHECK(is_real(inputs.dtype()), "no recurrent layer of %s", dtype_name(inputs.dtype()));
  AOTIP_CHECK(inputs.ndim() == 3, "inputs have %" PRId64 " dims, expected 3", inputs.ndim());
  plan->kind = static_cast<RecurrentKind>(call.kind);
  plan->reverse = call.reverse;
  plan->gates = kGates[call.kind];
  plan->steps = inputs.size(0);
  plan->batch = inputs.size(1);
  AOTIP_CHECK(inputs.size(2) % plan->gates == 0,
              "inputs have size %" PRId64 " in dim 2, expected a multiple of %" PRId64,
              inputs.size(2), plan->gates);
  plan->width = inputs.size(2) / plan->gates;
  const int64_t sizes[] = {plan->steps, plan->batch, inputs.size(2)};
  plan->inputs = &inputs;
  return check("inputs", inputs, inputs, 3, sizes);
}

Status read_others(const RecurrentCall& call, const Tensor* cell, RecurrentPlan* plan) {
  const int64_t state[] = {plan->batch, plan->width};
  const int64_t weight[] = {plan->gates * plan->width, plan->width};
  plan->hidden = unwrap(call.hidden);
  plan->weight = unwrap(call.weight);
  plan->bias = unwrap_optional(call.bias);
  AOTIP_RETURN_IF_FAILED(check("hidden", *plan->hidden, *plan->inputs, 2, state));
  AOTIP_RETURN_IF_FAILED(check("weight", *plan->weight, *plan->inputs, 2, weight));
  AOTIP_CHECK((cell != nullptr) == (plan->kind == RecurrentKind::kLstm),
              cell != nullptr ? "only an LSTM has a cell" : "an LSTM needs a cell");
  AOTIP_CHECK(plan->bias == nullptr || plan->kind == RecurrentKind::kGru,
              "only a GRU has a bias of its state");
  if (cell != nullptr) {
    AOTIP_RETURN_IF_FAILED(check("cell", *cell, *plan->inputs, 2, state));
  }
  return plan->bias == nullptr ? Status::kOk : check("bias", *plan->bias, *plan->inputs, 1, weight);
}

/// A copy of a first state, or nothing.
Status start(const Tensor* state, const Tensor& like, OwnedTensor* ret) {
  const int64_t none = 0;
  ret->reset(state != nullptr ? Tensor::empty(2, state->sizes(), like.dtype(), like.device())
                              : Tensor::empty(1, &none, like.dtype(), like.device()));
  AOTIP_RETURN_IF_NULL(*ret);
  return state == nullptr || state->numel() == 0
             ? Status::kOk
             : find_device(like.device().type)->copy(**ret, *state);
}

}  // namespace

Status make_recurrent_plan(const RecurrentCall& call, int32_t device_type,
                           RecurrentPlan* ret) noexcept {
  AOTIP_CHECK_TENSORS(call.inputs);
  AOTIP_CHECK_TENSORS(call.hidden);
  AOTIP_CHECK_TENSORS(call.weight);
  const Tensor* cell = unwrap_optional(call.cell);
  AOTIP_RETURN_IF_FAILED(read_inputs(call, device_type, ret));
  AOTIP_RETURN_IF_FAILED(read_others(call, cell, ret));
  const Tensor& inputs = *ret->inputs;
  const int64_t sizes[] = {ret->steps, ret->batch, ret->width};
  ret->outputs.reset(Tensor::empty(3, sizes, inputs.dtype(), inputs.device()));
  AOTIP_RETURN_IF_NULL(ret->outputs);
  AOTIP_RETURN_IF_FAILED(start(ret->hidden, inputs, &ret->last_hidden));
  return start(cell, inputs, &ret->last_cell);
}

Status give_recurrent(RecurrentPlan& plan, AtenTensorHandle* ret0, AtenTensorHandle* ret1,
                      AtenTensorHandle* ret2) noexcept {
  *ret0 = wrap(plan.outputs.release());
  *ret1 = wrap(plan.last_hidden.release());
  *ret2 = wrap(plan.last_cell.release());
  return Status::kOk;
}

}  // namespace aoti_plugins
