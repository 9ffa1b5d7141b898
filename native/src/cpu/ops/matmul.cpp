#include <optional>
#include <type_traits>

#include "cpu/math/gemm.h"
#include "cpu/math/narrow_product.h"
#include "cpu/math/packed_linear.h"
#include "cpu/math/reduced_float.h"
#include "cpu/math/scratch.h"
#include "cpu/ops/operators.h"
#include "cpu/threads/parallel.h"
#include "ops/matmul_checks.h"

namespace aoti_plugins::cpu {
namespace {

// Multiplications in about 20 microseconds on one core, for small matrices.
constexpr int64_t kBatchWorkPerThread = int64_t{1} << 18;

/// Sizes and strides of one matmul, after all checks.
struct Plan {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t out_batch = 0;
  int64_t a_batch = 0;
  int64_t b_batch = 0;
  ops::AddedStrides self{};
};

Plan make_plan(const Tensor& out, const Tensor* self, const Tensor& a, const Tensor& b) {
  const int64_t f = out.ndim() - 2;
  Plan plan;
  plan.m = a.size(f);
  plan.k = a.size(f + 1);
  plan.n = b.size(f + 1);
  if (f == 1) {
    plan.batch = out.size(0);
    plan.out_batch = out.stride(0);
    plan.a_batch = a.stride(0);
    plan.b_batch = b.stride(0);
  }
  if (self != nullptr) {
    plan.self = ops::added_strides(out, *self);
  }
  return plan;
}

template <typename T>
GemmProblem<T> problem_of(const Plan& plan, const Tensor& out, const Tensor* self, const Tensor& a,
                          const Tensor& b, double beta, double alpha, int64_t index) {
  const int64_t f = out.ndim() - 2;
  GemmProblem<T> p;
  p.m = plan.m;
  p.n = plan.n;
  p.k = plan.k;
  p.a = a.data_as<T>() + index * plan.a_batch;
  p.a_row = a.stride(f);
  p.a_col = a.stride(f + 1);
  p.b = b.data_as<T>() + index * plan.b_batch;
  p.b_row = b.stride(f);
  p.b_col = b.stride(f + 1);
  p.c = out.data_as<T>() + index * plan.out_batch;
  p.c_row = out.stride(f);
  p.c_col = out.stride(f + 1);
  p.alpha = static_cast<T>(alpha);
  if (self != nullptr && beta != 0.0) {
    p.beta = static_cast<T>(beta);
    p.s = self->data_as<T>() + index * plan.self.batch;
    p.s_row = plan.self.row;
    p.s_col = plan.self.col;
  }
  return p;
}

/// Any integer type: wraps around as PyTorch's does, computed without overflow in the unsigned
/// type.
template <typename T>
Status integer_gemm(const GemmProblem<T>& p, int64_t alpha, int64_t beta) noexcept {
  using U = uint64_t;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      U sum = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        sum += static_cast<U>(p.a[i * p.a_row + k * p.a_col]) *
               static_cast<U>(p.b[k * p.b_row + j * p.b_col]);
      }
      sum *= static_cast<U>(alpha);
      if (p.s != nullptr) {
        sum += static_cast<U>(beta) * static_cast<U>(p.s[i * p.s_row + j * p.s_col]);
      }
      p.c[i * p.c_row + j * p.c_col] = static_cast<T>(sum);
    }
  }
  return Status::kOk;
}

template <typename T>
Status run_one(const Plan& plan, const Tensor& out, const Tensor* self, const Tensor& a,
               const Tensor& b, double beta, double alpha, int64_t index) noexcept {
  const GemmProblem<T> p = problem_of<T>(plan, out, self, a, b, beta, alpha, index);
  if constexpr (std::is_same_v<T, float>) {
    if (const std::optional<Status> packed = packed_linear(p)) {
      return *packed;
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    return gemm(p);
  } else {
    return integer_gemm(p, static_cast<int64_t>(alpha), static_cast<int64_t>(beta));
  }
}

/// out [m, n] = a @ b of 16-bit floats, as float32. What lies like the weight of a linear layer,
/// row after row of its transpose, is read as it is; anything else is copied to float32 first.
template <float (*kToFloat)(uint16_t), NarrowForm kForm>
Status reduced_product(const GemmProblem<uint16_t>& bits, float* out) noexcept {
  Scratch left;
  Scratch right;
  GemmProblem<float> p;
  p.m = bits.m;
  p.n = bits.n;
  p.k = bits.k;
  const bool is_narrow = bits.b_row == 1 && bits.b_col == bits.k;
  float* a = left.get<float>(p.m * p.k);
  float* b = is_narrow ? nullptr : right.get<float>(p.k * p.n);
  AOTIP_CHECK(a != nullptr && (is_narrow || b != nullptr),
              "out of memory: float32 copies of the operands");
  if (is_narrow) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.k; ++j) {
        a[i * p.k + j] = kToFloat(bits.a[i * bits.a_row + j * bits.a_col]);
      }
    }
    return narrow_product({kForm, p.n, p.k, bits.b}, p.m, a, out);
  }
  widen<kToFloat>(bits.a, p.m, p.k, bits.a_row, bits.a_col, a, &p.a_row, &p.a_col);
  widen<kToFloat>(bits.b, p.k, p.n, bits.b_row, bits.b_col, b, &p.b_row, &p.b_col);
  p.a = a;
  p.b = b;
  p.c = out;
  p.c_row = p.n;
  p.c_col = 1;
  return gemm(p);
}

/// float16 and bfloat16: computed as float32, the result rounded once.
template <float (*kToFloat)(uint16_t), uint16_t (*kFromFloat)(float), NarrowForm kForm>
Status run_reduced(const Plan& plan, const Tensor& out, const Tensor* self, const Tensor& a,
                   const Tensor& b, double beta, double alpha, int64_t index) noexcept {
  const GemmProblem<uint16_t> bits = problem_of<uint16_t>(plan, out, self, a, b, 0.0, 1.0, index);
  Scratch scratch;
  float* product = scratch.get<float>(plan.m * plan.n);
  AOTIP_CHECK(product != nullptr, "out of memory: a product as float32");
  AOTIP_RETURN_IF_FAILED((reduced_product<kToFloat, kForm>(bits, product)));
  const bool adds = self != nullptr && beta != 0.0;
  const uint16_t* s = adds ? self->data_as<uint16_t>() + index * plan.self.batch : nullptr;
  for (int64_t i = 0; i < plan.m; ++i) {
    for (int64_t j = 0; j < plan.n; ++j) {
      float value = static_cast<float>(alpha) * product[i * plan.n + j];
      if (adds) {
        value += static_cast<float>(beta) * kToFloat(s[i * plan.self.row + j * plan.self.col]);
      }
      bits.c[i * bits.c_row + j * bits.c_col] = kFromFloat(value);
    }
  }
  return Status::kOk;
}

using RunOne = Status (*)(const Plan&, const Tensor&, const Tensor*, const Tensor&, const Tensor&,
                          double, double, int64_t);

RunOne runner_of(int32_t dtype) {
  switch (dtype) {
    case kFloat32:
      return run_one<float>;
    case kFloat64:
      return run_one<double>;
    case kFloat16:
      return run_reduced<half_to_float, float_to_half, NarrowForm::kHalf>;
    case kBFloat16:
      return run_reduced<bfloat16_to_float, float_to_bfloat16, NarrowForm::kBfloat16>;
    case kUInt8:
      return run_one<uint8_t>;
    case kInt8:
      return run_one<int8_t>;
    case kInt16:
      return run_one<int16_t>;
    case kInt32:
      return run_one<int32_t>;
    case kInt64:
      return run_one<int64_t>;
    default:
      return nullptr;
  }
}

}  // namespace

Status Operators::matmul(Tensor& out, const Tensor* self, const Tensor& a, const Tensor& b,
                         double beta, double alpha) {
  const RunOne run = runner_of(out.dtype());
  AOTIP_CHECK(run != nullptr, "no matrix product for %s on cpu", dtype_name(out.dtype()));
  const Plan plan = make_plan(out, self, a, b);
  if (plan.m == 0 || plan.n == 0) {
    return Status::kOk;
  }
  if (plan.batch == 1) {
    return run(plan, out, self, a, b, beta, alpha, 0);
  }
  const int64_t work = plan.batch * plan.m * plan.n * plan.k;
  const int64_t threads = threads_for(work, kBatchWorkPerThread);
  const bool done = parallel_shares(threads, plan.batch, [&](int64_t i) {
    return run(plan, out, self, a, b, beta, alpha, i) == Status::kOk;
  });
  AOTIP_CHECK(done, "out of memory in a batched product");
  return Status::kOk;
}

}  // namespace aoti_plugins::cpu
