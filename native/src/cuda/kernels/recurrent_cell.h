#pragma once

/// What the kernel of a recurrent layer's step takes. Read by the host code and by
/// kernels/recurrent_cell.cu.

#include <cstdint>

namespace aoti_plugins::cuda {

/// Columns of gates are one gate behind the other, as PyTorch orders them.
struct RecurrentCell {
  const void* gates;   ///< [batch, gates * width], the state times the weight
  const void* inputs;  ///< the same, what the input contributes
  const void* bias;    ///< [gates * width], added to `gates`, or null
  const void* before;  ///< [batch, width]
  void* cell;          ///< [batch, width], read and written; null where there is none
  void* hidden;        ///< [batch, width]
  uint32_t numel;      ///< of hidden; `gates` has no more elements than this type counts
  uint32_t width;
  int32_t dtype;  ///< of all of them
  uint32_t kind;  ///< a RecurrentKind of ops/recurrent_plan.h
};

}  // namespace aoti_plugins::cuda
