#pragma once

/// How tests steer and watch the stand-in for the CUDA driver. All functions are C functions of
/// libfake_cuda.so, found with dlsym.

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

struct FakeLaunch {
  unsigned int blocks;
  unsigned int cluster;        ///< blocks of one
  unsigned int shared_nbytes;  ///< that the launch gives a block
};

extern "C" {

/// Makes the `nth` next call (1: the next) of a driver function fail with a code.
void fake_cuda_fail(const char* function, int nth, int code);

/// How often a driver function was called since the last reset.
size_t fake_cuda_calls(const char* function);

/// Forgets calls and failures.
void fake_cuda_reset();

/// Bytes of device memory that are allocated now; those of a pool too.
size_t fake_cuda_device_nbytes();

/// Pieces of page-locked memory, streams, events and modules that exist now, all together.
size_t fake_cuda_live_objects();

/// The most device memory that there is.
void fake_cuda_set_memory(size_t nbytes);

/// The first misuse that was seen, or an empty string: a double free, a use after free, an unknown
/// handle, an access outside of an allocation.
const char* fake_cuda_misuse();

/// Kernel launches that have been run.
size_t fake_cuda_launches();

/// How the kernel was launched that was launched last.
FakeLaunch fake_cuda_last_launch();

/// Lets a stream, or the graph that is captured on it, call `work(argument)`: how other stand-ins
/// take part. The argument is theirs.
CUresult fake_cuda_submit(CUstream stream, void (*work)(void*), void* argument);
}

/// The same for a function object, which is kept: a graph may call it at any time.
inline CUresult submit_kept(CUstream stream, std::function<void()> work) {
  static auto* const kept = new std::deque<std::function<void()>>();
  static std::mutex mutex;
  std::function<void()>* one = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    one = &kept->emplace_back(std::move(work));
  }
  const auto run = [](void* argument) { (*static_cast<std::function<void()>*>(argument))(); };
  return fake_cuda_submit(stream, run, one);
}
