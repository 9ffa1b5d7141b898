#pragma once

/// What the C functions of the runner share: handles, checks of arguments, and that no exception
/// leaves.

#include <aoti_plugins/runner.h>

#include <cstring>
#include <exception>
#include <initializer_list>
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

/// Fails at the first of some arguments that is null; `names` are theirs, with commas between.
inline int32_t check_not_null(const char* names,
                              std::initializer_list<const void*> arguments) noexcept {
  for (const void* argument : arguments) {
    const size_t length = std::strcspn(names, ",");
    if (argument == nullptr) {
      return failed(Error::InvalidArgument, "%.*s is null", static_cast<int>(length), names);
    }
    names += length + (names[length] != '\0' ? std::strlen(", ") : 0);
  }
  return 0;
}

}  // namespace aoti_plugins::runner

/// Leaves the current function where one of some arguments is null.
#define AOTIP_CHECK_NOT_NULL(...)                                              \
  if (const int32_t aotip_failure =                                            \
          ::aoti_plugins::runner::check_not_null(#__VA_ARGS__, {__VA_ARGS__})) \
  return aotip_failure
