// Recurrent layers: a product and one pass over the gates for each step.

#include <aoti_plugins/shim.h>

#include <algorithm>

#include "cpu/math/best_kernels.h"
#include "cpu/math/gemm.h"
#include "cpu/math/recurrent_kernels.h"
#include "cpu/math/scratch.h"
#include "cpu/threads/parallel.h"
#include "ops/recurrent_plan.h"
#include "shim/run_shim.h"
#include "slim/strided_copy.h"

using namespace aoti_plugins;

namespace {

// About 20 microseconds of a cell's functions on one core.
constexpr int64_t kElementsPerThread = 4096;

const cpu::RecurrentKernels& kernels() noexcept {
  using namespace cpu;
  static const RecurrentKernels chosen = AOTIP_BEST_KERNELS(recurrent_kernels);
  return chosen;
}

const cpu::CellKernels<float>& kernels_of(float /*element*/) {
  return kernels().f32;
}

const cpu::CellKernels<double>& kernels_of(double /*element*/) {
  return kernels().f64;
}

template <typename T>
auto kernel_of(RecurrentKind kind) -> decltype(cpu::CellKernels<T>::lstm) {
  const cpu::CellKernels<T>& cells = kernels_of(T{});
  switch (kind) {
    case RecurrentKind::kLstm:
      return cells.lstm;
    case RecurrentKind::kGru:
      return cells.gru;
    case RecurrentKind::kTanh:
      return cells.tanh;
    default:
      return cells.relu;
  }
}

/// gates [batch, gates * width] = before @ weight^T + what is added to it: the inputs of the step,
/// or a GRU's bias.
template <typename T>
cpu::GemmProblem<T> product(const RecurrentPlan& plan, const T* before, const T* added,
                            int64_t added_row, T* gates) {
  cpu::GemmProblem<T> p;
  p.m = plan.batch;
  p.n = plan.gates * plan.width;
  p.k = plan.width;
  p.a = before;
  p.a_row = plan.width;
  p.a_col = 1;
  p.b = plan.weight->data_as<T>();
  p.b_row = 1;
  p.b_col = plan.width;
  p.c = gates;
  p.c_row = p.n;
  p.c_col = 1;
  p.s = added;
  p.s_row = added_row;
  p.s_col = 1;
  p.beta = added != nullptr ? T(1) : T(0);
  return p;
}

template <typename T>
Status run(const RecurrentPlan& plan) {
  const bool is_gru = plan.kind == RecurrentKind::kGru;
  const int64_t columns = plan.gates * plan.width;
  const int64_t state = plan.batch * plan.width;
  if (plan.steps == 0 || state == 0) {
    return Status::kOk;
  }
  cpu::Scratch scratch;
  T* gates = scratch.get<T>(plan.batch * columns);
  AOTIP_CHECK(gates != nullptr, "out of memory: the gates of %lld",
              static_cast<long long>(plan.batch));
  const auto kernel = kernel_of<T>(plan.kind);
  const T* bias = plan.bias != nullptr ? plan.bias->data_as<T>() : nullptr;
  const T* before = plan.hidden->data_as<T>();
  const int64_t threads = cpu::threads_for(state, kElementsPerThread);
  for (int64_t index = 0; index < plan.steps; ++index) {
    const int64_t step = plan.step_at(index);
    const T* inputs = plan.inputs->data_as<T>() + step * plan.batch * columns;
    T* hidden = plan.outputs->data_as<T>() + step * state;
    AOTIP_RETURN_IF_FAILED(cpu::gemm(is_gru ? product<T>(plan, before, bias, 0, gates)
                                            : product<T>(plan, before, inputs, columns, gates)));
    (void)cpu::parallel_shares(threads, plan.batch, [&](int64_t row) {
      cpu::CellStep<T> cell;
      cell.width = plan.width;
      cell.gates = gates + row * columns;
      cell.inputs = inputs + row * columns;
      cell.before = before + row * plan.width;
      cell.cell = plan.kind == RecurrentKind::kLstm
                      ? plan.last_cell->data_as<T>() + row * plan.width
                      : nullptr;
      cell.hidden = hidden + row * plan.width;
      kernel(cell);
      return true;
    });
    before = hidden;
  }
  std::copy(before, before + state, plan.last_hidden->data_as<T>());
  return Status::kOk;
}

/// A float32 tensor with the elements of another.
Status widen(const Tensor* from, OwnedTensor* ret) {
  if (from == nullptr) {
    return Status::kOk;
  }
  ret->reset(Tensor::empty(from->ndim(), from->sizes(), kFloat32, Device{}));
  return *ret != nullptr ? strided_copy(**ret, *from) : Status::kFailed;
}

/// Halves are computed with as float32, and rounded at the end.
Status run_widened(const RecurrentPlan& plan) {
  OwnedTensor inputs;
  OwnedTensor hidden;
  OwnedTensor weight;
  OwnedTensor bias;
  RecurrentPlan wide;
  AOTIP_RETURN_IF_FAILED(widen(plan.inputs, &inputs));
  AOTIP_RETURN_IF_FAILED(widen(plan.hidden, &hidden));
  AOTIP_RETURN_IF_FAILED(widen(plan.weight, &weight));
  AOTIP_RETURN_IF_FAILED(widen(plan.bias, &bias));
  AOTIP_RETURN_IF_FAILED(widen(plan.outputs.get(), &wide.outputs));
  AOTIP_RETURN_IF_FAILED(widen(plan.last_hidden.get(), &wide.last_hidden));
  AOTIP_RETURN_IF_FAILED(widen(plan.last_cell.get(), &wide.last_cell));
  wide.kind = plan.kind;
  wide.reverse = plan.reverse;
  wide.steps = plan.steps;
  wide.batch = plan.batch;
  wide.width = plan.width;
  wide.gates = plan.gates;
  wide.inputs = inputs.get();
  wide.hidden = hidden.get();
  wide.weight = weight.get();
  wide.bias = bias.get();
  AOTIP_RETURN_IF_FAILED(run<float>(wide));
  AOTIP_RETURN_IF_FAILED(strided_copy(*plan.outputs, *wide.outputs));
  AOTIP_RETURN_IF_FAILED(strided_copy(*plan.last_hidden, *wide.last_hidden));
  return strided_copy(*plan.last_cell, *wide.last_cell);
}

}  // namespace

AOTITorchError aoti_torch_cpu_recurrent_layer(AtenTensorHandle inputs, AtenTensorHandle hidden,
                                              AtenTensorHandle* cell, AtenTensorHandle weight,
                                              AtenTensorHandle* bias, int64_t kind, int32_t reverse,
                                              AtenTensorHandle* ret0, AtenTensorHandle* ret1,
                                              AtenTensorHandle* ret2) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(ret0);
    AOTIP_CHECK_ARG(ret1);
    AOTIP_CHECK_ARG(ret2);
    RecurrentPlan plan;
    const RecurrentCall call{inputs, hidden, cell, weight, bias, kind, reverse != 0};
    AOTIP_RETURN_IF_FAILED(make_recurrent_plan(call, kCpu, &plan));
    const int32_t dtype = plan.inputs->dtype();
    AOTIP_RETURN_IF_FAILED(dtype == kFloat32   ? run<float>(plan)
                           : dtype == kFloat64 ? run<double>(plan)
                                               : run_widened(plan));
    return give_recurrent(plan, ret0, ret1, ret2);
  });
}
