#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/core/span.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "delegate/delegate_device.h"
#include "delegate/model.h"
#include "delegate/shared_state.h"
#include "delegate/value_port.h"
#include "slim/status.h"

namespace aoti_plugins {

/// What a delegate is loaded with.
struct DelegateLoad {
  LoadOptions options;
  const ::executorch::runtime::NamedDataMap* map = nullptr;
  std::string method;            ///< the program's name for it, not that of the lowering
  const void* loader = nullptr;  ///< names who loads, see `SharedState::join()`; may be null
};

/// One delegate of one loaded method: what `init` returns and `execute` runs.
class Delegate {
 public:
  /// Loads the model on a device with an index; below 0 for the first, or the rank's own. Null,
  /// with a reason, when it fails.
  static std::unique_ptr<Delegate> create(const DelegateDevice& device, int32_t device_index,
                                          const DelegateLoad& load,
                                          const Payload& payload) noexcept;

  ~Delegate();
  Delegate(const Delegate&) = delete;
  Delegate& operator=(const Delegate&) = delete;

  /// Runs the model on the inputs in `args` and writes the outputs behind them. Threads take turns.
  /// @param tracer is told of each kernel; null for nobody.
  Status execute(::executorch::runtime::Span<::executorch::runtime::EValue*> args,
                 ::executorch::runtime::EventTracer* tracer = nullptr) noexcept;

  const std::string& method() const { return method_; }

 private:
  Delegate() = default;
  Status load(const DelegateDevice& device, int32_t device_index, const DelegateLoad& load,
              const Payload& payload);
  Status load_for_rank(const DelegateDevice& device, int32_t device_index, const DelegateLoad& load,
                       Payload* payload);
  class Call;

  Status run(::executorch::runtime::Span<::executorch::runtime::EValue*> args,
             bool outputs_later) noexcept;

  std::string method_;
  std::vector<ValuePort> inputs_;
  std::vector<ValuePort> outputs_;
  std::shared_ptr<SharedState> state_;  // null: nothing is written to
  std::unique_ptr<DeviceSession> session_;
  std::unique_ptr<Model> model_;
  std::mutex mutex_;
  // Handles of the call that runs; kept here so that a call allocates nothing of its own.
  std::vector<AtenTensorHandle> input_handles_;
  std::vector<AtenTensorHandle> output_handles_;
};

}  // namespace aoti_plugins
