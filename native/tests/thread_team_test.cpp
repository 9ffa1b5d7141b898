#include "cpu/threads/thread_team.h"

#include <aoti_plugins/blob_openmp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "cpu/threads/parallel.h"
#include "delegate/fork_gate.h"
#include "slim/status.h"

using namespace aoti_plugins;
using namespace aoti_plugins::cpu;

const char* run_openmp_kernels();  // openmp_kernel.cpp

namespace {

// More than most machines have that run this: waiting has to work with threads that have no
// processor.
constexpr unsigned kThreads = 5;

struct FiveThreads {
  FiveThreads() {
    setenv("OMP_NUM_THREADS", "3", 1);
    setenv("AOTI_PLUGINS_NUM_THREADS", "5,2", 1);
    BOOST_TEST_REQUIRE(team_limit() == kThreads);
  }
};

template <typename Body>
void run(const Body& body, unsigned num_threads = 0, Members members = Members::kAll) {
  run_in_team([](void* data) { (*static_cast<const Body*>(data))(); }, const_cast<Body*>(&body),
              num_threads, members);
}

/// Thread numbers that a region of `num_threads` had, sorted.
std::vector<unsigned> numbers_of(unsigned num_threads) {
  std::vector<std::atomic<unsigned>> seen(64);
  run([&] { seen[team_thread()] += 1; }, num_threads);
  std::vector<unsigned> numbers;
  for (unsigned number = 0; number < seen.size(); ++number) {
    numbers.insert(numbers.end(), seen[number].load(), number);
  }
  return numbers;
}

std::vector<unsigned> first(unsigned count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// What the child of a fork returned, or -1 when it had to be killed.
template <typename Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(FiveThreads);
BOOST_AUTO_TEST_SUITE(thread_team)

BOOST_AUTO_TEST_CASE(every_thread_number_runs_once) {
  for (int round = 0; round < 200; ++round) {
    for (unsigned size = 1; size <= kThreads; ++size) {
      BOOST_TEST_REQUIRE(numbers_of(size) == first(size));
    }
  }
  BOOST_TEST(numbers_of(0) == first(kThreads));
}

BOOST_AUTO_TEST_CASE(more_threads_than_the_limit_are_not_given) {
  BOOST_TEST(numbers_of(kThreads + 1) == first(kThreads));
  BOOST_TEST(numbers_of(~0u) == first(kThreads));
}

BOOST_AUTO_TEST_CASE(all_threads_have_the_size_of_their_region) {
  std::atomic<int> wrong{0};
  run([&] { wrong += team_size() == 3 && in_team() && aotip_omp_num_threads() == 3 ? 0 : 1; }, 3);
  BOOST_TEST(wrong.load() == 0);
  BOOST_TEST(team_size() == 1);
  BOOST_TEST(team_thread() == 0);
  BOOST_TEST(!in_team());
  BOOST_TEST(aotip_omp_max_threads() == int(kThreads));
}

BOOST_AUTO_TEST_CASE(nobody_passes_a_barrier_before_all_have_come) {
  constexpr int kRounds = 5000;
  std::vector<int> written(kThreads);
  std::atomic<int> wrong{0};
  run([&] {
    for (int round = 1; round <= kRounds; ++round) {
      written[team_thread()] = round;
      team_barrier();
      for (const int value : written) {
        wrong += value == round ? 0 : 1;
      }
      team_barrier();
    }
  });
  BOOST_TEST(wrong.load() == 0);
}

BOOST_AUTO_TEST_CASE(sleepers_at_a_barrier_are_woken) {
  std::atomic<int> wrong{0};
  for (unsigned late = 0; late < kThreads; ++late) {
    std::atomic<unsigned> come{0};
    run([&] {
      if (team_thread() == late) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      ++come;
      team_barrier();
      wrong += come == kThreads ? 0 : 1;
    });
  }
  BOOST_TEST(wrong.load() == 0);
}

BOOST_AUTO_TEST_CASE(one_thread_runs_a_single) {
  constexpr int kRounds = 2000;
  std::vector<std::atomic<int>> runs(kRounds);
  run([&] {
    for (auto& count : runs) {
      count += team_single() ? 1 : 0;  // no barrier between them
    }
  });
  BOOST_TEST(std::count(runs.begin(), runs.end(), 1) == kRounds);
  BOOST_TEST(team_single());
}

BOOST_AUTO_TEST_CASE(a_region_inside_a_region_runs_on_its_caller) {
  std::atomic<unsigned> inner{0};
  std::atomic<int> wrong{0};
  run([&] {
    const unsigned number = team_thread();
    wrong += aotip_omp_max_threads() == 1 ? 0 : 1;
    run([&] {
      ++inner;
      wrong += team_size() == 1 && team_thread() == 0 && in_team() && team_single() ? 0 : 1;
      team_barrier();
    });
    wrong += team_size() == kThreads && team_thread() == number ? 0 : 1;
  });
  BOOST_TEST(inner.load() == kThreads);
  BOOST_TEST(wrong.load() == 0);
}

BOOST_AUTO_TEST_CASE(callers_on_many_threads_do_not_disturb_each_other) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<unsigned> sum{0};
        std::atomic<unsigned> size{0};
        run([&] {
          size = team_size();
          sum += team_thread() + 1;
          team_barrier();
          wrong += sum == size * (size + 1) / 2 ? 0 : 1;
        });
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  BOOST_TEST(wrong.load() == 0);
}

BOOST_AUTO_TEST_CASE(parallel_for_runs_every_part_once) {
  for (const int64_t parts : {0, 1, 2, 5, 64}) {
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(parts));
      parallel_for(parts, [&](int64_t part) { ++runs[static_cast<size_t>(part)]; });
      BOOST_TEST_REQUIRE(std::count(runs.begin(), runs.end(), 1) == parts);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_thread_begins_with_parts_of_its_own) {
  const std::vector<int64_t> expected{0, 1, 2, 4, 5};  // of seven parts
  for (int call = 0; call < 20; ++call) {
    std::vector<std::atomic<int64_t>> firsts(kThreads);
    for (auto& one : firsts) {
      one = -1;
    }
    std::atomic<unsigned> begun{0};
    parallel_for(7, [&](int64_t part) {
      int64_t none = -1;
      if (firsts[team_thread()].compare_exchange_strong(none, part)) {
        begun += 1;
        while (begun < kThreads) {  // so that nobody takes what is another's
          std::this_thread::yield();
        }
      }
    });
    BOOST_TEST(std::vector<int64_t>(firsts.begin(), firsts.end()) == expected,
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(little_work_gets_no_threads) {
  BOOST_TEST(threads_for(0, 10) == 1);
  BOOST_TEST(threads_for(19, 10) == 1);
  BOOST_TEST(threads_for(20, 10) == 2);
  BOOST_TEST(threads_for(1000, 10) == int64_t{kThreads});
}

BOOST_AUTO_TEST_CASE(a_section_has_one_thread_at_a_time) {
  int64_t critical = 0;
  int64_t atomic = 0;
  run([&] {
    for (int round = 0; round < 1000; ++round) {
      aotip_omp_critical(1);
      ++critical;
      aotip_omp_critical(0);
      aotip_omp_atomic(1);
      ++atomic;
      aotip_omp_atomic(0);
    }
  });
  BOOST_TEST(critical == 1000 * int64_t{kThreads});
  BOOST_TEST(atomic == 1000 * int64_t{kThreads});
}

#if defined(__GNUC__) && !defined(__clang__)
BOOST_AUTO_TEST_CASE(what_the_compiler_makes_of_pragmas_runs_on_the_team) {
  const char* wrong = run_openmp_kernels();
  BOOST_TEST(wrong == nullptr, wrong);
}
#endif

BOOST_AUTO_TEST_CASE(a_workers_reason_becomes_the_callers) {
  clear_failure();
  run([] {
    if (team_thread() == kThreads - 1) {
      (void)fail("thread %u failed", team_thread());
    }
  });
  BOOST_TEST(std::string(last_failure()) == "thread 4 failed");
  clear_failure();
  run([] {});
  BOOST_TEST(std::string(last_failure()) == "", "an old reason came back");
}

BOOST_AUTO_TEST_CASE(a_fork_waits_until_nobody_is_inside) {
  std::atomic<bool> entered{false};
  std::atomic<bool> left{false};
  std::thread other([&] {
    const InsideLibrary inside;
    const InsideLibrary again;
    entered = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    left = true;
  });
  while (!entered) {
  }
  const uint32_t before = fork_generation();
  const int in_time = in_child([&] { return left && fork_generation() == before + 1 ? 7 : 1; });
  other.join();
  BOOST_TEST(in_time == 7);
  BOOST_TEST(fork_generation() == before);
}

BOOST_AUTO_TEST_CASE(a_fork_from_inside_waits_for_nobody) {
  std::atomic<bool> stop{false};
  std::atomic<bool> entered{false};
  std::thread other([&] {
    const InsideLibrary inside;
    entered = true;
    while (!stop) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  while (!entered) {
  }
  {
    const InsideLibrary inside;
    BOOST_TEST(in_child([] { return InsideLibrary(), 7; }) == 7);
  }
  stop = true;
  other.join();
  BOOST_TEST(in_child([] { return InsideLibrary(), 7; }) == 7);
}

BOOST_AUTO_TEST_CASE(the_child_of_a_fork_has_a_team_of_its_own) {
  BOOST_TEST_REQUIRE(numbers_of(0) == first(kThreads));
  BOOST_TEST(in_child([] { return numbers_of(0) == first(kThreads) ? 7 : 1; }) == 7);
  BOOST_TEST(numbers_of(0) == first(kThreads));
}

BOOST_AUTO_TEST_CASE(a_fork_while_another_thread_has_the_team) {
  // Nobody may be in the heap at a fork: a sanitizer's is not repaired in the child. So the team is
  // there already, and what it runs takes no memory.
  BOOST_TEST_REQUIRE(numbers_of(0) == first(kThreads));
  std::atomic<bool> stop{false};
  std::atomic<bool> started{false};
  std::atomic<unsigned> sum{0};
  std::thread busy([&] {
    while (!stop) {
      run([&] { sum += team_thread(); });
      started = true;
    }
  });
  while (!started) {
  }
  for (int round = 0; round < 10; ++round) {
    BOOST_TEST(in_child([] { return numbers_of(0) == first(kThreads) ? 7 : 1; }) == 7);
  }
  stop = true;
  busy.join();
}

BOOST_AUTO_TEST_CASE(an_idle_team_uses_no_processor) {
  numbers_of(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  BOOST_TEST(cpu_seconds() - before < 0.01);
}

BOOST_AUTO_TEST_SUITE_END()
