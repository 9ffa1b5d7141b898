#pragma once

#include <executorch/runtime/core/function_ref.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cpu/math/packed_weights.h"
#include "cpu/memory/constant_memory.h"
#include "slim/status.h"

namespace aoti_plugins::cpu {

/// Products with the transpose of a constant weight [n, k], by XNNPACK, on the team of threads. The
/// weight is packed in parts of its rows, which are the columns of the result.
class PackedProduct final : public Derived {
 public:
  /// Makes an operator for `count` rows of the weight from `begin` on; returns XNNPACK's status.
  using Create =
      std::function<int(int64_t begin, int64_t count, XnnWeightsCache* cache, XnnOperator** ret)>;
  /// Reshapes, sets up and runs an operator for `count` rows of the input from `row` on; what it
  /// computes are the columns from `column` on. False where that failed.
  using Run = ::executorch::runtime::FunctionRef<bool(XnnOperator* op, int64_t row, int64_t count,
                                                      int64_t column)>;

  PackedProduct(const Xnnpack& library, int64_t n, int64_t k, Create create);

  /// Runs all columns for `m` rows.
  Status run(int64_t m, Run run) noexcept;

 private:
  int64_t n_;
  int64_t k_;
  int64_t step_;
  Create create_;
  std::vector<std::unique_ptr<PackedWeights>> parts_;
};

}  // namespace aoti_plugins::cpu
