#pragma once

#include <exception>

namespace aoti_plugins::runner {

/// What an assertion of ExecuTorch's that fails becomes.
class ExecutorchAborted final : public std::exception {
 public:
  const char* what() const noexcept override {
    return "an assertion of ExecuTorch's or of a kernel's failed, its log says which";
  }
};

/// While there is one on a thread, ExecuTorch's abort throws `ExecutorchAborted` there.
///
/// ExecuTorch aborts the process where a kernel asserts something about its arguments, of which its
/// runtime lets a program decide. The first guard changes what ExecuTorch does on abort (its
/// `register_pal`), for all threads; those without a guard do what they did before.
class AbortGuard {
 public:
  AbortGuard();
  ~AbortGuard();
  AbortGuard(const AbortGuard&) = delete;
  AbortGuard& operator=(const AbortGuard&) = delete;
};

}  // namespace aoti_plugins::runner
