#pragma once

#include <aoti_plugins/shim.h>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins {

/// Must match aoti_plugins/lowering/decompositions/recurrent_layer.py.
enum class RecurrentKind : int64_t { kLstm = 0, kGru = 1, kTanh = 2, kRelu = 3 };

/// The arguments of a recurrent layer as its shim gets them.
struct RecurrentCall {
  AtenTensorHandle inputs;
  AtenTensorHandle hidden;
  AtenTensorHandle* cell;
  AtenTensorHandle weight;
  AtenTensorHandle* bias;
  int64_t kind;
  bool reverse;
};

/// A call that was checked, with its results: `outputs [steps, batch, width]`, not initialized;
/// `last_hidden` and `last_cell`, copies of the first states, which become the last ones; the
/// second has no elements where there is none.
struct RecurrentPlan {
  RecurrentKind kind = RecurrentKind::kLstm;
  bool reverse = false;
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t width = 0;
  int64_t gates = 0;
  const Tensor* inputs = nullptr;
  const Tensor* hidden = nullptr;
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;
  OwnedTensor outputs;
  OwnedTensor last_hidden;
  OwnedTensor last_cell;

  /// Which of the steps of the inputs is the `index`-th to be computed.
  int64_t step_at(int64_t index) const { return reverse ? steps - 1 - index : index; }
};

/// Checks a call for a device and makes its results.
AOTIP_CORE Status make_recurrent_plan(const RecurrentCall& call, int32_t device_type,
                                      RecurrentPlan* ret) noexcept;

/// Hands the results to the caller of the shim.
AOTIP_CORE Status give_recurrent(RecurrentPlan& plan, AtenTensorHandle* ret0,
                                 AtenTensorHandle* ret1, AtenTensorHandle* ret2) noexcept;

}  // namespace aoti_plugins
