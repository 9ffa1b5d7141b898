#include "runner/abort_guard.h"

#include <executorch/runtime/platform/platform.h>

#include <cstdlib>
#include <mutex>

namespace aoti_plugins::runner {
namespace {

using ::executorch::runtime::get_pal_impl;
using ::executorch::runtime::PalImpl;
using ::executorch::runtime::register_pal;

thread_local int guards = 0;
pal_abort_method abort_before = nullptr;

void throw_or_abort() {
  if (guards > 0) {
    throw ExecutorchAborted();
  }
  if (abort_before != nullptr) {
    abort_before();
  }
  std::abort();
}

void replace_abort() {
  PalImpl functions = *get_pal_impl();
  abort_before = functions.abort;
  functions.abort = throw_or_abort;
  (void)register_pal(functions);
}

}  // namespace

AbortGuard::AbortGuard() {
  static std::once_flag once;
  std::call_once(once, replace_abort);
  ++guards;
}

AbortGuard::~AbortGuard() {
  --guards;
}

}  // namespace aoti_plugins::runner
