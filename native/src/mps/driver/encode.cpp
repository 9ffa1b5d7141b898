#include "mps/driver/encode.h"

#include "mps/driver/metal_values.h"
#include "mps/driver/stream.h"
#include "mps/memory/buffer_index.h"

namespace aoti_plugins::mps {
namespace {

/// Metal's argument table of a kernel.
constexpr unsigned kMaxArguments = 31;
static_assert(kFaultArgument < kMaxArguments);

Status current_encoder(Id* ret) noexcept {
  Stream* stream = nullptr;
  AOTIP_RETURN_IF_FAILED(require_stream(&stream));
  AOTIP_RETURN_IF_FAILED(stream->check_fault());
  return stream->commands().encoder(ret);
}

/// Bytes from the first to the last element of a tensor that has some.
size_t span_nbytes(const Tensor& tensor) noexcept {
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.ndim(); ++d) {
    last += (tensor.size(d) - 1) * tensor.stride(d);
  }
  return static_cast<size_t>(last + 1) * tensor.itemsize();
}

bool is_empty(Size size) noexcept {
  return size.x == 0 || size.y == 0 || size.z == 0;
}

MetalSize metal_size(Size size) noexcept {
  return {size.x, size.y, size.z};
}

Status check_group(const Kernel& kernel, Size group) noexcept {
  size_t threads = 0;
  const bool overflow = __builtin_mul_overflow(group.x, group.y, &threads) ||
                        __builtin_mul_overflow(threads, group.z, &threads);
  AOTIP_CHECK(!overflow && threads > 0 && threads <= kernel.max_threads(),
              "kernel '%s' cannot run in groups of %zu x %zu x %zu threads, this GPU allows it %zu",
              kernel.name().c_str(), group.x, group.y, group.z, kernel.max_threads());
  return Status::kOk;
}

Status dispatch(const Kernel& kernel, Selector how, Size size, Size group) noexcept {
  if (is_empty(size)) {
    return Status::kOk;
  }
  AOTIP_RETURN_IF_FAILED(check_group(kernel, group));
  Id encoder = nullptr;
  AOTIP_RETURN_IF_FAILED(current_encoder(&encoder));
  send<void, MetalSize, MetalSize>(encoder, how, metal_size(size), metal_size(group));
  return current_stream()->commands().kernel_encoded();
}

}  // namespace

Status begin_kernel(const Kernel& kernel) noexcept {
  Id encoder = nullptr;
  AOTIP_RETURN_IF_FAILED(current_encoder(&encoder));
  send<void, Id>(encoder, selectors().setPipeline, kernel.pipeline());
  if (!kernel.tells_faults()) {
    return Status::kOk;
  }
  int32_t* word = nullptr;
  AOTIP_RETURN_IF_FAILED(current_stream()->fault_word(&word));
  return bind_memory(kFaultArgument, word, sizeof(*word));
}

Status bind_tensor(unsigned index, const Tensor& tensor) noexcept {
  if (tensor.numel() == 0) {
    return bind_memory(index, nullptr, 0);
  }
  if (tensor.device().type == kMps) {
    return bind_memory(index, tensor.data(), span_nbytes(tensor));
  }
  AOTIP_CHECK(tensor.device().type == kCpu && span_nbytes(tensor) <= kMaxBytes,
              "argument %u of a kernel is on %s, expected mps, or cpu and at most %zu bytes", index,
              device_type_name(tensor.device().type), kMaxBytes);
  return bind_bytes(index, tensor.data(), span_nbytes(tensor));
}

Status bind_memory(unsigned index, const void* data, size_t nbytes) noexcept {
  if (nbytes == 0) {
    static constexpr char kNothing[16] = {};
    return bind_bytes(index, kNothing, sizeof(kNothing));
  }
  AOTIP_CHECK(index < kMaxArguments, "a kernel has at most %u arguments, this is one with index %u",
              kMaxArguments, index);
  BufferSlice slice;
  const Status found = BufferIndex::instance().find(data, nbytes, &slice);
  AOTIP_CHECK(found == Status::kOk, "argument %u of a kernel: %s", index, last_failure());
  Id encoder = nullptr;
  AOTIP_RETURN_IF_FAILED(current_encoder(&encoder));
  send<void, Id, UInteger, UInteger>(encoder, selectors().setBuffer, slice.buffer, slice.offset,
                                     index);
  return Status::kOk;
}

Status bind_bytes(unsigned index, const void* data, size_t nbytes) noexcept {
  AOTIP_CHECK(index < kMaxArguments, "a kernel has at most %u arguments, this is one with index %u",
              kMaxArguments, index);
  AOTIP_CHECK(data != nullptr && nbytes > 0 && nbytes <= kMaxBytes,
              "argument %u of a kernel has %zu bytes, expected 1 to %zu", index, nbytes, kMaxBytes);
  Id encoder = nullptr;
  AOTIP_RETURN_IF_FAILED(current_encoder(&encoder));
  send<void, const void*, UInteger, UInteger>(encoder, selectors().setBytes, data, nbytes, index);
  return Status::kOk;
}

Status dispatch_threads(const Kernel& kernel, Size grid, Size group) noexcept {
  return dispatch(kernel, selectors().dispatchThreads, grid, group);
}

Status dispatch_groups(const Kernel& kernel, Size groups, Size group) noexcept {
  return dispatch(kernel, selectors().dispatchGroups, groups, group);
}

}  // namespace aoti_plugins::mps
