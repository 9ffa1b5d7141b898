// CUDA graphs and results in place, on calls whose model is written here: several results, some of
// them not for the GPU, allocations in another order.

#include <cuda.h>
#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cuda/driver/capture.h"
#include "cuda/driver/driver.h"
#include "cuda/memory/memory_pool.h"
#include "cuda/session/call_graphs.h"
#include "cuda/session/placed_results.h"
#include "cuda_fixture.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using namespace aoti_plugins::cuda;

namespace {

namespace runtime = ::executorch::runtime;

constexpr size_t kNbytes = 4 * sizeof(uint32_t);

/// Four words on the stand-in GPU.
class Memory {
 public:
  Memory() { BOOST_TEST((driver().cuMemAlloc(&ptr_, kNbytes) == CUDA_SUCCESS)); }
  ~Memory() { (void)driver().cuMemFree(ptr_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() const { return reinterpret_cast<void*>(ptr_); }

  void fill(uint32_t word, CUstream stream) const {
    (void)driver().cuMemsetD32Async(ptr_, word, 4, stream);
  }

  std::vector<uint32_t> words() const {
    std::vector<uint32_t> found(4);
    (void)driver().cuMemcpy(reinterpret_cast<CUdeviceptr>(found.data()), ptr_, kNbytes);
    return found;
  }

 private:
  CUdeviceptr ptr_ = 0;
};

std::vector<uint32_t> four(uint32_t word) {
  return std::vector<uint32_t>(4, word);
}

Tensor* make_words() {
  const int64_t sizes[] = {4};
  return Tensor::empty(1, sizes, kInt32, {kCuda, 0});
}

/// A model with two results, words of 1 and of 2. Each has a memory of the program, or null for an
/// output that is not for the GPU.
class TwoResults final : public ModelCall {
 public:
  std::array<void*, 2> wanted{};
  bool other_order = false;
  bool fails = false;
  int64_t input_words = 4;
  int64_t temporary_words = 0;        // that it allocates too,
  bool only_captured = false;         // if so, only while a graph is captured
  std::vector<uint32_t> given{0, 0};  // what was given for outputs that are not on the GPU

  TwoResults() : inputs_{nullptr}, results_{nullptr, nullptr} {}
  ~TwoResults() override { drop(); }

  void begin(void* input) {
    drop();
    const int64_t sizes[] = {input_words};
    const int64_t strides[] = {1};
    inputs_[0] = wrap(Tensor::borrow(input, 1, sizes, strides, 0, kInt32, {kCuda, 0}));
  }

  std::vector<AtenTensorHandle>& inputs() noexcept override { return inputs_; }
  std::vector<AtenTensorHandle>& results() noexcept override { return results_; }

  Status run_model() noexcept override {
    Tensor::destroy(unwrap(inputs_[0]));
    inputs_[0] = nullptr;
    AOTIP_CHECK(!fails, "as the test asked");
    AOTIP_RETURN_IF_FAILED(take_temporary());
    for (size_t n = 0; n < 2; ++n) {
      const size_t i = other_order ? 1 - n : n;
      Tensor* result = make_words();
      AOTIP_CHECK(result != nullptr, "%s", last_failure());
      results_[i] = wrap(result);
      AOTIP_CU(cuMemsetD32Async, reinterpret_cast<CUdeviceptr>(result->data()),
               static_cast<unsigned int>(i + 1), 4, current_stream().handle);
    }
    return Status::kOk;
  }

  Status place(size_t index, int64_t, const int64_t*, void** ret_data) noexcept override {
    *ret_data = wanted[index];
    return Status::kOk;
  }

  bool has_layout(size_t, const Tensor&) const noexcept override { return true; }

  Status give(size_t index, const Tensor& result) noexcept override {
    const CUdeviceptr from = reinterpret_cast<CUdeviceptr>(result.data());
    if (wanted[index] == nullptr) {
      AOTIP_CU(cuMemcpyDtoHAsync, &given[index], from, sizeof(uint32_t), current_stream().handle);
      AOTIP_CU(cuStreamSynchronize, current_stream().handle);
    } else if (wanted[index] != result.data()) {
      AOTIP_CU(cuMemcpyDtoDAsync, reinterpret_cast<CUdeviceptr>(wanted[index]), from, kNbytes,
               current_stream().handle);
    }
    return Status::kOk;
  }

 private:
  Status take_temporary() const noexcept {
    bool captured = false;
    AOTIP_RETURN_IF_FAILED(is_captured(&captured));
    if (temporary_words == 0 || (only_captured && !captured)) {
      return Status::kOk;
    }
    const OwnedTensor made(Tensor::empty(1, &temporary_words, kInt32, {kCuda, 0}));
    return made != nullptr ? Status::kOk : Status::kFailed;
  }

  void drop() {
    for (auto* handles : {&inputs_, &results_}) {
      for (AtenTensorHandle& handle : *handles) {
        Tensor::destroy(unwrap(handle));
        handle = nullptr;
      }
    }
  }

  std::vector<AtenTensorHandle> inputs_;
  std::vector<AtenTensorHandle> results_;
};

/// A call with memory for its input and its results, and what a session has to run it.
struct GraphsFixture : CudaFixture {
  Memory input;
  Memory a;
  Memory b;
  PlacedResults placed;
  TwoResults call;
  std::unique_ptr<CallGraphs> graphs = CallGraphs::create(*stream, placed);

  /// The next call, with results where they are wanted; null for one that is not for the GPU.
  void begin(void* first, void* second) {
    call.begin(input.data());
    call.wanted = {first, second};
  }

  /// A call with results in two memories; how many copies on the GPU it took.
  size_t run(const Memory& first, const Memory& second) {
    begin(first.data(), second.data());
    const size_t copies = fake().calls("cuMemcpyDtoDAsync_v2");
    BOOST_TEST_REQUIRE((graphs->perform(call) == Status::kOk), last_failure());
    const size_t taken = fake().calls("cuMemcpyDtoDAsync_v2") - copies;
    BOOST_TEST(first.words() == four(1));
    BOOST_TEST(second.words() == four(2));
    return taken;
  }

  /// A call that fails.
  void run_failing() {
    begin(a.data(), b.data());
    BOOST_TEST((graphs->perform(call) == Status::kFailed));
  }
};

/// Leaves 1 MiB of device memory for what comes until the end of the scope.
struct LittleMemory {
  LittleMemory() { MemoryPool::set_limit(MemoryPool::of(0)->used() + (1 << 20)); }
  ~LittleMemory() { MemoryPool::set_limit(SIZE_MAX); }
};

/// Words of more memory than that.
constexpr int64_t kManyWords = 1 << 20;

/// What ExecuTorch's log says while this lives.
class Log {
 public:
  Log() : before_(*runtime::get_pal_impl()) {
    lines().clear();
    require(runtime::register_pal(runtime::PalImpl::create(&Log::add, __FILE__)));
  }
  ~Log() { (void)runtime::register_pal(before_); }

  /// How many lines have these words.
  static int64_t count(const std::string& words) {
    return std::count_if(lines().begin(), lines().end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  }

 private:
  static std::vector<std::string>& lines() {
    static std::vector<std::string> instance;
    return instance;
  }
  static void add(et_timestamp_t, et_pal_log_level_t, const char*, const char*, size_t,
                  const char* message, size_t length) {
    lines().emplace_back(message, length);
  }

  const runtime::PalImpl before_;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_graphs, GraphsFixture)

BOOST_AUTO_TEST_CASE(a_graph_with_results_elsewhere_leaves_earlier_memory_alone,
                     *boost::unit_test::label(kStandIn)) {
  const auto run = [&](const Memory& to) {
    begin(to.data(), nullptr);
    call.given = {0, 0};
    BOOST_TEST_REQUIRE((graphs->perform(call) == Status::kOk), last_failure());
    BOOST_TEST(to.words() == four(1));
    BOOST_TEST(call.given[1] == 2u);
  };
  for (int i = 0; i < 3; ++i) {
    run(a);
  }
  a.fill(77, stream->handle());
  for (int i = 0; i < 3; ++i) {
    run(b);
  }
  BOOST_TEST(a.words() == four(77));
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 1u);
  BOOST_TEST(fake().calls("cuGraphLaunch") == 5u);
}

BOOST_AUTO_TEST_CASE(both_results_in_place, *boost::unit_test::label(kStandIn)) {
  size_t copies = 0;
  for (int i = 0; i < 4; ++i) {
    begin(a.data(), b.data());
    copies = fake().calls("cuMemcpyDtoDAsync_v2");
    BOOST_TEST_REQUIRE((graphs->perform(call) == Status::kOk), last_failure());
    copies = fake().calls("cuMemcpyDtoDAsync_v2") - copies;
    BOOST_TEST(a.words() == four(1));
    BOOST_TEST(b.words() == four(2));
  }
  BOOST_TEST(copies == 0u);
}

BOOST_AUTO_TEST_CASE(allocations_in_another_order_do_not_mix_results) {
  for (int i = 0; i < 6; ++i) {
    call.other_order = i % 2 == 1;
    begin(a.data(), b.data());
    BOOST_TEST_REQUIRE((placed.run_model(call, *stream) == Status::kOk), last_failure());
    BOOST_TEST((call.give_results() == Status::kOk));
    BOOST_TEST(a.words() == four(1));
    BOOST_TEST(b.words() == four(2));
  }
}

BOOST_AUTO_TEST_CASE(a_failing_model_fails_the_call_and_later_ones_run_without_graphs,
                     *boost::unit_test::label(kStandIn)) {
  call.fails = true;
  begin(a.data(), b.data());
  BOOST_TEST((graphs->perform(call) == Status::kFailed));
  BOOST_TEST(std::string(last_failure()) == "as the test asked");
  call.fails = false;
  for (int i = 0; i < 3; ++i) {
    begin(a.data(), b.data());
    BOOST_TEST((graphs->perform(call) == Status::kOk), last_failure());
    BOOST_TEST(a.words() == four(1));
  }
  BOOST_TEST(fake().calls("cuGraphLaunch") == 0u);
}

BOOST_AUTO_TEST_CASE(buffers_that_settle_late_get_a_graph, *boost::unit_test::label(kStandIn)) {
  const std::array<Memory, 12> memory;
  const auto run_on = [&](size_t pair) { return run(memory[2 * pair], memory[2 * pair + 1]); };
  for (size_t pair = 0; pair < 5; ++pair) {
    (void)run_on(pair);
  }
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 3u);
  BOOST_TEST(run_on(5) == 3u);  // copies of the input and of both results
  for (int i = 0; i < 4; ++i) {
    (void)run_on(5);
  }
  BOOST_TEST(run_on(5) == 0u);
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 4u);
  // It took the place of the graph for pair 1, which was used before that for pair 2.
  BOOST_TEST(run_on(2) == 0u);
  BOOST_TEST(run_on(1) == 3u);
  BOOST_TEST(run_on(5) == 0u);
}

BOOST_AUTO_TEST_CASE(buffers_that_keep_changing_cause_few_captures,
                     *boost::unit_test::label(kStandIn)) {
  const std::array<Memory, 12> memory;
  for (size_t i = 0; i < 60; ++i) {
    (void)run(memory[2 * (i % 6)], memory[2 * (i % 6) + 1]);
  }
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 3u);
  for (size_t i = 0; i < 300; ++i) {
    (void)run(memory[2 * (i / 5 % 6)], memory[2 * (i / 5 % 6) + 1]);  // each five times
  }
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 4u);
}

BOOST_AUTO_TEST_CASE(the_log_says_once_that_there_are_no_more_graphs,
                     *boost::unit_test::label(kStandIn)) {
  const Log log;
  for (call.input_words = 1; call.input_words < 40; ++call.input_words) {
    (void)run(a, b);
  }
  BOOST_TEST(Log::count("at most 32 graphs") == 1);
}

BOOST_AUTO_TEST_CASE(a_failure_refuses_only_its_sizes, *boost::unit_test::label(kStandIn)) {
  for (int i = 0; i < 3; ++i) {
    (void)run(a, b);
  }
  const Log log;
  call.input_words = 3;
  call.fails = true;
  run_failing();
  call.fails = false;
  BOOST_TEST(Log::count("run without a graph: as the test asked") == 1);
  for (int i = 0; i < 3; ++i) {
    (void)run(a, b);
  }
  BOOST_TEST(fake().calls("cuGraphLaunch") == 2u);
  call.input_words = 4;
  (void)run(a, b);
  BOOST_TEST(fake().calls("cuGraphLaunch") == 3u);
}

BOOST_AUTO_TEST_CASE(a_capture_that_memory_runs_out_in_is_tried_again,
                     *boost::unit_test::label(kStandIn)) {
  call.temporary_words = kManyWords;
  call.only_captured = true;
  {
    const LittleMemory little;
    for (int i = 0; i < 100; ++i) {
      (void)run(a, b);
    }
  }
  const size_t tries = fake().calls("cuStreamBeginCapture_v2");
  BOOST_TEST(tries > 2u);
  BOOST_TEST(tries < 8u);
  BOOST_TEST(fake().calls("cuGraphLaunch") == 0u);
  for (int i = 0; i < 100; ++i) {
    (void)run(a, b);
  }
  BOOST_TEST(fake().calls("cuStreamBeginCapture_v2") == tries + 1);
  BOOST_TEST(fake().calls("cuGraphLaunch") > 0u);
}

BOOST_AUTO_TEST_CASE(graphs_come_back_after_memory_ran_out, *boost::unit_test::label(kStandIn)) {
  const auto run_small = [&](int times) {
    call.input_words = 4;
    call.temporary_words = 0;
    const size_t before = fake().calls("cuGraphLaunch");
    for (int i = 0; i < times; ++i) {
      (void)run(a, b);
    }
    return fake().calls("cuGraphLaunch") - before;
  };
  const auto run_large = [&] {
    call.input_words = 5;
    call.temporary_words = kManyWords;
    run_failing();
  };
  const LittleMemory little;
  BOOST_TEST(run_small(3) == 2u);
  run_large();
  BOOST_TEST(run_small(3) == 0u);  // the pause
  run_large();
  BOOST_TEST(run_small(10) > 0u);
  // The second time there were no graphs: they are not the reason, and stay from now on.
  for (int i = 0; i < 3; ++i) {
    run_large();
    BOOST_TEST(run_small(2) == 2u);
  }
}

BOOST_AUTO_TEST_SUITE_END()
