#pragma once

#include <aoti_plugins/cuda_shim.h>

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/stream.h"
#include "fake_cuda/driver_control.h"
#include "handle.h"
#include "shim/run_shim.h"

namespace aoti_plugins::testing {

/// Labels of the cases that a machine with one GPU leaves out: those that need the stand-ins, and
/// those that need a second GPU.
constexpr const char* kStandIn = "stand_in";
constexpr const char* kTwoGpus = "two_gpus";

/// A thread with a stream of its own on the first stand-in GPU; checks at its end that the driver
/// saw no misuse and that nothing is left.
struct CudaFixture {
  CudaFixture() {
    static const Status registered = register_device(kCuda, &cuda::cuda_device());
    (void)registered;
    fake().reset();
    BOOST_TEST_REQUIRE((cuda::use_gpu(0) == Status::kOk), last_failure());
    before_nbytes = fake().device_nbytes();
    before_objects = fake().live_objects();
    stream = cuda::Stream::create(0);
    BOOST_TEST_REQUIRE(static_cast<bool>(stream), last_failure());
    scope = std::make_unique<cuda::StreamScope>(*stream);
  }

  ~CudaFixture() {
    scope.reset();
    stream.reset();
    BOOST_TEST(std::string(fake().misuse()) == "");
    BOOST_TEST(fake().device_nbytes() >= before_nbytes);
    BOOST_TEST(fake().device_nbytes() <= before_nbytes + kept_nbytes);
    BOOST_TEST(fake().live_objects() <= before_objects + kept_objects);
  }

  size_t before_nbytes = 0;
  size_t before_objects = 0;
  size_t kept_nbytes = 0;
  size_t kept_objects = 1;  // the module with our own kernels, once per process
  std::shared_ptr<cuda::Stream> stream;
  std::unique_ptr<cuda::StreamScope> scope;
};

/// BOOST_REQUIRE for several threads at a time: touches Boost, which is not made for them, only
/// where the test fails.
inline void require(bool good) {
  if (!good) {
    BOOST_FAIL(reason());
  }
}

inline Handle make_on(int32_t device_type, const Ints& sizes, const Ints& strides, int32_t dtype,
                      int32_t index = 0) {
  AtenTensorHandle handle = nullptr;
  (void)aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
                                 dtype, device_type, index, &handle);
  return Handle(handle);
}

inline Ints row_major(const Ints& sizes) {
  Ints strides(sizes.size());
  contiguous_strides(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data());
  return strides;
}

/// A tensor on the GPU with elements in the order of its indices, whatever its strides.
template <typename T>
Handle on_gpu(const Ints& sizes, const Ints& strides, int32_t dtype, const std::vector<T>& values) {
  Handle host = make(sizes, dtype);
  std::copy(values.begin(), values.end(), data_of<T>(host));
  Handle device = make_on(kCuda, sizes, strides, dtype);
  require(static_cast<bool>(device));
  require(aoti_torch_copy_(device.get(), host.get(), 0) == 0);
  return device;
}

/// The elements of a tensor in the order of its indices.
template <typename T>
std::vector<T> read(const Handle& tensor) {
  const Tensor& t = *unwrap(tensor.get());
  Handle host = make(Ints(t.sizes(), t.sizes() + t.ndim()), t.dtype());
  require(aoti_torch_copy_(host.get(), tensor.get(), 0) == 0);
  const T* data = data_of<T>(host);
  return std::vector<T>(data, data + t.numel());
}

/// Checks that a shim failed, for a reason with these words.
inline void check_refused(AOTITorchError code, const std::string& part) {
  BOOST_TEST(code != 0);
  BOOST_TEST(reason().find(part) != std::string::npos, "'" << reason() << "' lacks " << part);
}

}  // namespace aoti_plugins::testing
