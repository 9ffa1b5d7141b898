#include <algorithm>
#include <string>
#include <utility>

#include "mps/driver/kernel.h"
#include "mps/driver/kernel_arguments.h"
#include "mps/kernels/sources.h"
#include "mps/ops/gemm_tiles.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/operators.h"
#include "ops/matmul_checks.h"

namespace aoti_plugins::mps {
namespace {

// Must match kernels/gemm_rows.metal.
constexpr int64_t kRowsGroups = 8;
constexpr int64_t kRowsColumns = 4;
constexpr int64_t kMaxRows = 4;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// One matmul, after all checks. `self` is null where it does not count.
struct Problem {
  const Tensor* out;
  const Tensor* self;
  const Tensor* a;
  const Tensor* b;
  int64_t batch;
  MatmulArgs args;
};

MatmulArgs arguments_of(const Tensor& out, const Tensor& a, const Tensor& b) {
  const int64_t f = out.ndim() - 2;
  MatmulArgs p{};
  p.m = a.size(f);
  p.k = a.size(f + 1);
  p.n = b.size(f + 1);
  if (f == 1) {
    p.c_batch = out.stride(0);
    p.a_batch = a.stride(0);
    p.b_batch = b.stride(0);
  }
  p.a_row = a.stride(f);
  p.a_col = a.stride(f + 1);
  p.b_row = b.stride(f);
  p.b_col = b.stride(f + 1);
  p.c_row = out.stride(f);
  p.c_col = out.stride(f + 1);
  return p;
}

void add_self(const Tensor& out, const Tensor& self, Problem* problem) {
  const ops::AddedStrides strides = ops::added_strides(out, self);
  problem->self = &self;
  problem->args.add = 1;
  problem->args.s_batch = strides.batch;
  problem->args.s_row = strides.row;
  problem->args.s_col = strides.col;
}

/// The buffers of every kernel of a product. Operands without elements are not read: the result
/// stands for them.
Launch& bind(Launch& launch, const Problem& problem) {
  const Tensor& out = *problem.out;
  const bool empty = problem.args.k == 0;
  return launch.tensor(empty ? out : *problem.a)
      .tensor(empty ? out : *problem.b)
      .tensor(problem.self != nullptr ? *problem.self : out)
      .tensor(out)
      .value(problem.args);
}

Size groups_of(int64_t x, int64_t y, int64_t z) {
  return {static_cast<size_t>(x), static_cast<size_t>(y), static_cast<size_t>(z)};
}

Status run_integer(const Problem& problem) {
  const Kernel* kernel = find_kernel(metal_gemm_integer, "gemm_integer",
                                     define("T", metal_type(problem.out->dtype())));
  const size_t limit = kernel != nullptr ? max_threads(*kernel) : 1;
  const size_t x = std::min<size_t>(32, limit);
  const size_t y = std::max<size_t>(std::min<size_t>(8, limit / x), 1);
  Launch launch(kernel);
  return bind(launch, problem)
      .threads(groups_of(problem.args.n, problem.args.m, problem.batch), {x, y, 1});
}

/// The same product seen from the other side: c^T = b^T @ a^T.
void transpose(Problem* problem) {
  MatmulArgs& p = problem->args;
  std::swap(problem->a, problem->b);
  std::swap(p.m, p.n);
  const int64_t a_batch = p.a_batch;
  const int64_t a_row = p.a_row;
  const int64_t a_col = p.a_col;
  p.a_batch = p.b_batch;
  p.a_row = p.b_col;
  p.a_col = p.b_row;
  p.b_batch = a_batch;
  p.b_row = a_col;
  p.b_col = a_row;
  std::swap(p.s_row, p.s_col);
  std::swap(p.c_row, p.c_col);
}

/// Whether four elements at a time can be read along a direction of stride `along`.
bool reads_fours(const Tensor& t, int64_t along, int64_t across, int64_t batch) {
  const size_t nbytes = 4 * t.itemsize();
  return along == 1 && across % 4 == 0 && batch % 4 == 0 &&
         reinterpret_cast<uintptr_t>(t.data()) % nbytes == 0;
}

Status run_rows(Problem problem) {
  if (problem.args.n < problem.args.m) {
    transpose(&problem);
  }
  const MatmulArgs& p = problem.args;
  const bool along_k = p.b_row == 1 || (p.b_col != 1 && p.b_row < p.b_col);
  const bool fours = along_k ? reads_fours(*problem.b, p.b_row, p.b_col, p.b_batch) &&
                                   reads_fours(*problem.a, p.a_col, p.a_row, p.a_batch)
                             : reads_fours(*problem.b, p.b_col, p.b_row, p.b_batch);
  const int64_t vec = fours ? 4 : 1;
  const std::string defines =
      define("T", metal_type(problem.out->dtype())) + define("ROWS", p.m) + define("VEC", vec);
  const Kernel* kernel =
      find_kernel(metal_gemm_rows, along_k ? "gemm_rows_k" : "gemm_rows_n", defines);
  const int64_t columns = along_k ? kRowsGroups * kRowsColumns : 32 * vec;
  Launch launch(kernel);
  return bind(launch, problem)
      .groups(groups_of(ceil_div(p.n, columns), 1, problem.batch),
              {static_cast<size_t>(32 * kRowsGroups), 1, 1});
}

Status run_tiled(const Problem& problem) {
  const MatmulArgs& p = problem.args;
  const Tensor* const tensors[] = {problem.out, problem.self, problem.a, problem.b};
  const std::string defines = define("T", metal_type(problem.out->dtype())) +
                              define("INDEX", has_small_offsets(tensors, 4) ? "int" : "long") +
                              define("CONVOLUTION", 0) +
                              define("A_K_FAST", p.a_col <= p.a_row ? 1 : 0) +
                              define("B_K_FAST", p.b_row < p.b_col ? 1 : 0);
  const GemmTiles tiles = gemm_tiles(defines, p.m, p.n, p.k);
  Launch launch(tiles.kernel);
  return bind(launch, problem).groups(tiles.groups(p.m, p.n, problem.batch), tiles.group);
}

/// Chooses the kernel: integers have one; a product of a few rows or columns is bound by reading
/// the other matrix; everything else goes by tiles.
Status run(const Problem& problem) {
  if (is_integer(problem.out->dtype())) {
    return run_integer(problem);
  }
  return std::min(problem.args.m, problem.args.n) <= kMaxRows ? run_rows(problem)
                                                              : run_tiled(problem);
}

}  // namespace

Status Operators::matmul(Tensor& out, const Tensor* self, const Tensor& a, const Tensor& b,
                         double beta, double alpha) {
  const int32_t dtype = out.dtype();
  AOTIP_CHECK(dtype != kBool && Operators::computes(dtype), "no matrix product for %s on mps",
              dtype_name(dtype));
  Problem problem{
      &out, nullptr, &a, &b, out.ndim() == 3 ? out.size(0) : 1, arguments_of(out, a, b)};
  problem.args.alpha = static_cast<float>(alpha);
  problem.args.beta = static_cast<float>(beta);
  if (is_integer(dtype)) {
    problem.args.int_alpha = static_cast<int64_t>(alpha);
    problem.args.int_beta = static_cast<int64_t>(beta);
  }
  if (self != nullptr && beta != 0.0) {
    add_self(out, *self, &problem);
  }
  return out.numel() == 0 ? Status::kOk : run(problem);
}

}  // namespace aoti_plugins::mps
