#include "cuda/device_storage.h"

#include <future>

#include "cuda/device_memory.h"
#include "cuda/driver.h"
#include "cuda/gpu.h"

namespace aoti_plugins::cuda {

using ::executorch::runtime::FreeableBuffer;

namespace {

class DeviceStorage final : public ConstantStorage {
 public:
  explicit DeviceStorage(int32_t gpu) : gpu_(gpu) {}

  ~DeviceStorage() override {
    const ContextGuard guard;
    if (data_ != nullptr && use_gpu(gpu_) == Status::kOk) {
      AOTIP_CU_LOG(cuMemFree, reinterpret_cast<CUdeviceptr>(data_));
    }
  }

  Status fill(FreeableBuffer&& bytes, const StorageRef& ref, Uploader& uploader) {
    CUdeviceptr ptr = 0;
    const CUresult code = allocate_device_memory(gpu_, ref.nbytes, &ptr);
    AOTIP_CHECK(code == CUDA_SUCCESS, "out of memory: the weights '%s', %llu bytes on cuda:%d: %s",
                ref.key.c_str(), static_cast<unsigned long long>(ref.nbytes), gpu_,
                error_text(code));
    data_ = reinterpret_cast<void*>(ptr);
    done_ = uploader.done();
    return uploader.add(data_, std::move(bytes), ref.nbytes);
  }

  Status wait() const override {
    AOTIP_CHECK(!done_.valid() || done_.get() == Status::kOk,
                "another load of the same weights, at the same time, failed");
    return Status::kOk;
  }

 private:
  int32_t gpu_;
  std::shared_future<Status> done_;
};

}  // namespace

std::shared_ptr<ConstantStorage> load_device_storage(const ::executorch::runtime::NamedDataMap& map,
                                                     const StorageRef& ref, int32_t gpu,
                                                     Uploader& uploader) {
  auto storage = std::make_shared<DeviceStorage>(gpu);
  if (ref.nbytes == 0) {
    return storage;
  }
  auto bytes = read_storage(map, ref);
  if (!bytes.has_value() || storage->fill(std::move(*bytes), ref, uploader) != Status::kOk) {
    return nullptr;
  }
  return storage;
}

}  // namespace aoti_plugins::cuda
