#include "ops/gguf_linear.h"

#include <cinttypes>
#include <cstring>
#include <initializer_list>

#include "slim/element.h"

namespace aoti_plugins::ops {
namespace {

Status bits_of(const char* kind, int32_t* ret) {
  for (const char* known : {"q4_k", "q5_k", "q6_k"}) {
    if (std::strcmp(kind, known) == 0) {
      *ret = known[1] - '0';
      return Status::kOk;
    }
  }
  AOTIP_CHECK(false, "blocks of kind %s, expected q4_k, q5_k or q6_k", kind);
}

}  // namespace

Status check_gguf_linear(const GgufLinear& l, GgufLinearSizes* ret) noexcept {
  const Tensor& x = *l.x;
  const Tensor& blocks = *l.blocks;
  int32_t bits = 0;
  AOTIP_RETURN_IF_FAILED(bits_of(l.kind, &bits));
  AOTIP_CHECK(x.ndim() >= 1, "x has no dims");
  AOTIP_CHECK(x.dtype() == kFloat32 || x.dtype() == kFloat16 || x.dtype() == kBFloat16,
              "x is %s, expected float32, float16 or bfloat16", dtype_name(x.dtype()));
  AOTIP_CHECK(blocks.dtype() == kUInt8 && blocks.ndim() == 2 && blocks.is_contiguous(),
              "blocks are %s of %" PRId64 " dims, expected contiguous uint8 of 2",
              dtype_name(blocks.dtype()), blocks.ndim());
  GgufLinearSizes s{1, blocks.size(0), x.size(x.ndim() - 1), bits};
  const int64_t nbytes = gguf_block_nbytes(bits);
  for (int64_t d = 0; d + 1 < x.ndim(); ++d) s.m *= x.size(d);
  AOTIP_CHECK(s.k > 0 && s.k % kGgufBlock == 0 && blocks.size(1) == s.k / kGgufBlock * nbytes,
              "rows of x have %" PRId64 " elements, those of the weight %" PRId64
              " bytes: not %" PRId64 " for each %" PRId64 " of them",
              s.k, blocks.size(1), nbytes, kGgufBlock);
  AOTIP_CHECK(l.bias == nullptr || (is_real(l.bias->dtype()) && l.bias->numel() == s.n),
              "bias is not floats, one for each of %" PRId64 " columns", s.n);
  for (const Tensor* one : {l.blocks, l.bias}) {
    AOTIP_CHECK(one == nullptr || one->device() == x.device(), "an argument is on %s, expected %s",
                device_type_name(one->device().type), device_type_name(x.device().type));
  }
  *ret = s;
  return Status::kOk;
}

}  // namespace aoti_plugins::ops
