#pragma once

#include <executorch/runtime/core/function_ref.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu/libraries/xnnpack.h"

namespace aoti_plugins::cpu {

/// Weights in the layout of XNNPACK's kernels, and the operators that read them. An operator serves
/// one call at a time; calls at the same time get one each, over the same weights.
class PackedWeights {
 public:
  /// Makes an operator with this cache, as `xnn_create_*` does, and returns its status.
  using Create = ::executorch::runtime::FunctionRef<int(XnnWeightsCache* cache, XnnOperator** ret)>;

  explicit PackedWeights(const Xnnpack& library) noexcept;
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  /// An operator for one call, back at its end.
  class Lease {
   public:
    /// An idle operator of `variant`, or a new one.
    Lease(PackedWeights& weights, int64_t variant, Create create) noexcept;
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    /// Null where XNNPACK made none.
    XnnOperator* get() const noexcept { return operator_; }

   private:
    PackedWeights& weights_;
    int64_t variant_;
    XnnOperator* operator_;
  };

 private:
  struct Operator {
    int64_t variant;
    XnnOperator* op;
  };
  struct Packed {
    XnnWeightsKey key;
    std::unique_ptr<void, void (*)(void*)> data;
  };

  XnnOperator* take(int64_t variant, Create create) noexcept;
  void give(int64_t variant, XnnOperator* op) noexcept;

  static size_t look_up(void* context, const XnnWeightsKey* key);
  static void* reserve_space(void* context, size_t nbytes);
  static size_t look_up_or_insert(void* context, const XnnWeightsKey* key, void* data, size_t);

  const Xnnpack& library_;
  XnnWeightsCache cache_;
  std::mutex mutex_;
  std::vector<Operator> idle_;
  std::vector<Packed> packed_;
};

}  // namespace aoti_plugins::cpu
