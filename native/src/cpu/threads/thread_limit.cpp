#include <executorch/runtime/platform/log.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cpu/threads/thread_team.h"

namespace aoti_plugins::cpu {
namespace {

/// A positive number at the start of a variable ("4" or OpenMP's "4,2"); 0 where there is none.
unsigned from_environment(const char* name) noexcept {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') {
    return 0;
  }
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || (*end != '\0' && *end != ',' && *end != ' ') || value < 1) {
    ET_LOG(Error, "%s is '%s', which is no number of threads; it is ignored", name, text);
    return 0;
  }
  return static_cast<unsigned>(std::min(value, 1L << 20));
}

unsigned allowed_processors() noexcept {
  // The kernel refuses a mask that is smaller than its own.
  for (int size = 1024; size <= 1 << 20; size *= 4) {
    cpu_set_t* set = CPU_ALLOC(size);
    if (set == nullptr) {
      break;
    }
    const size_t nbytes = CPU_ALLOC_SIZE(size);
    const int count = sched_getaffinity(0, nbytes, set) == 0 ? CPU_COUNT_S(nbytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) {
      return static_cast<unsigned>(count);
    }
  }
  return static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

unsigned read_limit() noexcept {
  for (const char* name : {"AOTI_PLUGINS_NUM_THREADS", "OMP_NUM_THREADS"}) {
    if (const unsigned asked = from_environment(name)) {
      return asked;
    }
  }
  return allowed_processors();
}

}  // namespace

unsigned team_limit() noexcept {
  static const unsigned limit = std::min(read_limit(), kMostThreads);
  return limit;
}

}  // namespace aoti_plugins::cpu
