#pragma once

#include <aoti_plugins/shim.h>

#include <exception>
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

/// Fails when a handle is null or holds no tensor.
#define AOTIP_CHECK_TENSOR(handle)                      \
  AOTIP_CHECK((handle) != nullptr, #handle " is null"); \
  AOTIP_CHECK(::aoti_plugins::unwrap(handle)->defined(), #handle " is an undefined tensor")
