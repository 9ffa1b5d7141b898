#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "fake_cuda.h"

namespace aoti_plugins::testing {

/// A function of the library that a variable of the environment names; null where there is none.
template <typename Function>
Function find_control(const char* variable, const char* name) {
  const char* path = std::getenv(variable);
  void* library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  return library != nullptr ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
}

/// The stand-in driver's controls; AOTI_PLUGINS_CUDA_DRIVER says where it is.
///
/// Without that variable the tests run on a real GPU, of which nothing is known: nothing is live,
/// nothing was misused. Cases that steer or count need the stand-in and have the label `kStandIn`.
struct DriverControl {
#define AOTIP_CONTROL(name)            \
  decltype(&::fake_cuda_##name) name = \
      find_control<decltype(&::fake_cuda_##name)>("AOTI_PLUGINS_CUDA_DRIVER", "fake_cuda_" #name)
  AOTIP_CONTROL(fail);
  AOTIP_CONTROL(calls);
  AOTIP_CONTROL(reset);
  AOTIP_CONTROL(device_nbytes);
  AOTIP_CONTROL(live_objects);
  AOTIP_CONTROL(set_memory);
  AOTIP_CONTROL(misuse);
  AOTIP_CONTROL(launches);
  AOTIP_CONTROL(last_launch);
#undef AOTIP_CONTROL

  DriverControl() {
    if (std::getenv("AOTI_PLUGINS_CUDA_DRIVER") == nullptr) {
      reset = [] {};
      device_nbytes = live_objects = [] { return size_t{0}; };
      misuse = [] { return ""; };
    }
  }
};

inline const DriverControl& fake() {
  static const DriverControl control;
  return control;
}

}  // namespace aoti_plugins::testing
