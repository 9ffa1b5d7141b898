#include "cuda/tf32.h"

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

}  // namespace

bool allows_tf32() noexcept {
  return allowed().load(std::memory_order_relaxed);
}

void allow_tf32(bool value) noexcept {
  allowed().store(value, std::memory_order_relaxed);
}

}  // namespace aoti_plugins::cuda
