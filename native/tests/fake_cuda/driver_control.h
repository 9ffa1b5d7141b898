#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "fake_cuda.h"

namespace aoti_plugins::testing {

/// The stand-in driver's controls; AOTI_PLUGINS_CUDA_DRIVER says where it is.
struct DriverControl {
#define AOTIP_CONTROL(name) \
  decltype(&::fake_cuda_##name) name = find<decltype(&::fake_cuda_##name)>("fake_cuda_" #name)
  AOTIP_CONTROL(fail);
  AOTIP_CONTROL(calls);
  AOTIP_CONTROL(reset);
  AOTIP_CONTROL(device_nbytes);
  AOTIP_CONTROL(live_objects);
  AOTIP_CONTROL(set_memory);
  AOTIP_CONTROL(misuse);
  AOTIP_CONTROL(launches);
#undef AOTIP_CONTROL

  template <typename Function>
  static Function find(const char* name) {
    static void* library = dlopen(std::getenv("AOTI_PLUGINS_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Function>(dlsym(library, name));
  }
};

inline const DriverControl& fake() {
  static const DriverControl control;
  return control;
}

}  // namespace aoti_plugins::testing
