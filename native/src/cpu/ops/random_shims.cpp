// randint.low_out.

#include "cpu/ops/random.h"
#include "shim/randint.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cpu_randint_low_out(AtenTensorHandle out, int64_t low, int64_t high,
                                              const int64_t* size, int64_t size_len_) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(out);
    Tensor& tensor = *unwrap(out);
    AOTIP_RETURN_IF_FAILED(check_randint(tensor, kCpu, low, high, size, size_len_));
    char* at = static_cast<char*>(tensor.data());
    Element element;
    for (int64_t i = 0; i < tensor.numel(); ++i, at += tensor.itemsize()) {
      element.integer = cpu::random_between(low, high);
      store_element(at, tensor.dtype(), element);
    }
    return Status::kOk;
  });
}
