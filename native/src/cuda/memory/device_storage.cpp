#include "cuda/memory/device_storage.h"

#include <string>
#include <utility>

#include "cuda/driver/driver.h"
#include "cuda/driver/gpu.h"
#include "cuda/memory/device_memory.h"

namespace aoti_plugins::cuda {

using ::executorch::runtime::FreeableBuffer;

namespace {

class DeviceStorage final : public ConstantStorage {
 public:
  DeviceStorage(std::string key, int32_t gpu, LaterStatus done)
      : key_(std::move(key)), gpu_(gpu), done_(std::move(done)) {}

  ~DeviceStorage() override {
    const ContextGuard guard;
    if (data_ != nullptr && use_gpu(gpu_) == Status::kOk) {
      AOTIP_CU_LOG(cuMemFree, reinterpret_cast<CUdeviceptr>(data_));
    }
  }

  Status allocate(const StorageRef& ref) {
    CUdeviceptr ptr = 0;
    const CUresult code = allocate_device_memory(gpu_, ref.nbytes, &ptr);
    AOTIP_CHECK(code == CUDA_SUCCESS, "out of memory: the weights '%s', %llu bytes on cuda:%d: %s",
                ref.key.c_str(), static_cast<unsigned long long>(ref.nbytes), gpu_,
                error_text(code));
    data_ = reinterpret_cast<void*>(ptr);
    return Status::kOk;
  }

  Status wait() const override {
    AOTIP_CHECK(done_.get() == Status::kOk,
                "the weights '%s', which another load was copying to cuda:%d, did not get there",
                key_.c_str(), gpu_);
    return Status::kOk;
  }

  bool is_lost() const override { return done_.is_set() && done_.get() != Status::kOk; }

 private:
  std::string key_;
  int32_t gpu_;
  LaterStatus done_;
};

}  // namespace

std::shared_ptr<ConstantStorage> load_device_storage(const ::executorch::runtime::NamedDataMap& map,
                                                     const StorageRef& ref, int32_t gpu,
                                                     Uploader& uploader) {
  auto storage = std::make_shared<DeviceStorage>(ref.key, gpu, uploader.done());
  if (ref.nbytes == 0) {
    return storage;
  }
  auto bytes = read_storage(map, ref);
  if (!bytes.has_value() || storage->allocate(ref) != Status::kOk ||
      uploader.add(storage, storage->data(), std::move(*bytes), ref.nbytes) != Status::kOk) {
    return nullptr;
  }
  return storage;
}

}  // namespace aoti_plugins::cuda
