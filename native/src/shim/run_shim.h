#pragma once

#include <aoti_plugins/shim.h>

#include <exception>
#include <initializer_list>
#include <new>

#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins {

inline constexpr AOTITorchError kShimSuccess = 0;
inline constexpr AOTITorchError kShimFailure = 1;

/// Logs this thread's reason as `<shim>: <reason>`, keeps it in that form, and returns the failure
/// code.
AOTIP_CORE AOTITorchError report_failure(const char* shim) noexcept __attribute__((cold, noinline));

/// Runs the body of a C shim: no exception leaves, and a failure is recorded and logged.
template <typename Body>
inline AOTITorchError run_shim(const char* shim, const Body& body) noexcept {
  try {
    if (__builtin_expect(body() == Status::kOk, 1)) {
      return kShimSuccess;
    }
  } catch (const std::bad_alloc&) {
    (void)fail("out of memory");
  } catch (const std::exception& error) {
    (void)fail("%s", error.what());
  } catch (...) {
    (void)fail("unknown exception");
  }
  return report_failure(shim);
}

inline Tensor* unwrap(AtenTensorHandle handle) {
  return reinterpret_cast<Tensor*>(handle);
}

inline AtenTensorHandle wrap(Tensor* tensor) {
  return reinterpret_cast<AtenTensorHandle>(tensor);
}

/// The tensor of an optional argument; null for none.
inline const Tensor* unwrap_optional(AtenTensorHandle* handle) {
  const Tensor* tensor = handle != nullptr && *handle != nullptr ? unwrap(*handle) : nullptr;
  return tensor != nullptr && tensor->defined() ? tensor : nullptr;
}

template <typename... Handles>
bool are_tensors(Handles... handles) {
  return ((handles != nullptr && unwrap(handles)->defined()) && ...);
}

/// Records which of the handles is null or holds no tensor; `names` are theirs, with commas
/// between.
AOTIP_CORE Status refuse_handles(const char* names,
                                 std::initializer_list<AtenTensorHandle> handles) noexcept
    __attribute__((cold, noinline));

/// Hands a new tensor to the caller; a null one is a failure whose reason is recorded already.
inline Status give(Tensor* tensor, AtenTensorHandle* ret) {
  if (tensor == nullptr) {
    return Status::kFailed;
  }
  *ret = wrap(tensor);
  return Status::kOk;
}

}  // namespace aoti_plugins

/// Fails when a pointer argument is null, by its name.
#define AOTIP_CHECK_ARG(pointer) AOTIP_CHECK((pointer) != nullptr, #pointer " is null")

/// Fails at the first handle that is null or holds no tensor.
#define AOTIP_CHECK_TENSORS(...)                                          \
  do {                                                                    \
    if (__builtin_expect(!::aoti_plugins::are_tensors(__VA_ARGS__), 0)) { \
      return ::aoti_plugins::refuse_handles(#__VA_ARGS__, {__VA_ARGS__}); \
    }                                                                     \
  } while (0)
