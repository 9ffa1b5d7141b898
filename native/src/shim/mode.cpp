// Per-thread modes, checks and warnings.

#include <executorch/runtime/platform/log.h>

#include <stdexcept>
#include <string>

#include "shim/run_shim.h"

namespace {

thread_local bool grad_mode = true;

}  // namespace

bool aoti_torch_grad_mode_is_enabled() {
  return grad_mode;
}

void aoti_torch_grad_mode_set_enabled(bool enabled) {
  grad_mode = enabled;
}

void aoti_torch_check(bool cond, const char* func, const char* file, uint32_t line,
                      const char* msg) {
  if (__builtin_expect(cond, 1)) {
    return;
  }
  // The only shim that throws: it returns nothing, and the model's entry points catch. What goes on
  // after a failed check may read out of bounds, so returning is not an option.
  std::string text = msg != nullptr ? msg : "check failed";
  text += " (";
  text += func != nullptr ? func : "?";
  text += " at ";
  text += file != nullptr ? file : "?";
  text += ":" + std::to_string(line) + ")";
  (void)aoti_plugins::fail("%s", text.c_str());
  throw std::runtime_error(text);
}

void aoti_torch_warn(const char* func, const char* file, uint32_t line, const char* msg) {
  ET_LOG(Info, "warning: %s (%s at %s:%u)", msg != nullptr ? msg : "", func != nullptr ? func : "?",
         file != nullptr ? file : "?", line);
}
