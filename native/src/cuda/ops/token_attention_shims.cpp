// The C shim of attention of one token.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/ops/token_attention.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cuda_attended_range(AtenTensorHandle mask, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(mask);
    AOTIP_CHECK_ARG(ret0);
    Tensor* out = nullptr;
    AOTIP_RETURN_IF_FAILED(cuda::attended_range(*unwrap(mask), &out));
    *ret0 = wrap(out);
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_cuda_token_attention(AtenTensorHandle query, AtenTensorHandle key,
                                               AtenTensorHandle value, AtenTensorHandle cos,
                                               AtenTensorHandle sin, AtenTensorHandle* query_norm,
                                               AtenTensorHandle* key_norm, AtenTensorHandle keys,
                                               AtenTensorHandle values, AtenTensorHandle position,
                                               AtenTensorHandle* mask, AtenTensorHandle* range,
                                               double scale, double epsilon,
                                               AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(query);
    AOTIP_CHECK_TENSOR(key);
    AOTIP_CHECK_TENSOR(value);
    AOTIP_CHECK_TENSOR(cos);
    AOTIP_CHECK_TENSOR(sin);
    AOTIP_CHECK_TENSOR(keys);
    AOTIP_CHECK_TENSOR(values);
    AOTIP_CHECK_TENSOR(position);
    AOTIP_CHECK_ARG(ret0);
    const cuda::CachedAttention attention{unwrap(query),
                                          unwrap(key),
                                          unwrap(value),
                                          unwrap(cos),
                                          unwrap(sin),
                                          unwrap_optional(query_norm),
                                          unwrap_optional(key_norm),
                                          unwrap(keys),
                                          unwrap(values),
                                          unwrap(position),
                                          unwrap_optional(mask),
                                          unwrap_optional(range),
                                          scale,
                                          epsilon};
    Tensor* out = nullptr;
    AOTIP_RETURN_IF_FAILED(cuda::token_attention(attention, &out));
    *ret0 = wrap(out);
    return Status::kOk;
  });
}
