// The C shims of products with weights in the forms of PyTorch, of upstream's partitioner, and in
// planes as its are.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/ops/plain_product.h"
#include "cuda/ops/tile_packed_product.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cuda__weight_int4pack_mm(AtenTensorHandle self, AtenTensorHandle mat2,
                                                   int64_t qGroupSize,
                                                   AtenTensorHandle qScaleAndZeros,
                                                   AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self, mat2, qScaleAndZeros);
    AOTIP_CHECK_ARG(ret0);
    return cuda::tile_packed_product(*unwrap(self),
                                     {unwrap(mat2), unwrap(qScaleAndZeros), qGroupSize}, ret0);
  });
}

AOTITorchError aoti_torch_cuda_int4_plain_mm(AtenTensorHandle self, AtenTensorHandle qdata,
                                             AtenTensorHandle scale, AtenTensorHandle scale_step,
                                             AtenTensorHandle zero,
                                             AtenTensorHandle zero_point_step, int64_t group_size,
                                             AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self, qdata, scale, scale_step, zero, zero_point_step);
    AOTIP_CHECK_ARG(ret0);
    return cuda::plain_product(*unwrap(self),
                               {4, unwrap(qdata), nullptr, unwrap(scale), unwrap(scale_step),
                                unwrap(zero), unwrap(zero_point_step), group_size},
                               ret0);
  });
}

AOTITorchError aoti_torch_cuda_int5_plain_mm(AtenTensorHandle self, AtenTensorHandle ql,
                                             AtenTensorHandle qh, AtenTensorHandle scale,
                                             AtenTensorHandle scale_step, AtenTensorHandle zero,
                                             AtenTensorHandle zero_point_step, int64_t group_size,
                                             AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self, ql, qh, scale, scale_step, zero, zero_point_step);
    AOTIP_CHECK_ARG(ret0);
    return cuda::plain_product(*unwrap(self),
                               {5, unwrap(ql), unwrap(qh), unwrap(scale), unwrap(scale_step),
                                unwrap(zero), unwrap(zero_point_step), group_size},
                               ret0);
  });
}

AOTITorchError aoti_torch_cuda_int6_plain_mm(AtenTensorHandle self, AtenTensorHandle ql,
                                             AtenTensorHandle qh, AtenTensorHandle scale,
                                             AtenTensorHandle steps, int64_t group_size,
                                             AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self, ql, qh, scale, steps);
    AOTIP_CHECK_ARG(ret0);
    return cuda::plain_product(
        *unwrap(self),
        {6, unwrap(ql), unwrap(qh), unwrap(scale), unwrap(steps), nullptr, nullptr, group_size},
        ret0);
  });
}

AOTITorchError aoti_torch_cuda_q6_k_linear(AtenTensorHandle x, AtenTensorHandle low,
                                           AtenTensorHandle high, AtenTensorHandle scale,
                                           AtenTensorHandle step, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(x, low, high, scale, step);
    AOTIP_CHECK_ARG(ret0);
    constexpr int64_t kGroup = 16;
    return cuda::plain_product(
        *unwrap(x),
        {6, unwrap(low), unwrap(high), unwrap(scale), unwrap(step), nullptr, nullptr, kGroup},
        ret0);
  });
}

AOTITorchError aoti_torch_cuda_int8_plain_mm(AtenTensorHandle self, AtenTensorHandle qdata,
                                             AtenTensorHandle scale, AtenTensorHandle zero,
                                             int64_t group_size, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(self, qdata, scale, zero);
    AOTIP_CHECK_ARG(ret0);
    return cuda::plain_product(
        *unwrap(self),
        {8, unwrap(qdata), nullptr, unwrap(scale), nullptr, unwrap(zero), nullptr, group_size},
        ret0);
  });
}
