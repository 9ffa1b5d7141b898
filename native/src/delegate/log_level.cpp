#include "delegate/log_level.h"

#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/platform.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace aoti_plugins {
namespace {

using ::executorch::runtime::get_pal_impl;
using ::executorch::runtime::PalImpl;
using ::executorch::runtime::register_pal;

constexpr char kVariable[] = "AOTI_PLUGINS_LOG";

/// Must match aoti_plugins/log_level.py.
struct Level {
  const char* name;
  /// The levels of ExecuTorch that are shown: it has none for warnings.
  const char* shown;
};

constexpr Level kLevels[] = {
    {"debug", "DIEF?"}, {"info", "IEF?"}, {"warning", "EF?"}, {"error", "EF?"}, {"off", ""}};

std::atomic<const char*> shown = nullptr;
/// The function that was there first, and the one that was there last.
std::atomic<pal_emit_log_message_method> first_emit = nullptr;
std::atomic<pal_emit_log_message_method> last_emit = nullptr;
thread_local bool is_emitting = false;

/// What ExecuTorch says when functions are replaced that were replaced before, by whomever.
bool is_about_replacing(const char* message, size_t length) {
  constexpr char kBegin[] = "register_pal() called";
  return length >= sizeof(kBegin) - 1 && std::strncmp(message, kBegin, sizeof(kBegin) - 1) == 0;
}

void emit_if_shown(et_timestamp_t timestamp, et_pal_log_level_t level, const char* filename,
                   const char* function, size_t line, const char* message, size_t length) {
  if (level == '\0' || std::strchr(shown.load(), level) == nullptr ||
      is_about_replacing(message, length)) {
    return;
  }
  // The last one may call this one, which was there before it.
  const bool is_inner = is_emitting;
  is_emitting = true;
  const pal_emit_log_message_method emit = is_inner ? first_emit : last_emit;
  emit(timestamp, level, filename, function, line, message, length);
  is_emitting = is_inner;
}

const char* find_shown() {
  const char* text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') {
    return nullptr;  // ExecuTorch decides
  }
  for (const Level& level : kLevels) {
    if (std::strcmp(text, level.name) == 0) {
      return level.shown;
    }
  }
  ET_LOG(Error, "%s is '%s', expected debug, info, warning, error or off; it is ignored", kVariable,
         text);
  return nullptr;
}

}  // namespace

void follow_log_level() noexcept {
  static const char* const wanted = find_shown();
  if (wanted == nullptr || get_pal_impl()->emit_log_message == emit_if_shown) {
    return;
  }
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  PalImpl functions = *get_pal_impl();
  if (functions.emit_log_message == nullptr || functions.emit_log_message == emit_if_shown) {
    return;
  }
  shown = wanted;
  last_emit = functions.emit_log_message;
  if (first_emit == nullptr) {
    first_emit = functions.emit_log_message;
  }
  functions.emit_log_message = emit_if_shown;
  (void)register_pal(functions);
}

namespace {

[[maybe_unused]] const bool followed = [] {
  follow_log_level();
  return true;
}();

}  // namespace
}  // namespace aoti_plugins
