#pragma once

// The device that a build of these tests runs on, as AOTIP_CONFORMANCE_CPU, _CUDA or _MPS
// says: its fixture, its shims, and where it is meant to differ, with the reason.

#include <vector>

#include "slim/dtype.h"

#if defined(AOTIP_CONFORMANCE_CUDA)
#include "cuda_fixture.h"
#define AOTIP_ON(shim) aoti_torch_cuda_##shim
#elif defined(AOTIP_CONFORMANCE_MPS)
#include <aoti_plugins/mps_op_shims.h>

#include "mps_fixture.h"
#define AOTIP_ON(shim) aoti_torch_mps_##shim
#else
#include <boost/test/unit_test.hpp>

#include "handle.h"
#include "shim/run_shim.h"
#define AOTIP_ON(shim) aoti_torch_cpu_##shim
#endif

namespace aoti_plugins::testing {

/// What becomes of an index out of range; memory outside of the tensor is never touched.
enum class OutOfRange { kRefused, kFaults };

#if defined(AOTIP_CONFORMANCE_CUDA)
using DeviceFixture = CudaFixture;
constexpr int32_t kDevice = kCuda;
/// cuBLASLt has no products of integers but int8's, which are another op.
constexpr bool kMultipliesIntegers = false;
/// Which of several elements for one place is written is left to the order of threads.
constexpr bool kLastWriteStays = false;
/// Triton writes index_put.
constexpr bool kHasIndexPut = false;
/// The kernel finds an index out of range, leaves it out, and the call of the program fails.
constexpr OutOfRange kOutOfRange = OutOfRange::kFaults;
constexpr const char* kName = "cuda";
/// Whether a kernel told of an index out of range since the last time.
inline bool takes_fault(DeviceFixture& fixture) {
  return fixture.stream->synchronize() == Status::kOk &&
         fixture.stream->check_fault() != Status::kOk;
}
#elif defined(AOTIP_CONFORMANCE_MPS)
using DeviceFixture = MpsFixture;
constexpr int32_t kDevice = kMps;
constexpr bool kMultipliesIntegers = true;
constexpr bool kLastWriteStays = true;
constexpr bool kHasIndexPut = true;
/// As on CUDA.
constexpr OutOfRange kOutOfRange = OutOfRange::kFaults;
constexpr const char* kName = "mps";
inline bool takes_fault(DeviceFixture& fixture) {
  const bool found = fixture.stream->finish() != Status::kOk;
  fixture.stream->abandon();
  return found;
}
// No float64: Metal has none. Each dtype is a kernel to compile, so that not all integers are here.
inline const std::vector<int32_t> kReals = {kFloat32, kFloat16, kBFloat16};
inline const std::vector<int32_t> kNumbers = {kFloat32, kBFloat16, kInt64, kUInt8, kBool};
#else
struct DeviceFixture {};
constexpr int32_t kDevice = kCpu;
constexpr bool kMultipliesIntegers = true;
constexpr bool kLastWriteStays = true;
constexpr bool kHasIndexPut = true;
/// Looked at before anything is written.
constexpr OutOfRange kOutOfRange = OutOfRange::kRefused;
constexpr const char* kName = "cpu";
inline bool takes_fault(DeviceFixture&) {
  return false;
}
#endif

#ifndef AOTIP_CONFORMANCE_MPS
inline const std::vector<int32_t> kReals = {kFloat32, kFloat64, kFloat16, kBFloat16};
inline const std::vector<int32_t> kNumbers = {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64,
                                              kInt32,   kInt16,   kInt8,    kUInt8,    kBool};
#endif

}  // namespace aoti_plugins::testing
