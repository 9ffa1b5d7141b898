#include "mps/memory/device_copy.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>

#include "mps/driver/kernel.h"
#include "mps/driver/kernel_arguments.h"
#include "mps/kernels/sources.h"
#include "mps/ops/metal_types.h"
#include "slim/loops.h"

namespace aoti_plugins::mps {
namespace {

constexpr size_t kGroup = 256;

/// A type that moves elements as they are; null for elements of 16 bytes.
const char* raw_type(size_t itemsize) noexcept {
  switch (itemsize) {
    case 1:
      return "uchar";
    case 2:
      return "ushort";
    case 4:
      return "uint";
    case 8:
      return "ulong";
    default:
      return nullptr;
  }
}

/// The loops of a copy. False where there are too many.
bool make_loops(const Tensor& dst, const Tensor& src, CopyArgs* ret) noexcept {
  *ret = {};
  return Loops(dst.ndim(), dst.sizes(), dst.strides(), src.strides())
      .describe(COPY_DIMS, &ret->ndim, ret->sizes, ret->to, ret->from);
}

std::string types_of(const Tensor& dst, const Tensor& src) {
  const bool moves = dst.dtype() == src.dtype();
  const std::string defines =
      define("TO", std::string(moves ? raw_type(dst.itemsize()) : metal_type(dst.dtype()))) +
      define("FROM", std::string(moves ? raw_type(src.itemsize()) : metal_type(src.dtype())));
  if (moves) {
    return defines;
  }
  const bool to_integer = is_integer(dst.dtype());
  return defines + define(dst.dtype() == kBool ? "TO_BOOL"
                          : to_integer         ? "TO_INTEGER"
                                               : "TO_REAL",
                          1);
}

Size group_for(const Kernel& kernel) noexcept {
  return {std::min(kGroup, max_threads(kernel)), 1, 1};
}

/// Writes `nbytes` with a kernel, from a copy of the bytes at `from`, in steps of `stride`
/// elements.
Status copy_bytes(void* data, size_t nbytes, const void* from, size_t from_nbytes,
                  int64_t stride) noexcept {
  try {
    const bool in_words = reinterpret_cast<uintptr_t>(data) % 4 == 0 && nbytes % 4 == 0;
    const size_t count = in_words ? nbytes / 4 : nbytes;
    AOTIP_CHECK(count <= std::numeric_limits<uint32_t>::max(), "copy: %zu bytes are too many",
                nbytes);
    const std::string type = in_words ? "uint" : "uchar";
    const Kernel* kernel =
        find_kernel(metal_copy, "copy_elements", define("TO", type) + define("FROM", type));
    AOTIP_RETURN_IF_NULL(kernel);
    CopyArgs loops = {};
    loops.ndim = 1;
    loops.sizes[0] = static_cast<uint32_t>(count);
    loops.to[0] = 1;
    loops.from[0] = stride;
    return Launch(kernel)
        .memory(data, nbytes)
        .bytes(from, from_nbytes)
        .value(loops)
        .threads({count, 1, 1}, group_for(*kernel));
  } catch (const std::exception& error) {
    return fail("copy: %s", error.what());
  }
}

}  // namespace

bool can_copy_on_device(const Tensor& dst, const Tensor& src) noexcept {
  CopyArgs loops;
  const bool has_types = dst.dtype() == src.dtype() ? raw_type(dst.itemsize()) != nullptr
                                                    : metal_type(dst.dtype()) != nullptr &&
                                                          metal_type(src.dtype()) != nullptr;
  return has_types && dst.numel() <= std::numeric_limits<uint32_t>::max() &&
         make_loops(dst, src, &loops);
}

Status copy_on_device(Tensor& dst, const Tensor& src) noexcept {
  try {
    CopyArgs loops;
    AOTIP_CHECK(make_loops(dst, src, &loops), "copy: more than %d dims that cannot be merged",
                COPY_DIMS);
    const Kernel* kernel = find_kernel(metal_copy, "copy_elements", types_of(dst, src));
    AOTIP_RETURN_IF_NULL(kernel);
    return Launch(kernel).tensor(dst).tensor(src).value(loops).threads(
        {static_cast<size_t>(dst.numel()), 1, 1}, group_for(*kernel));
  } catch (const std::exception& error) {
    return fail("copy: %s", error.what());
  }
}

Status zero_on_device(void* data, size_t nbytes) noexcept {
  const int64_t zero[2] = {};
  return copy_bytes(data, nbytes, zero, sizeof(zero), 0);
}

Status write_on_device(void* data, const void* bytes, size_t nbytes) noexcept {
  return copy_bytes(data, nbytes, bytes, nbytes, 1);
}

}  // namespace aoti_plugins::mps
