#include "cuda/driver/shortage.h"

namespace aoti_plugins::cuda {

uint64_t& shortages() noexcept {
  thread_local uint64_t count = 0;
  return count;
}

}  // namespace aoti_plugins::cuda
