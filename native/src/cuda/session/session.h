#pragma once

#include <cuda.h>

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/driver/event.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/module_log.h"
#include "cuda/driver/stream.h"
#include "cuda/libraries/early_libraries.h"
#include "cuda/memory/staging.h"
#include "cuda/memory/upload.h"
#include "cuda/ops/tf32.h"
#include "cuda/session/call_graphs.h"
#include "cuda/session/kernel_events.h"
#include "cuda/session/placed_results.h"
#include "delegate/delegate_device.h"

namespace aoti_plugins::cuda {

/// One delegate's part of a GPU: a stream of its own, its memory, and staging for what comes from
/// and goes to the host.
///
/// A call with inputs on the GPU runs on the legacy default stream, in whose order these are,
/// unless option `own_streams` is set; others run on the session's. Inputs on the GPU are used
/// where they are. Host inputs up to `kStagedNbytes` travel together in one copy from page-locked
/// memory. Outputs go where the program wants them; where one of those is host memory the call
/// waits for the stream, else it does not, nor where outputs are wanted later: then two calls may
/// be begun at a time.
class CudaSession final : public DeviceSession {
 public:
  /// @param flags of the payload.
  /// @param graphs whether calls become CUDA graphs.
  /// @param in_order whether calls wait for those of other sessions: for buffers that they share.
  /// Null, with a reason, when it fails.
  static std::unique_ptr<CudaSession> create(int32_t gpu, uint32_t flags, bool graphs = false,
                                             bool in_order = false) noexcept;

  ~CudaSession() override;

  Device device() const noexcept override { return {kCuda, gpu_}; }
  std::string model_device() const override { return "cuda:" + std::to_string(gpu_); }
  void* stream() const noexcept override;
  void* plain_function(const char* name) const noexcept override;
  Status enter() noexcept override;
  void leave() noexcept override;
  Status begin_call() noexcept override;
  Status import_tensor(const ValueMemory& value, const int64_t* strides,
                       Tensor** ret) noexcept override;
  Status inputs_done() noexcept override;
  Status perform(ModelCall& call) noexcept override;
  Status export_tensor(const Tensor& result, const ValueMemory& to) noexcept override;
  Status end_call() noexcept override;
  Status outputs_later() noexcept override;
  Status finish_call() noexcept override;
  void wait() noexcept override;
  KernelClock* kernel_clock() noexcept override;
  void close() noexcept override;
  Status follow(DeviceSession& other) noexcept override;
  std::shared_ptr<ConstantStorage> load_storage(const ::executorch::runtime::NamedDataMap& map,
                                                const StorageRef& ref, bool writable) override;
  bool copies_storages() const noexcept override { return true; }
  Status loaded() noexcept override;
  void expect(const std::vector<std::string>& symbols) noexcept override;

 private:
  /// An output in page-locked memory and where its bytes go at the end of the call.
  struct HostOutput {
    void* dst;
    const char* staged;
    size_t nbytes;
  };

  /// The outputs of a call that has ended before its work: each in page-locked memory of its own.
  struct LateOutputs {
    Event there;
    std::deque<PinnedMemory> memory;
    std::vector<HostOutput> outputs;
    std::string failure;  ///< what work on the GPU found wrong since; empty: nothing
  };

  CudaSession() = default;
  void use_default_stream(bool wanted) noexcept;
  Status check_gpu(const ValueMemory& value, int32_t gpu) const noexcept;
  Status import_from_host(const ValueMemory& value, const int64_t* strides, Tensor** ret) noexcept;
  Status import_from_device(const ValueMemory& value, const int64_t* strides,
                            Tensor** ret) noexcept;
  Status perform_plain(ModelCall& call) noexcept;
  Status check_faults() noexcept;
  Status find_faults() noexcept;
  Status export_to_host(const Tensor& result, const ValueMemory& to) noexcept;
  Status copy_to_host(void* dst, const void* from, size_t nbytes) noexcept;
  Status stage_output(const ValueMemory& to, size_t nbytes, void** ret_staged) noexcept;
  Status stage_late_output(const ValueMemory& to, size_t nbytes, void** ret_staged) noexcept;

  int32_t gpu_ = 0;
  bool is_for_ranks_ = false;  // it works together with other processes
  std::optional<EarlyLibraries> early_libraries_;
  std::optional<Uploader> uploader_;  // while the delegate is loaded
  std::shared_ptr<Stream> stream_;
  PlacedResults placed_;
  std::unique_ptr<CallGraphs> graphs_;  // null: none are wanted
  std::optional<Staging> inputs_;
  std::vector<HostOutput> host_outputs_;
  PinnedMemory output_memory_;
  size_t output_used_ = 0;
  size_t output_wanted_ = 0;
  std::array<LateOutputs, 2> late_;  // of calls that were begun, from first_late_ on in turns
  size_t first_late_ = 0;
  size_t late_count_ = 0;
  LateOutputs* later_ = nullptr;    // where this call's outputs go; null: they do not come later
  Event inputs_read_;               // the device has read the staged inputs
  bool inputs_in_flight_ = false;   // since no wait for the stream followed
  bool outputs_in_flight_ = false;  // to the program's memory, without staging
  std::optional<Event> turn_;       // recorded where all streams wait for each other
  std::optional<KernelEvents> kernel_events_;  // made for the first call that is watched
  Event followed_;  // the work of a session with the same buffers; made when needed
  std::optional<ContextGuard> context_;
  std::optional<StreamScope> scope_;
  ModuleLog modules_;
  std::optional<ModuleLogScope> modules_scope_;
  Tf32 tf32_;
  std::optional<Tf32Scope> tf32_scope_;
};

}  // namespace aoti_plugins::cuda
