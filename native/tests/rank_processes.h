#pragma once

// Ranks as processes of this test program: each runs a case that is disabled otherwise.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace aoti_plugins::testing {

/// Runs a case in a process for each rank; their exit statuses. `prepare` sets what else is in a
/// rank's environment.
inline std::vector<int> run_ranks(const char* name, int count, const char* timeout,
                                  const std::function<void(int rank)>& prepare = {}) {
  static int next = 0;
  const std::string meeting = std::to_string(::getpid()) + "-" + std::to_string(next++);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t process = ::fork();
    if (process == 0) {
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      ::setenv("WORLD_SIZE", std::to_string(count).c_str(), 1);
      ::setenv("AOTI_PLUGINS_RANK_MEETING", meeting.c_str(), 1);
      ::setenv("AOTI_PLUGINS_RANK_TIMEOUT", timeout, 1);
      if (prepare) {
        prepare(rank);
      }
      const std::string filter = std::string("--run_test=") + name;
      ::execl("/proc/self/exe", "rank", filter.c_str(), nullptr);
      ::_exit(127);
    }
    processes.push_back(process);
  }
  std::vector<int> codes;
  for (const pid_t process : processes) {
    int status = 0;
    ::waitpid(process, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return codes;
}

inline int own_rank() {
  return std::atoi(std::getenv("RANK"));
}

}  // namespace aoti_plugins::testing
