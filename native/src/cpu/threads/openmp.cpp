// The delegate's side of blob_openmp.h.

#include <aoti_plugins/blob_openmp.h>

#include "cpu/threads/thread_team.h"

using namespace aoti_plugins::cpu;

namespace {

void enter_or_leave(Section section, int enter) noexcept {
  if (enter != 0) {
    team_section(section).lock();
  } else {
    team_section(section).unlock();
  }
}

}  // namespace

void aotip_omp_parallel(void (*body)(void*), void* data, unsigned num_threads) noexcept {
  run_in_team(body, data, num_threads, Members::kAll);
}

void aotip_omp_barrier(void) noexcept {
  team_barrier();
}
int aotip_omp_thread_num(void) noexcept {
  return static_cast<int>(team_thread());
}
int aotip_omp_num_threads(void) noexcept {
  return static_cast<int>(team_size());
}
int aotip_omp_max_threads(void) noexcept {
  return in_team() ? 1 : static_cast<int>(team_limit());
}
int aotip_omp_in_parallel(void) noexcept {
  return in_team() ? 1 : 0;
}
int aotip_omp_single(void) noexcept {
  return team_single() ? 1 : 0;
}
void aotip_omp_critical(int enter) noexcept {
  enter_or_leave(Section::kCritical, enter);
}
void aotip_omp_atomic(int enter) noexcept {
  enter_or_leave(Section::kAtomic, enter);
}
