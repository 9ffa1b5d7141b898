#include "slim/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace aoti_plugins {

void contiguous_strides(int64_t ndim, const int64_t* sizes, int64_t* ret_strides) noexcept {
  int64_t stride = 1;
  for (int64_t d = ndim - 1; d >= 0; --d) {
    ret_strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
}

/// Above 0 if dim `a` should lie outside of `b`, below 0 if it should not, 0 if nothing says so.
static int outward(const Tensor& tensor, int64_t a, int64_t b) noexcept {
  const int64_t step_a = tensor.stride(a);
  const int64_t step_b = tensor.stride(b);
  if (step_a == 0 || step_b == 0) {
    return 0;
  }
  if (step_a != step_b) {
    return step_a > step_b ? 1 : -1;
  }
  return tensor.size(a) > tensor.size(b) ? 1 : 0;
}

void dense_strides(const Tensor& tensor, int64_t* ret_strides) noexcept {
  const int64_t ndim = tensor.ndim();
  if (tensor.is_dense()) {
    std::copy(tensor.strides(), tensor.strides() + ndim, ret_strides);
    return;
  }
  int64_t order[Tensor::kMaxDims];  // from the innermost on
  for (int64_t i = 0; i < ndim; ++i) {
    order[i] = ndim - 1 - i;
    for (int64_t at = i, next = i - 1; next >= 0; --next) {
      const int found = outward(tensor, order[next], order[at]);
      if (found < 0) {
        break;
      }
      if (found > 0) {
        std::swap(order[at], order[next]);
        at = next;
      }
    }
  }
  int64_t stride = 1;
  for (int64_t i = 0; i < ndim; ++i) {
    ret_strides[order[i]] = stride;
    stride *= std::max<int64_t>(tensor.size(order[i]), 1);
  }
}

Status storage_extent(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                      int64_t storage_offset, size_t itemsize, int64_t* ret_numel,
                      size_t* ret_nbytes) noexcept {
  AOTIP_CHECK(storage_offset >= 0, "storage offset %lld is negative",
              static_cast<long long>(storage_offset));
  int64_t numel = 1;
  int64_t last = storage_offset;
  bool overflow = false;
  for (int64_t d = 0; d < ndim; ++d) {
    AOTIP_CHECK(sizes[d] >= 0, "size %lld of dim %lld is negative",
                static_cast<long long>(sizes[d]), static_cast<long long>(d));
    AOTIP_CHECK(strides[d] >= 0, "stride %lld of dim %lld is negative",
                static_cast<long long>(strides[d]), static_cast<long long>(d));
    overflow |= __builtin_mul_overflow(numel, sizes[d], &numel);
    if (sizes[d] > 1) {
      int64_t reach = 0;
      overflow |= __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach);
      overflow |= __builtin_add_overflow(last, reach, &last);
    }
  }
  for (int64_t d = 0; d < ndim; ++d) {
    if (sizes[d] == 0) {
      *ret_numel = 0;
      *ret_nbytes = 0;
      return Status::kOk;
    }
  }
  int64_t nbytes = 0;
  overflow |= __builtin_add_overflow(last, 1, &last);
  overflow |= __builtin_mul_overflow(last, static_cast<int64_t>(itemsize), &nbytes);
  AOTIP_CHECK(!overflow, "sizes and strides of a %lld-dim tensor exceed 64 bits",
              static_cast<long long>(ndim));
  *ret_numel = numel;
  *ret_nbytes = static_cast<size_t>(nbytes);
  return Status::kOk;
}

Tensor::~Tensor() {
  if (storage_ != nullptr) {
    storage_->release();
  }
  if (dims_ != inline_dims_) {
    std::free(dims_);
  }
}

void Tensor::destroy(Tensor* tensor) noexcept {
  if (tensor != nullptr) {
    tensor->~Tensor();
    std::free(static_cast<void*>(tensor));
  }
}

Tensor* Tensor::undefined() noexcept {
  void* block = std::malloc(sizeof(Tensor));
  if (block == nullptr) {
    (void)fail("out of memory: a tensor handle");
    return nullptr;
  }
  return new (block) Tensor();
}

Tensor* Tensor::make(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                     int64_t storage_offset, int32_t dtype, Device device,
                     size_t* ret_nbytes) noexcept {
  if (ndim < 0 || ndim > kMaxDims) {
    (void)fail("%lld dimensions, expected 0 to %lld", static_cast<long long>(ndim),
               static_cast<long long>(kMaxDims));
    return nullptr;
  }
  if (ndim > 0 && (sizes == nullptr || strides == nullptr)) {
    (void)fail("sizes or strides are null for a %lld-dim tensor", static_cast<long long>(ndim));
    return nullptr;
  }
  if (element_nbytes(dtype) == 0) {
    (void)fail("%d is not the code of a known dtype", dtype);
    return nullptr;
  }
  OwnedTensor tensor(undefined());
  if (tensor == nullptr) {
    return nullptr;
  }
  const size_t half = static_cast<size_t>(ndim) * sizeof(int64_t);
  if (ndim > kInlineDims) {
    tensor->dims_ = static_cast<int64_t*>(std::malloc(2 * half));
    if (tensor->dims_ == nullptr) {
      tensor->dims_ = tensor->inline_dims_;
      (void)fail("out of memory: sizes of a %lld-dim tensor", static_cast<long long>(ndim));
      return nullptr;
    }
  }
  if (ndim > 0) {
    std::memcpy(tensor->dims_, sizes, half);
    std::memcpy(tensor->dims_ + ndim, strides, half);
  }
  tensor->ndim_ = ndim;
  tensor->storage_offset_ = storage_offset;
  tensor->device_ = device;
  tensor->dtype_ = dtype;
  const Status extent = storage_extent(ndim, sizes, strides, storage_offset, tensor->itemsize(),
                                       &tensor->numel_, ret_nbytes);
  return extent == Status::kOk ? tensor.release() : nullptr;
}

void Tensor::set_storage(Storage* storage, void* data, size_t nbytes) noexcept {
  storage_ = storage;
  storage_data_ = data;
  storage_nbytes_ = nbytes;
  data_ = numel_ > 0 ? static_cast<char*>(data) + static_cast<size_t>(storage_offset_) * itemsize()
                     : nullptr;
}

Tensor* Tensor::empty_strided(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                              int32_t dtype, Device device) noexcept {
  size_t nbytes = 0;
  OwnedTensor tensor(make(ndim, sizes, strides, 0, dtype, device, &nbytes));
  Storage* storage = tensor != nullptr ? Storage::allocate(nbytes, device) : nullptr;
  if (storage == nullptr) {
    return nullptr;
  }
  tensor->set_storage(storage, storage->data(), nbytes);
  return tensor.release();
}

Tensor* Tensor::empty(int64_t ndim, const int64_t* sizes, int32_t dtype, Device device) noexcept {
  int64_t strides[kMaxDims];
  if (ndim > 0 && ndim <= kMaxDims && sizes != nullptr) {
    contiguous_strides(ndim, sizes, strides);
  }
  return empty_strided(ndim, sizes, strides, dtype, device);
}

Tensor* Tensor::borrow(void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides,
                       int64_t storage_offset, int32_t dtype, Device device) noexcept {
  size_t nbytes = 0;
  OwnedTensor tensor(make(ndim, sizes, strides, storage_offset, dtype, device, &nbytes));
  if (tensor == nullptr) {
    return nullptr;
  }
  if (data == nullptr && tensor->numel_ > 0) {
    (void)fail("data is null for a tensor of %lld elements",
               static_cast<long long>(tensor->numel_));
    return nullptr;
  }
  tensor->set_storage(nullptr, data, nbytes);
  return tensor.release();
}

Tensor* Tensor::view(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                     int64_t storage_offset, int32_t dtype) const noexcept {
  size_t nbytes = 0;
  OwnedTensor tensor(make(ndim, sizes, strides, storage_offset, dtype, device_, &nbytes));
  if (tensor == nullptr) {
    return nullptr;
  }
  if (nbytes > storage_nbytes_) {
    (void)fail("a view that ends at byte %zu leaves its storage of %zu bytes", nbytes,
               storage_nbytes_);
    return nullptr;
  }
  if (storage_ != nullptr) {
    storage_->retain();
  }
  tensor->set_storage(storage_, storage_data_, storage_nbytes_);
  return tensor.release();
}

Tensor* Tensor::alias() const noexcept {
  return defined() ? view(ndim_, sizes(), strides(), storage_offset_, dtype_) : undefined();
}

Status Tensor::assign(const Tensor& other) noexcept {
  if (this == &other) {
    return Status::kOk;
  }
  int64_t* dims = inline_dims_;
  const size_t nbytes = 2 * static_cast<size_t>(other.ndim_) * sizeof(int64_t);
  if (other.ndim_ > kInlineDims) {
    dims = static_cast<int64_t*>(std::malloc(nbytes));
    AOTIP_CHECK(dims != nullptr, "out of memory: sizes of a %lld-dim tensor",
                static_cast<long long>(other.ndim_));
  }
  if (other.storage_ != nullptr) {
    other.storage_->retain();
  }
  if (storage_ != nullptr) {
    storage_->release();
  }
  if (dims_ != inline_dims_) {
    std::free(dims_);
  }
  dims_ = dims;
  std::memcpy(dims_, other.dims_, nbytes);
  storage_ = other.storage_;
  storage_data_ = other.storage_data_;
  data_ = other.data_;
  storage_nbytes_ = other.storage_nbytes_;
  ndim_ = other.ndim_;
  numel_ = other.numel_;
  storage_offset_ = other.storage_offset_;
  device_ = other.device_;
  dtype_ = other.dtype_;
  return Status::kOk;
}

bool Tensor::is_contiguous() const noexcept {
  if (numel_ == 0) {
    return true;
  }
  int64_t expected = 1;
  for (int64_t d = ndim_ - 1; d >= 0; --d) {
    if (size(d) != 1 && stride(d) != expected) {
      return false;
    }
    expected *= size(d);
  }
  return true;
}

bool Tensor::is_dense() const noexcept {
  if (numel_ <= 1 || is_contiguous()) {
    return true;
  }
  int64_t order[kMaxDims];
  int64_t count = 0;
  for (int64_t d = 0; d < ndim_; ++d) {
    if (size(d) != 1) {
      order[count++] = d;
    }
  }
  std::sort(order, order + count, [this](int64_t a, int64_t b) { return stride(a) < stride(b); });
  int64_t expected = 1;
  for (int64_t i = 0; i < count; ++i) {
    if (stride(order[i]) != expected) {
      return false;
    }
    expected *= size(order[i]);
  }
  return true;
}

}  // namespace aoti_plugins
