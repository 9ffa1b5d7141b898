#include "delegate/delegate_device.h"

#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <variant>
#include <vector>

#include "cpu/memory/constant_memory.h"
#include "cpu/memory/kept_blocks.h"
#include "delegate/constants.h"
#include "delegate/target.h"
#include "ops/random.h"
#include "slim/strided_copy.h"

namespace aoti_plugins {
namespace {

/// A storage that nothing writes to.
struct Constant {
  Constant(std::shared_ptr<ConstantStorage> bytes, uint64_t nbytes)
      : storage(std::move(bytes)), memory(storage->data(), nbytes) {}

  std::shared_ptr<ConstantStorage> storage;
  cpu::ConstantMemory memory;
};

/// Programs that are loaded.
std::atomic<int64_t> sessions{0};

class CpuSession final : public DeviceSession {
 public:
  CpuSession() noexcept { sessions.fetch_add(1, std::memory_order_relaxed); }
  ~CpuSession() override {
    if (sessions.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      cpu::release_kept_blocks();
    }
  }

  Device device() const noexcept override { return {}; }
  std::string model_device() const override { return "cpu"; }

  Status import_tensor(const ValueMemory& value, const int64_t* strides,
                       Tensor** ret) noexcept override {
    AOTIP_RETURN_IF_FAILED(check(value));
    if (value.has_strides(strides)) {
      *ret = Tensor::borrow(value.data, value.ndim, value.sizes, strides, 0, value.dtype, {});
      return *ret != nullptr ? Status::kOk : Status::kFailed;
    }
    *ret = Tensor::empty_strided(value.ndim, value.sizes, strides, value.dtype, {});
    AOTIP_RETURN_IF_NULL(*ret);
    if (value.data != nullptr) {
      strided_copy_raw((*ret)->data(), strides, value.data, value.strides, value.ndim, value.sizes,
                       element_nbytes(value.dtype));
    }
    return Status::kOk;
  }

  Status export_tensor(const Tensor& result, const ValueMemory& to) noexcept override {
    AOTIP_RETURN_IF_FAILED(check(to));
    AOTIP_CHECK(result.device().type == kCpu, "the model returns %s memory, expected cpu",
                device_type_name(result.device().type));
    if (to.has_strides(result.strides())) {
      // The runtime's tensors have no gaps.
      std::memmove(to.data, result.data(), result.nbytes());
    } else {
      strided_copy_raw(to.data, to.strides, result.data(), result.strides(), to.ndim, to.sizes,
                       result.itemsize());
    }
    return Status::kOk;
  }

  std::shared_ptr<ConstantStorage> load_storage(const ::executorch::runtime::NamedDataMap& map,
                                                const StorageRef& ref, bool writable) override {
    auto storage = load_host_storage(map, ref, writable);
    if (writable || storage == nullptr) {
      return storage;
    }
    const auto constant = std::make_shared<Constant>(std::move(storage), ref.nbytes);
    return {constant, constant->storage.get()};
  }

 private:
  static Status check(const ValueMemory& value) {
    AOTIP_CHECK(value.device.type == kCpu, "the program has it on %s, expected cpu",
                device_type_name(value.device.type));
    return Status::kOk;
  }
};

class CpuDelegateDevice final : public DelegateDevice {
 public:
  const char* name() const noexcept override { return "cpu"; }
  bool is_available() const noexcept override { return true; }

  Status choose_target(const Payload& payload, int32_t,
                       const TargetArtifact** ret) const noexcept override {
    return aoti_plugins::choose_target(payload, ret);
  }

  const std::vector<DelegateOption>& options() const noexcept override {
    static const auto* all = new std::vector<DelegateOption>{
        {"seed", [] { return DelegateOption::Value(ops::random_seed()); },
         [](const DelegateOption::Value& value) {
           ops::set_random_seed(std::get<int>(value));
           return true;
         },
         "what the random numbers to come are made from"}};
    return *all;
  }

  std::unique_ptr<DeviceSession> open(const Payload&, int32_t,
                                      LoadOptions options) const noexcept override {
    if (!options.empty()) {
      (void)fail(
          "a program for the cpu cannot be loaded with option '%.*s', the options are: %s (int)",
          static_cast<int>(sizeof(options[0].key)), options[0].key, kSharedStateOption);
      return nullptr;
    }
    try {
      return std::make_unique<CpuSession>();
    } catch (const std::exception& error) {
      (void)fail("opening the cpu: %s", error.what());
      return nullptr;
    }
  }
};

}  // namespace

DelegateDevice& cpu_delegate_device() noexcept {
  static CpuDelegateDevice device;
  return device;
}

}  // namespace aoti_plugins
