#pragma once

#include <cstdint>

#include "ranks/collectives.h"
#include "ranks/group.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

// Collectives by kernels that write to the memory of the other ranks' GPUs. They set `ret_is_done`
// to false, on all ranks, where that is not to be: by size, dtype, or because the GPUs do not reach
// each other. Tensors are row-major and on the current GPU.

/// The beginning of what will be reduced, on its way to the other rank's memory.
struct SentAhead {
  int64_t nbytes = 0;  ///< 0: nothing went ahead
  int32_t place = 0;   ///< which of two places of that memory it goes to
};

/// Whether the beginning of x may go ahead of a sum. The same on all ranks.
///
/// @param ret_multiprocessors of the smallest GPU among them; 0 where nothing may.
Status may_send_ahead(const ranks::Group& group, const Tensor& x,
                      int64_t* ret_multiprocessors) noexcept;

/// Begins to send the first `nbytes` of x, which are computed by then, beside work that comes on
/// the stream; `peer_all_reduce` of x comes next. As much as can be, the same on all ranks; x may
/// be sent ahead.
Status send_ahead(const ranks::Group& group, const Tensor& x, int64_t nbytes,
                  SentAhead* ret) noexcept;

/// @param residual is added in the end; null, or as x.
/// @param out may be x.
Status peer_all_reduce(const ranks::Group& group, ranks::Reduction reduction, const Tensor& x,
                       const SentAhead& ahead, const Tensor* residual, Tensor& out,
                       bool* ret_is_done) noexcept;

Status peer_all_gather(const ranks::Group& group, const Tensor& x, Tensor& out,
                       bool* ret_is_done) noexcept;

}  // namespace aoti_plugins::cuda
