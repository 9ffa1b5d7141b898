#pragma once

#include <aoti_plugins/runner.h>
#include <executorch/runtime/core/event_tracer.h>

#include <cstdint>
#include <deque>
#include <string>

namespace aoti_plugins::runner {

/// An event tracer that keeps times and names, and nothing else: no file, no values.
class CallTrace : public ::executorch::runtime::EventTracer {
 public:
  struct Event {
    std::string name;
    bool in_delegate = false;
    int32_t instruction = -1;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
  };

  void clear() noexcept { events_.clear(); }
  const std::deque<Event>& events() const noexcept { return events_; }

  /// An event for C; its name is borrowed until `clear()`.
  aotip_event described(size_t index) const noexcept;

  using Entry = ::executorch::runtime::EventTracerEntry;
  using Tensor = ::executorch::aten::Tensor;
  using DebugId = ::executorch::runtime::DelegateDebugIntId;
  template <typename T>
  using Result = ::executorch::runtime::Result<T>;

  void create_event_block(const char*) override {}
  Entry start_profiling(const char* name, ::executorch::runtime::ChainID chain,
                        ::executorch::runtime::DebugHandle handle) override;
  Entry start_profiling_delegate(const char* name, DebugId id) override;
  void end_profiling_delegate(Entry entry, const void* metadata, size_t metadata_len) override;
  void log_profiling_delegate(const char* name, DebugId id, et_timestamp_t start,
                              et_timestamp_t end, const void* metadata,
                              size_t metadata_len) override;
  void end_profiling(Entry entry) override;
  void track_allocation(::executorch::runtime::AllocatorID, size_t) override {}
  ::executorch::runtime::AllocatorID track_allocator(const char*) override { return 0; }
  Result<bool> log_evalue(const ::executorch::runtime::EValue&,
                          ::executorch::runtime::LoggedEValueType) override {
    return false;
  }
  Result<bool> log_intermediate_output_delegate(const char*, DebugId, const Tensor&) override {
    return false;
  }
  Result<bool> log_intermediate_output_delegate(
      const char*, DebugId, const ::executorch::runtime::ArrayRef<Tensor>) override {
    return false;
  }
  Result<bool> log_intermediate_output_delegate(const char*, DebugId, const int&) override {
    return false;
  }
  Result<bool> log_intermediate_output_delegate(const char*, DebugId, const bool&) override {
    return false;
  }
  Result<bool> log_intermediate_output_delegate(const char*, DebugId, const double&) override {
    return false;
  }
  void set_delegation_intermediate_output_filter(
      ::executorch::runtime::EventTracerFilterBase*) override {}

 private:
  Entry begin(const char* name, bool in_delegate);
  void end(const Entry& entry) noexcept;

  std::deque<Event> events_;
};

}  // namespace aoti_plugins::runner
