// Products with weights in blocks of GGUF files.

#include "cpu/math/narrow_product.h"
#include "cpu/ops/dense.h"
#include "cpu/ops/float_product.h"
#include "cpu/ops/operators.h"

namespace aoti_plugins::cpu {
namespace {

constexpr int64_t kSumDepth = 32;  // weights with one minimum

NarrowForm form_of(int32_t bits) {
  return bits == 4 ? NarrowForm::kQ4K : bits == 5 ? NarrowForm::kQ5K : NarrowForm::kQ6K;
}

static_assert(ops::kGgufBlock == kNarrowBlock);
static_assert(ops::gguf_block_nbytes(4) == block_nbytes(NarrowForm::kQ4K));
static_assert(ops::gguf_block_nbytes(5) == block_nbytes(NarrowForm::kQ5K));
static_assert(ops::gguf_block_nbytes(6) == block_nbytes(NarrowForm::kQ6K));

}  // namespace

Status Operators::gguf_linear(const ops::GgufLinear& linear, AtenTensorHandle* ret) {
  ops::GgufLinearSizes sizes{};
  AOTIP_RETURN_IF_FAILED(ops::check_gguf_linear(linear, &sizes));
  const Tensor& x = *linear.x;
  NarrowWeight weight;
  weight.form = form_of(sizes.bits);
  weight.n = sizes.n;
  weight.k = sizes.k;
  weight.data = linear.blocks->data();
  weight.groups = sizes.k / kSumDepth;
  return make_float_product(x, weight.n, x.dtype(), ret, [&](float* out) {
    OwnedTensor owner;
    const float* rows = as_dense<float>(x, kFloat32, &owner);
    AOTIP_CHECK(rows != nullptr, "out of memory: x as float32");
    AOTIP_RETURN_IF_FAILED(narrow_product(weight, sizes.m, rows, out));
    return add_bias(linear.bias, sizes.m, weight.n, out);
  });
}

}  // namespace aoti_plugins::cpu
