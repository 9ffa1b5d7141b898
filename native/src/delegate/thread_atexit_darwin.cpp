#include <aoti_plugins/blob_prelude.h>

#include "delegate/thread_atexit.h"

// The system's own: code for Apple's systems calls it directly, and dyld keeps a library that has
// thread-local variables with destructors.
extern "C" void _tlv_atexit(void (*destructor)(void*), void* object);

namespace aoti_plugins {

void run_thread_atexit_of(void*) noexcept {}

}  // namespace aoti_plugins

int aotip_thread_atexit(void (*destructor)(void*), void* object, void*) {
  _tlv_atexit(destructor, object);
  return 0;
}
