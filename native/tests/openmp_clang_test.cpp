// What clang calls for OpenMP pragmas, called here as it does: its own code is compiled in
// tests/lowering/test_zig.py.

#include <aoti_plugins/blob_openmp.h>
#include <aoti_plugins/blob_openmp_clang.h>

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "cpu/threads/thread_team.h"

using namespace aoti_plugins::cpu;

namespace {

constexpr unsigned kThreads = 5;

struct FiveThreads {
  FiveThreads() {
    setenv("AOTI_PLUGINS_NUM_THREADS", "5", 1);
    BOOST_TEST_REQUIRE(team_limit() == kThreads);
  }
};

using Task = void (*)();

/// The arguments of a region that has `count` of them, as the threads saw them.
struct Seen {
  std::mutex mutex;
  std::vector<int32_t> threads;
  std::vector<std::vector<intptr_t>> arguments;
};

Seen* seen = nullptr;

/// What threads of a region found wrong; Boost's checks are for one thread.
std::atomic<int> wrong{0};

template <typename... Arguments>
void note(int32_t* thread, int32_t* bound, Arguments... arguments) {
  const std::lock_guard<std::mutex> lock(seen->mutex);
  wrong += *thread != static_cast<int32_t>(team_thread()) || *bound != *thread;
  seen->threads.push_back(*thread);
  seen->arguments.push_back({reinterpret_cast<intptr_t>(arguments)...});
}

template <size_t... Places>
void check_region(std::index_sequence<Places...>) {
  Seen region;
  seen = &region;
  auto task = note<decltype(Places, static_cast<void*>(nullptr))...>;
  __kmpc_fork_call(nullptr, static_cast<int32_t>(sizeof...(Places)), reinterpret_cast<Task>(task),
                   reinterpret_cast<void*>(100 + Places)...);
  std::sort(region.threads.begin(), region.threads.end());
  BOOST_TEST(region.threads == (std::vector<int32_t>{0, 1, 2, 3, 4}));
  const std::vector<intptr_t> expected{static_cast<intptr_t>(100 + Places)...};
  BOOST_TEST(wrong == 0);
  for (const std::vector<intptr_t>& found : region.arguments) {
    BOOST_TEST(found == expected);
  }
}

/// What the loop of each thread runs over, one thread after the other.
template <typename Number, typename Signed>
struct Loop {
  Number first;
  Number last;
  Signed step;
  int32_t schedule;
  Signed chunk;
  std::mutex mutex;
  std::vector<Number> places;
  int ends = 0;  // threads that were told to have the last iteration
};

using Signed64 = Loop<int64_t, int64_t>;

void init(Signed64& loop, int32_t* last, int64_t* lower, int64_t* upper, int64_t* stride) {
  __kmpc_for_static_init_8(nullptr, 0, loop.schedule, last, lower, upper, stride, loop.step,
                           loop.chunk);
}
void init(Loop<uint64_t, int64_t>& loop, int32_t* last, uint64_t* lower, uint64_t* upper,
          int64_t* stride) {
  __kmpc_for_static_init_8u(nullptr, 0, loop.schedule, last, lower, upper, stride, loop.step,
                            loop.chunk);
}
void init(Loop<int32_t, int32_t>& loop, int32_t* last, int32_t* lower, int32_t* upper,
          int32_t* stride) {
  __kmpc_for_static_init_4(nullptr, 0, loop.schedule, last, lower, upper, stride, loop.step,
                           loop.chunk);
}
void init(Loop<uint32_t, int32_t>& loop, int32_t* last, uint32_t* lower, uint32_t* upper,
          int32_t* stride) {
  __kmpc_for_static_init_4u(nullptr, 0, loop.schedule, last, lower, upper, stride, loop.step,
                            loop.chunk);
}

/// The loop that clang makes of a pragma: chunks at a stride, the last one cut off.
template <typename Number, typename Signed>
void run_loop(int32_t*, int32_t*, Loop<Number, Signed>* loop) {
  int32_t last = 0;
  Number lower = loop->first;
  Number upper = loop->last;
  Signed stride = 1;
  init(*loop, &last, &lower, &upper, &stride);
  const bool up = loop->step > 0;
  std::vector<Number> mine;
  while (up ? lower <= loop->last : lower >= loop->last) {
    const Number end = up ? std::min(upper, loop->last) : std::max(upper, loop->last);
    for (Number i = lower; up ? i <= end : i >= end; i = static_cast<Number>(i + loop->step)) {
      mine.push_back(i);
      if (i == end) {
        break;
      }
    }
    if (loop->schedule == aotip::kStatic) {
      break;
    }
    lower = static_cast<Number>(lower + stride);
    upper = static_cast<Number>(upper + stride);
  }
  __kmpc_for_static_fini(nullptr, 0);
  const std::lock_guard<std::mutex> lock(loop->mutex);
  loop->places.insert(loop->places.end(), mine.begin(), mine.end());
  loop->ends += last;
}

template <typename Number, typename Signed>
void check_loop(Number first, Number last, Signed step, int32_t schedule, Signed chunk = 0) {
  Loop<Number, Signed> loop{first, last, step, schedule, chunk, {}, {}, 0};
  __kmpc_fork_call(nullptr, 1, reinterpret_cast<Task>(run_loop<Number, Signed>), &loop);
  std::vector<Number> expected;
  for (Number i = first; step > 0 ? i <= last : i >= last; i = static_cast<Number>(i + step)) {
    expected.push_back(i);
  }
  std::sort(expected.begin(), expected.end());
  std::sort(loop.places.begin(), loop.places.end());
  BOOST_TEST(loop.places == expected, "first " << first << " last " << last << " step " << step
                                               << " schedule " << schedule << " chunk " << chunk);
  BOOST_TEST(loop.ends == (expected.empty() ? 0 : 1));
}

std::atomic<int> counted{0};

void count_threads(int32_t*, int32_t*) {
  counted += 1;
}

/// A reduction, a section that one thread runs, and one that all run after each other.
void reduce(int32_t* thread, int32_t*, int* sum, int* singles, int* product) {
  const auto add = [](void*, void*) { wrong += 1; };  // threads add their parts by themselves
  if (__kmpc_reduce(nullptr, *thread, 1, sizeof(void*), nullptr, add, nullptr) == 1) {
    *sum += *thread + 1;
    __kmpc_end_reduce(nullptr, *thread, nullptr);
  }
  wrong += *sum != 15;  // behind the barrier, all parts are there
  if (__kmpc_single(nullptr, *thread) != 0) {
    *singles += 1;
    __kmpc_end_single(nullptr, *thread);
  }
  __kmpc_barrier(nullptr, *thread);
  wrong += *singles != 1;
  __kmpc_critical(nullptr, *thread, nullptr);
  *product *= *thread + 1;
  __kmpc_end_critical(nullptr, *thread, nullptr);
  if (__kmpc_reduce_nowait(nullptr, *thread, 1, sizeof(void*), nullptr, add, nullptr) == 1) {
    *sum += 1;
    __kmpc_end_reduce_nowait(nullptr, *thread, nullptr);
  }
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(openmp_clang, FiveThreads)

BOOST_AUTO_TEST_CASE(a_region_gets_as_many_arguments_as_it_has) {
  check_region(std::make_index_sequence<0>());
  check_region(std::make_index_sequence<1>());
  check_region(std::make_index_sequence<4>());
  check_region(std::make_index_sequence<5>());
  check_region(std::make_index_sequence<6>());
  check_region(std::make_index_sequence<7>());
  check_region(std::make_index_sequence<8>());
  check_region(std::make_index_sequence<33>());
  check_region(std::make_index_sequence<200>());
}

BOOST_AUTO_TEST_CASE(a_number_of_threads_is_for_the_next_region) {
  const auto threads = [] {
    counted = 0;
    __kmpc_fork_call(nullptr, 0, reinterpret_cast<Task>(count_threads));
    return counted.load();
  };
  __kmpc_push_num_threads(nullptr, 0, 2);
  BOOST_TEST(threads() == 2);
  BOOST_TEST(threads() == 5);
  __kmpc_push_num_threads(nullptr, 0, -1);
  BOOST_TEST(threads() == 5);
  BOOST_TEST(__kmpc_global_thread_num(nullptr) == 0);
}

BOOST_AUTO_TEST_CASE(each_iteration_is_one_threads) {
  for (const int32_t count : {0, 1, 2, 4, 5, 6, 9, 10, 11, 100, 101}) {
    for (const int32_t step : {1, 3, -1, -7}) {
      const int32_t last = step * (count - 1);
      check_loop<int64_t, int64_t>(7, 7 + last, step, aotip::kStatic);
      check_loop<int32_t, int32_t>(-7, -7 + last, step, aotip::kStatic);
      for (const int32_t chunk : {0, 1, 2, 7}) {
        check_loop<int64_t, int64_t>(7, 7 + last, step, aotip::kStaticChunked, chunk);
        check_loop<int32_t, int32_t>(7, 7 + last, step, aotip::kStaticChunked, chunk);
      }
    }
    if (count > 0) {
      check_loop<uint64_t, int64_t>(7, 7 + 2 * uint64_t(count - 1), 2, aotip::kStatic);
      check_loop<uint32_t, int32_t>(7, 7 + 2 * uint32_t(count - 1), 2, aotip::kStatic);
      check_loop<uint64_t, int64_t>(0, uint64_t(count - 1), 1, aotip::kStaticChunked, 2);
      check_loop<uint32_t, int32_t>(0, uint32_t(count - 1), 1, aotip::kStaticChunked, 2);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_loop_over_all_numbers_is_shared) {
  const auto share = [](int32_t, int32_t*, int32_t* last, uint32_t* lower, uint32_t* upper) {
    int32_t stride = 0;
    __kmpc_for_static_init_4u(nullptr, 0, aotip::kStatic, last, lower, upper, &stride, 1, 0);
  };
  int32_t last = 0;
  uint32_t lower = 0;
  uint32_t upper = std::numeric_limits<uint32_t>::max();  // 2^32 iterations, one thread
  share(0, nullptr, &last, &lower, &upper);
  BOOST_TEST(last == 1);
  BOOST_TEST(lower == 0u);
  BOOST_TEST(upper == std::numeric_limits<uint32_t>::max());
}

BOOST_AUTO_TEST_CASE(parts_of_a_reduction_are_all_added) {
  for (int round = 0; round < 100; ++round) {
    int sum = 0;
    int singles = 0;
    int product = 1;
    __kmpc_fork_call(nullptr, 3, reinterpret_cast<Task>(reduce), &sum, &singles, &product);
    BOOST_TEST(wrong == 0);
    BOOST_TEST(sum == 20);
    BOOST_TEST(product == 120);
  }
}

BOOST_AUTO_TEST_SUITE_END()
