#pragma once

/// What we use of cuFFT, declared here: the library is opened on first use and its headers are not
/// needed to build. The numbers are those of cufft.h, the same in the versions for CUDA 12 and 13.

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "slim/status.h"

namespace aoti_plugins::cuda::fft {

using Handle = int;  // cufftHandle
using Result = int;  // cufftResult

inline constexpr Result kSuccess = 0;

/// cufftType.
enum Kind : int { kC2C = 0x29, kR2C = 0x2a, kZ2Z = 0x69, kD2Z = 0x6a };

/// CUFFT_FORWARD, CUFFT_INVERSE.
enum Direction : int { kForward = -1, kInverse = 1 };

inline constexpr int64_t kMaxRank = 3;

/// The functions of the library, by their names without `cufft`.
struct Library {
  Result (*Create)(Handle* ret);
  Result (*Destroy)(Handle plan);
  Result (*SetAutoAllocation)(Handle plan, int automatic);
  Result (*MakePlanMany64)(Handle plan, int rank, long long* sizes, long long* in_embed,
                           long long in_stride, long long in_distance, long long* out_embed,
                           long long out_stride, long long out_distance, Kind kind, long long batch,
                           size_t* workspace_nbytes);
  Result (*SetStream)(Handle plan, CUstream stream);
  Result (*SetWorkArea)(Handle plan, void* workspace);
  Result (*XtExec)(Handle plan, void* in, void* out, Direction direction);
};

/// The library, opened by the first call; null, with a reason that says how to install it, when it
/// is not there.
const Library* open() noexcept;

/// What a plan is made for: `batch` dense arrays of `sizes`, one behind the other.
struct Shape {
  int32_t gpu = 0;
  Kind kind = kC2C;
  int rank = 1;
  std::array<long long, kMaxRank> sizes{};
  long long batch = 1;

  bool operator<(const Shape& other) const noexcept;
};

/// A plan that nobody else uses until the end of the scope; its work goes to this thread's current
/// stream. Plans are made on demand, with the GPU current, and are kept: up to `kKeptPlans` that
/// nobody uses, and all that a CUDA graph was captured with, since the graph uses their tables.
class PlanScope {
 public:
  static constexpr size_t kKeptPlans = 64;

  explicit PlanScope(const Shape& shape) noexcept;
  ~PlanScope();
  PlanScope(const PlanScope&) = delete;
  PlanScope& operator=(const PlanScope&) = delete;

  /// A failure, with a reason, when there is no plan.
  Status status() const noexcept { return status_; }

  size_t workspace_nbytes() const noexcept { return plan_.workspace_nbytes; }

  /// Transforms all arrays; `workspace` has the plan's size.
  Status run(void* in, void* out, Direction direction, void* workspace) const noexcept;

  struct Plan {
    Handle handle = 0;
    size_t workspace_nbytes = 0;
    bool in_graph = false;
    uint64_t last_use = 0;
  };

 private:
  Status make_ready();

  Shape shape_;
  Plan plan_;
  bool made_ = false;
  Status status_ = Status::kFailed;
};

}  // namespace aoti_plugins::cuda::fft
