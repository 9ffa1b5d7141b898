// The C shims of experts: products with the chosen ones' matrices, and their router.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/ops/chosen_experts.h"
#include "cuda/ops/expert_linear.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cuda_expert_linear(AtenTensorHandle x, AtenTensorHandle experts,
                                             AtenTensorHandle weight, AtenTensorHandle scale,
                                             AtenTensorHandle* zero, AtenTensorHandle* norm,
                                             AtenTensorHandle* factors, AtenTensorHandle* residual,
                                             int64_t count, int64_t bits, int64_t group_size,
                                             int64_t zero_kind, double epsilon, int64_t gate,
                                             int32_t is_second, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(x, experts, weight, scale);
    AOTIP_CHECK_ARG(ret0);
    const cuda::ExpertLinear linear{
        {unwrap(weight), unwrap(scale), unwrap_optional(zero), bits, group_size, zero_kind},
        unwrap(experts),
        unwrap_optional(norm),
        unwrap_optional(factors),
        unwrap_optional(residual),
        count,
        epsilon,
        gate,
        is_second != 0};
    return cuda::expert_linear(*unwrap(x), linear, ret0);
  });
}

AOTITorchError aoti_torch_cuda_chosen_experts(AtenTensorHandle scores, int64_t chosen,
                                              int32_t is_normalised, AtenTensorHandle* ret0,
                                              AtenTensorHandle* ret1) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(scores);
    AOTIP_CHECK_ARG(ret0);
    AOTIP_CHECK_ARG(ret1);
    return cuda::chosen_experts(*unwrap(scores), chosen, is_normalised != 0, ret0, ret1);
  });
}
