#pragma once

#include <mutex>

/// The one team of threads of this process: generated loops, matrix products and convolutions all
/// run on it.
///
/// Threads are started by the first region that wants them and then kept. A region that starts
/// inside another one, or while another thread's region has the team, runs on its caller alone, so
/// callers never wait for each other. Waiting threads spin for a few microseconds and then sleep.
/// After fork() the child starts a team of its own.
namespace aoti_plugins::cpu {

/// No team is larger, whatever the environment says.
constexpr unsigned kMostThreads = 512;

/// Most threads of a region: AOTI_PLUGINS_NUM_THREADS, else OMP_NUM_THREADS, else the processors
/// that this process may run on. Read once.
unsigned team_limit() noexcept;

/// Whether `run_in_team` has to wait for threads that have not begun when the caller is done.
enum class Members {
  kAll,   ///< every thread number runs the body, at the same time: barriers work
  kSome,  ///< the caller may finish alone what others have not begun: no barriers
};

/// Calls `body(data)` on up to `num_threads` threads, the caller being number 0, and returns when
/// all of them have finished. `body` does not throw; a reason that it records with `fail()` on
/// another thread becomes the caller's.
///
/// @param num_threads 0 for `team_limit()`.
void run_in_team(void (*body)(void*), void* data, unsigned num_threads, Members members) noexcept;

/// Number of this thread in its region; 0 outside.
unsigned team_thread() noexcept;

/// Threads of this thread's region; 1 outside.
unsigned team_size() noexcept;

/// Whether this thread is in a region of more than one thread, be it an outer one.
bool in_team() noexcept;

/// Waits for all threads of this region, which must be `Members::kAll`.
void team_barrier() noexcept;

/// True on one thread of the region, the first that comes. All threads call it the same number of
/// times.
bool team_single() noexcept;

/// The two critical sections of the process.
enum class Section { kCritical = 0, kAtomic = 1 };

/// The lock of a section; free in the child after fork().
std::mutex& team_section(Section section) noexcept;

}  // namespace aoti_plugins::cpu
