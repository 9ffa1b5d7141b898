// Launches of blobs whose kernels wait for those before them by themselves.

#define AOTIP_EARLY_LAUNCHES
#include <aoti_plugins/cuda_blob_prelude.h>
#include <cuda.h>

#include "cuda_fixture.h"
#include "cuda_numbers.h"
#include "fake_cuda/driver_control.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

void* address_of(const Handle& tensor) {
  void* data = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch_get_data_ptr(tensor.get(), &data) == 0);
  return data;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_early_launch, CudaFixture)

BOOST_AUTO_TEST_CASE(a_blob_launches_early, *boost::unit_test::label(kStandIn)) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  alignas(64) const char image[64] = "\177ELF";
  BOOST_TEST_REQUIRE(cuModuleLoadData(&module, image) == CUDA_SUCCESS);
  BOOST_TEST_REQUIRE(cuModuleGetFunction(&function, module, "fake_scale_add") == CUDA_SUCCESS);
  const Handle x = to_gpu(host_numbers({6}, kFloat32));
  const Handle scale = to_gpu(host_numbers({3}, kFloat32));
  const Handle calls = to_gpu(host_numbers({1}, kInt64));
  const Handle y = to_gpu(host_numbers({6}, kFloat32));
  void* y_ptr = address_of(y);
  void* x_ptr = address_of(x);
  void* scale_ptr = address_of(scale);
  void* calls_ptr = address_of(calls);
  int64_t k = 0;
  int64_t n = 6;
  void* arguments[] = {&y_ptr, &x_ptr, &scale_ptr, &calls_ptr, &k, &n};
  const CUstream stream = cuda::current_stream().handle;
  const auto launches = [] { return fake().calls("cuLaunchKernelEx"); };
  const auto before = launches();
  BOOST_TEST(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr) ==
             CUDA_SUCCESS);
  BOOST_TEST(launches() == before + 1);
  BOOST_TEST(numbers(y)[4] == numbers(x)[4] * numbers(scale)[1] + numbers(calls)[0] - 1);
  fake().fail("cuLaunchKernelEx", 1, CUDA_ERROR_LAUNCH_FAILED);
  BOOST_TEST(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr) !=
             CUDA_SUCCESS);
  BOOST_TEST(reason().find("cuLaunchKernelEx failed") != std::string::npos, reason());
  BOOST_TEST(cuModuleUnload(module) == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_SUITE_END()
