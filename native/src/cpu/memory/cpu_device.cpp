#include "cpu/memory/cpu_device.h"

#include <cstdlib>
#include <cstring>

#include "slim/storage.h"
#include "slim/strided_copy.h"
#include "slim/tensor.h"

namespace aoti_plugins {
namespace {

class CpuDevice final : public DeviceInterface {
 public:
  bool has_index(int32_t index) const noexcept override { return index == 0 || index == -1; }

  void* allocate(size_t nbytes, int32_t, void**) noexcept override {
    void* ptr = nullptr;
    return posix_memalign(&ptr, kStorageAlignment, nbytes) == 0 ? ptr : nullptr;
  }

  void deallocate(void* ptr, size_t, int32_t, void*) noexcept override { std::free(ptr); }

  Status fill_zero(void* ptr, size_t nbytes, int32_t) noexcept override {
    if (nbytes > 0) {
      std::memset(ptr, 0, nbytes);
    }
    return Status::kOk;
  }

  Status copy(Tensor& dst, const Tensor& src) noexcept override { return strided_copy(dst, src); }

  Status copy_to_host(void* dst, const void* src, size_t nbytes, int32_t) noexcept override {
    if (nbytes > 0) {
      std::memcpy(dst, src, nbytes);
    }
    return Status::kOk;
  }
};

}  // namespace

DeviceInterface& cpu_device() noexcept {
  static CpuDevice device;
  return device;
}

}  // namespace aoti_plugins
