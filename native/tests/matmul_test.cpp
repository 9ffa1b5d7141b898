#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <tuple>

#include "cpu/math/gemm.h"
#include "handle.h"
#include "slim/element.h"
#include "slim/tensor.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

Tensor* tensor_of(const Handle& h) {
  return reinterpret_cast<Tensor*>(h.get());
}

/// Address of the element at an index.
char* at(const Handle& h, const Ints& index) {
  const Tensor* t = tensor_of(h);
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    offset += index[d] * t->stride(static_cast<int64_t>(d));
  }
  return t->data_as<char>() + offset * static_cast<int64_t>(t->itemsize());
}

double get(const Handle& h, const Ints& index) {
  const Element e = load_element(at(h, index), tensor_of(h)->dtype());
  return e.kind == Element::kReal ? e.real : static_cast<double>(e.integer);
}

void set(const Handle& h, const Ints& index, double value) {
  Element e;
  e.kind = Element::kReal;
  e.real = value;
  store_element(at(h, index), tensor_of(h)->dtype(), e);
}

/// Fills the whole storage with small numbers, gaps included.
void fill(const Handle& h, unsigned seed) {
  std::mt19937 random(seed);
  const Tensor* t = tensor_of(h);
  for (size_t i = 0; i < t->storage_nbytes() / t->itemsize(); ++i) {
    Element e;
    e.kind = Element::kReal;
    e.real = static_cast<double>(random() % 17) / 4.0 - 2.0;
    store_element(static_cast<char*>(t->storage_data()) + i * t->itemsize(), t->dtype(), e);
  }
}

double tolerance(int32_t dtype, int64_t k) {
  switch (dtype) {
    case kFloat32:
      return 1e-6 * static_cast<double>(k + 1) * 4;
    case kFloat64:
      return 1e-12 * static_cast<double>(k + 1);
    case kFloat16:
      return 2e-2 * std::sqrt(static_cast<double>(k + 1));
    case kBFloat16:
      return 8e-2 * std::sqrt(static_cast<double>(k + 1));
    default:
      return 0.0;
  }
}

enum class Layout { kRows, kColumns, kGaps };

Handle matrix(int64_t rows, int64_t cols, Layout layout, int32_t dtype) {
  const int64_t r = std::max<int64_t>(rows, 1);
  const int64_t c = std::max<int64_t>(cols, 1);
  switch (layout) {
    case Layout::kRows:
      return make({rows, cols}, {c, 1}, dtype);
    case Layout::kColumns:
      return make({rows, cols}, {1, r}, dtype);
    default:
      return make({rows, cols}, {2 * c + 3, 2}, dtype);
  }
}

/// Runs addmm with every layout and compares with sums in double.
void check_addmm(int32_t dtype, int64_t m, int64_t n, int64_t k, Layout la, Layout lb, Layout lc,
                 double beta, double alpha) {
  const Handle a = matrix(m, k, la, dtype);
  const Handle b = matrix(k, n, lb, dtype);
  const Handle s = make({n}, dtype);
  const Handle out = matrix(m, n, lc, dtype);
  fill(a, 1);
  fill(b, 2);
  fill(s, 3);
  fill(out, 4);
  BOOST_TEST(aoti_torch_cpu_addmm_out(out.get(), s.get(), a.get(), b.get(), beta, alpha) == 0);
  double worst = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t x = 0; x < k; ++x) {
        sum += get(a, {i, x}) * get(b, {x, j});
      }
      const double expected = beta * get(s, {j}) + alpha * sum;
      worst = std::max(worst, std::abs(get(out, {i, j}) - expected) / (1 + std::abs(expected)));
    }
  }
  BOOST_TEST(worst <= tolerance(dtype, k));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(matmul)

BOOST_AUTO_TEST_CASE(every_dtype_size_and_layout) {
  const Layout all[] = {Layout::kRows, Layout::kColumns, Layout::kGaps};
  const std::tuple<int64_t, int64_t, int64_t> sizes[] = {
      {1, 1, 1}, {4, 16, 8}, {3, 5, 7}, {1, 33, 65}, {2, 40, 17},  {65, 1, 33},
      {0, 3, 2}, {3, 0, 2},  {3, 2, 0}, {5, 70, 41}, {40, 37, 50}, {6, 130, 96},
  };
  for (int32_t dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    for (const auto& [m, n, k] : sizes) {
      for (Layout la : all) {
        for (Layout lb : all) {
          for (Layout lc : all) {
            BOOST_TEST_CONTEXT("dtype " << dtype << " m " << m << " n " << n << " k " << k
                                        << " layouts " << int(la) << int(lb) << int(lc)) {
              check_addmm(dtype, m, n, k, la, lb, lc, 1.0, 1.0);
            }
          }
        }
      }
    }
  }
  check_addmm(kFloat32, 7, 9, 20, Layout::kRows, Layout::kColumns, Layout::kRows, 0.5, -2.0);
  check_addmm(kFloat32, 50, 60, 70, Layout::kColumns, Layout::kRows, Layout::kRows, -0.5, 3.0);
}

BOOST_AUTO_TEST_CASE(large_products_run_on_several_threads) {
  check_addmm(kFloat32, 200, 150, 130, Layout::kRows, Layout::kColumns, Layout::kRows, 1, 1);
  check_addmm(kFloat32, 3, 2048, 512, Layout::kRows, Layout::kColumns, Layout::kRows, 1, 1);
  check_addmm(kFloat64, 150, 200, 130, Layout::kRows, Layout::kRows, Layout::kColumns, 1, 1);
}

BOOST_AUTO_TEST_CASE(integers_wrap_around) {
  for (int32_t dtype : {kUInt8, kInt8, kInt16, kInt32, kInt64}) {
    const Handle a = make({2, 3}, dtype);
    const Handle b = make({3, 2}, dtype);
    const Handle out = make({2, 2}, dtype);
    for (int64_t i = 0; i < 6; ++i) {
      set(a, {i / 3, i % 3}, static_cast<double>(i + 1));
      set(b, {i / 2, i % 2}, static_cast<double>(i + 20));
    }
    BOOST_TEST(aoti_torch_cpu_mm_out(out.get(), a.get(), b.get()) == 0);
    const double expected = dtype == kInt8 ? 136.0 - 256.0 : 136.0;
    BOOST_TEST(get(out, {0, 0}) == expected);
  }
}

BOOST_AUTO_TEST_CASE(beta_of_zero_ignores_what_is_there) {
  const Handle a = make({2, 2}, kFloat32);
  const Handle s = make({2, 2}, kFloat32);
  const Handle out = make({2, 2}, kFloat32);
  fill(a, 1);
  for (int64_t i = 0; i < 4; ++i) {
    data_of<float>(s)[i] = std::numeric_limits<float>::quiet_NaN();
    data_of<float>(out)[i] = std::numeric_limits<float>::quiet_NaN();
  }
  BOOST_TEST(aoti_torch_cpu_addmm_out(out.get(), s.get(), a.get(), a.get(), 0.0, 1.0) == 0);
  BOOST_TEST(!std::isnan(data_of<float>(out)[3]));
  const Handle none = make({2, 0}, kFloat32);
  const Handle none_t = make({0, 2}, kFloat32);
  BOOST_TEST(aoti_torch_cpu_mm_out(out.get(), none.get(), none_t.get()) == 0);
  BOOST_TEST(data_of<float>(out)[0] == 0.0f);
}

BOOST_AUTO_TEST_CASE(batches) {
  for (int32_t dtype : {kFloat32, kBFloat16}) {
    for (int64_t size : {3, 64}) {
      const int64_t n = 5;
      const Handle a = make({4, size, n}, dtype);
      const Handle b = make({4, n, size}, {n * size, 1, n}, dtype);
      const Handle out = make({4, size, size}, dtype);
      const Handle s = make({4, 1, size}, dtype);
      fill(a, 1);
      fill(b, 2);
      fill(s, 3);
      BOOST_TEST(aoti_torch_cpu_baddbmm_out(out.get(), s.get(), a.get(), b.get(), 2.0, 0.5) == 0);
      double sum = 0;
      for (int64_t x = 0; x < n; ++x) {
        sum += get(a, {3, 1, x}) * get(b, {3, x, 2});
      }
      BOOST_TEST(std::abs(get(out, {3, 1, 2}) - (2.0 * get(s, {3, 0, 2}) + 0.5 * sum)) <
                 tolerance(dtype, n) * 8);
      BOOST_TEST(aoti_torch_cpu_bmm_out(out.get(), a.get(), b.get()) == 0);
      BOOST_TEST(std::abs(get(out, {3, 1, 2}) - sum) < tolerance(dtype, n) * 8);
    }
  }
}

BOOST_AUTO_TEST_CASE(mm_plus_mm) {
  const Handle a = make({2, 3}, kFloat32);
  const Handle b = make({3, 2}, kFloat32);
  const Handle out = make({2, 2}, kFloat32);
  fill(a, 1);
  fill(b, 2);
  BOOST_TEST(aoti_torch__mm_plus_mm_out(out.get(), a.get(), b.get(), a.get(), b.get()) == 0);
  double sum = 0;
  for (int64_t x = 0; x < 3; ++x) {
    sum += 2 * get(a, {1, x}) * get(b, {x, 1});
  }
  BOOST_TEST(std::abs(get(out, {1, 1}) - sum) < 1e-5);
}

BOOST_AUTO_TEST_CASE(violations_leave_the_result_alone) {
  const Handle a = make({2, 3}, kFloat32);
  const Handle b = make({3, 4}, kFloat32);
  const Handle out = make({2, 4}, kFloat32);
  const Handle s = make({4}, kFloat32);
  for (int i = 0; i < 8; ++i) {
    data_of<float>(out)[i] = 9.0f;
  }
  const auto fails = [&](const Handle& o, const Handle& self, const Handle& x, const Handle& y) {
    BOOST_TEST(aoti_torch_cpu_addmm_out(o.get(), self.get(), x.get(), y.get(), 1, 1) == 1);
    BOOST_TEST(data_of<float>(out)[0] == 9.0f);
    return reason().substr(reason().find(' ') + 1);
  };
  const Handle null;
  BOOST_TEST(fails(out, s, a, a) ==
             "inner sizes differ: the first matrix has 3 columns, the second 2 rows");
  BOOST_TEST(fails(make({2, 5}, kFloat32), s, a, b) == "the result is [2, 5], expected [2, 4]");
  BOOST_TEST(fails(out, make({3}, kFloat32), a, b) ==
             "size 3 of dim 0 of self does not broadcast to 4");
  BOOST_TEST(fails(out, make({1, 1, 4}, kFloat32), a, b) ==
             "self has 3 dims, which do not broadcast to 2");
  BOOST_TEST(fails(out, s, make({2, 3}, kFloat64), b) ==
             "the first matrix is float64, expected float32 as the result");
  BOOST_TEST(fails(out, s, make({3}, kFloat32), b) == "the first matrix has 1 dims, expected 2");
  BOOST_TEST(fails(out, null, a, b) == "self is null");
  BOOST_TEST(fails(out, s, null, b) == "the first matrix is null");
  BOOST_TEST(fails(null, s, a, b) == "out is null");
  const Handle half = make({2, 2}, kComplex64);
  BOOST_TEST(aoti_torch_cpu_mm_out(half.get(), half.get(), half.get()) == 1);
  BOOST_TEST(reason() == "aoti_torch_cpu_mm_out: no matrix product for complex64 on cpu");
}

/// Each instruction set that this machine has gives the same numbers.
BOOST_AUTO_TEST_CASE(every_instruction_set) {
  std::vector<cpu::GemmKernels> sets = {cpu::gemm_kernels_baseline()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    sets.push_back(cpu::gemm_kernels_avx2());
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    sets.push_back(cpu::gemm_kernels_avx512());
  }
#endif
  for (const cpu::GemmKernels& kernels : sets) {
    for (int64_t m : {1, 4, 7, 50}) {
      for (bool transposed : {false, true}) {
        const int64_t n = 45;
        const int64_t k = 70;
        std::vector<float> a(static_cast<size_t>(m * k));
        std::vector<float> b(static_cast<size_t>(k * n));
        std::vector<float> c(static_cast<size_t>(m * n), 1e30f);
        for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6;
        for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 11) - 5;
        cpu::GemmProblem<float> p;
        p.m = m;
        p.n = n;
        p.k = k;
        p.a = a.data();
        p.a_row = k;
        p.a_col = 1;
        p.b = b.data();
        p.b_row = transposed ? 1 : n;
        p.b_col = transposed ? k : 1;
        p.c = c.data();
        p.c_row = n;
        p.c_col = 1;
        kernels.f32(p);
        double worst = 0;
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t x = 0; x < k; ++x) {
              sum += double(p.a[i * k + x]) * double(p.b[x * p.b_row + j * p.b_col]);
            }
            worst = std::max(worst, std::abs(sum - c[static_cast<size_t>(i * n + j)]));
          }
        }
        BOOST_TEST(worst == 0.0, kernels.isa << " m " << m << " differs by " << worst);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
