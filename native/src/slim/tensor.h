#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "slim/device.h"
#include "slim/dtype.h"
#include "slim/status.h"
#include "slim/storage.h"

namespace aoti_plugins {

/// The tensor behind every `AtenTensorHandle`: sizes, strides and a storage offset over memory that
/// it shares (a `Storage`), or only borrows (no `Storage`; whoever made it keeps the memory alive).
///
/// Sizes, strides and offsets count elements. Small, and made and dropped several times per model
/// call: up to `kInlineDims` dimensions need no second allocation. Different tensors may be used
/// from different threads, also when they share a storage; one tensor may not be changed from two.
class AOTIP_CORE Tensor final {
 public:
  static constexpr int64_t kInlineDims = 6;
  static constexpr int64_t kMaxDims = 64;

  /// A tensor without storage and dtype, as a target for `assign()`.
  static Tensor* undefined() noexcept;

  /// New memory, not initialized. Null, with a reason, when an argument is wrong or memory runs
  /// out.
  static Tensor* empty_strided(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                               int32_t dtype, Device device) noexcept;

  /// New memory with row-major strides.
  static Tensor* empty(int64_t ndim, const int64_t* sizes, int32_t dtype, Device device) noexcept;

  /// A tensor over memory that the caller keeps alive. `data` is the start of the storage; the
  /// storage ends where the last element ends. Null `data` is for tensors without elements.
  static Tensor* borrow(void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides,
                        int64_t storage_offset, int32_t dtype, Device device) noexcept;

  /// Another tensor over the same storage. `storage_offset` counts from the start of the storage.
  /// Null, with a reason, when the view would leave the storage.
  Tensor* view(int64_t ndim, const int64_t* sizes, const int64_t* strides, int64_t storage_offset,
               int32_t dtype) const noexcept;

  /// Another tensor with the same sizes, strides, offset and storage.
  Tensor* alias() const noexcept;

  /// Makes this tensor what `other` is: same storage, sizes, strides, offset, dtype.
  Status assign(const Tensor& other) noexcept;

  /// Frees the tensor, and its memory when it was the last to share it. Null is allowed.
  static void destroy(Tensor* tensor) noexcept;

  bool defined() const noexcept { return dtype_ >= 0; }
  int64_t ndim() const noexcept { return ndim_; }
  int64_t numel() const noexcept { return numel_; }
  int32_t dtype() const noexcept { return dtype_; }
  size_t itemsize() const noexcept { return element_nbytes(dtype_); }
  /// Of the elements, each once.
  size_t nbytes() const noexcept { return static_cast<size_t>(numel_) * itemsize(); }
  Device device() const noexcept { return device_; }
  int64_t storage_offset() const noexcept { return storage_offset_; }
  size_t storage_nbytes() const noexcept { return storage_nbytes_; }
  void* storage_data() const noexcept { return storage_data_; }
  int64_t* sizes() const noexcept { return dims_; }
  int64_t* strides() const noexcept { return dims_ + ndim_; }
  int64_t size(int64_t d) const noexcept { return dims_[d]; }
  int64_t stride(int64_t d) const noexcept { return dims_[ndim_ + d]; }

  /// Whether the memory is somebody else's: a constant of the program, or an input.
  bool is_borrowed() const noexcept { return storage_ == nullptr; }

  /// Address of the first element, null when there is none.
  void* data() const noexcept { return data_; }

  template <typename T>
  T* data_as() const noexcept {
    return static_cast<T*>(data_);
  }

  /// Row-major without gaps. Dimensions of size 1 may have any stride; no elements count as
  /// contiguous.
  bool is_contiguous() const noexcept;

  /// Every element has its own address and there are no gaps: a clone may keep the strides.
  bool is_dense() const noexcept;

  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

 private:
  Tensor() noexcept = default;
  ~Tensor();

  /// All but the storage, of which it needs so many bytes.
  static Tensor* make(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                      int64_t storage_offset, int32_t dtype, Device device,
                      size_t* ret_nbytes) noexcept;
  void set_storage(Storage* storage, void* data, size_t nbytes) noexcept;

  Storage* storage_ = nullptr;
  void* storage_data_ = nullptr;
  void* data_ = nullptr;
  size_t storage_nbytes_ = 0;
  int64_t* dims_ = inline_dims_;
  int64_t ndim_ = 0;
  int64_t numel_ = 0;
  int64_t storage_offset_ = 0;
  Device device_{};
  int32_t dtype_ = -1;
  int64_t inline_dims_[2 * kInlineDims];
};

struct DestroyTensor {
  void operator()(Tensor* tensor) const noexcept { Tensor::destroy(tensor); }
};
using OwnedTensor = std::unique_ptr<Tensor, DestroyTensor>;

/// Writes the row-major strides of `sizes`; a size of 0 counts as 1.
AOTIP_CORE void contiguous_strides(int64_t ndim, const int64_t* sizes,
                                   int64_t* ret_strides) noexcept;

/// Writes strides without gaps in the order of memory that `tensor` has: its own strides where it
/// is dense. What a result "like" it gets. A dim of stride 0 keeps its place beside the next one,
/// as in `at::infer_dense_strides`, which generated code relies on.
AOTIP_CORE void dense_strides(const Tensor& tensor, int64_t* ret_strides) noexcept;

/// Bytes from the start of the storage to the end of the last element; 0 without elements. Fails on
/// a negative size, stride or offset, and where the result does not fit into an int64.
AOTIP_CORE Status storage_extent(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                                 int64_t storage_offset, size_t itemsize, int64_t* ret_numel,
                                 size_t* ret_nbytes) noexcept;

}  // namespace aoti_plugins
