// Collectives of CUDA between processes, over stand-ins for the driver and for NCCL.

#include <unistd.h>

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver/driver.h"
#include "cuda/ops/linear_all_reduce.h"
#include "cuda/ranks/peer_memory.h"
#include "cuda/ranks/rank_watch.h"
#include "cuda/ranks/sends_ahead.h"
#include "cuda_fixture.h"
#include "fake_cuda/cublaslt_control.h"
#include "rank_processes.h"
#include "ranks/world.h"
#include "slim/half.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using boost::test_tools::per_element;
namespace data = boost::unit_test::data;
using std::chrono::steady_clock;

namespace {

constexpr int kRanks = 2;

/// Whether ranks reach each other's memory: NCCL does all where one of them does not.
enum class Peers { kAll, kNone, kNotOfOne };

constexpr Peers kEachWay[] = {Peers::kAll, Peers::kNone, Peers::kNotOfOne};

std::ostream& operator<<(std::ostream& out, Peers peers) {
  return out << "peers " << static_cast<int>(peers);
}

/// Runs a case in a process for each rank; their exit statuses.
std::vector<int> run_ranks(const char* name, Peers peers, const char* timeout = "60",
                           int count = kRanks) {
  return testing::run_ranks(name, count, timeout, [peers](int rank) {
    const bool no_peers = peers == Peers::kNone || (peers == Peers::kNotOfOne && rank == 1);
    ::setenv("NCCL_P2P_DISABLE", no_peers ? "1" : "0", 1);
    // With so many, other rows would go ahead of the sums that the tests make.
    ::setenv("FAKE_CUDA_MULTIPROCESSORS", rank == 0 ? "4" : "6", 1);
    ::setenv("EXPECTED_PEERS", peers == Peers::kAll ? "all" : "none", 1);
  });
}

/// An event, memory that ranks share, and a word of the host, made once for a process.
void keep_what_ranks_share(CudaFixture& fixture) {
  fixture.kept_objects += 2;
  fixture.kept_nbytes = (size_t{4} << 20) + cuda::kPeerBlocks * sizeof(uint32_t);
}

/// The memory for pieces, which fills blocks.
void keep_memory_of_pieces(CudaFixture& fixture) {
  constexpr size_t kBlock = size_t{2} << 20;
  fixture.kept_nbytes += (cuda::kPieceMemoryNbytes + kBlock - 1) / kBlock * kBlock +
                         cuda::kPieceBlocks * sizeof(uint32_t);
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

BOOST_DATA_TEST_CASE(each_collective, data::make(kEachWay), peers) {
  BOOST_TEST(run_ranks("rank_of_each_collective", peers) == (std::vector<int>{0, 0}),
             per_element());
}

BOOST_DATA_TEST_CASE(collectives_in_graphs, data::make(kEachWay), peers) {
  BOOST_TEST(run_ranks("rank_of_graphs", peers) == (std::vector<int>{0, 0}), per_element());
}

BOOST_DATA_TEST_CASE(a_rank_that_ends, data::make({Peers::kAll, Peers::kNone}), peers) {
  const auto start = steady_clock::now();
  BOOST_TEST(run_ranks("rank_that_ends", peers) == (std::vector<int>{0, 9}), per_element());
  BOOST_TEST((steady_clock::now() - start < std::chrono::seconds(20)));
}

BOOST_DATA_TEST_CASE(a_rank_that_is_late, data::make({Peers::kAll, Peers::kNone}), peers) {
  const auto start = steady_clock::now();
  BOOST_TEST(run_ranks("rank_that_is_late", peers, "1") == (std::vector<int>{0, 0}), per_element());
  BOOST_TEST((steady_clock::now() - start < std::chrono::seconds(20)));
}

BOOST_AUTO_TEST_CASE(through_memory_of_peers) {
  BOOST_TEST(run_ranks("rank_of_shared_memory", Peers::kAll) == (std::vector<int>{0, 0}),
             per_element());
}

BOOST_AUTO_TEST_CASE(in_pieces) {
  BOOST_TEST(run_ranks("rank_of_pieces", Peers::kAll) == (std::vector<int>{0, 0}), per_element());
}

BOOST_DATA_TEST_CASE(products_that_are_summed, data::make(kEachWay), peers) {
  BOOST_TEST(run_ranks("rank_of_products", peers) == (std::vector<int>{0, 0}), per_element());
}

BOOST_AUTO_TEST_CASE(products_in_graphs) {
  BOOST_TEST(run_ranks("rank_of_captured_products", Peers::kAll) == (std::vector<int>{0, 0}),
             per_element());
}

BOOST_AUTO_TEST_CASE(what_goes_ahead_of_a_sum) {
  // Half, in whole waves of 128 x 256 on so many multiprocessors, or what is nearest to it.
  BOOST_TEST(cuda::rows_ahead(2048, 4096, 132) == 1024);
  BOOST_TEST(cuda::rows_ahead(1536, 4096, 132) == 768);
  BOOST_TEST(cuda::rows_ahead(1024, 4096, 132) == 0);  // one wave
  BOOST_TEST(cuda::rows_ahead(1, 4096, 132) == 0);
  BOOST_TEST(cuda::rows_ahead(0, 4096, 132) == 0);
  BOOST_TEST(cuda::rows_ahead(100000, 4096, 1) == 49920);
}

BOOST_AUTO_TEST_CASE(memory_of_several_groups) {
  BOOST_TEST(run_ranks("rank_of_groups", Peers::kAll, "60", 3) == (std::vector<int>(3, 0)),
             per_element());
  BOOST_TEST(run_ranks("rank_of_groups", Peers::kAll, "60", 4) == (std::vector<int>(4, 0)),
             per_element());
}

BOOST_DATA_TEST_CASE(a_rank_that_ends_within_a_call, data::make({"packets", "pieces", "NCCL"}),
                     last) {
  const auto start = steady_clock::now();
  const std::string name = std::string("rank_that_ends_before_") + last;
  BOOST_TEST(run_ranks(name.c_str(), Peers::kAll) == (std::vector<int>{0, 9}), per_element());
  BOOST_TEST((steady_clock::now() - start < std::chrono::seconds(20)));
}

BOOST_AUTO_TEST_CASE(a_product_that_fails_behind_what_went_ahead) {
  const auto start = steady_clock::now();
  BOOST_TEST(run_ranks("rank_that_fails_behind_a_copy", Peers::kAll) == (std::vector<int>{0, 0}),
             per_element());
  BOOST_TEST((steady_clock::now() - start < std::chrono::seconds(20)));
}

BOOST_AUTO_TEST_CASE(without_our_kernels) {
  BOOST_TEST(run_ranks("rank_without_kernels", Peers::kAll) == (std::vector<int>{0, 0}),
             per_element());
}

BOOST_AUTO_TEST_CASE(calls_on_two_streams) {
  const char* const name = "a_call_comes_after_the_one_before";
  BOOST_TEST(run_ranks(name, Peers::kAll) == (std::vector<int>{0, 0}), per_element());
}

BOOST_AUTO_TEST_CASE(memory_that_cannot_be_opened) {
  BOOST_TEST(run_ranks("rank_without_shared_memory", Peers::kAll) == (std::vector<int>{0, 0}),
             per_element());
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
  keep_what_ranks_share(fixture);
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
  keep_what_ranks_share(fixture);
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
  BOOST_TEST(reason().find("while a graph is captured") != std::string::npos, reason());
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

/// Ends the process of rank 1 when both have come here.
void end_rank_1() {
  BOOST_TEST((ranks::world()->agree(ranks::Step::named("the end"), "") == Status::kOk),
             last_failure());
  if (own_rank() == 1) {
    ::_exit(9);
  }
}

/// A call whose result somebody waits for.
void wait_for_others(CudaFixture& fixture, const Handle& x) {
  BOOST_TEST((cuda::begin_rank_call(0, fixture.stream->handle()) == Status::kOk));
  const Handle out = all_reduced(x);
  BOOST_TEST((cuda::end_rank_call(0, fixture.stream->handle()) == Status::kOk));
  BOOST_TEST((fixture.stream->synchronize() == Status::kOk));
}

}  // namespace

BOOST_AUTO_TEST_CASE(rank_that_ends, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  keep_what_ranks_share(fixture);
  const Handle x = numbers_on_gpu({4}, 1);
  wait_for_others(fixture, x);
  BOOST_TEST((cuda::check_ranks() == Status::kOk), last_failure());
  end_rank_1();
  wait_for_others(fixture, x);
  BOOST_TEST((cuda::check_ranks() == Status::kFailed));
  const std::string why = last_failure();
  BOOST_TEST(why.find("rank 1 of 2 (process ") != std::string::npos, why);
  BOOST_TEST(why.find("has ended") != std::string::npos, why);
}

BOOST_AUTO_TEST_CASE(rank_that_is_late, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  keep_what_ranks_share(fixture);
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

namespace {

const cuda::PeerMemory& shared_memory(cuda::PeerUse use) {
  const cuda::PeerMemory* memory = nullptr;
  BOOST_TEST_REQUIRE((cuda::peer_memory_of({kRanks, kRanks, 1}, 0, use, &memory) == Status::kOk),
                     last_failure());
  BOOST_TEST_REQUIRE(memory != nullptr);
  return *memory;
}

/// Element i of a rank's tensor; small enough for sums in 16 bits.
float number_of(int rank, size_t i) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 5 + i / 1000) % 31);
}

std::vector<float> numbers_of(int rank, size_t count) {
  std::vector<float> found(count);
  for (size_t i = 0; i < count; ++i) {
    found[i] = number_of(rank, i);
  }
  return found;
}

void check_sums(size_t count) {
  const Ints sizes = {static_cast<int64_t>(count)};
  const std::vector<float> own = numbers_of(own_rank(), count);
  std::vector<float> expected = numbers_of(0, count);
  const std::vector<float> others = numbers_of(1, count);
  std::transform(expected.begin(), expected.end(), others.begin(), expected.begin(), std::plus<>());
  BOOST_TEST((read<float>(all_reduced(on_gpu<float>(sizes, {1}, kFloat32, own))) == expected));
  std::vector<uint16_t> halves(count);
  std::transform(own.begin(), own.end(), halves.begin(), float_to_bfloat16);
  const auto sums = read<uint16_t>(all_reduced(on_gpu<uint16_t>(sizes, {1}, kBFloat16, halves)));
  BOOST_TEST(std::equal(sums.begin(), sums.end(), expected.begin(),
                        [](uint16_t a, float b) { return bfloat16_to_float(a) == b; }));
  std::transform(own.begin(), own.end(), halves.begin(), float_to_half);
  const auto others_sums =
      read<uint16_t>(all_reduced(on_gpu<uint16_t>(sizes, {1}, kFloat16, halves)));
  BOOST_TEST(std::equal(others_sums.begin(), others_sums.end(), expected.begin(),
                        [](uint16_t a, float b) { return half_to_float(a) == b; }));
}

void check_gathered(size_t count) {
  std::vector<uint8_t> own(count);
  std::vector<uint8_t> expected;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (size_t i = 0; i < count; ++i) {
      expected.push_back(static_cast<uint8_t>(number_of(rank, i)));
      own[i] = static_cast<uint8_t>(number_of(own_rank(), i));
    }
  }
  const Handle x = on_gpu<uint8_t>({static_cast<int64_t>(count)}, {1}, kUInt8, own);
  AtenTensorHandle out = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch_cuda_all_gather(x.get(), kRanks, kRanks, 1, &out) == 0, reason());
  BOOST_TEST((read<uint8_t>(Handle(out)) == expected));
}

}  // namespace

BOOST_AUTO_TEST_CASE(rank_of_shared_memory, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  keep_what_ranks_share(fixture);
  const cuda::PeerMemory& packets = shared_memory(cuda::PeerUse::kPackets);
  // One element, part of a packet, several blocks, more packets than all blocks have threads.
  for (const size_t count : {1, 2, 3, 5, 512, 513, 4099, 70001, 3, 131072, 1}) {
    check_sums(count);
    check_gathered(count);
  }
  // Numbers of calls begin again, and 0 is none.
  constexpr uint32_t kLast = std::numeric_limits<uint32_t>::max();
  std::fill_n(packets.calls, cuda::kPeerBlocks, kLast - 2);
  for (int i = 0; i < 6; ++i) {
    check_sums(600);
  }
  BOOST_TEST(packets.calls[0] == 17u);  // 15 calls from 2 on
  BOOST_TEST(packets.calls[63] == kLast - 2);
  check_gathered((512 << 10) + 1);  // too much for packets
  BOOST_TEST(packets.calls[63] == kLast - 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Handle x = on_gpu<float>({3}, {1}, kFloat32, {own_rank() == 0 ? nan : 1.0F, nan, 2.0F});
  for (const int64_t reduction : {2, 3}) {
    const std::vector<float> found = read<float>(all_reduced(x, reduction));
    BOOST_TEST(std::isnan(found[0]));
    BOOST_TEST(std::isnan(found[1]));
    BOOST_TEST(found[2] == 2);
  }
  // A tensor that begins anywhere in its memory.
  const Handle whole = numbers_on_gpu({6}, 0);
  const Tensor& t = *unwrap(whole.get());
  const int64_t five = 5;
  const int64_t one = 1;
  AtenTensorHandle part = nullptr;
  BOOST_TEST_REQUIRE(
      aoti_torch__reinterpret_tensor(wrap(const_cast<Tensor*>(&t)), 1, &five, &one, 1, &part) == 0);
  BOOST_TEST((read<float>(all_reduced(Handle(part))) == std::vector<float>{2, 4, 6, 8, 10}));
  // Nothing, and bytes.
  BOOST_TEST(read<float>(all_reduced(numbers_on_gpu({0}, 0))).empty());
  const Handle integers = on_gpu<uint8_t>({2}, {1}, kUInt8, {1, 2});
  AtenTensorHandle out = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch_cuda_all_gather(integers.get(), kRanks, kRanks, 1, &out) == 0);
  BOOST_TEST((read<uint8_t>(Handle(out)) == std::vector<uint8_t>{1, 2, 1, 2}));
}

BOOST_AUTO_TEST_CASE(rank_of_pieces, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  keep_what_ranks_share(fixture);
  fixture.kept_nbytes = 0;
  keep_memory_of_pieces(fixture);
  const cuda::PeerMemory& memory = shared_memory(cuda::PeerUse::kPieces);
  // More than packets take; a part of a piece, and of 16 bytes; more pieces than blocks; what comes
  // in two turns.
  for (const size_t count : {262145, 300003, 1 << 21, (4 << 20) + 5, 270000, 270000}) {
    check_sums(count);
  }
  BOOST_TEST(memory.calls[0] == 1u + 3 * 6 + 1);  // float32 of the fourth took two
  const size_t count = 300003;
  const Ints sizes = {count};
  const std::vector<float> firsts = numbers_of(0, count);
  const std::vector<float> seconds = numbers_of(1, count);
  const Handle x = on_gpu<float>(sizes, {1}, kFloat32, own_rank() == 0 ? firsts : seconds);
  const std::vector<float> averages = read<float>(all_reduced(x, 1));
  const std::vector<float> largest = read<float>(all_reduced(x, 3));
  for (size_t i = 0; i < count; ++i) {
    BOOST_TEST_REQUIRE(averages[i] == (firsts[i] + seconds[i]) / 2);
    BOOST_TEST_REQUIRE(largest[i] == std::max(firsts[i], seconds[i]));
  }
  // A tensor that begins anywhere in its memory.
  const Ints fewer = {count - 1};
  const int64_t one = 1;
  AtenTensorHandle part = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch__reinterpret_tensor(x.get(), 1, fewer.data(), &one, 1, &part) == 0);
  const std::vector<float> sums = read<float>(all_reduced(Handle(part)));
  for (size_t i = 0; i < sums.size(); ++i) {
    BOOST_TEST_REQUIRE(sums[i] == firsts[i + 1] + seconds[i + 1]);
  }
  constexpr uint32_t kLast = std::numeric_limits<uint32_t>::max();
  std::fill_n(memory.calls, cuda::kPieceBlocks, kLast - 2);
  for (int i = 0; i < 2; ++i) {
    check_sums(300000);
  }
  BOOST_TEST(memory.calls[0] == 5u);
}

namespace {

/// x [m, k] and a weight [n, k] of this rank, which are small whole numbers, a residual, and what
/// the product with the weight's transpose comes to over all ranks, plus the residual.
struct ReducedProduct {
  Handle x;
  Handle weight;
  Handle residual;
  std::vector<float> expected;

  ReducedProduct(const Ints& sizes, int64_t n, bool has_residual) {
    const int64_t k = sizes.back();
    const int64_t m =
        std::accumulate(sizes.begin(), sizes.end() - 1, int64_t{1}, std::multiplies<>());
    expected.resize(static_cast<size_t>(m * n));
    for (int rank = 0; rank < kRanks; ++rank) {
      add_rank(rank, sizes, m, n, k);
    }
    if (has_residual) {
      Ints out_sizes = sizes;
      out_sizes.back() = n;
      std::vector<uint16_t> added(expected.size());
      for (size_t i = 0; i < added.size(); ++i) {
        const auto value = static_cast<float>(i % 5);
        added[i] = float_to_bfloat16(value);
        expected[i] += value;
      }
      residual = on_gpu<uint16_t>(out_sizes, row_major(out_sizes), kBFloat16, added);
    }
  }

  void add_rank(int rank, const Ints& sizes, int64_t m, int64_t n, int64_t k) {
    const auto number = [rank](int64_t row, int64_t i) {
      return static_cast<float>((row * 5 + i * 3 + row / 64 + rank) % 7 % 3 - 1);
    };
    std::vector<uint16_t> rows;
    std::vector<uint16_t> weights;
    for (int64_t i = 0; i < (m + n) * k; ++i) {
      (i < m * k ? rows : weights).push_back(float_to_bfloat16(number(i / k, i % k)));
    }
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        for (int64_t i = 0; i < k; ++i) {
          expected[static_cast<size_t>(row * n + column)] += number(row, i) * number(m + column, i);
        }
      }
    }
    if (rank == own_rank()) {
      x = on_gpu<uint16_t>(sizes, row_major(sizes), kBFloat16, rows);
      weight = on_gpu<uint16_t>({n, k}, {k, 1}, kBFloat16, weights);
    }
  }

  Handle compute() {
    AtenTensorHandle given = residual.get();
    AtenTensorHandle out = nullptr;
    BOOST_TEST_REQUIRE(aoti_torch_cuda_linear_all_reduce(x.get(), weight.get(),
                                                         given != nullptr ? &given : nullptr, 0,
                                                         kRanks, kRanks, 1, &out) == 0,
                       reason());
    return Handle(out);
  }

  void check(const Handle& out) const {
    const auto found = read<uint16_t>(out);
    BOOST_TEST(std::equal(found.begin(), found.end(), expected.begin(), expected.end(),
                          [](uint16_t a, float b) { return bfloat16_to_float(a) == b; }));
  }
};

void check_product(const Ints& sizes, int64_t n, size_t copies, bool has_residual) {
  ReducedProduct product(sizes, n, has_residual);
  const size_t before = fake().calls("cuMemcpyDtoDAsync_v2");
  const Handle out = product.compute();
  BOOST_TEST(fake().calls("cuMemcpyDtoDAsync_v2") - before == copies);
  product.check(out);
}

}  // namespace

BOOST_AUTO_TEST_CASE(rank_of_captured_products, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  keep_what_ranks_share(fixture);
  fixture.kept_nbytes = 0;
  keep_memory_of_pieces(fixture);
  fixture.kept_objects += 3;
  ReducedProduct products[] = {
      {{1024, 8}, 512, false}, {{1024, 8}, 512, true}, {{1100, 8}, 600, true}};
  const auto capturing = cuda::Stream::create(0, true);
  BOOST_TEST_REQUIRE(static_cast<bool>(capturing), last_failure());
  const cuda::StreamScope scope(*capturing);
  BOOST_TEST_REQUIRE((fixture.stream->synchronize() == Status::kOk));
  const auto run = [&] {
    cuda::begin_run_of_sums();
    std::vector<Handle> outs;
    for (ReducedProduct& product : products) {
      outs.push_back(product.compute());
    }
    return outs;
  };
  (void)run();  // makes what cannot be made in a capture
  const cuda::Driver& driver = cuda::driver();
  CUgraph graph = nullptr;
  capturing->capture_for(fixture.stream.get());
  BOOST_TEST_REQUIRE(driver.cuStreamBeginCapture(
                         capturing->handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  const std::vector<Handle> outs = run();
  BOOST_TEST_REQUIRE(driver.cuStreamEndCapture(capturing->handle(), &graph) == CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  BOOST_TEST_REQUIRE(driver.cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST_REQUIRE(driver.cuGraphLaunch(exec, capturing->handle()) == CUDA_SUCCESS);
    BOOST_TEST((capturing->synchronize() == Status::kOk));
    for (size_t at = 0; at < outs.size(); ++at) {
      products[at].check(outs[at]);
    }
  }
  capturing->capture_for(nullptr);
  (void)driver.cuGraphExecDestroy(exec);
  (void)driver.cuGraphDestroy(graph);
}

BOOST_AUTO_TEST_CASE(rank_of_products, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  keep_what_ranks_share(fixture);
  const bool has_peers = std::string(std::getenv("EXPECTED_PEERS")) == "all";
  if (has_peers) {
    keep_memory_of_pieces(fixture);
    fixture.kept_objects += 3;  // a stream for copies, two events
  } else {
    fixture.kept_nbytes = 0;
  }
  for (int run = 0; run < 3; ++run) {
    cuda::begin_run_of_sums();
    check_product({1, 32}, 64, 0, run == 0);       // packets
    check_product({2, 512, 8}, 512, 0, run == 1);  // nothing ahead of the first in pieces
    for (int i = 0; i < 3 + run; ++i) {
      check_product({1024, 8}, 512, has_peers ? 1 : 0, i % 2 == 0);
    }
    check_product({3, 32}, 64, 0, true);
    check_product({1100, 8}, 600, has_peers ? 1 : 0, true);
  }
  BOOST_TEST((fixture.stream->synchronize() == Status::kOk));
}

BOOST_AUTO_TEST_CASE(rank_that_fails_behind_a_copy, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  keep_what_ranks_share(fixture);
  keep_memory_of_pieces(fixture);
  fixture.kept_objects += 3;
  ReducedProduct product({1024, 8}, 512, false);
  cuda::begin_run_of_sums();
  for (int i = 0; i < 2; ++i) {  // nothing goes ahead of the first
    product.check(product.compute());
  }
  BOOST_TEST((cuda::begin_rank_call(0, fixture.stream->handle()) == Status::kOk));
  if (own_rank() == 1) {
    const size_t copies = fake().calls("cuMemcpyDtoDAsync_v2");
    const size_t waits = fake().calls("cuStreamWaitEvent");
    fake_cublaslt().fail_after(1);
    AtenTensorHandle out = nullptr;
    BOOST_TEST(aoti_torch_cuda_linear_all_reduce(product.x.get(), product.weight.get(), nullptr, 0,
                                                 kRanks, kRanks, 1, &out) != 0);
    BOOST_TEST(reason().find("cublasLtMatmul") != std::string::npos, reason());
    BOOST_TEST(fake().calls("cuMemcpyDtoDAsync_v2") - copies == 1u);
    // The copy waits for the product, and what comes next waits for the copy.
    BOOST_TEST(fake().calls("cuStreamWaitEvent") - waits == 2u);
    BOOST_TEST((cuda::end_for_last_failure(*ranks::world()) == Status::kFailed));
  } else {
    const Handle out = product.compute();  // waits for what does not come, and goes on all the same
    BOOST_TEST((fixture.stream->synchronize() == Status::kOk));
  }
  cuda::leave_rank_call();
  BOOST_TEST((cuda::check_ranks() == Status::kFailed));
  const std::string why = last_failure();
  BOOST_TEST(why.find("rank 1 of 2: ") != std::string::npos, why);
  BOOST_TEST(why.find("cublasLtMatmul") != std::string::npos, why);
  BOOST_TEST((fixture.stream->synchronize() == Status::kOk));
}

BOOST_AUTO_TEST_CASE(rank_without_shared_memory, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  fixture.kept_objects += 2;  // no memory of the GPU
  if (own_rank() == 1) {
    fake().fail("cuIpcOpenMemHandle_v2", 1, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  }
  BOOST_TEST((read<float>(all_reduced(numbers_on_gpu({3}, 1))) == std::vector<float>{2, 4, 6}));
  const cuda::PeerMemory* memory = nullptr;
  BOOST_TEST((cuda::peer_memory_of({kRanks, kRanks, 1}, 0, cuda::PeerUse::kPackets, &memory) ==
              Status::kOk));
  BOOST_TEST(memory == nullptr);
}

BOOST_AUTO_TEST_CASE(rank_without_kernels, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  fixture.kept_objects += 2;
  if (own_rank() == 0) {
    fake().fail("cuModuleLoadData", 1, CUDA_ERROR_NO_BINARY_FOR_GPU);
  }
  BOOST_TEST((read<float>(all_reduced(numbers_on_gpu({3}, 1))) == std::vector<float>{2, 4, 6}));
}

BOOST_AUTO_TEST_CASE(rank_of_groups, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  fixture.kept_objects += 2;
  const int64_t count = std::atoi(std::getenv("WORLD_SIZE"));
  fixture.kept_nbytes = 3 * ((size_t{4} << 20) + cuda::kPeerBlocks * sizeof(uint32_t));
  if (count == 4) {
    keep_memory_of_pieces(fixture);
    keep_memory_of_pieces(fixture);
  }
  const std::vector<ranks::Group> groups =
      count == 3 ? std::vector<ranks::Group>{{3, 3, 1}}
                 : std::vector<ranks::Group>{{4, 2, 1}, {4, 2, 2}, {4, 4, 1}};
  for (int turn = 0; turn < 3; ++turn) {
    for (const ranks::Group& group : groups) {
      // More packets than a block has threads, so that several blocks have some; then pieces of
      // groups of two.
      std::vector<float> own(turn < 2 ? 1500 + 7 * turn : 140000);
      for (size_t i = 0; i < own.size(); ++i) {
        own[i] = number_of(own_rank(), i);
      }
      const Ints sizes = {static_cast<int64_t>(own.size())};
      const Handle x = on_gpu<float>(sizes, {1}, kFloat32, own);
      AtenTensorHandle sum = nullptr;
      BOOST_TEST_REQUIRE(
          aoti_torch_cuda_all_reduce(x.get(), 0, count, group.size, group.stride, &sum) == 0,
          reason());
      AtenTensorHandle all = nullptr;
      BOOST_TEST_REQUIRE(
          aoti_torch_cuda_all_gather(x.get(), count, group.size, group.stride, &all) == 0,
          reason());
      std::vector<float> sums(own.size());
      std::vector<float> gathered;
      for (int at = 0; at < group.size; ++at) {
        const std::vector<float> part = numbers_of(group.member(own_rank(), at), own.size());
        std::transform(part.begin(), part.end(), sums.begin(), sums.begin(), std::plus<>());
        gathered.insert(gathered.end(), part.begin(), part.end());
      }
      BOOST_TEST((read<float>(Handle(sum)) == sums));
      BOOST_TEST((read<float>(Handle(all)) == gathered));
    }
  }
}

namespace {

/// Both ranks have summed in each way; then one ends, and the other waits for it in one of them.
void wait_by(size_t way) {
  CudaFixture fixture;
  keep_what_ranks_share(fixture);
  keep_memory_of_pieces(fixture);
  const Handle ways[] = {numbers_on_gpu({4}, 1), numbers_on_gpu({200000}, 1),
                         on_gpu<double>({4}, {1}, kFloat64, {1, 2, 3, 4})};
  for (const Handle& x : ways) {
    wait_for_others(fixture, x);
  }
  BOOST_TEST((cuda::check_ranks() == Status::kOk), last_failure());
  end_rank_1();
  // The call does not come to the end of its work: whoever waits for that goes on all the same.
  BOOST_TEST((cuda::begin_rank_call(0, fixture.stream->handle()) == Status::kOk));
  const Handle out = all_reduced(ways[way]);
  BOOST_TEST((fixture.stream->synchronize() == Status::kOk));
  cuda::leave_rank_call();
  BOOST_TEST((cuda::check_ranks() == Status::kFailed));
  BOOST_TEST(std::string(last_failure()).find("rank 1 of 2 (process ") != std::string::npos);
}

}  // namespace

BOOST_AUTO_TEST_CASE(rank_that_ends_before_packets, *boost::unit_test::disabled()) {
  wait_by(0);
}

BOOST_AUTO_TEST_CASE(rank_that_ends_before_pieces, *boost::unit_test::disabled()) {
  wait_by(1);
}

BOOST_AUTO_TEST_CASE(rank_that_ends_before_NCCL, *boost::unit_test::disabled()) {
  wait_by(2);
}

BOOST_AUTO_TEST_CASE(a_call_comes_after_the_one_before, *boost::unit_test::disabled()) {
  CudaFixture fixture;
  keep_what_ranks_share(fixture);
  const Handle x = numbers_on_gpu({4}, 1);
  const auto other = cuda::Stream::create(0);
  BOOST_TEST_REQUIRE(static_cast<bool>(other), last_failure());
  const auto call = [&](const cuda::Stream& stream) {
    const size_t before = fake().calls("cuStreamWaitEvent");
    BOOST_TEST((cuda::begin_rank_call(0, stream.handle()) == Status::kOk));
    const size_t waits = fake().calls("cuStreamWaitEvent") - before;
    const Handle out = all_reduced(x);
    BOOST_TEST((cuda::end_rank_call(0, stream.handle()) == Status::kOk));
    return waits;
  };
  BOOST_TEST(call(*fixture.stream) == 0u);
  BOOST_TEST(call(*fixture.stream) == 0u);
  const cuda::StreamScope scope(*other);
  BOOST_TEST(call(*other) == 1u);
  BOOST_TEST((other->synchronize() == Status::kOk));
}
