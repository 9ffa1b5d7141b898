#pragma once

namespace aoti_plugins::cuda {

/// What of float32 may round its operands to TF32, as PyTorch's allow_tf32.
struct Tf32 {
  bool matmul = false;
  bool convolution = false;
};

/// What this thread may round: what the program of its scope allows, or everything where the
/// process does.
Tf32 tf32() noexcept;

/// Whether this process allows it for all programs: the last `allow_tf32()`, or else
/// AOTI_PLUGINS_ALLOW_TF32=1.
bool allows_tf32() noexcept;
void allow_tf32(bool value) noexcept;

/// What a program allows, until the end of the scope.
class Tf32Scope {
 public:
  explicit Tf32Scope(Tf32 allowed) noexcept;
  ~Tf32Scope();
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;

 private:
  Tf32 previous_;
};

}  // namespace aoti_plugins::cuda
