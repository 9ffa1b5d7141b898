// randint.low_out: the CPU's numbers go to the GPU as arguments of kernels, so that they come in
// the order of the program's other work.

#include <algorithm>

#include "mps/driver/encode.h"
#include "mps/memory/device_copy.h"
#include "mps/ops/operators.h"

namespace aoti_plugins::mps {

Status Operators::store_random(Tensor& out, const Tensor& host) {
  for (size_t first = 0; first < host.nbytes(); first += kMaxBytes) {
    const size_t count = std::min<size_t>(kMaxBytes, host.nbytes() - first);
    AOTIP_RETURN_IF_FAILED(
        write_on_device(out.data_as<char>() + first, host.data_as<const char>() + first, count));
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::mps
