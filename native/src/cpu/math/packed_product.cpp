#include "cpu/math/packed_product.h"

#include <algorithm>

#include "cpu/threads/parallel.h"
#include "cpu/threads/thread_team.h"

namespace aoti_plugins::cpu {
namespace {

// Weights of a part: about 20 microseconds of one row on one core.
constexpr int64_t kWeightsPerPart = int64_t{1} << 16;
// Several, so that a thread that comes late finds some done.
constexpr int64_t kPartsPerThread = 4;
constexpr int64_t kWorkPerThread = int64_t{1} << 19;
// What fetching a weight costs, in multiplications: it decides for few rows.
constexpr int64_t kFetchCost = 8;
// What parts of columns and of rows are multiples of: the kernels' tiles.
constexpr int64_t kColumns = 32;
constexpr int64_t kRows = 8;

int64_t divided_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

int64_t multiple_of(int64_t value, int64_t unit) {
  return divided_up(value, unit) * unit;
}

}  // namespace

PackedProduct::PackedProduct(const Xnnpack& library, int64_t n, int64_t k, Create create)
    : n_(n), k_(k), create_(std::move(create)) {
  const int64_t most = std::max<int64_t>(1, n * k / kWeightsPerPart);
  const int64_t count = std::min<int64_t>(kPartsPerThread * team_limit(), most);
  step_ = multiple_of(divided_up(n, count), kColumns);
  for (int64_t begin = 0; begin < n; begin += step_) {
    parts_.push_back(std::make_unique<PackedWeights>(library));
  }
}

Status PackedProduct::run(int64_t m, Run run) noexcept {
  const int64_t threads = threads_for(n_ * k_ * (m + kFetchCost), kWorkPerThread);
  const auto columns = static_cast<int64_t>(parts_.size());
  // The columns are cut for good; where that makes too few parts for the threads, rows are cut,
  // too.
  const int64_t wanted = threads > 1 ? threads * kPartsPerThread / columns : 1;
  const int64_t cuts = std::clamp<int64_t>(wanted, 1, divided_up(m, kRows));
  const int64_t rows = multiple_of(divided_up(m, cuts), kRows);
  const bool done = parallel_all(threads, cuts * columns, [&](int64_t i) {
    const int64_t row = i / columns * rows;
    const int64_t column = i % columns * step_;
    const int64_t count = std::min(m - row, rows);
    if (count <= 0) {
      return true;
    }
    const PackedWeights::Lease op(
        *parts_[i % columns], 0, [&](XnnWeightsCache* cache, XnnOperator** ret) {
          return create_(column, std::min(step_, n_ - column), cache, ret);
        });
    return op.get() != nullptr && run(op.get(), row, count, column);
  });
  AOTIP_CHECK(done, "XNNPACK: a product failed");
  return Status::kOk;
}

}  // namespace aoti_plugins::cpu
