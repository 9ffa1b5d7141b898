#pragma once

/// What the C functions of the runner share: handles, checks of arguments, and that no exception
/// leaves.

#include <aoti_plugins/runner.h>

#include <exception>
#include <memory>
#include <new>

#include "delegate/fork_gate.h"
#include "runner/failure.h"
#include "runner/method.h"
#include "runner/program.h"

struct aotip_program {
  std::shared_ptr<aoti_plugins::runner::ProgramFile> file;
};

struct aotip_method {
  std::unique_ptr<aoti_plugins::runner::MethodInstance> instance;
};

namespace aoti_plugins::runner {

/// Runs the body of a C function: no exception leaves.
template <typename Body>
int32_t run_call(const Body& body) noexcept {
  const InsideLibrary inside;
  begin_call();
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return failed(Error::MemoryAllocationFailed, "out of memory");
  } catch (const std::exception& error) {
    return failed(Error::Internal, "%s", error.what());
  } catch (...) {
    return failed(Error::Internal, "unknown exception");
  }
}

inline int32_t is_null(const char* argument) {
  return failed(Error::InvalidArgument, "%s is null", argument);
}

}  // namespace aoti_plugins::runner

#define AOTIP_CHECK_NOT_NULL(pointer) \
  if ((pointer) == nullptr) return ::aoti_plugins::runner::is_null(#pointer)
