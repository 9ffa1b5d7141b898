// The OpenMP constructs that Inductor writes, compiled as a blob's kernels are: with -fopenmp and
// the prelude.

#include <omp.h>

#include <cstddef>
#include <vector>

namespace {

/// Sum of `x`, by a parallel reduction as Inductor writes it; `y` becomes 2 x + 1, and y[0] one
/// more.
double reduce(const float* x, float* y, long rows, long cols) {
  const int max_threads = omp_get_max_threads();
  std::vector<double> sums(static_cast<size_t>(max_threads));
#pragma omp parallel
  {
    const int tid = omp_get_thread_num();
    double sum = 0;
#pragma omp for collapse(2)
    for (long i = 0; i < rows; i += 1) {
      for (long j = 0; j < cols; j += 1) {
        sum += x[i * cols + j];
        y[i * cols + j] = 2 * x[i * cols + j];
      }
    }
#pragma omp single
    {
      y[0] += 1;
    }
#pragma omp for schedule(static, 1) nowait
    for (long i = 0; i < rows * cols; i++) {
      y[i] += 1;
    }
    sums[static_cast<size_t>(tid)] = sum;
  }
  double sum = 0;
  for (int tid = 0; tid < max_threads; tid++) {
    sum += sums[static_cast<size_t>(tid)];
  }
  return sum;
}

/// Counts to `n` in a way that needs a critical section, and one for an update without an atomic
/// instruction.
long double count(long n, int num_threads) {
  long double counted = 0;
  long critical = 0;
#pragma omp parallel for num_threads(num_threads)
  for (long i = 0; i < n; i++) {
#pragma omp atomic
    counted += 1;
#pragma omp critical
    critical += 1;
  }
  return critical == n ? counted : -1;
}

}  // namespace

/// Where the results are wrong, in words; null when they are right.
const char* run_openmp_kernels() {
  constexpr long kRows = 37;
  constexpr long kCols = 11;
  std::vector<float> x(kRows * kCols, 3);
  std::vector<float> y(x.size());
  for (int round = 0; round < 100; ++round) {
    if (reduce(x.data(), y.data(), kRows, kCols) != 3.0 * kRows * kCols) {
      return "the sum of a reduction";
    }
    for (size_t i = 0; i < y.size(); ++i) {
      if (y[i] != (i == 0 ? 8 : 7)) {
        return "a loop's result";
      }
    }
    if (count(100, 1 + round % 7) != 100) {
      return "what a section counted";
    }
  }
  return omp_in_parallel() == 0 ? nullptr : "omp_in_parallel";
}
