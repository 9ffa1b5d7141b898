// Functions of cudart that blobs of newer PyTorch call, as the library gives them.

#include <aoti_plugins/cuda_blob_prelude.h>
#include <cuda_runtime_api.h>

#include "cuda_fixture.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

BOOST_FIXTURE_TEST_SUITE(cuda_runtime_exports, CudaFixture)

BOOST_AUTO_TEST_CASE(memory_of_the_gpu_is_told_by_its_address) {
  Handle tensor = make_on(kCuda, {4}, {1}, kFloat32);
  void* data = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch_get_data_ptr(tensor.get(), &data) == 0);
  cudaPointerAttributes found{};
  BOOST_TEST(cudaPointerGetAttributes(&found, data) == cudaSuccess);
  BOOST_TEST(found.type == cudaMemoryTypeDevice);
  BOOST_TEST(found.device == 0);
  BOOST_TEST(found.devicePointer == data);
  BOOST_TEST(found.hostPointer == nullptr);
}

BOOST_AUTO_TEST_CASE(pinned_memory_is_the_hosts) {
  void* data = nullptr;
  BOOST_TEST_REQUIRE(cudaHostAlloc(&data, 64, cudaHostAllocPortable) == cudaSuccess);
  cudaPointerAttributes found{};
  BOOST_TEST(cudaPointerGetAttributes(&found, data) == cudaSuccess);
  BOOST_TEST(found.type == cudaMemoryTypeHost);
  BOOST_TEST(found.hostPointer == data);
  BOOST_TEST(cudaFreeHost(data) == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(memory_that_the_driver_does_not_know_is_no_error) {
  int value = 0;
  cudaPointerAttributes found{};
  BOOST_TEST(cudaPointerGetAttributes(&found, &value) == cudaSuccess);
  BOOST_TEST(found.type == cudaMemoryTypeUnregistered);
  BOOST_TEST(found.device == cudaInvalidDeviceId);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(a_stream_says_whether_it_is_captured) {
  const CUstream handle = cuda::current_stream().handle;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
  BOOST_TEST(cudaStreamIsCapturing(handle, &status) == cudaSuccess);
  BOOST_TEST(status == cudaStreamCaptureStatusNone);
}

BOOST_AUTO_TEST_SUITE_END()
