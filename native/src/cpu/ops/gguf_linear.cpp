#include "cpu/ops/gguf_linear.h"

#include <cinttypes>
#include <cstring>
#include <initializer_list>

#include "cpu/math/narrow_product.h"
#include "cpu/ops/dense.h"
#include "cpu/ops/float_product.h"
#include "slim/element.h"

namespace aoti_plugins::cpu {
namespace {

constexpr int64_t kSumDepth = 32;  // weights with one minimum

Status form_of(const char* kind, NarrowForm* ret) {
  constexpr struct {
    const char* name;
    NarrowForm form;
  } kForms[] = {{"q4_k", NarrowForm::kQ4K}, {"q5_k", NarrowForm::kQ5K}, {"q6_k", NarrowForm::kQ6K}};
  for (const auto& [name, form] : kForms) {
    if (std::strcmp(kind, name) == 0) {
      *ret = form;
      return Status::kOk;
    }
  }
  AOTIP_CHECK(false, "blocks of kind %s, expected q4_k, q5_k or q6_k", kind);
}

Status check(const GgufLinear& l, NarrowWeight* ret) {
  const Tensor& x = *l.x;
  const Tensor& blocks = *l.blocks;
  AOTIP_RETURN_IF_FAILED(form_of(l.kind, &ret->form));
  AOTIP_CHECK(x.ndim() >= 1, "x has no dims");
  AOTIP_CHECK(x.dtype() == kFloat32 || x.dtype() == kFloat16 || x.dtype() == kBFloat16,
              "x is %s, expected float32, float16 or bfloat16", dtype_name(x.dtype()));
  AOTIP_CHECK(blocks.dtype() == kUInt8 && blocks.ndim() == 2 && blocks.is_contiguous(),
              "blocks are %s of %" PRId64 " dims, expected contiguous uint8 of 2",
              dtype_name(blocks.dtype()), blocks.ndim());
  const int64_t nbytes = block_nbytes(ret->form);
  const int64_t k = x.size(x.ndim() - 1);
  AOTIP_CHECK(k > 0 && k % kNarrowBlock == 0 && blocks.size(1) == k / kNarrowBlock * nbytes,
              "rows of x have %" PRId64 " elements, those of the weight %" PRId64
              " bytes: not %" PRId64 " for each %" PRId64 " of them",
              k, blocks.size(1), nbytes, kNarrowBlock);
  ret->n = blocks.size(0);
  ret->k = k;
  ret->data = blocks.data();
  ret->groups = k / kSumDepth;
  AOTIP_CHECK(l.bias == nullptr || (is_real(l.bias->dtype()) && l.bias->numel() == ret->n),
              "bias is not floats, one for each of %" PRId64 " columns", ret->n);
  for (const Tensor* one : {l.blocks, l.bias}) {
    AOTIP_CHECK(one == nullptr || one->device() == x.device(), "an argument is on %s, expected cpu",
                device_type_name(one->device().type));
  }
  return Status::kOk;
}

}  // namespace

Status gguf_linear(const GgufLinear& linear, AtenTensorHandle* ret) {
  NarrowWeight weight;
  AOTIP_RETURN_IF_FAILED(check(linear, &weight));
  const Tensor& x = *linear.x;
  return make_float_product(x, weight.n, x.dtype(), ret, [&](float* out) {
    OwnedTensor owner;
    const float* rows = as_dense<float>(x, kFloat32, &owner);
    AOTIP_CHECK(rows != nullptr, "out of memory: x as float32");
    AOTIP_RETURN_IF_FAILED(narrow_product(weight, rows_of(x), rows, out));
    return add_bias(linear.bias, rows_of(x), weight.n, out);
  });
}

}  // namespace aoti_plugins::cpu
