#include "cpu/math/narrow_product.h"

#include <algorithm>

#include "cpu/math/best_kernels.h"
#include "cpu/math/gemm.h"
#include "cpu/math/scratch.h"
#include "cpu/threads/parallel.h"

namespace aoti_plugins::cpu {
namespace {

// From so many rows on, making floats costs less than taking codes apart for every four rows.
constexpr int64_t kManyRows = 16;
// Rows of the weight that a thread takes at a time; of floats they should stay in its cache.
constexpr int64_t kStep = 32;
constexpr int64_t kWorkPerThread = int64_t{1} << 18;
constexpr int64_t kFetchCost = 4;

const NarrowKernels& kernels() noexcept {
  static const NarrowKernels chosen = AOTIP_BEST_KERNELS(narrow_kernels);
  return chosen;
}

/// Columns `begin` to `end` of many rows.
bool multiply_widened(const NarrowProblem& problem, int64_t begin, int64_t end) noexcept {
  const NarrowWeight& w = problem.weight;
  Scratch scratch;
  float* floats = scratch.get<float>((end - begin) * w.k);
  if (floats == nullptr) {
    return false;
  }
  kernels().widen(w, begin, end, floats);
  GemmProblem<float> p;
  p.m = problem.m;
  p.n = end - begin;
  p.k = w.k;
  p.a = problem.x;
  p.a_row = w.k;
  p.a_col = 1;
  p.b = floats;
  p.b_row = 1;
  p.b_col = w.k;
  p.c = problem.out + begin;
  p.c_row = w.n;
  p.c_col = 1;
  return gemm(p) == Status::kOk;  // on this thread alone, inside of the region
}

void add_groups(const float* x, int64_t count, int64_t size, float* sums) {
  for (int64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < size; ++j) sum += x[i * size + j];
    sums[i] = sum;
  }
}

}  // namespace

Status narrow_product(const NarrowWeight& weight, int64_t m, const float* x, float* out) noexcept {
  NarrowProblem problem{weight, m, x, nullptr, out};
  const bool many = m >= kManyRows;
  Scratch scratch;
  if (wants_sums(weight.form) && !many) {
    float* sums = scratch.get<float>(m * weight.groups);
    AOTIP_CHECK(sums != nullptr, "out of memory: sums of a product's groups");
    add_groups(x, m * weight.groups, weight.k / weight.groups, sums);
    problem.sums = sums;
  }
  const int64_t threads = threads_for(weight.n * weight.k * (m + kFetchCost), kWorkPerThread);
  const bool done = parallel_all(threads, (weight.n + kStep - 1) / kStep, [&](int64_t part) {
    const int64_t begin = part * kStep;
    const int64_t end = std::min(weight.n, begin + kStep);
    if (many) {
      return multiply_widened(problem, begin, end);
    }
    kernels().multiply(problem, begin, end);
    return true;
  });
  AOTIP_CHECK(done, "out of memory: floats of a weight");
  return Status::kOk;
}

}  // namespace aoti_plugins::cpu
