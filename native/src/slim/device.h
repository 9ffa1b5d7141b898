#pragma once

#include <cstddef>
#include <cstdint>

#include "slim/status.h"

namespace aoti_plugins {

class Tensor;

/// Device types by PyTorch's `c10::DeviceType` codes.
enum DeviceType : int32_t {
  kCpu = 0,
  kCuda = 1,
  kXpu = 12,
  kMps = 13,
  kMeta = 14,
  kPrivateUse1 = 20,
};

struct Device {
  int32_t type = kCpu;
  int32_t index = 0;

  /// There is one CPU, whatever its index: generated code numbers it -1 or 0.
  bool operator==(const Device& other) const {
    return type == other.type && (type == kCpu || index == other.index);
  }
  bool operator!=(const Device& other) const { return !(*this == other); }
};

/// What a device brings to SlimTensor: memory, copies, fill. The shims know devices only through
/// it.
///
/// Implementations are thread-safe and live as long as the library. Nothing here throws.
class AOTIP_CORE DeviceInterface {
 public:
  virtual ~DeviceInterface() = default;

  /// Whether the machine has a device of this type with this index.
  virtual bool has_index(int32_t index) const noexcept = 0;

  /// New memory, aligned to 64 bytes at least; null, with a reason, when there is not enough.
  /// `ret_owner` becomes what `deallocate()` is to be given, for instance a stream; it may be null.
  virtual void* allocate(size_t nbytes, int32_t index, void** ret_owner) noexcept = 0;

  /// Gives memory of `allocate()` back. `ptr` may be null.
  virtual void deallocate(void* ptr, size_t nbytes, int32_t index, void* owner) noexcept = 0;

  /// Sets bytes to zero, in the order of the device's stream.
  virtual Status fill_zero(void* ptr, size_t nbytes, int32_t index) noexcept = 0;

  /// Copies the elements of `src` to `dst`: equal sizes, any strides, any dtypes. At least one of
  /// them is on this device; the other may be on the CPU.
  virtual Status copy(Tensor& dst, const Tensor& src) noexcept = 0;

  /// Copies bytes of this device to host memory and waits for them.
  virtual Status copy_to_host(void* dst, const void* src, size_t nbytes,
                              int32_t index) noexcept = 0;
};

/// The interface of a device type; null when this process has none.
AOTIP_CORE DeviceInterface* find_device(int32_t type) noexcept;

/// Adds a device type. `device` must outlive every tensor; a second one for a type is refused.
AOTIP_CORE Status register_device(int32_t type, DeviceInterface* device) noexcept;

/// "cpu", "cuda", …; "unknown device type" for any other code.
AOTIP_CORE const char* device_type_name(int32_t type) noexcept;

}  // namespace aoti_plugins
