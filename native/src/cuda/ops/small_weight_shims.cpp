// The C shim of products with weights of 4 and 8 bits.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/ops/small_weights.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

const Tensor* optional(AtenTensorHandle* handle) {
  const Tensor* tensor = handle != nullptr ? unwrap(*handle) : nullptr;
  return tensor != nullptr && tensor->defined() ? tensor : nullptr;
}

}  // namespace

AOTITorchError aoti_torch_cuda_small_weight_linear(AtenTensorHandle x, AtenTensorHandle weight,
                                                   AtenTensorHandle scale, AtenTensorHandle* zero,
                                                   AtenTensorHandle* bias, int64_t bits,
                                                   int64_t group_size, int64_t zero_kind,
                                                   AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(x);
    AOTIP_CHECK_TENSOR(weight);
    AOTIP_CHECK_TENSOR(scale);
    AOTIP_CHECK_ARG(ret0);
    const cuda::SmallWeight found{unwrap(weight), unwrap(scale), optional(zero),
                                  bits,           group_size,    zero_kind};
    Tensor* out = nullptr;
    AOTIP_RETURN_IF_FAILED(cuda::small_weight_linear(*unwrap(x), found, optional(bias), &out));
    *ret0 = wrap(out);
    return Status::kOk;
  });
}
