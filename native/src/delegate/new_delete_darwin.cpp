// Memory from the system's malloc, by operators of our own that nobody else sees: those that come
// with the C++ library would be visible, and dyld takes the first visible ones for everybody.
// Compiled with -fvisibility-global-new-delete=force-hidden.

#include <cstdlib>
#include <new>

namespace {

void* allocate(std::size_t nbytes) {
  void* data = std::malloc(nbytes > 0 ? nbytes : 1);
  return data != nullptr ? data : throw std::bad_alloc();
}

void* allocate(std::size_t nbytes, std::align_val_t alignment) {
  void* data = nullptr;
  const bool failed = posix_memalign(&data, static_cast<std::size_t>(alignment), nbytes) != 0;
  return !failed ? data : throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t nbytes) {
  return allocate(nbytes);
}
void* operator new[](std::size_t nbytes) {
  return allocate(nbytes);
}
void* operator new(std::size_t nbytes, std::align_val_t alignment) {
  return allocate(nbytes, alignment);
}
void* operator new[](std::size_t nbytes, std::align_val_t alignment) {
  return allocate(nbytes, alignment);
}

void* operator new(std::size_t nbytes, const std::nothrow_t&) noexcept {
  return std::malloc(nbytes > 0 ? nbytes : 1);
}
void* operator new[](std::size_t nbytes, const std::nothrow_t&) noexcept {
  return std::malloc(nbytes > 0 ? nbytes : 1);
}

void operator delete(void* data) noexcept {
  std::free(data);
}
void operator delete[](void* data) noexcept {
  std::free(data);
}
void operator delete(void* data, const std::nothrow_t&) noexcept {
  std::free(data);
}
void operator delete[](void* data, const std::nothrow_t&) noexcept {
  std::free(data);
}
void operator delete(void* data, std::size_t) noexcept {
  std::free(data);
}
void operator delete[](void* data, std::size_t) noexcept {
  std::free(data);
}
void operator delete(void* data, std::align_val_t) noexcept {
  std::free(data);
}
void operator delete[](void* data, std::align_val_t) noexcept {
  std::free(data);
}
void operator delete(void* data, std::size_t, std::align_val_t) noexcept {
  std::free(data);
}
void operator delete[](void* data, std::size_t, std::align_val_t) noexcept {
  std::free(data);
}
