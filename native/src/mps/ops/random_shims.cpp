// randint.low_out: the numbers are made by the CPU and go to the GPU as arguments of kernels, so
// that they come in the order of the program's other work.

#include <aoti_plugins/mps_op_shims.h>

#include <algorithm>

#include "cpu/ops/random.h"
#include "mps/driver/encode.h"
#include "mps/memory/device_copy.h"
#include "shim/randint.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_mps_randint_low_out(AtenTensorHandle out, int64_t low, int64_t high,
                                              const int64_t* size, int64_t size_len_) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(out);
    Tensor& tensor = *unwrap(out);
    AOTIP_RETURN_IF_FAILED(check_randint(tensor, kMps, low, high, size, size_len_));
    const auto itemsize = static_cast<size_t>(tensor.itemsize());
    const size_t nbytes = static_cast<size_t>(tensor.numel()) * itemsize;
    alignas(8) char numbers[mps::kMaxBytes];
    for (size_t first = 0; first < nbytes; first += sizeof(numbers)) {
      const size_t count = std::min(sizeof(numbers), nbytes - first);
      Element element;
      for (size_t at = 0; at < count; at += itemsize) {
        element.integer = cpu::random_between(low, high);
        store_element(numbers + at, tensor.dtype(), element);
      }
      char* to = static_cast<char*>(tensor.data()) + first;
      AOTIP_RETURN_IF_FAILED(mps::write_on_device(to, numbers, count));
    }
    return Status::kOk;
  });
}
