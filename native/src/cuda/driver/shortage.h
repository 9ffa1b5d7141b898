#pragma once

#include <cstdint>

namespace aoti_plugins::cuda {

/// How often something failed on this thread for want of what may be there at a later call: device
/// memory, a library's handle or plan. Two readings that differ say that it is worth another try.
uint64_t& shortages() noexcept;

}  // namespace aoti_plugins::cuda
