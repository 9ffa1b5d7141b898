#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/libraries/cudnn.h"
#include "ops/conv_plan.h"

namespace aoti_plugins::cuda {

/// One convolution on one GPU as a graph of cuDNN, with the execution plan that its heuristics
/// chose. It belongs to the handle it was made with: who has the handle may use it.
class ConvAlgorithm {
 public:
  /// The one for a problem and a handle, from a cache of `kMaxKept` and all that a CUDA graph was
  /// captured with. Where cuDNN has none for channels-last, it is one for row-major memory. The
  /// GPU's context must be current. Null, with a reason: when cuDNN has none at all (the reason
  /// describes the problem), and when one would have to be made while a graph is captured.
  static std::shared_ptr<ConvAlgorithm> find(const ConvPlan& plan, int32_t dtype,
                                             dnn::Handle handle) noexcept;

  /// The most problems that are remembered, those in graphs aside.
  static constexpr size_t kMaxKept = 1024;

  /// The layout that it wants.
  bool channels_last() const noexcept { return plan_.channels_last; }

  size_t workspace_nbytes() const noexcept { return workspace_nbytes_; }

  /// Memory of one call.
  struct Memory {
    const void* input = nullptr;
    const void* weight = nullptr;
    const void* bias = nullptr;  ///< may be null
    void* output = nullptr;
    void* workspace = nullptr;

    /// Whether a variant pack of one serves the other; the bias is not in it.
    bool is_packed_as(const Memory& other) const noexcept;
  };

  /// Launches it. All memory is without gaps and in its layout.
  Status run(const Memory& memory) noexcept;

  ~ConvAlgorithm();
  ConvAlgorithm(const ConvAlgorithm&) = delete;
  ConvAlgorithm& operator=(const ConvAlgorithm&) = delete;

 private:
  ConvAlgorithm(const dnn::Library& library, const ConvPlan& plan, int32_t dtype,
                dnn::Handle handle)
      : library_(library), plan_(plan), dtype_(dtype), handle_(handle) {}
  static std::shared_ptr<ConvAlgorithm> make(const ConvPlan& plan, int32_t dtype,
                                             dnn::Handle handle);
  Status describe();
  Status describe_tensor(int64_t id, const int64_t* sizes, dnn::Descriptor* ret);
  Status describe_conv(dnn::Descriptor* ret);
  Status describe_flat(const int64_t* sizes, dnn::TensorDesc* ret);
  Status choose();
  Status take_first(dnn::HeuristicMode mode, int64_t* ret_tried);
  Status may_be_used(const dnn::Descriptor& config, bool* ret) const;
  Status pack(const Memory& memory);
  Status add_bias(const Memory& memory);

  const dnn::Library& library_;
  const ConvPlan plan_;
  const int32_t dtype_;
  const dnn::Handle handle_;
  std::vector<dnn::Descriptor> parts_;  // what the graph refers to
  dnn::Descriptor graph_;
  dnn::Descriptor config_;
  dnn::Descriptor execution_plan_;
  size_t workspace_nbytes_ = 0;
  dnn::TensorDesc output_ = nullptr;
  dnn::TensorDesc bias_ = nullptr;
  // Programs call with the same memory again and again.
  Memory packed_;
  dnn::Descriptor variant_pack_;
};

}  // namespace aoti_plugins::cuda
