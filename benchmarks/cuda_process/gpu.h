#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <vector>

/// Ends the process with the name of the call that failed.
void check(CUresult code, const char* call);
#define CHECK_CU(call) check((call), #call)

/// Makes the first GPU's primary context current.
void use_gpu();

/// Bytes of device memory that are free.
size_t free_nbytes();

/// Device memory, freed with the object.
class DeviceMemory {
 public:
  /// @param nbytes may be 0.
  explicit DeviceMemory(size_t nbytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return reinterpret_cast<void*>(ptr_); }
  void write(const void* data, size_t nbytes);

 private:
  CUdeviceptr ptr_ = 0;
};

/// Takes all device memory but `spare` bytes.
std::vector<DeviceMemory> fill_device(size_t spare);

/// Milliseconds of one copy from page-locked memory to the GPU; the median of five.
double pinned_copy_ms(size_t nbytes);
