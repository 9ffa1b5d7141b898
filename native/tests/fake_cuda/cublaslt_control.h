#pragma once

#include "driver_control.h"
#include "fake_cublaslt.h"

namespace aoti_plugins::testing {

/// The controls of the stand-in for cuBLASLt; null on a real GPU, as most of the driver's.
struct CublasLtControl {
#define AOTIP_CONTROL(name)                                                                 \
  decltype(&::fake_cublaslt_##name) name = find_control<decltype(&::fake_cublaslt_##name)>( \
      "AOTI_PLUGINS_CUBLASLT", "fake_cublaslt_" #name)
  AOTIP_CONTROL(compute_type);
  AOTIP_CONTROL(choices);
  AOTIP_CONTROL(handles);
  AOTIP_CONTROL(fail_after);
#undef AOTIP_CONTROL
};

inline const CublasLtControl& fake_cublaslt() {
  static const CublasLtControl control;
  return control;
}

}  // namespace aoti_plugins::testing
