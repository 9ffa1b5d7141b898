#pragma once

/// What kernels are passed by value: the structs of kernels/prelude.metal, as the host sees them.

#include <cstdint>

namespace aoti_plugins::mps {

#define AOTIP_HOST
#include "mps/kernels/prelude.metal"
#undef AOTIP_HOST

}  // namespace aoti_plugins::mps
