#pragma once

#include <executorch/runtime/core/function_ref.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cpu/math/packed_weights.h"
#include "cpu/math/scratch.h"
#include "cpu/memory/constant_memory.h"
#include "ops/conv_plan.h"
#include "slim/status.h"

namespace aoti_plugins::cpu {

/// Rows of the output of one image, and what they are made from.
struct ImageRows {
  int64_t begin;
  int64_t count;
  int64_t in_begin;
  int64_t in_count;
  int64_t padding_top;
  int64_t padding_bottom;
};

/// Convolutions with a constant weight, channels-last, by XNNPACK, on the team of threads: parts of
/// the channels where they have many weights, and of an image's rows.
class PackedImages final : public Derived {
 public:
  /// Makes an operator for `count` channels of the output from `begin` on, and rows with such
  /// padding; returns XNNPACK's status.
  using Create = std::function<int(const ImageRows& rows, int64_t begin, int64_t count,
                                   XnnWeightsCache* cache, XnnOperator** ret)>;
  /// Reshapes, sets up and runs an operator for rows of an image; what it computes are the channels
  /// from `channel` on. False where that failed.
  using Run = ::executorch::runtime::FunctionRef<bool(XnnOperator* op, int64_t image,
                                                      const ImageRows& rows, int64_t channel)>;

  PackedImages(const Xnnpack& library, const ConvPlan& plan, Create create);

  /// Whether XNNPACK makes operators for the weight.
  bool can_run(const ConvPlan& plan) noexcept;

  /// How many channels the part has that begins at one.
  int64_t channels_from(const ConvPlan& plan, int64_t channel) const noexcept {
    return std::min(step_, plan.out_channels - channel);
  }

  /// Runs all images of a plan, whose sizes but for those of the images are the constructor's.
  Status run(const ConvPlan& plan, Run run) noexcept;

 private:
  int64_t step_;
  Create create_;
  std::vector<std::unique_ptr<PackedWeights>> parts_;
};

/// What rows of an image are made from, of all images that a plan reads.
template <typename T>
const T* input_of(const ConvPlan& plan, int64_t image, const ImageRows& rows,
                  const T* input) noexcept {
  return input + (image * plan.in[1] + rows.in_begin) * plan.in[2] * plan.in_channels;
}

/// The first pixel of rows, of all images that a plan makes.
template <typename T>
T* output_of(const ConvPlan& plan, int64_t image, const ImageRows& rows, T* output) noexcept {
  return output + (image * plan.out[1] + rows.begin) * plan.out[2] * plan.out_channels;
}

/// Reshapes, sets up and runs an operator for rows of an image.
///
/// @param reshape `xnn_reshape_*` of the operator's kind
/// @param setup `xnn_setup_*`, likewise
/// @param input what the rows are made from
/// @param output where the operator's first channel of their first pixel goes
template <typename Reshape, typename Setup, typename T>
bool run_rows(const Xnnpack& library, Reshape reshape, Setup setup, const ConvPlan& plan,
              XnnOperator* op, const ImageRows& rows, const T* input, T* output) noexcept {
  size_t nbytes = 0;
  size_t height = 0;
  size_t width = 0;
  if (reshape(op, 1, rows.in_count, plan.in[2], &nbytes, &height, &width, nullptr) != kXnnSuccess ||
      height != static_cast<size_t>(rows.count) || width != static_cast<size_t>(plan.out[2])) {
    return false;
  }
  Scratch workspace;
  void* memory = nbytes > 0 ? workspace.get<char>(static_cast<int64_t>(nbytes)) : nullptr;
  return (memory != nullptr || nbytes == 0) && setup(op, memory, input, output) == kXnnSuccess &&
         library.run_operator(op, nullptr) == kXnnSuccess;
}

/// Whether XNNPACK can be asked for a plan: it takes sizes of 32 bits, and rows must be made of
/// something.
bool fits_xnnpack(const ConvPlan& plan) noexcept;

/// The numbers of a plan that operators are made for, for a `DerivedKey`; the first five of 16 are
/// left to the caller.
void add_to_key(const ConvPlan& plan, DerivedKey* key) noexcept;

}  // namespace aoti_plugins::cpu
