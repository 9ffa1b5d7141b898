#pragma once

#include <aoti_plugins/shim.h>
#include <executorch/runtime/backend/options.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/core/span.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "delegate/delegate_option.h"
#include "delegate/payload.h"
#include "slim/device.h"
#include "slim/export.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins {

class ConstantStorage;
class KernelClock;

/// What a program is loaded with, from ExecuTorch's `LoadBackendOptionsMap`.
using LoadOptions = ::executorch::runtime::Span<const ::executorch::runtime::BackendOption>;

/// The memory of one input or output of the program. Strides count elements.
struct AOTIP_CORE ValueMemory {
  void* data = nullptr;
  Device device;
  int32_t dtype = -1;
  int64_t ndim = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;

  bool has_strides(const int64_t* other) const noexcept;
};

/// The model's part of a call, for a session that has more to do than to run it.
class AOTIP_CORE ModelCall {
 public:
  virtual ~ModelCall();

  /// The inputs, as `import_tensor` made them. Who takes one puts null in its place.
  virtual std::vector<AtenTensorHandle>& inputs() noexcept = 0;

  /// Runs the model. Takes the inputs in any case; on success `results()` are there.
  virtual Status run_model() noexcept = 0;

  /// What the model returned. Who takes one puts null in its place.
  virtual std::vector<AtenTensorHandle>& results() noexcept = 0;

  /// Where the program wants a result of some sizes: resizes that output. Null for an output that
  /// is no tensor.
  virtual Status place(size_t index, int64_t ndim, const int64_t* sizes,
                       void** ret_data) noexcept = 0;

  /// Whether the program wants a result just as it is, in other memory.
  virtual bool has_layout(size_t index, const Tensor& result) const noexcept = 0;

  /// Gives a result to the program, by `DeviceSession::export_tensor()` if it is a tensor.
  virtual Status give(size_t index, const Tensor& result) noexcept = 0;

  /// Gives all results to the program.
  Status give_results() noexcept;
};

/// One delegate's part of a device: where its model computes, and how values get there and back.
///
/// A call is `enter`, `begin_call`, `import_tensor` for each input, `inputs_done`, `perform`,
/// `end_call`, `leave`. Calls of one session take turns.
class AOTIP_CORE DeviceSession {
 public:
  virtual ~DeviceSession();

  /// The device of the model's tensors.
  virtual Device device() const noexcept = 0;

  /// Its name for the model's container, for instance "cuda:0".
  virtual std::string model_device() const = 0;

  /// The stream that the model is given.
  virtual void* stream() const noexcept { return nullptr; }

  /// What a blob with plain names (plain_blob.h) may call under a name, by the name that PyTorch or
  /// the device's own library gives it; null for what nothing here provides.
  virtual void* plain_function(const char* name) const noexcept;

  /// Makes the device this thread's current one, until `leave()` puts back what was.
  virtual Status enter() noexcept { return Status::kOk; }
  virtual void leave() noexcept {}

  virtual Status begin_call() noexcept { return Status::kOk; }

  /// A tensor for the model with the elements of `value` and the given strides: over the same
  /// memory where device and strides are right, or else over a copy, which the call may use until
  /// its end.
  virtual Status import_tensor(const ValueMemory& value, const int64_t* strides,
                               Tensor** ret) noexcept = 0;

  virtual Status inputs_done() noexcept { return Status::kOk; }

  /// Runs the model and gives its results to the program.
  virtual Status perform(ModelCall& call) noexcept;

  /// Copies what the model returned to where the program wants it, by the end of the call at the
  /// latest. `to` has the result's sizes and dtype, and at least one element.
  virtual Status export_tensor(const Tensor& result, const ValueMemory& to) noexcept = 0;

  /// Ends a call that succeeded: outputs in host memory are there. Outputs on the device may still
  /// be in the making, in the order of the session's stream.
  virtual Status end_call() noexcept { return Status::kOk; }

  /// Asked behind `begin_call()`: outputs of this call that are in host memory may be there only
  /// after a `finish_call()`. Fails where the device does not work so, or enough calls are begun.
  virtual Status outputs_later() noexcept;

  /// Waits for the outputs of the oldest call that was asked for them later.
  virtual Status finish_call() noexcept;

  /// Waits until the device is done with what calls, failed ones too, have given it to do.
  virtual void wait() noexcept {}

  /// What times the kernels of the call that is about to begin; borrowed. Null where the thread
  /// that calls a kernel runs it. A call that is watched may take another way: the same kernels,
  /// each by itself.
  virtual KernelClock* kernel_clock() noexcept { return nullptr; }

  /// The model is about to go: waits, and drops what was kept of its calls.
  virtual void close() noexcept { wait(); }

  /// A blob that calls these functions of the runtime is about to be loaded: what they need may be
  /// made ready meanwhile.
  virtual void expect(const std::vector<std::string>& symbols) noexcept { (void)symbols; }

  /// The bytes of `ref` as the device needs them; `writable` asks for memory of the delegate's own.
  /// They may be on their way until `loaded()`.
  virtual std::shared_ptr<ConstantStorage> load_storage(
      const ::executorch::runtime::NamedDataMap& map, const StorageRef& ref, bool writable) = 0;

  /// No more storages follow: waits until their bytes are there, and drops what only that needed.
  virtual Status loaded() noexcept { return Status::kOk; }

  /// Lets work that it gives the device from here on come after what another session of the same
  /// device has given it: they use the same buffers. For devices where calls end before their work
  /// does. Neither runs a call on another thread meanwhile.
  virtual Status follow(DeviceSession& other) noexcept {
    (void)other;
    return Status::kOk;
  }

  /// Whether what `load_storage()` returns may outlive the map that it was read from.
  virtual bool copies_storages() const noexcept { return false; }
};

/// While one lives, this thread works on the session's device.
class SessionScope {
 public:
  explicit SessionScope(DeviceSession& session) noexcept
      : session_(session), status_(session.enter()) {}
  ~SessionScope() {
    if (status_ == Status::kOk) {
      session_.leave();
    }
  }
  SessionScope(const SessionScope&) = delete;
  SessionScope& operator=(const SessionScope&) = delete;

  /// Whether the device could be entered.
  Status status() const noexcept { return status_; }

 private:
  DeviceSession& session_;
  Status status_;
};

/// What a device brings to the delegate. One object per device type, as long as the process.
class AOTIP_CORE DelegateDevice {
 public:
  virtual ~DelegateDevice();

  /// The device's name in payloads.
  virtual const char* name() const noexcept = 0;

  /// Whether programs can run here now; false comes with a reason.
  virtual bool is_available() const noexcept = 0;

  /// Picks the target whose code runs on the device with this index. The reason of a failure lists
  /// what the program was made for and what is here.
  virtual Status choose_target(const Payload& payload, int32_t device_index,
                               const TargetArtifact** ret) const noexcept = 0;

  /// The index of the device that is a rank's own, by the rank's number on this machine.
  virtual int32_t index_for_rank(int32_t local_rank) const noexcept {
    (void)local_rank;
    return 0;
  }

  /// The options of the device's backend; borrowed for the life of the process.
  virtual const std::vector<DelegateOption>& options() const noexcept;

  /// A session for one delegate; null, with a reason, when it fails.
  ///
  /// @param specs options that this program is loaded with, by the rules of `options()`.
  virtual std::unique_ptr<DeviceSession> open(const Payload& payload, int32_t device_index,
                                              LoadOptions specs) const noexcept = 0;
};

/// The CPU: memory of the program in place, no stream, targets by instruction set.
DelegateDevice& cpu_delegate_device() noexcept;

}  // namespace aoti_plugins
