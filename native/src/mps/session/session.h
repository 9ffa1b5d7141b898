#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "delegate/delegate_device.h"
#include "mps/driver/stream.h"
#include "mps/memory/buffer_index.h"
#include "mps/session/kernel_buffers.h"

namespace aoti_plugins::mps {

/// One delegate's part of the GPU: a stream of its own.
///
/// Inputs that begin at a page are used where they are, others are copied. A call ends when the GPU
/// is done; then its outputs are copied to where the program wants them.
class MpsSession final : public DeviceSession {
 public:
  /// Null, with a reason, when it fails.
  static std::unique_ptr<MpsSession> create() noexcept;

  ~MpsSession() override;

  Device device() const noexcept override { return {kMps, 0}; }
  std::string model_device() const override { return "mps:0"; }
  Status enter() noexcept override;
  void leave() noexcept override;
  Status begin_call() noexcept override;
  Status import_tensor(const ValueMemory& value, const int64_t* strides,
                       Tensor** ret) noexcept override;
  Status perform(ModelCall& call) noexcept override;
  Status export_tensor(const Tensor& result, const ValueMemory& to) noexcept override;
  Status end_call() noexcept override;
  void wait() noexcept override;
  KernelClock* kernel_clock() noexcept override;
  std::shared_ptr<ConstantStorage> load_storage(const ::executorch::runtime::NamedDataMap& map,
                                                const StorageRef& ref, bool writable) override;

 private:
  MpsSession() = default;
  bool wrap(const ValueMemory& value, const int64_t* strides, size_t nbytes) noexcept;

  std::shared_ptr<Stream> stream_;
  std::optional<StreamScope> scope_;
  std::optional<AutoreleasePool> pool_;
  std::optional<KernelBuffers> kernel_buffers_;  // made for the first call that is watched
  std::vector<WrappedMemory> wrapped_;           // inputs of the call
};

}  // namespace aoti_plugins::mps
