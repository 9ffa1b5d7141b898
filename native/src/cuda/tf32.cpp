#include "cuda/tf32.h"

#include <cstdlib>
#include <cstring>

namespace aoti_plugins::cuda {

bool allows_tf32() noexcept {
  static const bool allowed = [] {
    const char* text = std::getenv("AOTI_PLUGINS_ALLOW_TF32");
    return text != nullptr && std::strcmp(text, "1") == 0;
  }();
  return allowed;
}

}  // namespace aoti_plugins::cuda
