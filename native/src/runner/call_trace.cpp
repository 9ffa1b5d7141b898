#include "runner/call_trace.h"

#include "delegate/kernel_clock.h"

namespace aoti_plugins::runner {

aotip_event CallTrace::described(size_t index) const noexcept {
  const Event& event = events_[index];
  return {event.name.c_str(), event.in_delegate ? 1 : 0, event.instruction, event.begin_ns,
          event.end_ns};
}

CallTrace::Entry CallTrace::begin(const char* name, bool in_delegate) {
  Event event;
  event.name = name != nullptr ? name : "";
  event.in_delegate = in_delegate;
  // Set by the method before each instruction; the handle is the instruction's index.
  if (current_chain_id() != ::executorch::runtime::kUnsetChainId) {
    event.instruction = static_cast<int32_t>(current_debug_handle());
  }
  events_.push_back(std::move(event));
  Entry entry{};
  entry.event_id = static_cast<int64_t>(events_.size()) - 1;
  events_.back().begin_ns = steady_now_ns();
  return entry;
}

void CallTrace::end(const Entry& entry) noexcept {
  const int64_t now = steady_now_ns();
  if (entry.event_id >= 0 && static_cast<size_t>(entry.event_id) < events_.size()) {
    events_[static_cast<size_t>(entry.event_id)].end_ns = now;
  }
}

CallTrace::Entry CallTrace::start_profiling(const char* name, ::executorch::runtime::ChainID,
                                            ::executorch::runtime::DebugHandle) {
  return begin(name, false);
}

CallTrace::Entry CallTrace::start_profiling_delegate(const char* name, DebugId) {
  return begin(name, true);
}

void CallTrace::end_profiling_delegate(Entry entry, const void*, size_t) {
  end(entry);
}

void CallTrace::log_profiling_delegate(const char* name, DebugId, et_timestamp_t start,
                                       et_timestamp_t end_time, const void*, size_t) {
  const Entry entry = begin(name, true);
  Event& event = events_[static_cast<size_t>(entry.event_id)];
  // ExecuTorch's ticks are nanoseconds of the same clock where no other platform is registered.
  event.begin_ns = static_cast<int64_t>(start);
  event.end_ns = static_cast<int64_t>(end_time);
}

void CallTrace::end_profiling(Entry entry) {
  end(entry);
}

}  // namespace aoti_plugins::runner
