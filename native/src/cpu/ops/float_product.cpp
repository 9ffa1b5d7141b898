#include "cpu/ops/float_product.h"

#include <algorithm>

#include "cpu/ops/dense.h"
#include "shim/run_shim.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::cpu {

int64_t rows_of(const Tensor& x) {
  int64_t rows = 1;
  for (int64_t d = 0; d + 1 < x.ndim(); ++d) rows *= x.size(d);
  return rows;
}

Status begin_float_product(const Tensor& x, int64_t n, int32_t dtype, FloatProduct* ret) {
  int64_t sizes[Tensor::kMaxDims];
  std::copy_n(x.sizes(), x.ndim(), sizes);
  sizes[x.ndim() - 1] = n;
  ret->out.reset(Tensor::empty(x.ndim(), sizes, dtype, Device{}));
  AOTIP_RETURN_IF_NULL(ret->out);
  if (dtype != kFloat32) {
    ret->floats.reset(Tensor::empty(x.ndim(), sizes, kFloat32, Device{}));
    AOTIP_RETURN_IF_NULL(ret->floats);
  }
  return Status::kOk;
}

Status end_float_product(FloatProduct& product, AtenTensorHandle* ret) {
  if (product.floats != nullptr) {
    AOTIP_RETURN_IF_FAILED(strided_copy(*product.out, *product.floats));
  }
  return give(product.out.release(), ret);
}

Status add_bias(const Tensor* bias, int64_t rows, int64_t n, float* out) {
  if (bias == nullptr) {
    return Status::kOk;
  }
  OwnedTensor owner;
  const float* numbers = as_dense<float>(*bias, kFloat32, &owner);
  AOTIP_CHECK(numbers != nullptr, "out of memory: a bias as float32");
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < n; ++j) out[i * n + j] += numbers[j];
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cpu
