#include "cuda/ops/matmul.h"

#include <algorithm>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/gpu.h"
#include "cuda/ops/gemm.h"
#include "cuda/ops/scale_checks.h"
#include "cuda/ops/tf32.h"
#include "ops/matmul_checks.h"

namespace aoti_plugins::cuda {
namespace {

cudaDataType type_of(int32_t dtype) {
  switch (dtype) {
    case kFloat64:
      return CUDA_R_64F;
    case kFloat16:
      return CUDA_R_16F;
    case kBFloat16:
      return CUDA_R_16BF;
    case kFloat8E4M3FN:
      return CUDA_R_8F_E4M3;
    case kFloat8E5M2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
  }
}

/// Types that cuBLASLt multiplies only where the first operand is transposed and the second is not.
bool is_narrow(cudaDataType type) {
  return type == CUDA_R_8I || type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

/// What cuBLASLt calls a dtype that it multiplies.
Status set_types(int32_t input, int32_t output, Gemm* gemm) {
  gemm->compute = lt::kCompute32F;
  gemm->scale_type = CUDA_R_32F;
  if (input == kInt8 && output == kInt32) {
    gemm->input_type = CUDA_R_8I;
    gemm->second_type = CUDA_R_8I;
    gemm->output_type = CUDA_R_32I;
    gemm->compute = lt::kCompute32I;
    gemm->scale_type = CUDA_R_32I;
    return Status::kOk;
  }
  AOTIP_CHECK(input == output, "the matrices are %s, expected %s as the result", dtype_name(input),
              dtype_name(output));
  AOTIP_CHECK(input == kFloat64 || input == kFloat32 || input == kFloat16 || input == kBFloat16,
              "no matrix product for %s on cuda", dtype_name(input));
  if (input == kFloat64) {
    gemm->compute = lt::kCompute64F;
    gemm->scale_type = CUDA_R_64F;
  } else if (input == kFloat32 && tf32().matmul) {
    gemm->compute = lt::kCompute32FFastTf32;
  }
  gemm->input_type = gemm->second_type = gemm->output_type = gemm->bias_type = type_of(input);
  return Status::kOk;
}

/// A matrix [rows, cols] of a tensor's last two dims (or their transpose).
struct Matrix {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;
  int64_t col_stride = 0;
  int64_t batch_stride = 0;
  const void* data = nullptr;

  Matrix(const Tensor& t, bool swapped) {
    const int64_t r = t.ndim() - 2;
    rows = t.size(swapped ? r + 1 : r);
    cols = t.size(swapped ? r : r + 1);
    row_stride = t.stride(swapped ? r + 1 : r);
    col_stride = t.stride(swapped ? r : r + 1);
    batch_stride = t.ndim() == 3 && t.size(0) > 1 ? t.stride(0) : 0;
    data = t.data();
  }

  /// Whether columns stand one behind the other, with the distance of two of them.
  bool is_column_major(int64_t* ret_leading) const {
    if ((row_stride != 1 && rows != 1) || (col_stride < rows && cols != 1)) {
      return false;
    }
    *ret_leading = cols == 1 ? std::max<int64_t>(rows, 1) : col_stride;
    return true;
  }

  Matrix transposed() const {
    Matrix t = *this;
    std::swap(t.rows, t.cols);
    std::swap(t.row_stride, t.col_stride);
    return t;
  }
};

/// Whether cuBLASLt has kernels for a narrow operand there: they read several elements at a time.
bool is_aligned(const GemmOperand& operand, cudaDataType type) {
  const int64_t nbytes = type == CUDA_R_8I ? 4 : 16;
  return operand.leading % nbytes == 0 && operand.batch_stride % nbytes == 0 &&
         reinterpret_cast<uintptr_t>(operand.data) % static_cast<uintptr_t>(nbytes) == 0;
}

bool as_operand(const Matrix& matrix, GemmOperand* ret) {
  ret->data = matrix.data;
  ret->batch_stride = matrix.batch_stride;
  ret->transposed = false;
  if (matrix.is_column_major(&ret->leading)) {
    return true;
  }
  ret->transposed = true;
  return matrix.transposed().is_column_major(&ret->leading);
}

/// Writes a tensor of no more dims, broadcast, into a matrix or a batch of them.
Status copy_broadcast(Tensor& to, const Tensor& from) {
  int64_t strides[3] = {};
  const int64_t extra = to.ndim() - from.ndim();
  for (int64_t d = 0; d < from.ndim(); ++d) {
    strides[d + extra] = from.size(d) == to.size(d + extra) ? from.stride(d) : 0;
  }
  const OwnedTensor expanded(
      from.view(to.ndim(), to.sizes(), strides, from.storage_offset(), from.dtype()));
  return expanded != nullptr ? cuda_device().copy(to, *expanded) : Status::kFailed;
}

/// One product on its way to cuBLASLt, with the copies that it needed.
class Product {
 public:
  Product(Tensor& out, double beta, double alpha, Activation activation)
      : out_(out), target_(&out) {
    gemm_.alpha = alpha;
    gemm_.beta = beta;
    gemm_.epilogue = activation == Activation::kRelu   ? lt::kRelu
                     : activation == Activation::kGelu ? lt::kGelu
                                                       : lt::kDefault;
  }

  Status run(const Tensor* self, const Tensor& a, const Tensor& b) {
    AOTIP_RETURN_IF_FAILED(set_types(a.dtype(), out_.dtype(), &gemm_));
    AOTIP_RETURN_IF_FAILED(place_all(a, b));
    if (self != nullptr && gemm_.beta != 0.0) {
      AOTIP_RETURN_IF_FAILED(place_self(*self));
    } else {
      gemm_.beta = 0.0;
    }
    return multiply(self);
  }

  /// With factors for float8 operands, and a bias that has one element for each column.
  Status run_scaled(const Tensor& a, const Tensor& b, const MatmulScales& scales) {
    gemm_.compute = lt::kCompute32F;
    gemm_.scale_type = CUDA_R_32F;
    gemm_.output_type = type_of(out_.dtype());
    // Known before the operands are placed, which depends on it.
    gemm_.input_type = type_of(a.dtype());
    gemm_.second_type = type_of(b.dtype());
    AOTIP_RETURN_IF_FAILED(place_all(a, b));
    std::swap(gemm_.input_type, gemm_.second_type);
    gemm_.a_scale = scales.second->data();
    gemm_.b_scale = scales.first->data();
    gemm_.d_scale = scales.result != nullptr ? scales.result->data() : nullptr;
    gemm_.scale_mode = scales.by_row ? lt::kScaleOuterVector : lt::kScaleScalar;
    gemm_.fast_accumulation = scales.fast_accumulation;
    if (scales.bias != nullptr) {
      gemm_.bias = scales.bias->data();
      gemm_.bias_type = type_of(scales.bias->dtype());
      gemm_.epilogue = lt::kBias;
    }
    return multiply(nullptr);
  }

 private:
  Status place_all(const Tensor& a, const Tensor& b) {
    AOTIP_RETURN_IF_FAILED(place_out());
    AOTIP_RETURN_IF_FAILED(place(swapped_ ? b : a, &gemm_.a, &a_copy_));
    AOTIP_RETURN_IF_FAILED(place(swapped_ ? a : b, &gemm_.b, &b_copy_));
    gemm_.batch = out_.ndim() == 3 ? out_.size(0) : 1;
    return Status::kOk;
  }

  Status multiply(const Tensor* self) {
    const int32_t gpu = out_.device().index;
    AOTIP_RETURN_IF_FAILED(prepare(self, gpu));
    if (self_to_copy_ != nullptr) {
      AOTIP_RETURN_IF_FAILED(reserve_gemm(gemm_, gpu));  // before anything is written
      AOTIP_RETURN_IF_FAILED(copy_broadcast(*target_, *self_to_copy_));
    }
    AOTIP_RETURN_IF_FAILED(run_gemm(gemm_, gpu));
    return target_ == &out_ ? Status::kOk : cuda_device().copy(out_, *target_);
  }

  /// The result column-major, if need be as its transpose, or in memory of its own.
  Status place_out() {
    for (const bool swapped : {true, false}) {
      if (!swapped && is_narrow(gemm_.input_type) && gemm_.input_type != CUDA_R_8I) {
        continue;  // the bias of float8 products has an element for each column
      }
      const Matrix matrix(out_, swapped);
      int64_t leading = 0;
      if (matrix.is_column_major(&leading)) {
        return set_out(matrix, swapped, leading);
      }
    }
    target_copy_.reset(Tensor::empty(out_.ndim(), out_.sizes(), out_.dtype(), out_.device()));
    target_ = target_copy_.get();
    AOTIP_RETURN_IF_NULL(target_);
    const Matrix matrix(*target_, true);
    int64_t leading = 0;
    (void)matrix.is_column_major(&leading);
    return set_out(matrix, true, leading);
  }

  Status set_out(const Matrix& matrix, bool swapped, int64_t leading) {
    swapped_ = swapped;
    gemm_.m = matrix.rows;
    gemm_.n = matrix.cols;
    gemm_.d.data = matrix.data;
    gemm_.d.leading = leading;
    gemm_.d.batch_stride = matrix.batch_stride;
    gemm_.c = gemm_.d;
    return Status::kOk;
  }

  /// An operand in place, or a copy of it where neither rows nor columns stand in one piece.
  Status place(const Tensor& tensor, GemmOperand* operand, OwnedTensor* copy) {
    const bool first = operand == &gemm_.a;
    const Matrix matrix(tensor, swapped_);
    gemm_.k = first ? matrix.cols : matrix.rows;
    const bool fits = as_operand(matrix, operand);
    const bool narrow = is_narrow(gemm_.input_type);
    const bool wrong =
        narrow && (operand->transposed != first || !is_aligned(*operand, gemm_.input_type));
    if (fits && !wrong) {
      return Status::kOk;
    }
    int64_t strides[3] = {};
    const int64_t r = tensor.ndim() - 2;
    // Column-major for cuBLASLt: the rows of `matrix` (or, transposed, its columns) at stride 1.
    const bool rows_first = narrow ? !first : swapped_;
    const int64_t unit = rows_first != swapped_ ? r : r + 1;
    const int64_t other = unit == r ? r + 1 : r;
    strides[unit] = 1;
    strides[other] = std::max<int64_t>(tensor.size(unit), 1);
    if (r == 1) {
      strides[0] = strides[other] * std::max<int64_t>(tensor.size(other), 1);
    }
    copy->reset(Tensor::empty_strided(tensor.ndim(), tensor.sizes(), strides, tensor.dtype(),
                                      tensor.device()));
    AOTIP_RETURN_IF_NULL(*copy);
    AOTIP_RETURN_IF_FAILED(cuda_device().copy(**copy, tensor));
    const Matrix placed(**copy, swapped_);
    AOTIP_CHECK(as_operand(placed, operand), "an operand's copy has the wrong layout");
    if (narrow && operand->transposed != first) {
      force(placed, first, operand);
    }
    return Status::kOk;
  }

  /// A matrix of one row or column reads both ways; takes the way that is asked for.
  static void force(const Matrix& matrix, bool transposed, GemmOperand* operand) {
    int64_t leading = 0;
    if ((transposed ? matrix.transposed() : matrix).is_column_major(&leading)) {
      operand->transposed = transposed;
      operand->leading = leading;
    }
  }

  /// self as the bias of the epilogue, as the matrix c, or copied into the result first.
  Status place_self(const Tensor& self) {
    if (gemm_.beta == 1.0 && gemm_.output_type != CUDA_R_64F && repeats_a_row(self)) {
      gemm_.bias = self.data();
      gemm_.epilogue = (gemm_.epilogue == lt::kDefault ? 0 : gemm_.epilogue) | lt::kBias;
      gemm_.beta = 0.0;
      return Status::kOk;
    }
    bool same = self.ndim() == out_.ndim();
    for (int64_t d = 0; same && d < self.ndim(); ++d) {
      same = self.size(d) == out_.size(d);
    }
    int64_t leading = 0;
    if (same && Matrix(self, swapped_).is_column_major(&leading)) {
      const Matrix matrix(self, swapped_);
      gemm_.c.data = matrix.data;
      gemm_.c.leading = leading;
      gemm_.c.batch_stride = matrix.batch_stride;
      return Status::kOk;
    }
    self_to_copy_ = &self;
    return Status::kOk;
  }

  /// Whether all rows of the result get the same elements, which stand side by side.
  bool repeats_a_row(const Tensor& self) const {
    const int64_t last = self.ndim() - 1;
    bool repeats = swapped_ && last >= 0 && self.size(last) == gemm_.m &&
                   (self.stride(last) == 1 || gemm_.m == 1);
    for (int64_t d = 0; repeats && d < last; ++d) {
      repeats = self.size(d) == 1 || self.stride(d) == 0;
    }
    return repeats;
  }

  /// Asks for a kernel before anything is written; without one for a bias, adds self as a matrix.
  Status prepare(const Tensor* self, int32_t gpu) {
    const Status status = prepare_gemm(gemm_, gpu);
    if (status == Status::kOk || gemm_.bias == nullptr || self == nullptr) {
      return status;
    }
    gemm_.bias = nullptr;
    gemm_.epilogue &= ~static_cast<uint32_t>(lt::kBias);
    gemm_.epilogue = gemm_.epilogue == 0 ? lt::kDefault : gemm_.epilogue;
    gemm_.beta = 1.0;
    self_to_copy_ = self;
    return prepare_gemm(gemm_, gpu);
  }

  Tensor& out_;
  Tensor* target_;
  Gemm gemm_;
  bool swapped_ = false;  // computes the transpose
  OwnedTensor target_copy_;
  OwnedTensor a_copy_;
  OwnedTensor b_copy_;
  const Tensor* self_to_copy_ = nullptr;
};

/// The sum over nothing: a product with one column and one row of zeros.
Status multiply_nothing(Tensor& out, const Tensor* self, double beta, int32_t dtype,
                        Activation activation) {
  alignas(16) const char zero[16] = {};
  if (self == nullptr || beta == 0.0) {
    return fill(out, zero);  // both activations keep zero
  }
  int64_t a_sizes[3] = {};
  int64_t b_sizes[3] = {};
  const int64_t r = out.ndim() - 2;
  a_sizes[0] = b_sizes[0] = out.size(0);
  a_sizes[r] = out.size(r);
  a_sizes[r + 1] = 1;
  b_sizes[r] = 1;
  b_sizes[r + 1] = out.size(r + 1);
  const OwnedTensor a(Tensor::empty(out.ndim(), a_sizes, dtype, out.device()));
  AOTIP_RETURN_IF_NULL(a);
  const OwnedTensor b(Tensor::empty(out.ndim(), b_sizes, dtype, out.device()));
  AOTIP_RETURN_IF_NULL(b);
  AOTIP_RETURN_IF_FAILED(fill(*a, zero));
  AOTIP_RETURN_IF_FAILED(fill(*b, zero));
  return Product(out, beta, 1.0, activation).run(self, *a, *b);
}

}  // namespace

Status matmul(Tensor& out, const Tensor* self, const Tensor& a, const Tensor& b, double beta,
              double alpha, Activation activation) noexcept {
  AOTIP_CHECK(a.dtype() == b.dtype(), "the first matrix is %s, the second %s",
              dtype_name(a.dtype()), dtype_name(b.dtype()));
  Gemm types;
  AOTIP_RETURN_IF_FAILED(set_types(a.dtype(), out.dtype(), &types));
  if (out.numel() == 0) {
    return Status::kOk;
  }
  const ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(use_gpu(out.device().index));
  if (a.size(a.ndim() - 1) == 0) {
    return multiply_nothing(out, self, beta, a.dtype(), activation);
  }
  return Product(out, beta, alpha, activation).run(self, a, b);
}

namespace {

bool is_float8(int32_t dtype) {
  return dtype == kFloat8E4M3FN || dtype == kFloat8E5M2;
}

}  // namespace

Status scaled_matmul(Tensor& out, const Tensor& a, const Tensor& b,
                     const MatmulScales& scales) noexcept {
  AOTIP_RETURN_IF_FAILED(ops::check_result(&out, 2, kCuda));
  AOTIP_RETURN_IF_FAILED(ops::check_operand(&a, "self", 2, out.device()));
  AOTIP_RETURN_IF_FAILED(ops::check_operand(&b, "mat2", 2, out.device()));
  AOTIP_CHECK(is_float8(a.dtype()) && is_float8(b.dtype()),
              "the matrices are %s and %s, expected float8_e4m3fn or float8_e5m2",
              dtype_name(a.dtype()), dtype_name(b.dtype()));
  AOTIP_CHECK(out.dtype() == kFloat32 || out.dtype() == kFloat16 || out.dtype() == kBFloat16 ||
                  is_float8(out.dtype()),
              "no product of float8 matrices as %s", dtype_name(out.dtype()));
  AOTIP_RETURN_IF_FAILED(ops::check_sizes(out, a, b, false));
  AOTIP_RETURN_IF_FAILED(check_scales(out, a, b, scales));
  if (out.numel() == 0) {
    return Status::kOk;
  }
  const ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(use_gpu(out.device().index));
  if (a.size(1) == 0) {
    alignas(16) const char zero[16] = {};
    return scales.bias != nullptr ? copy_broadcast(out, *scales.bias) : fill(out, zero);
  }
  return Product(out, 0.0, 1.0, Activation::kNone).run_scaled(a, b, scales);
}

}  // namespace aoti_plugins::cuda
