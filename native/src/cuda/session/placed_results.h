#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/driver/stream.h"
#include "delegate/delegate_device.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Lets a model compute its results where the program wants them, without a copy at the end.
///
/// Generated code allocates its results itself. For the same shapes it allocates the same things in
/// the same order, so the first run tells which allocation becomes which result; in later runs
/// these are answered with the program's memory. Where a run goes another way, its results are
/// copied as always.
class PlacedResults {
 public:
  /// Runs the model of a call on `stream`, which is this thread's current one.
  Status run_model(ModelCall& call, Stream& stream) noexcept;

  /// Whether all results of the call will be computed in the program's memory, as far as is known.
  bool places_all(ModelCall& call) const noexcept;

 private:
  /// The allocation that becomes a result, and what the result was.
  struct Place {
    static constexpr size_t kNone = SIZE_MAX;
    size_t ordinal = kNone;
    size_t nbytes = 0;
    std::vector<int64_t> sizes;
  };

  Status run(ModelCall& call, Stream& stream);
  void* memory_for(ModelCall& call, size_t index) const noexcept;
  void serve(ModelCall& call);
  bool check(ModelCall& call) const noexcept;
  void learn(ModelCall& call);
  Status separate(ModelCall& call);

  AllocationLog log_;
  std::vector<Place> places_;
  bool known_ = false;
};

}  // namespace aoti_plugins::cuda
