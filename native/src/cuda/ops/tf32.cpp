#include "cuda/ops/tf32.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace aoti_plugins::cuda {
namespace {

std::atomic<bool>& allowed() {
  static std::atomic<bool> instance{[] {
    const char* text = std::getenv("AOTI_PLUGINS_ALLOW_TF32");
    return text != nullptr && std::strcmp(text, "1") == 0;
  }()};
  return instance;
}

thread_local Tf32 of_program;

}  // namespace

Tf32Scope::Tf32Scope(Tf32 allowed) noexcept : previous_(of_program) {
  of_program = allowed;
}

Tf32Scope::~Tf32Scope() {
  of_program = previous_;
}

Tf32 tf32() noexcept {
  return allows_tf32() ? Tf32{true, true} : of_program;
}

bool allows_tf32() noexcept {
  return allowed().load(std::memory_order_relaxed);
}

void allow_tf32(bool value) noexcept {
  allowed().store(value, std::memory_order_relaxed);
}

}  // namespace aoti_plugins::cuda
