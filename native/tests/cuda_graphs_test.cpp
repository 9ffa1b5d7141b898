// CUDA graphs and results in place, on calls whose model is written here: several results, some of
// them not for the GPU, allocations in another order.

#include <cuda.h>

#include <array>
#include <vector>

#include "cuda/call_graphs.h"
#include "cuda/driver.h"
#include "cuda/placed_results.h"
#include "cuda_fixture.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using namespace aoti_plugins::cuda;

namespace {

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
  std::vector<uint32_t> given{0, 0};  // what was given for outputs that are not on the GPU

  TwoResults() : inputs_{nullptr}, results_{nullptr, nullptr} {}
  ~TwoResults() override { drop(); }

  void begin(void* input) {
    drop();
    const int64_t sizes[] = {4};
    const int64_t strides[] = {1};
    inputs_[0] = wrap(Tensor::borrow(input, 1, sizes, strides, 0, kInt32, {kCuda, 0}));
  }

  std::vector<AtenTensorHandle>& inputs() noexcept override { return inputs_; }
  std::vector<AtenTensorHandle>& results() noexcept override { return results_; }

  Status run_model() noexcept override {
    Tensor::destroy(unwrap(inputs_[0]));
    inputs_[0] = nullptr;
    AOTIP_CHECK(!fails, "as the test asked");
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

BOOST_AUTO_TEST_SUITE_END()
