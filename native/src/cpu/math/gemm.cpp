#include "cpu/math/gemm.h"

#include <algorithm>

#include "cpu/math/best_kernels.h"
#include "cpu/math/scratch.h"
#include "cpu/threads/parallel.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::cpu {
namespace {

// About 20 microseconds on one core.
constexpr int64_t kWorkPerThread = int64_t{1} << 19;
// Fetching an operand's element costs as much as this many multiplications: it decides for products
// with vectors.
constexpr int64_t kFetchCost = 4;

void run_kernel(const GemmProblem<float>& p) {
  gemm_kernels().f32(p);
}
void run_kernel(const GemmProblem<double>& p) {
  gemm_kernels().f64(p);
}

/// Runs the kernel on parts of the rows or of the columns, whichever are more.
template <typename T>
void run_parallel(const GemmProblem<T>& p) noexcept {
  const int64_t work = p.m * p.n * p.k + kFetchCost * (p.m + p.n) * p.k;
  const int64_t threads = threads_for(work, kWorkPerThread);
  if (threads <= 1) {
    return run_kernel(p);
  }
  const bool split_rows = p.m >= p.n;
  const int64_t length = split_rows ? p.m : p.n;
  const int64_t parts = std::min(threads, (length + 15) / 16);
  const int64_t step = ((length + parts - 1) / parts + 15) / 16 * 16;
  parallel_for(parts, [&](int64_t part) {
    const int64_t begin = part * step;
    const int64_t end = std::min(length, begin + step);
    if (begin >= end) {
      return;
    }
    GemmProblem<T> piece = p;
    if (split_rows) {
      piece.m = end - begin;
      piece.a += begin * p.a_row;
      piece.c += begin * p.c_row;
      piece.s = p.s != nullptr ? p.s + begin * p.s_row : nullptr;
    } else {
      piece.n = end - begin;
      piece.b += begin * p.b_col;
      piece.c += begin * p.c_col;
      piece.s = p.s != nullptr ? p.s + begin * p.s_col : nullptr;
    }
    run_kernel(piece);
  });
}

/// Copies a matrix to `scratch` in rows without gaps when neither of its strides is 1.
template <typename T>
Status make_unit_stride(Scratch& scratch, const T** data, int64_t* row, int64_t* col, int64_t rows,
                        int64_t cols) noexcept {
  if (*row == 1 || *col == 1) {
    return Status::kOk;
  }
  T* copy = scratch.get<T>(rows * cols);
  AOTIP_CHECK(copy != nullptr, "out of memory: a copy of a strided matrix");
  const int64_t sizes[2] = {rows, cols};
  const int64_t to[2] = {cols, 1};
  const int64_t from[2] = {*row, *col};
  strided_copy_raw(copy, to, *data, from, 2, sizes, sizeof(T));
  *data = copy;
  *row = cols;
  *col = 1;
  return Status::kOk;
}

/// A vector's stride across its single row or column is free: choose the one that kernels like.
void normalize(int64_t* row, int64_t* col, int64_t rows, int64_t cols) noexcept {
  if (rows == 1 && *col != 1) {
    *row = 1;
  }
  if (cols == 1 && *row != 1) {
    *col = 1;
  }
}

template <typename T>
Status gemm_any(GemmProblem<T> p) noexcept {
  if (p.m == 0 || p.n == 0) {
    return Status::kOk;
  }
  normalize(&p.c_row, &p.c_col, p.m, p.n);
  if (p.c_col != 1 && p.c_row == 1) {
    p = p.transposed();
  }
  Scratch out;
  Scratch left;
  Scratch right;
  normalize(&p.a_row, &p.a_col, p.m, p.k);
  normalize(&p.b_row, &p.b_col, p.k, p.n);
  AOTIP_RETURN_IF_FAILED(make_unit_stride(left, &p.a, &p.a_row, &p.a_col, p.m, p.k));
  AOTIP_RETURN_IF_FAILED(make_unit_stride(right, &p.b, &p.b_row, &p.b_col, p.k, p.n));
  if (p.c_col == 1) {
    run_parallel(p);
    return Status::kOk;
  }
  GemmProblem<T> dense = p;
  dense.c = out.get<T>(p.m * p.n);
  AOTIP_CHECK(dense.c != nullptr, "out of memory: a dense copy of the result");
  dense.c_row = p.n;
  dense.c_col = 1;
  run_parallel(dense);
  const int64_t sizes[2] = {p.m, p.n};
  const int64_t to[2] = {p.c_row, p.c_col};
  const int64_t from[2] = {p.n, 1};
  strided_copy_raw(p.c, to, dense.c, from, 2, sizes, sizeof(T));
  return Status::kOk;
}

}  // namespace

const GemmKernels& gemm_kernels() noexcept {
  static const GemmKernels kernels = AOTIP_BEST_KERNELS(gemm_kernels);
  return kernels;
}

Status gemm(const GemmProblem<float>& problem) noexcept {
  return gemm_any(problem);
}

Status gemm(const GemmProblem<double>& problem) noexcept {
  return gemm_any(problem);
}

}  // namespace aoti_plugins::cpu
