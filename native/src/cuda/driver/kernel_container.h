#pragma once

#include <cstddef>
#include <cstdint>

#include "slim/status.h"

namespace aoti_plugins::cuda {

/// One image of a kernel container.
struct KernelImage {
  enum Kind : uint32_t { kCubin = 1, kPtx = 2 };
  uint32_t kind = 0;
  uint32_t arch = 0;  ///< compute capability as 10 * major + minor
  const void* data = nullptr;
  uint64_t nbytes = 0;
};

/// Whether `image` is a container of ours: code of one kernel for several GPUs.
///
/// Little-endian: magic "AOTIKRN1"; uint32 count; then `count` entries of uint32 kind, uint32 arch,
/// uint64 offset from the start, uint64 nbytes. Images start at multiples of 64 bytes; PTX is text
/// that ends in a null byte. Written by aoti_plugins/cuda; must match.
bool is_kernel_container(const void* image) noexcept;

/// Picks the image for a GPU: of the cubins with its major compute capability the one with the
/// highest minor that is not above it, or else the PTX with the highest compute capability that is
/// not above it. A failure names what is there.
///
/// @param nbytes size of the container; SIZE_MAX where the caller has only its address.
Status choose_kernel_image(const void* container, size_t nbytes, uint32_t device_arch,
                           KernelImage* ret) noexcept;

}  // namespace aoti_plugins::cuda
