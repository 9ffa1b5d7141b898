#include "mps/session/mps_device.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "mps/driver/gpu.h"
#include "mps/driver/stream.h"
#include "mps/memory/buffer_pool.h"
#include "mps/memory/device_copy.h"
#include "slim/strided_copy.h"
#include "slim/tensor.h"

namespace aoti_plugins::mps {
namespace {

Status finish_current() noexcept {
  Stream* stream = current_stream();
  return stream != nullptr ? stream->finish() : Status::kOk;
}

/// Whether the GPU should do what the CPU could do, too: the CPU would have to wait for it.
bool is_busy() noexcept {
  return current_stream() != nullptr && current_stream()->commands().pending();
}

/// The same elements as a tensor of the CPU.
OwnedTensor host_view(const Tensor& tensor) noexcept {
  return OwnedTensor(Tensor::borrow(tensor.data(), tensor.ndim(), tensor.sizes(), tensor.strides(),
                                    0, tensor.dtype(), Device{}));
}

class MpsDevice final : public DeviceInterface {
 public:
  bool has_index(int32_t index) const noexcept override {
    return index == 0 && open_gpu() != nullptr;
  }

  void* allocate(size_t nbytes, int32_t, void** ret_owner) noexcept override {
    Stream* stream = current_stream();
    *ret_owner = stream;
    if (stream != nullptr) {
      return stream->allocate(nbytes);
    }
    return open_gpu() != nullptr ? BufferPool::instance().allocate(nbytes) : nullptr;
  }

  void deallocate(void* ptr, size_t nbytes, int32_t, void* owner) noexcept override {
    if (ptr == nullptr) {
      return;
    }
    if (owner != nullptr) {
      static_cast<Stream*>(owner)->deallocate(ptr, nbytes);
      return;
    }
    // Kernels of this thread's program may still use it.
    (void)finish_current();
    BufferPool::instance().deallocate(ptr, nbytes);
  }

  Status fill_zero(void* ptr, size_t nbytes, int32_t) noexcept override {
    if (nbytes == 0) {
      return Status::kOk;
    }
    if (is_busy() && nbytes <= UINT32_MAX) {
      return zero_on_device(ptr, nbytes);
    }
    AOTIP_RETURN_IF_FAILED(finish_current());
    std::memset(ptr, 0, nbytes);
    return Status::kOk;
  }

  Status copy(Tensor& dst, const Tensor& src) noexcept override {
    AOTIP_CHECK(
        dst.ndim() == src.ndim() && std::equal(dst.sizes(), dst.sizes() + dst.ndim(), src.sizes()),
        "copy: the sizes of source and destination differ");
    for (const Tensor* tensor : {static_cast<const Tensor*>(&dst), &src}) {
      AOTIP_CHECK(tensor->device().type == kMps || tensor->device().type == kCpu,
                  "copy: %s to %s is not a copy on mps", device_type_name(src.device().type),
                  device_type_name(dst.device().type));
    }
    if (dst.numel() == 0) {
      return Status::kOk;
    }
    if (is_busy() && dst.device() == src.device() && can_copy_on_device(dst, src)) {
      return copy_on_device(dst, src);
    }
    const OwnedTensor to = host_view(dst);
    const OwnedTensor from = host_view(src);
    if (to == nullptr || from == nullptr) {
      return Status::kFailed;
    }
    AOTIP_RETURN_IF_FAILED(finish_current());
    return strided_copy(*to, *from);
  }

  Status copy_to_host(void* dst, const void* src, size_t nbytes, int32_t) noexcept override {
    if (nbytes > 0) {
      AOTIP_RETURN_IF_FAILED(finish_current());
      std::memcpy(dst, src, nbytes);
    }
    return Status::kOk;
  }
};

}  // namespace

DeviceInterface& mps_device() noexcept {
  static MpsDevice device;
  return device;
}

}  // namespace aoti_plugins::mps
