#include "cuda/driver/kernel_container.h"

#include <cstring>
#include <exception>
#include <string>

namespace aoti_plugins::cuda {
namespace {

constexpr char kMagic[8] = {'A', 'O', 'T', 'I', 'K', 'R', 'N', '1'};
constexpr size_t kHeaderNbytes = 12;
constexpr size_t kEntryNbytes = 24;
constexpr uint32_t kMaxCount = 256;
constexpr uint64_t kAlignment = 64;

template <typename T>
T read(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

Status read_entry(const char* container, size_t nbytes, uint32_t count, uint32_t index,
                  KernelImage* ret) {
  const char* entry = container + kHeaderNbytes + index * kEntryNbytes;
  ret->kind = read<uint32_t>(entry);
  ret->arch = read<uint32_t>(entry + 4);
  const uint64_t offset = read<uint64_t>(entry + 8);
  ret->nbytes = read<uint64_t>(entry + 16);
  ret->data = container + offset;
  AOTIP_CHECK(ret->kind == KernelImage::kCubin || ret->kind == KernelImage::kPtx,
              "kernel container: image %u is of kind %u, expected 1 (cubin) or 2 (PTX)", index,
              ret->kind);
  AOTIP_CHECK(offset % kAlignment == 0 && offset >= kHeaderNbytes + count * kEntryNbytes,
              "kernel container: image %u starts at byte %llu, expected a multiple of 64 behind "
              "the header",
              index, static_cast<unsigned long long>(offset));
  AOTIP_CHECK(ret->nbytes > 0 && offset <= nbytes && ret->nbytes <= nbytes - offset,
              "kernel container: image %u has %llu bytes at byte %llu, the container has %zu",
              index, static_cast<unsigned long long>(ret->nbytes),
              static_cast<unsigned long long>(offset), nbytes);
  return Status::kOk;
}

Status check_image(const KernelImage& image) {
  const char* data = static_cast<const char*>(image.data);
  if (image.kind == KernelImage::kCubin) {
    AOTIP_CHECK(image.nbytes >= 4 && std::memcmp(data, "\177ELF", 4) == 0,
                "kernel container: the cubin for sm_%u is no ELF file", image.arch);
  } else {
    AOTIP_CHECK(data[image.nbytes - 1] == '\0',
                "kernel container: the PTX for compute_%u does not end in a null byte", image.arch);
  }
  return Status::kOk;
}

/// Whether `image` runs on the device and is better than `best`, which may be null.
bool is_better(const KernelImage& image, const KernelImage* best, uint32_t device_arch) {
  if (image.arch > device_arch) {
    return false;
  }
  const bool cubin = image.kind == KernelImage::kCubin;
  if (cubin && image.arch / 10 != device_arch / 10) {
    return false;
  }
  if (best == nullptr) {
    return true;
  }
  const bool best_is_cubin = best->kind == KernelImage::kCubin;
  return cubin != best_is_cubin ? cubin : image.arch > best->arch;
}

}  // namespace

bool is_kernel_container(const void* image) noexcept {
  return image != nullptr && std::memcmp(image, kMagic, sizeof(kMagic)) == 0;
}

Status choose_kernel_image(const void* container, size_t nbytes, uint32_t device_arch,
                           KernelImage* ret) noexcept {
  try {
    AOTIP_CHECK(nbytes >= kHeaderNbytes && is_kernel_container(container),
                "kernel container: it does not start with AOTIKRN1");
    const char* bytes = static_cast<const char*>(container);
    const uint32_t count = read<uint32_t>(bytes + sizeof(kMagic));
    AOTIP_CHECK(count > 0 && count <= kMaxCount && count <= (nbytes - kHeaderNbytes) / kEntryNbytes,
                "kernel container: %u images, expected 1 to %u that fit into its %zu bytes", count,
                kMaxCount, nbytes);
    KernelImage best;
    std::string there;
    for (uint32_t i = 0; i < count; ++i) {
      KernelImage image;
      AOTIP_RETURN_IF_FAILED(read_entry(bytes, nbytes, count, i, &image));
      there += (i > 0 ? ", " : "") +
               std::string(image.kind == KernelImage::kCubin ? "sm_" : "PTX for compute_") +
               std::to_string(image.arch);
      if (is_better(image, best.data != nullptr ? &best : nullptr, device_arch)) {
        best = image;
      }
    }
    AOTIP_CHECK(best.data != nullptr,
                "no code for this GPU, which has compute capability %u.%u: the kernel was "
                "compiled for %s. Lower the model for this GPU",
                device_arch / 10, device_arch % 10, there.c_str());
    AOTIP_RETURN_IF_FAILED(check_image(best));
    *ret = best;
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("kernel container: %s", error.what());
  }
}

}  // namespace aoti_plugins::cuda
