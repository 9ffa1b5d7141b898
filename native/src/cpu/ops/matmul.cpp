#include "cpu/ops/matmul.h"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "cpu/math/gemm.h"
#include "cpu/math/reduced_float.h"
#include "cpu/math/scratch.h"
#include "cpu/threads/parallel.h"

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
  int64_t s_batch = 0;
  int64_t s_row = 0;
  int64_t s_col = 0;
};

Status check_operand(const Tensor* t, const char* name, int64_t ndim, int32_t dtype) {
  AOTIP_CHECK(t != nullptr, "%s is null", name);
  AOTIP_CHECK(t->defined(), "%s is an undefined tensor", name);
  AOTIP_CHECK(t->device().type == kCpu, "%s is on %s, expected cpu", name,
              device_type_name(t->device().type));
  AOTIP_CHECK(t->dtype() == dtype, "%s is %s, expected %s as the result", name,
              dtype_name(t->dtype()), dtype_name(dtype));
  AOTIP_CHECK(ndim < 0 || t->ndim() == ndim, "%s has %lld dims, expected %lld", name,
              static_cast<long long>(t->ndim()), static_cast<long long>(ndim));
  return Status::kOk;
}

Status plan_self(const Tensor& out, const Tensor& self, Plan* plan) {
  AOTIP_CHECK(self.ndim() <= out.ndim(), "self has %lld dims, which do not broadcast to %lld",
              static_cast<long long>(self.ndim()), static_cast<long long>(out.ndim()));
  int64_t strides[3] = {};
  const int64_t extra = out.ndim() - self.ndim();
  for (int64_t d = 0; d < self.ndim(); ++d) {
    const bool same = self.size(d) == out.size(d + extra);
    AOTIP_CHECK(same || self.size(d) == 1,
                "size %lld of dim %lld of self does not broadcast to %lld",
                static_cast<long long>(self.size(d)), static_cast<long long>(d),
                static_cast<long long>(out.size(d + extra)));
    strides[d + extra] = same && self.size(d) != 1 ? self.stride(d) : 0;
  }
  const int64_t first = out.ndim() - 2;
  plan->s_batch = first == 1 ? strides[0] : 0;
  plan->s_row = strides[first];
  plan->s_col = strides[first + 1];
  return Status::kOk;
}

Status make_plan(const Tensor& out, const Tensor* self, const Tensor& a, const Tensor& b,
                 bool batched, Plan* plan) {
  const int64_t f = batched ? 1 : 0;
  plan->m = a.size(f);
  plan->k = a.size(f + 1);
  plan->n = b.size(f + 1);
  AOTIP_CHECK(b.size(f) == plan->k,
              "inner sizes differ: the first matrix has %lld columns, the second %lld rows",
              static_cast<long long>(plan->k), static_cast<long long>(b.size(f)));
  AOTIP_CHECK(out.size(f) == plan->m && out.size(f + 1) == plan->n,
              "the result is [%lld, %lld], expected [%lld, %lld]",
              static_cast<long long>(out.size(f)), static_cast<long long>(out.size(f + 1)),
              static_cast<long long>(plan->m), static_cast<long long>(plan->n));
  if (batched) {
    plan->batch = out.size(0);
    AOTIP_CHECK(a.size(0) == plan->batch && b.size(0) == plan->batch,
                "batch sizes differ: %lld and %lld, result %lld", static_cast<long long>(a.size(0)),
                static_cast<long long>(b.size(0)), static_cast<long long>(plan->batch));
    plan->out_batch = out.stride(0);
    plan->a_batch = a.stride(0);
    plan->b_batch = b.stride(0);
  }
  return self != nullptr ? plan_self(out, *self, plan) : Status::kOk;
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
    p.s = self->data_as<T>() + index * plan.s_batch;
    p.s_row = plan.s_row;
    p.s_col = plan.s_col;
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
  if constexpr (std::is_floating_point_v<T>) {
    return gemm(p);
  } else {
    return integer_gemm(p, static_cast<int64_t>(alpha), static_cast<int64_t>(beta));
  }
}

/// float16 and bfloat16: the operands as float32, the result rounded once.
template <float (*kToFloat)(uint16_t), uint16_t (*kFromFloat)(float)>
Status run_reduced(const Plan& plan, const Tensor& out, const Tensor* self, const Tensor& a,
                   const Tensor& b, double beta, double alpha, int64_t index) noexcept {
  const GemmProblem<uint16_t> bits = problem_of<uint16_t>(plan, out, self, a, b, 0.0, 1.0, index);
  Scratch left;
  Scratch right;
  Scratch result;
  GemmProblem<float> p;
  p.m = plan.m;
  p.n = plan.n;
  p.k = plan.k;
  float* a_floats = left.get<float>(p.m * p.k);
  float* b_floats = right.get<float>(p.k * p.n);
  p.c = result.get<float>(p.m * p.n);
  AOTIP_CHECK(a_floats != nullptr && b_floats != nullptr && p.c != nullptr,
              "out of memory: float32 copies of the operands");
  widen<kToFloat>(bits.a, p.m, p.k, bits.a_row, bits.a_col, a_floats, &p.a_row, &p.a_col);
  widen<kToFloat>(bits.b, p.k, p.n, bits.b_row, bits.b_col, b_floats, &p.b_row, &p.b_col);
  p.a = a_floats;
  p.b = b_floats;
  p.c_row = p.n;
  p.c_col = 1;
  p.alpha = static_cast<float>(alpha);
  if (self != nullptr && beta != 0.0) {
    const uint16_t* s = self->data_as<uint16_t>() + index * plan.s_batch;
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        p.c[i * p.n + j] = kToFloat(s[i * plan.s_row + j * plan.s_col]);
      }
    }
    p.s = p.c;
    p.s_row = p.n;
    p.s_col = 1;
    p.beta = static_cast<float>(beta);
  }
  AOTIP_RETURN_IF_FAILED(gemm(p));
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      bits.c[i * bits.c_row + j * bits.c_col] = kFromFloat(p.c[i * p.n + j]);
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
      return run_reduced<half_to_float, float_to_half>;
    case kBFloat16:
      return run_reduced<bfloat16_to_float, float_to_bfloat16>;
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

Status matmul(Tensor* out, const Tensor* self, const Tensor* a, const Tensor* b, double beta,
              double alpha, bool batched) noexcept {
  const int64_t ndim = batched ? 3 : 2;
  AOTIP_CHECK(out != nullptr, "out is null");
  const int32_t dtype = out->dtype();
  AOTIP_RETURN_IF_FAILED(check_operand(out, "out", ndim, dtype));
  AOTIP_RETURN_IF_FAILED(check_operand(a, "the first matrix", ndim, dtype));
  AOTIP_RETURN_IF_FAILED(check_operand(b, "the second matrix", ndim, dtype));
  if (self != nullptr) {
    AOTIP_RETURN_IF_FAILED(check_operand(self, "self", -1, dtype));
  }
  const RunOne run = runner_of(dtype);
  AOTIP_CHECK(run != nullptr, "no matrix product for %s", dtype_name(dtype));
  Plan plan;
  AOTIP_RETURN_IF_FAILED(make_plan(*out, self, *a, *b, batched, &plan));
  if (plan.m == 0 || plan.n == 0) {
    return Status::kOk;
  }
  if (plan.batch == 1) {
    return run(plan, *out, self, *a, *b, beta, alpha, 0);
  }
  const int64_t work = plan.batch * plan.m * plan.n * plan.k;
  const int64_t parts = std::min(threads_for(work, kBatchWorkPerThread), plan.batch);
  std::atomic<bool> failed{false};
  parallel_for(parts, [&](int64_t part) {
    for (int64_t i = plan.batch * part / parts; i < plan.batch * (part + 1) / parts; ++i) {
      if (run(plan, *out, self, *a, *b, beta, alpha, i) != Status::kOk) {
        failed.store(true, std::memory_order_relaxed);
      }
    }
  });
  AOTIP_CHECK(!failed.load(std::memory_order_relaxed), "out of memory in a batched product");
  return Status::kOk;
}

}  // namespace aoti_plugins::cpu
