// The C shims of products with what stands around them.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/ops/fused_linear.h"
#include "cuda/ops/row_linear.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cuda_fused_linear(AtenTensorHandle x, AtenTensorHandle weight,
                                            AtenTensorHandle scale, AtenTensorHandle* zero,
                                            AtenTensorHandle* bias, AtenTensorHandle* norm,
                                            AtenTensorHandle* residual, int64_t bits,
                                            int64_t group_size, int64_t zero_kind, double epsilon,
                                            int64_t gate, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(x, weight, scale);
    AOTIP_CHECK_ARG(ret0);
    const cuda::FusedLinear linear{
        {unwrap(weight), unwrap(scale), unwrap_optional(zero), bits, group_size, zero_kind},
        {unwrap_optional(bias), unwrap_optional(norm), unwrap_optional(residual), epsilon, gate}};
    return cuda::fused_linear(*unwrap(x), linear, ret0);
  });
}

AOTITorchError aoti_torch_cuda_row_linear(AtenTensorHandle x, AtenTensorHandle weight,
                                          AtenTensorHandle* second, AtenTensorHandle* third,
                                          AtenTensorHandle* bias, AtenTensorHandle* norm,
                                          AtenTensorHandle* residual, double epsilon, int64_t gate,
                                          AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(x, weight);
    AOTIP_CHECK_ARG(ret0);
    const cuda::RowLinear linear{
        {unwrap(weight), unwrap_optional(second), unwrap_optional(third)},
        {unwrap_optional(bias), unwrap_optional(norm), unwrap_optional(residual), epsilon, gate}};
    return cuda::row_linear(*unwrap(x), linear, ret0);
  });
}
