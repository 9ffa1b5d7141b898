// The C shims of attention.

#include <aoti_plugins/mps_op_shims.h>

#include <cmath>

#include "mps/ops/attention.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

Status attention(AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value,
                 AtenTensorHandle* attn_mask, double dropout_p, int32_t is_causal,
                 AtenTensorHandle* dropout_mask, const double* scale, bool grouped,
                 AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  AOTIP_CHECK_TENSORS(query, key, value);
  AOTIP_CHECK_ARG(ret0);
  AOTIP_CHECK_ARG(ret1);
  AOTIP_CHECK(dropout_p == 0.0 && unwrap_optional(dropout_mask) == nullptr,
              "dropout is not supported: dropout_p is %g", dropout_p);
  const Tensor& q = *unwrap(query);
  const Tensor& k = *unwrap(key);
  AOTIP_CHECK(q.ndim() >= 3 && k.ndim() >= 3,
              "query has %lld dims and key %lld, expected 3 or more",
              static_cast<long long>(q.ndim()), static_cast<long long>(k.ndim()));
  AOTIP_CHECK(grouped || q.size(q.ndim() - 3) == k.size(k.ndim() - 3),
              "%lld heads and %lld key heads without enable_gqa",
              static_cast<long long>(q.size(q.ndim() - 3)),
              static_cast<long long>(k.size(k.ndim() - 3)));
  const double width = static_cast<double>(q.size(q.ndim() - 1));
  const mps::Attention call{&q,
                            &k,
                            unwrap(value),
                            unwrap_optional(attn_mask),
                            is_causal != 0,
                            scale != nullptr ? *scale : 1.0 / std::sqrt(width)};
  // The weights of the keys are never whole in memory. Programs that ask for them are not lowered;
  // the others only delete this result.
  const int64_t none = 0;
  OwnedTensor weights(Tensor::empty(1, &none, q.dtype(), q.device()));
  OwnedTensor out(weights != nullptr ? mps::attention(call) : nullptr);
  AOTIP_RETURN_IF_NULL(out);
  *ret0 = wrap(out.release());
  *ret1 = wrap(weights.release());
  return Status::kOk;
}

}  // namespace

AOTITorchError aoti_torch_mps__scaled_dot_product_attention_math_for_mps(
    AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value,
    AtenTensorHandle* attn_mask, double dropout_p, int32_t is_causal,
    AtenTensorHandle* dropout_mask, double* scale, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  return run_shim(__func__, [&] {
    return attention(query, key, value, attn_mask, dropout_p, is_causal, dropout_mask, scale, true,
                     ret0, ret1);
  });
}

AOTITorchError aoti_torch_mps__scaled_dot_product_attention_math_for_mps_v2(
    AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value,
    AtenTensorHandle* attn_mask, double dropout_p, int32_t is_causal,
    AtenTensorHandle* dropout_mask, double* scale, int32_t enable_gqa, AtenTensorHandle* ret0,
    AtenTensorHandle* ret1) {
  return run_shim(__func__, [&] {
    return attention(query, key, value, attn_mask, dropout_p, is_causal, dropout_mask, scale,
                     enable_gqa != 0, ret0, ret1);
  });
}
