// randint.low_out on CUDA, over a stand-in for the driver: the numbers of the CPU's sequence.

#include "cuda/driver/driver.h"
#include "cuda_fixture.h"
#include "ops/random.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

constexpr int64_t kLow = -3;
constexpr int64_t kHigh = 1000;

std::vector<int64_t> drawn_on_cpu(const Ints& sizes, int32_t dtype) {
  Handle out = make(sizes, dtype);
  require(aoti_torch_cpu_randint_low_out(out.get(), kLow, kHigh, sizes.data(),
                                         static_cast<int64_t>(sizes.size())) == 0);
  Handle wide = make(sizes, kInt64);
  require(aoti_torch_copy_(wide.get(), out.get(), 0) == 0);
  return {data_of<int64_t>(wide), data_of<int64_t>(wide) + unwrap(wide.get())->numel()};
}

std::vector<int64_t> drawn_on_gpu(const Ints& sizes, int32_t dtype) {
  Handle out = make_on(kCuda, sizes, row_major(sizes), dtype);
  require(static_cast<bool>(out));
  require(aoti_torch_cuda_randint_low_out(out.get(), kLow, kHigh, sizes.data(),
                                          static_cast<int64_t>(sizes.size())) == 0);
  Handle host = make(sizes, dtype);
  Handle wide = make(sizes, kInt64);
  require(aoti_torch_copy_(host.get(), out.get(), 0) == 0);
  require(aoti_torch_copy_(wide.get(), host.get(), 0) == 0);
  return {data_of<int64_t>(wide), data_of<int64_t>(wide) + unwrap(wide.get())->numel()};
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_random, CudaFixture)

BOOST_AUTO_TEST_CASE(numbers_are_those_of_the_seed) {
  for (const Ints& sizes : {Ints{1}, Ints{5}, Ints{}, Ints{3, 40}, Ints{0}}) {
    for (const int32_t dtype : {kInt64, kInt32, kInt16, kFloat32}) {
      ops::set_random_seed(11);
      const auto expected = drawn_on_cpu(sizes, dtype);
      ops::set_random_seed(11);
      const auto found = drawn_on_gpu(sizes, dtype);
      BOOST_TEST(found == expected, boost::test_tools::per_element());
      if (found.size() > 4) {
        BOOST_TEST(drawn_on_gpu(sizes, dtype) != found);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(violations) {
  Handle out = make_on(kCuda, {2, 2}, {2, 1}, kInt64);
  const int64_t sizes[] = {2, 2};
  const int64_t other[] = {2, 3};
  BOOST_TEST(aoti_torch_cuda_randint_low_out(out.get(), 5, 5, sizes, 2) != 0);
  BOOST_TEST(reason().find("leaves none") != std::string::npos, reason());
  BOOST_TEST(aoti_torch_cuda_randint_low_out(out.get(), 0, 5, other, 2) != 0);
  BOOST_TEST(reason().find("sizes") != std::string::npos, reason());
  Handle host = make({2, 2}, kInt64);
  BOOST_TEST(aoti_torch_cuda_randint_low_out(host.get(), 0, 5, sizes, 2) != 0);
  BOOST_TEST(reason().find("expected cuda") != std::string::npos, reason());
  Handle turned = make_on(kCuda, {2, 2}, {1, 2}, kInt64);
  BOOST_TEST(aoti_torch_cuda_randint_low_out(turned.get(), 0, 5, sizes, 2) != 0);
  BOOST_TEST(reason().find("contiguous") != std::string::npos, reason());
}

BOOST_AUTO_TEST_CASE(a_graph_is_not_captured_with_numbers) {
  Handle out = make_on(kCuda, {1}, {1}, kInt64);
  const int64_t sizes[] = {1};
  BOOST_TEST_REQUIRE(cuda::driver().cuStreamBeginCapture(
                         stream->handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  BOOST_TEST(aoti_torch_cuda_randint_low_out(out.get(), 0, 5, sizes, 1) != 0);
  BOOST_TEST(reason().find("same in every call") != std::string::npos, reason());
  CUgraph graph = nullptr;
  BOOST_TEST(cuda::driver().cuStreamEndCapture(stream->handle(), &graph) == CUDA_SUCCESS);
  BOOST_TEST(cuda::driver().cuGraphDestroy(graph) == CUDA_SUCCESS);
  BOOST_TEST(aoti_torch_cuda_randint_low_out(out.get(), 0, 5, sizes, 1) == 0, reason());
}

BOOST_AUTO_TEST_SUITE_END()
