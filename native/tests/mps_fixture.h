#pragma once

// A thread with a stream of its own, over the stand-in for Metal.

#include <aoti_plugins/mps_shim.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "handle.h"
#include "metal_host/stand_in/stand_in.h"
#include "mps/driver/gpu.h"
#include "mps/driver/stream.h"
#include "mps/memory/buffer_index.h"
#include "mps/memory/buffer_pool.h"
#include "mps/session/mps_device.h"
#include "shim/run_shim.h"

namespace aoti_plugins::testing {

/// Checks at its end that Metal saw no misuse and that no memory is left.
struct MpsFixture {
  MpsFixture() {
    static const Status registered = register_device(kMps, &mps::mps_device());
    (void)registered;
    BOOST_TEST_REQUIRE((mps::open_gpu() != nullptr), last_failure());
    metal_stand_in_reset();
    pool().trim(0);
    before_buffers = mps::BufferIndex::instance().size();
    stream = mps::Stream::create();
    BOOST_TEST_REQUIRE(static_cast<bool>(stream), last_failure());
    scope = std::make_unique<mps::StreamScope>(*stream);
  }

  ~MpsFixture() {
    BOOST_TEST((stream->check_fault() == Status::kOk) != expects_fault, last_failure());
    stream->abandon();
    scope.reset();
    BOOST_TEST(stream.use_count() == 1);
    stream.reset();
    pool().set_limit(SIZE_MAX);
    pool().trim(0);
    BOOST_TEST(pool().used() == 0u);
    BOOST_TEST(mps::BufferIndex::instance().size() == before_buffers);
    BOOST_TEST(metal_stand_in_live_of("MTLBuffer") == static_cast<long>(before_buffers));
    BOOST_TEST(metal_stand_in_live_of("MTLCommandBuffer") == 0);
    BOOST_TEST(metal_stand_in_live_of("MTLComputeCommandEncoder") == 0);
    BOOST_TEST(metal_stand_in_errors() == 0, metal_stand_in_last_error());
  }

  static mps::BufferPool& pool() { return mps::BufferPool::instance(); }

  std::shared_ptr<mps::Stream> stream;
  std::unique_ptr<mps::StreamScope> scope;
  size_t before_buffers = 0;
  bool expects_fault = false;
};

inline Handle make_mps(const Ints& sizes, const Ints& strides, int32_t dtype) {
  AtenTensorHandle handle = nullptr;
  (void)aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
                                 dtype, kMps, 0, &handle);
  return Handle(handle);
}

inline Handle make_mps(const Ints& sizes, int32_t dtype) {
  Ints strides(sizes.size());
  contiguous_strides(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data());
  return make_mps(sizes, strides, dtype);
}

/// Writes all elements of a tensor without gaps.
template <typename T>
void set_values(const Handle& tensor, const std::vector<T>& values) {
  std::memcpy(unwrap(tensor.get())->data(), values.data(), values.size() * sizeof(T));
}

/// Waits for the GPU and reads all elements of a tensor without gaps.
template <typename T>
std::vector<T> values_of(const Handle& tensor) {
  const Tensor& t = *unwrap(tensor.get());
  std::vector<T> values(static_cast<size_t>(t.numel()));
  (void)mps::mps_device().copy_to_host(values.data(), t.data(), t.nbytes(), 0);
  return values;
}

inline void check_reason(const std::string& part) {
  BOOST_TEST(reason().find(part) != std::string::npos,
             "'" << reason() << "' lacks '" << part << "'");
}

}  // namespace aoti_plugins::testing
