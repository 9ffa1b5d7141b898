#pragma once

#include <cstdint>

namespace aoti_plugins::cpu {

/// One step of a recurrent layer for one member of the batch, `width` elements of state.
///
/// The gates lie one behind the other, `width` elements each, in PyTorch's order. `hidden` may not
/// overlap anything else.
template <typename T>
struct CellStep {
  int64_t width = 0;
  const T* gates = nullptr;   ///< what comes from the state; of all but GRUs also from the input
  const T* inputs = nullptr;  ///< of GRUs: what comes from the input
  const T* before = nullptr;  ///< of GRUs: the state before
  T* cell = nullptr;          ///< of LSTMs: their second state, before and after
  T* hidden = nullptr;        ///< the state after
};

/// The kernels of one instruction set.
template <typename T>
struct CellKernels {
  void (*lstm)(const CellStep<T>& step);
  void (*gru)(const CellStep<T>& step);
  void (*tanh)(const CellStep<T>& step);
  void (*relu)(const CellStep<T>& step);
};

struct RecurrentKernels {
  CellKernels<float> f32;
  CellKernels<double> f64;
};

RecurrentKernels recurrent_kernels_baseline() noexcept;
#if defined(__x86_64__)
RecurrentKernels recurrent_kernels_avx2() noexcept;
RecurrentKernels recurrent_kernels_avx512() noexcept;
#endif

}  // namespace aoti_plugins::cpu
