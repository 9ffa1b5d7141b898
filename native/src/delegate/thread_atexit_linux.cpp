#include <aoti_plugins/blob_prelude.h>
#include <dlfcn.h>
#include <link.h>

#include <iterator>
#include <mutex>
#include <vector>

#include "delegate/fork_gate.h"
#include "delegate/thread_atexit.h"

namespace aoti_plugins {
namespace {

struct Entry {
  void (*destructor)(void*);
  void* object;
  void* dso;
  const void* thread;
};

/// All destructors that wait, in the order in which they were registered.
///
/// The mutex is held while one runs: a thread that ends must not free the object under a destructor
/// that another thread runs. It is recursive because a destructor may register another one.
struct Registry {
  std::recursive_mutex mutex;
  std::vector<Entry> entries;
};

Registry& registry() {
  static Registry* instance =
      new Registry();  // never destroyed: threads may end after static destructors
  return *instance;
}

/// Takes the entries that `matches` out of the registry and runs them, the newest first.
template <typename Matches>
void run_matching(const Matches& matches) noexcept {
  std::lock_guard<std::recursive_mutex> lock(registry().mutex);
  for (;;) {
    auto& entries = registry().entries;
    auto found = entries.rbegin();
    while (found != entries.rend() && !matches(*found)) {
      ++found;
    }
    if (found == entries.rend()) {
      return;
    }
    const Entry entry = *found;
    entries.erase(std::next(found).base());
    entry.destructor(entry.object);
  }
}

/// Runs this thread's entries when the thread ends. Its address names the thread.
struct ThreadEnd {
  bool used = false;
  ~ThreadEnd() {
    if (used) {
      const InsideLibrary inside;
      run_matching([this](const Entry& entry) { return entry.thread == this; });
    }
  }
};

thread_local ThreadEnd thread_end;

}  // namespace

void run_thread_atexit_of(void* dl_handle) noexcept {
  link_map* map = nullptr;
  if (dlinfo(dl_handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) {
    return;
  }
  run_matching([map](const Entry& entry) {
    Dl_info info;
    link_map* owner = nullptr;
    return dladdr1(entry.dso, &info, reinterpret_cast<void**>(&owner), RTLD_DL_LINKMAP) != 0 &&
           owner == map;
  });
}

}  // namespace aoti_plugins

int aotip_thread_atexit(void (*destructor)(void*), void* object, void* dso_handle) {
  using namespace aoti_plugins;
  thread_end.used = true;
  try {
    std::lock_guard<std::recursive_mutex> lock(registry().mutex);
    registry().entries.push_back({destructor, object, dso_handle, &thread_end});
  } catch (...) {
    return -1;
  }
  return 0;
}
