// Collectives of CUDA between processes, over stand-ins for the driver and for NCCL.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver/driver.h"
#include "cuda/libraries/communicators.h"
#include "cuda_fixture.h"
#include "ranks/world.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using std::chrono::steady_clock;

namespace {

constexpr int kRanks = 2;

/// Runs a case of this program in a process for each rank; their exit statuses.
std::vector<int> run_ranks(const char* name, const char* timeout = "60") {
  static int next = 0;
  const std::string meeting = std::to_string(::getpid()) + "-" + std::to_string(next++);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t process = ::fork();
    if (process == 0) {
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      ::setenv("WORLD_SIZE", std::to_string(kRanks).c_str(), 1);
      ::setenv("AOTI_PLUGINS_RANK_MEETING", meeting.c_str(), 1);
      ::setenv("AOTI_PLUGINS_RANK_TIMEOUT", timeout, 1);
      const std::string filter = std::string("--run_test=") + name;
      ::execl("/proc/self/exe", "cuda_ranks_test", filter.c_str(), nullptr);
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

int own_rank() {
  return std::atoi(std::getenv("RANK"));
}

Handle numbers_on_gpu(const Ints& sizes, float first) {
  std::vector<float> values(
      std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()));
  std::iota(values.begin(), values.end(), first);
  return on_gpu<float>(sizes, row_major(sizes), kFloat32, values);
}

Handle all_reduced(const Handle& x, int64_t reduction = 0) {
  AtenTensorHandle out = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch_cuda_all_reduce(x.get(), reduction, kRanks, kRanks, 1, &out) == 0,
                     reason());
  return Handle(out);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_collective) {
  BOOST_TEST((run_ranks("rank_of_each_collective") == std::vector<int>{0, 0}));
}

BOOST_AUTO_TEST_CASE(collectives_in_graphs) {
  BOOST_TEST((run_ranks("rank_of_graphs") == std::vector<int>{0, 0}));
}

BOOST_AUTO_TEST_CASE(a_rank_that_ends) {
  const auto start = steady_clock::now();
  BOOST_TEST((run_ranks("rank_that_ends") == std::vector<int>{0, 9}));
  BOOST_TEST((steady_clock::now() - start < std::chrono::seconds(20)));
}

BOOST_AUTO_TEST_CASE(a_rank_that_is_late) {
  const auto start = steady_clock::now();
  BOOST_TEST((run_ranks("rank_that_is_late", "1") == std::vector<int>{0, 0}));
  BOOST_TEST((steady_clock::now() - start < std::chrono::seconds(20)));
}

BOOST_AUTO_TEST_CASE(a_group_of_one_needs_no_library) {
  CudaFixture fixture;
  const Handle x = numbers_on_gpu({2, 3}, 1);
  AtenTensorHandle out = nullptr;
  BOOST_TEST(aoti_torch_cuda_all_gather(x.get(), 1, 1, 1, &out) == 0, reason());
  BOOST_TEST(read<float>(Handle(out)) == read<float>(x));
}

BOOST_AUTO_TEST_CASE(arguments_are_checked) {
  CudaFixture fixture;
  const Handle x = numbers_on_gpu({3, 2}, 1);
  AtenTensorHandle out = nullptr;
  check_refused(aoti_torch_cuda_all_reduce(x.get(), 9, 2, 2, 1, &out), "reduction 9, expected 0");
  check_refused(aoti_torch_cuda_all_reduce(nullptr, 0, 2, 2, 1, &out), "x is null");
  check_refused(aoti_torch_cuda_all_reduce(x.get(), 0, 4, 3, 1, &out), "do not divide 4 ranks");
  check_refused(aoti_torch_cuda_reduce_scatter(x.get(), 0, 2, 2, 1, &out),
                "x has 3 rows, which cannot be divided among 2 ranks");
  check_refused(aoti_torch_cuda_broadcast(x.get(), 2, 2, 2, 1, &out), "the source is at place 2");
  const int64_t splits[] = {1, 1};
  check_refused(aoti_torch_cuda_all_to_all(x.get(), splits, 2, splits, 2, 2, 2, 1, &out),
                "x has 3 rows, the splits have 2 and 2");
  check_refused(aoti_torch_cuda_all_to_all(x.get(), splits, 1, splits, 2, 2, 2, 1, &out),
                "output_splits has 1 numbers");
  const Handle host = make({2}, kFloat32);
  check_refused(aoti_torch_cuda_all_gather(host.get(), 2, 2, 1, &out), "x is on cpu");
}

// What the processes run.

BOOST_AUTO_TEST_CASE(rank_of_each_collective, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  fixture.kept_objects += 1;  // the event of the communicators
  const auto rank = static_cast<float>(own_rank());
  const Handle x = numbers_on_gpu({2, 2}, 10 * rank);  // 0 1 2 3, and 10 11 12 13
  using Floats = std::vector<float>;
  BOOST_TEST((read<float>(all_reduced(x)) == Floats{10, 12, 14, 16}));
  BOOST_TEST((read<float>(all_reduced(x, 1)) == Floats{5, 6, 7, 8}));
  BOOST_TEST((read<float>(all_reduced(x, 2)) == Floats{0, 1, 2, 3}));
  BOOST_TEST((read<float>(all_reduced(x, 3)) == Floats{10, 11, 12, 13}));
  BOOST_TEST((read<float>(all_reduced(x, 4)) == Floats{0, 11, 24, 39}));
  AtenTensorHandle out = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch_cuda_all_gather(x.get(), 2, 2, 1, &out) == 0, reason());
  BOOST_TEST((read<float>(Handle(out)) == Floats{0, 1, 2, 3, 10, 11, 12, 13}));
  BOOST_TEST_REQUIRE(aoti_torch_cuda_reduce_scatter(x.get(), 0, 2, 2, 1, &out) == 0, reason());
  BOOST_TEST((read<float>(Handle(out)) == (own_rank() == 0 ? Floats{10, 12} : Floats{14, 16})));
  BOOST_TEST_REQUIRE(aoti_torch_cuda_broadcast(x.get(), 1, 2, 2, 1, &out) == 0, reason());
  BOOST_TEST((read<float>(Handle(out)) == Floats{10, 11, 12, 13}));
  const int64_t splits[] = {1, 1};
  BOOST_TEST_REQUIRE(aoti_torch_cuda_all_to_all(x.get(), splits, 2, splits, 2, 2, 2, 1, &out) == 0,
                     reason());
  BOOST_TEST((read<float>(Handle(out)) ==
              (own_rank() == 0 ? Floats{0, 1, 10, 11} : Floats{2, 3, 12, 13})));
  const Handle columns = on_gpu<float>({2, 2}, {1, 2}, kFloat32, {0, 1, 2, 3 + rank});
  BOOST_TEST((read<float>(all_reduced(columns)) == Floats{0, 2, 4, 7}));
  BOOST_TEST((fixture.stream->synchronize() == Status::kOk));
}

BOOST_AUTO_TEST_CASE(rank_of_graphs, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  fixture.kept_objects += 1;  // the event of the communicators
  const Handle x = numbers_on_gpu({4}, static_cast<float>(own_rank()));
  const auto capturing = cuda::Stream::create(0, true);
  BOOST_TEST_REQUIRE(static_cast<bool>(capturing), last_failure());
  const cuda::StreamScope scope(*capturing);
  BOOST_TEST_REQUIRE((fixture.stream->synchronize() == Status::kOk));
  const cuda::Driver& driver = cuda::driver();
  const auto begin = [&] {
    return driver.cuStreamBeginCapture(capturing->handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  };
  CUgraph graph = nullptr;
  capturing->capture_for(fixture.stream.get());
  // What is not there yet is not made in a capture.
  BOOST_TEST_REQUIRE(begin() == CUDA_SUCCESS);
  AtenTensorHandle none = nullptr;
  BOOST_TEST(aoti_torch_cuda_all_reduce(x.get(), 0, kRanks, kRanks, 1, &none) != 0);
  BOOST_TEST(reason().find("a communicator of NCCL") != std::string::npos, reason());
  BOOST_TEST_REQUIRE(driver.cuStreamEndCapture(capturing->handle(), &graph) == CUDA_SUCCESS);
  (void)driver.cuGraphDestroy(graph);
  BOOST_TEST((read<float>(all_reduced(x)) == std::vector<float>{1, 3, 5, 7}));
  BOOST_TEST_REQUIRE(begin() == CUDA_SUCCESS);
  const Handle out = all_reduced(all_reduced(x));
  BOOST_TEST_REQUIRE(driver.cuStreamEndCapture(capturing->handle(), &graph) == CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  BOOST_TEST_REQUIRE(driver.cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST_REQUIRE(driver.cuGraphLaunch(exec, capturing->handle()) == CUDA_SUCCESS);
    BOOST_TEST_REQUIRE((cuda::end_rank_call(0, capturing->handle()) == Status::kOk));
  }
  capturing->capture_for(nullptr);
  BOOST_TEST((capturing->synchronize() == Status::kOk));
  BOOST_TEST((read<float>(out) == std::vector<float>{2, 6, 10, 14}));
  (void)driver.cuGraphExecDestroy(exec);
  (void)driver.cuGraphDestroy(graph);
  BOOST_TEST((cuda::check_ranks() == Status::kOk), last_failure());
}

namespace {

/// A call whose result somebody waits for.
void wait_for_others(CudaFixture& fixture, const Handle& x) {
  cuda::begin_rank_call();
  const Handle out = all_reduced(x);
  BOOST_TEST((cuda::end_rank_call(0, fixture.stream->handle()) == Status::kOk));
  BOOST_TEST((fixture.stream->synchronize() == Status::kOk));
}

}  // namespace

BOOST_AUTO_TEST_CASE(rank_that_ends, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  fixture.kept_objects += 1;
  const Handle x = numbers_on_gpu({4}, 1);
  wait_for_others(fixture, x);
  BOOST_TEST((cuda::check_ranks() == Status::kOk), last_failure());
  if (own_rank() == 1) {
    ::_exit(9);
  }
  wait_for_others(fixture, x);
  BOOST_TEST((cuda::check_ranks() == Status::kFailed));
  const std::string why = last_failure();
  BOOST_TEST(why.find("rank 1 of 2 (process ") != std::string::npos, why);
  BOOST_TEST(why.find("has ended") != std::string::npos, why);
}

BOOST_AUTO_TEST_CASE(rank_that_is_late, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  fixture.kept_objects += 1;
  const Handle x = numbers_on_gpu({4}, 1);
  wait_for_others(fixture, x);
  if (own_rank() == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(3));
  } else {
    wait_for_others(fixture, x);
  }
  BOOST_TEST((cuda::check_ranks() == Status::kFailed));
  const std::string why = last_failure();
  BOOST_TEST(why.find("rank 1 of 2 (process ") != std::string::npos, why);
  BOOST_TEST(
      why.find("is behind: it has begun 1 calls, and rank 0 waited for its 2 calls for 1 s") !=
          std::string::npos,
      why);
}
