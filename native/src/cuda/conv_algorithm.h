#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/cudnn.h"
#include "shim/conv_plan.h"

namespace aoti_plugins::cuda {

/// cuDNN's descriptors of one convolution on one GPU, and the algorithm that its heuristic chose.
/// It does not change once it is made: threads share it.
class ConvAlgorithm {
 public:
  /// The one for a problem, from a cache of `kMaxKept`. Where cuDNN has none for channels-last, it
  /// is one for row-major memory. The GPU's context must be current. Null, with a reason that
  /// describes the problem, when cuDNN has none at all.
  static std::shared_ptr<const ConvAlgorithm> find(const ConvPlan& plan, int32_t dtype,
                                                   int32_t gpu) noexcept;

  /// The most problems that are remembered.
  static constexpr size_t kMaxKept = 1024;

  /// The layout that it wants.
  bool channels_last() const noexcept { return plan_.channels_last; }

  size_t workspace_nbytes() const noexcept { return chosen_.workspace_nbytes; }

  /// Launches it. All memory is without gaps and in its layout; `bias` may be null.
  Status run(dnn::Handle handle, const void* input, const void* weight, const void* bias,
             void* output, void* workspace) const noexcept;

  ~ConvAlgorithm();
  ConvAlgorithm(const ConvAlgorithm&) = delete;
  ConvAlgorithm& operator=(const ConvAlgorithm&) = delete;

 private:
  ConvAlgorithm(const dnn::Library& library, const ConvPlan& plan, int32_t dtype)
      : library_(library), plan_(plan), dtype_(dtype) {}
  static std::shared_ptr<const ConvAlgorithm> make(const ConvPlan& plan, int32_t dtype,
                                                   dnn::Handle handle);
  Status describe();
  Status choose(dnn::Handle handle);
  Status take_best(dnn::Handle handle, const dnn::Algorithm* candidates, int count);
  Status set_tensor(dnn::TensorDesc* ret, int64_t channels, int64_t batch, const int64_t* spatial);

  const dnn::Library& library_;
  const ConvPlan plan_;
  const int32_t dtype_;
  dnn::TensorDesc input_ = nullptr;
  dnn::TensorDesc output_ = nullptr;
  dnn::TensorDesc bias_ = nullptr;
  dnn::FilterDesc weight_ = nullptr;
  dnn::ConvDesc conv_ = nullptr;
  dnn::Algorithm chosen_{};
};

}  // namespace aoti_plugins::cuda
