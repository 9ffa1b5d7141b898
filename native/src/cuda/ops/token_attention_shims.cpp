// The C shim of attention of one token.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/ops/token_attention.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cuda_attended_range(AtenTensorHandle mask, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(mask);
    AOTIP_CHECK_ARG(ret0);
    return cuda::attended_range(*unwrap(mask), ret0);
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
    AOTIP_CHECK_TENSORS(query, key, value, cos, sin, keys, values, position);
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
    return cuda::token_attention(attention, ret0);
  });
}
