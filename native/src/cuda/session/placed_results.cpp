#include "cuda/session/placed_results.h"

#include <algorithm>
#include <exception>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/stream.h"
#include "cuda/ranks/sends_ahead.h"
#include "shim/run_shim.h"

namespace aoti_plugins::cuda {
namespace {

/// Whether some input has elements in the memory. The model may write it before it reads them.
bool is_read(ModelCall& call, const void* memory, size_t nbytes) {
  const char* start = static_cast<const char*>(memory);
  for (AtenTensorHandle handle : call.inputs()) {
    const Tensor& input = *unwrap(handle);
    const char* data = static_cast<const char*>(input.defined() ? input.data() : nullptr);
    if (data != nullptr && data < start + nbytes && start < data + input.nbytes()) {
      return true;
    }
  }
  return false;
}

}  // namespace

Status PlacedResults::run_model(ModelCall& call, Stream& stream) noexcept {
  try {
    return run(call, stream);
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

Status PlacedResults::run(ModelCall& call, Stream& stream) {
  log_.made.clear();
  log_.served.clear();
  if (known_) {
    serve(call);
  }
  stream.log_allocations(&log_);
  begin_run_of_sums();
  const Status status = call.run_model();
  stream.log_allocations(nullptr);
  AOTIP_RETURN_IF_FAILED(status);
  if (!known_ || !check(call)) {
    learn(call);
    return separate(call);
  }
  return Status::kOk;
}

/// The program's memory for a result, if the result can be computed there; else null.
void* PlacedResults::memory_for(ModelCall& call, size_t index) const noexcept {
  const Place& place = places_[index];
  void* memory = nullptr;
  if (place.ordinal == Place::kNone ||
      call.place(index, static_cast<int64_t>(place.sizes.size()), place.sizes.data(), &memory) !=
          Status::kOk ||
      memory == nullptr || gpu_of_address(memory) != current_stream().owner->gpu() ||
      is_read(call, memory, place.nbytes)) {
    return nullptr;
  }
  return memory;
}

bool PlacedResults::places_all(ModelCall& call) const noexcept {
  for (size_t i = 0; i < places_.size(); ++i) {
    if (memory_for(call, i) == nullptr) {
      return false;
    }
  }
  return known_;
}

/// Says which allocations get the program's memory.
void PlacedResults::serve(ModelCall& call) {
  for (size_t i = 0; i < places_.size(); ++i) {
    if (void* memory = memory_for(call, i)) {
      log_.served.push_back({places_[i].ordinal, memory, places_[i].nbytes});
    }
  }
}

/// Whether every allocation that was answered with the program's memory became that result.
bool PlacedResults::check(ModelCall& call) const noexcept {
  size_t next = 0;
  for (size_t i = 0; i < places_.size() && next < log_.served.size(); ++i) {
    if (places_[i].ordinal != log_.served[next].ordinal) {
      continue;
    }
    if (unwrap(call.results()[i])->storage_data() != log_.served[next].memory) {
      return false;
    }
    ++next;
  }
  return true;
}

void PlacedResults::learn(ModelCall& call) {
  places_.assign(call.results().size(), Place{});
  std::vector<size_t> taken;
  for (size_t i = 0; i < places_.size(); ++i) {
    const Tensor& result = *unwrap(call.results()[i]);
    if (result.device().type != kCuda || result.storage_offset() != 0 || result.numel() == 0 ||
        result.nbytes() != result.storage_nbytes() || !call.has_layout(i, result)) {
      continue;
    }
    // Memory is used again, so the last one counts.
    const auto found = std::find_if(log_.made.rbegin(), log_.made.rend(), [&](const auto& made) {
      return made.first == result.storage_data();
    });
    const size_t ordinal = static_cast<size_t>(log_.made.rend() - found) - 1;
    if (found == log_.made.rend() || found->second != result.storage_nbytes() ||
        std::count(taken.begin(), taken.end(), ordinal) > 0) {
      continue;
    }
    taken.push_back(ordinal);
    places_[i] = {ordinal, found->second,
                  std::vector<int64_t>(result.sizes(), result.sizes() + result.ndim())};
  }
  known_ = true;
}

/// Takes results out of the program's memory, where they are in the way of each other.
Status PlacedResults::separate(ModelCall& call) {
  for (AtenTensorHandle& handle : call.results()) {
    const Tensor& result = *unwrap(handle);
    const bool is_served =
        std::any_of(log_.served.begin(), log_.served.end(),
                    [&](const auto& served) { return served.memory == result.storage_data(); });
    if (!is_served) {
      continue;
    }
    OwnedTensor copy(Tensor::empty_strided(result.ndim(), result.sizes(), result.strides(),
                                           result.dtype(), result.device()));
    if (copy == nullptr || cuda_device().copy(*copy, result) != Status::kOk) {
      return Status::kFailed;
    }
    Tensor::destroy(unwrap(handle));
    handle = wrap(copy.release());
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
