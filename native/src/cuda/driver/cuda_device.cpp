#include "cuda/driver/cuda_device.h"

#include <algorithm>
#include <cstring>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/stream.h"
#include "cuda/ops/strided_loops.h"
#include "slim/element.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::cuda {
namespace {

/// Whether the bytes of two tensors of one dtype stand in the same order without gaps.
bool same_bytes(const Tensor& dst, const Tensor& src) {
  if (dst.dtype() != src.dtype()) {
    return false;
  }
  if (dst.is_contiguous() && src.is_contiguous()) {
    return true;
  }
  for (int64_t d = 0; d < dst.ndim(); ++d) {
    if (dst.size(d) != 1 && dst.stride(d) != src.stride(d)) {
      return false;
    }
  }
  return dst.is_dense();
}

// For elements of 1, 2, 4, 8 and 16 bytes.
constexpr const char* kCopyKernels[] = {"aotip_copy_1", "aotip_copy_2", "aotip_copy_4",
                                        "aotip_copy_8", "aotip_copy_16"};
constexpr const char* kFillKernels[] = {"aotip_fill_1", "aotip_fill_2", "aotip_fill_4",
                                        "aotip_fill_8", "aotip_fill_16"};

const char* kernel_of(const char* const (&kernels)[5], size_t itemsize) {
  return kernels[__builtin_ctzll(itemsize)];
}

/// Between two tensors on one GPU.
Status copy_on_gpu(Tensor& dst, const Tensor& src) {
  if (same_bytes(dst, src)) {
    AOTIP_CU(cuMemcpyDtoDAsync, device_address(dst.data()), device_address(src.data()),
             dst.nbytes(), current_stream().handle);
    return Status::kOk;
  }
  StridedLoops loops;
  AOTIP_RETURN_IF_FAILED(make_strided_loops(dst, src.strides(), &loops));
  void* to = dst.data();
  const void* from = src.data();
  if (dst.dtype() == src.dtype()) {
    void* arguments[] = {&to, &from, &loops};
    return launch_elements(dst.device().index, kernel_of(kCopyKernels, dst.itemsize()), loops.numel,
                           arguments);
  }
  AOTIP_CHECK(is_convertible(dst.dtype()) && is_convertible(src.dtype()),
              "copy: no conversion from %s to %s", dtype_name(src.dtype()),
              dtype_name(dst.dtype()));
  int32_t to_dtype = dst.dtype();
  int32_t from_dtype = src.dtype();
  void* arguments[] = {&to, &to_dtype, &from, &from_dtype, &loops};
  return launch_elements(dst.device().index, "aotip_convert", loops.numel, arguments);
}

/// Bytes in the same order on both sides, to or from the host or another GPU.
Status copy_bytes(Tensor& dst, const Tensor& src) {
  const size_t nbytes = dst.nbytes();
  const CUstream stream = current_stream().handle;
  if (src.device().type == kCpu) {
    AOTIP_CU(cuMemcpyHtoDAsync, device_address(dst.data()), src.data(), nbytes, stream);
    AOTIP_CU(cuStreamSynchronize, stream);  // the caller may free or change the source
  } else if (dst.device().type == kCpu) {
    AOTIP_CU(cuMemcpyDtoHAsync, dst.data(), device_address(src.data()), nbytes, stream);
    AOTIP_CU(cuStreamSynchronize, stream);
  } else {
    AOTIP_CU(cuMemcpyAsync, device_address(dst.data()), device_address(src.data()), nbytes, stream);
  }
  return Status::kOk;
}

/// Between devices: the elements in order and dtype of one side, moved, and put into place on the
/// other.
Status copy_across(Tensor& dst, const Tensor& src) {
  if (same_bytes(dst, src)) {
    return copy_bytes(dst, src);
  }
  int64_t strides[Tensor::kMaxDims];
  dense_strides(src, strides);
  const auto like = [&](Device device) {
    return OwnedTensor(
        Tensor::empty_strided(src.ndim(), src.sizes(), strides, src.dtype(), device));
  };
  const OwnedTensor here = like(src.device());
  const OwnedTensor there = like(dst.device());
  if (here == nullptr || there == nullptr) {
    return Status::kFailed;
  }
  const auto copy_local = [](Tensor& to, const Tensor& from) {
    return to.device().type == kCpu ? strided_copy(to, from) : copy_on_gpu(to, from);
  };
  AOTIP_RETURN_IF_FAILED(copy_local(*here, src));
  AOTIP_RETURN_IF_FAILED(copy_bytes(*there, *here));
  return copy_local(dst, *there);
}

class CudaDevice final : public DeviceInterface {
 public:
  bool has_index(int32_t index) const noexcept override { return find_gpu(index) != nullptr; }

  void* allocate(size_t nbytes, int32_t index, void** ret_owner) noexcept override {
    const CurrentStream& current = current_stream();
    if (current.owner != nullptr && current.owner->gpu() == index) {
      void* ptr = current.owner->allocate(nbytes);
      *ret_owner = ptr != nullptr ? current.owner : nullptr;
      return ptr;
    }
    const ContextGuard guard;
    MemoryPool* pool = MemoryPool::of(index);
    if (pool == nullptr || use_gpu(index) != Status::kOk) {
      return nullptr;
    }
    void* ptr = pool->allocate(nbytes, stream_for(index));
    if (ptr == nullptr) {
      Stream::release_all_kept(index);
      ptr = pool->allocate(nbytes, stream_for(index));
    }
    return ptr;
  }

  void deallocate(void* ptr, size_t nbytes, int32_t index, void* owner) noexcept override {
    if (ptr == nullptr) {
      return;
    }
    if (owner != nullptr) {
      static_cast<Stream*>(owner)->deallocate(ptr, nbytes);
      return;
    }
    const ContextGuard guard;
    MemoryPool* pool = MemoryPool::of(index);
    if (pool != nullptr && use_gpu(index) == Status::kOk) {
      pool->deallocate(ptr, nbytes, stream_for(index));
    }
  }

  Status fill_zero(void* ptr, size_t nbytes, int32_t index) noexcept override {
    if (nbytes == 0) {
      return Status::kOk;
    }
    const ContextGuard guard;
    AOTIP_RETURN_IF_FAILED(use_gpu(index));
    AOTIP_CU(cuMemsetD8Async, device_address(ptr), 0, nbytes, current_stream().handle);
    return Status::kOk;
  }

  Status copy(Tensor& dst, const Tensor& src) noexcept override {
    AOTIP_CHECK(
        dst.ndim() == src.ndim() && std::equal(dst.sizes(), dst.sizes() + dst.ndim(), src.sizes()),
        "copy: the sizes of source and destination differ");
    if (dst.numel() == 0) {
      return Status::kOk;
    }
    const ContextGuard guard;
    AOTIP_RETURN_IF_FAILED(
        use_gpu(dst.device().type == kCuda ? dst.device().index : src.device().index));
    return dst.device() == src.device() ? copy_on_gpu(dst, src) : copy_across(dst, src);
  }

  Status copy_to_host(void* dst, const void* src, size_t nbytes, int32_t index) noexcept override {
    if (nbytes == 0) {
      return Status::kOk;
    }
    const ContextGuard guard;
    AOTIP_RETURN_IF_FAILED(use_gpu(index));
    AOTIP_CU(cuMemcpyDtoHAsync, dst, device_address(src), nbytes, current_stream().handle);
    AOTIP_CU(cuStreamSynchronize, current_stream().handle);
    return Status::kOk;
  }

 private:
  /// The stream that orders work without a stream of ours; a stream of another GPU cannot.
  static CUstream stream_for(int32_t index) {
    const CurrentStream& current = current_stream();
    return current.owner == nullptr || current.owner->gpu() == index ? current.handle : nullptr;
  }
};

}  // namespace

DeviceInterface& cuda_device() noexcept {
  static CudaDevice device;
  return device;
}

int32_t gpu_of_address(const void* ptr) noexcept {
  unsigned int type = 0;
  if (driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     device_address(ptr)) != CUDA_SUCCESS ||
      type != CU_MEMORYTYPE_DEVICE) {
    return -1;
  }
  int index = 0;
  if (gpus().size() > 1 &&
      driver().cuPointerGetAttribute(&index, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                     device_address(ptr)) != CUDA_SUCCESS) {
    return -1;
  }
  return index;
}

OwnedTensor row_major_copy(const Tensor& from) noexcept {
  OwnedTensor copy(Tensor::empty(from.ndim(), from.sizes(), from.dtype(), from.device()));
  if (copy != nullptr && cuda_device().copy(*copy, from) != Status::kOk) {
    copy.reset();
  }
  return copy;
}

Status fill(Tensor& tensor, const void* element) noexcept {
  if (tensor.numel() == 0) {
    return Status::kOk;
  }
  const ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(use_gpu(tensor.device().index));
  const size_t count = static_cast<size_t>(tensor.numel());
  const CUdeviceptr dst = device_address(tensor.data());
  const CUstream stream = current_stream().handle;
  uint32_t bits = 0;
  std::memcpy(&bits, element, std::min(tensor.itemsize(), sizeof(bits)));
  if (tensor.is_dense() && tensor.itemsize() == 1) {
    AOTIP_CU(cuMemsetD8Async, dst, static_cast<unsigned char>(bits), count, stream);
  } else if (tensor.is_dense() && tensor.itemsize() == 2) {
    AOTIP_CU(cuMemsetD16Async, dst, static_cast<unsigned short>(bits), count, stream);
  } else if (tensor.is_dense() && tensor.itemsize() == 4) {
    AOTIP_CU(cuMemsetD32Async, dst, bits, count, stream);
  } else {
    const int64_t zeros[Tensor::kMaxDims] = {};
    StridedLoops loops;
    AOTIP_RETURN_IF_FAILED(make_strided_loops(tensor, zeros, &loops));
    void* to = tensor.data();
    ElementBytes value;
    std::memcpy(value.bytes, element, tensor.itemsize());
    void* arguments[] = {&to, &value, &loops};
    return launch_elements(tensor.device().index, kernel_of(kFillKernels, tensor.itemsize()),
                           loops.numel, arguments);
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
