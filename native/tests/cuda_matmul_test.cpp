// The matrix products' shims over stand-ins for the driver and for cuBLASLt: which layouts reach
// the library, and what they give. What is refused: cuda_matmul_refusals_test.cpp; float8:
// cuda_scaled_matmul_test.cpp.

#include <atomic>
#include <thread>

#include "cuda/libraries/cublaslt.h"
#include "cuda/ops/tf32.h"
#include "fake_cuda/cublaslt_control.h"
#include "matmul_numbers.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

/// Strides of [rows, cols]: row-major, column-major, rows with gaps, both dims with gaps, repeated.
std::vector<Ints> layouts(int64_t rows, int64_t cols) {
  return {{cols, 1}, {1, rows}, {cols + 3, 1}, {2, 2 * rows}};
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_matmul, CudaFixture)

BOOST_AUTO_TEST_CASE(mm_takes_any_strides) {
  const auto a = numbers<float>(15, 1);
  const auto b = numbers<float>(20, 2);
  const auto right = expected<float>(1, 3, 4, 5, a, b);
  for (const Ints& a_strides : layouts(3, 5)) {
    for (const Ints& b_strides : layouts(5, 4)) {
      for (const Ints& out_strides : layouts(3, 4)) {
        Handle first = on_gpu({3, 5}, a_strides, kFloat32, a);
        Handle second = on_gpu({5, 4}, b_strides, kFloat32, b);
        Handle out = make_on(kCuda, {3, 4}, out_strides, kFloat32);
        BOOST_TEST(aoti_torch_cuda_mm_out(out.get(), first.get(), second.get()) == 0, reason());
        BOOST_TEST((read<float>(out) == right));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(mm_uses_plain_layouts_in_place, *boost::unit_test::label(kStandIn)) {
  Handle a = on_gpu({3, 5}, {1, 3}, kFloat32, numbers<float>(15, 1));
  Handle b = on_gpu({5, 4}, {4, 1}, kFloat32, numbers<float>(20, 2));
  Handle out = make_on(kCuda, {3, 4}, {4, 1}, kFloat32);
  BOOST_TEST((stream->synchronize() == Status::kOk));
  const size_t launches = fake().launches();
  BOOST_TEST(aoti_torch_cuda_mm_out(out.get(), a.get(), b.get()) == 0, reason());
  BOOST_TEST((stream->synchronize() == Status::kOk));
  BOOST_TEST(fake().launches() == launches);  // no copy
}

/// A bias as programs give it: as a vector, expanded to all rows with a stride of 0, as one row.
std::vector<Handle> forms_of_a_bias(const Handle& bias) {
  std::vector<Handle> forms;
  forms.push_back(seen_as(bias, {4}, {1}));
  forms.push_back(seen_as(bias, {3, 4}, {0, 1}));
  forms.push_back(seen_as(bias, {1, 4}, {7, 1}));
  return forms;
}

BOOST_AUTO_TEST_CASE(a_bias_is_read_where_it_is, *boost::unit_test::label(kStandIn)) {
  const Handle a = on_gpu({3, 5}, {5, 1}, kFloat32, numbers<float>(15, 1));
  const Handle b = on_gpu({5, 4}, {4, 1}, kFloat32, numbers<float>(20, 2));
  const Handle out = make_on(kCuda, {3, 4}, {4, 1}, kFloat32);
  const Handle bias = on_gpu({4}, {1}, kFloat32, numbers<float>(4, 5));
  for (const Handle& self : forms_of_a_bias(bias)) {
    BOOST_TEST((stream->synchronize() == Status::kOk));
    const size_t launches = fake().launches();
    BOOST_TEST(aoti_torch_cuda_addmm_out(out.get(), self.get(), a.get(), b.get(), 1.0, 1.0) == 0,
               reason());
    BOOST_TEST((stream->synchronize() == Status::kOk));
    BOOST_TEST(fake().launches() == launches);  // no copy
  }
}

BOOST_AUTO_TEST_CASE(a_bias_in_every_form) {
  const auto a = numbers<float>(30, 1);
  const auto b = numbers<float>(40, 2);
  const auto row = numbers<float>(4, 5);
  const Handle bias = on_gpu({4}, {1}, kFloat32, row);
  const Handle firsts = on_gpu({2, 3, 5}, {15, 5, 1}, kFloat32, a);
  const Handle seconds = on_gpu({2, 5, 4}, {20, 4, 1}, kFloat32, b);
  const Handle first = seen_as(firsts, {3, 5}, {5, 1});
  const Handle second = seen_as(seconds, {5, 4}, {4, 1});
  for (const Handle& self : forms_of_a_bias(bias)) {
    Handle out = make_on(kCuda, {3, 4}, {4, 1}, kFloat32);
    BOOST_TEST(
        aoti_torch_cuda_addmm_out(out.get(), self.get(), first.get(), second.get(), 1.0, 1.0) == 0,
        reason());
    BOOST_TEST((read<float>(out) == expected<float>(1, 3, 4, 5, a, b, row, 1.0)));
  }
  Handle out = make_on(kCuda, {2, 3, 4}, {12, 4, 1}, kFloat32);
  const Handle for_all = seen_as(bias, {2, 3, 4}, {0, 0, 1});
  BOOST_TEST(aoti_torch_cuda_baddbmm_out(out.get(), for_all.get(), firsts.get(), seconds.get(), 1.0,
                                         1.0) == 0,
             reason());
  BOOST_TEST((read<float>(out) == expected<float>(2, 3, 4, 5, a, b, row, 1.0)));
}

BOOST_AUTO_TEST_CASE(a_column_is_no_bias) {
  const auto a = numbers<float>(20, 1);
  const auto b = numbers<float>(5, 2);
  const auto column = numbers<float>(4, 5);
  const Handle first = on_gpu({4, 5}, {5, 1}, kFloat32, a);
  const Handle second = on_gpu({5, 1}, {1, 1}, kFloat32, b);
  const Handle self = on_gpu({4, 1}, {1, 1}, kFloat32, column);
  Handle out = make_on(kCuda, {4, 1}, {1, 1}, kFloat32);
  BOOST_TEST(
      aoti_torch_cuda_addmm_out(out.get(), self.get(), first.get(), second.get(), 1.0, 1.0) == 0,
      reason());
  BOOST_TEST((read<float>(out) == expected<float>(1, 4, 1, 5, a, b, column, 1.0)));
}

BOOST_AUTO_TEST_CASE(vectors_and_single_rows) {
  for (const auto& [m, n, k] : {std::tuple{1, 4, 5}, {3, 1, 5}, {3, 4, 1}, {1, 1, 1}, {1, 1, 7}}) {
    const auto a = numbers<double>(static_cast<size_t>(m * k), 3);
    const auto b = numbers<double>(static_cast<size_t>(k * n), 4);
    Handle first = on_gpu({m, k}, row_major({m, k}), kFloat64, a);
    Handle second = on_gpu({k, n}, row_major({k, n}), kFloat64, b);
    Handle out = make_on(kCuda, {m, n}, row_major({m, n}), kFloat64);
    BOOST_TEST(aoti_torch_cuda_mm_out(out.get(), first.get(), second.get()) == 0, reason());
    BOOST_TEST((read<double>(out) == expected<double>(1, m, n, k, a, b)));
  }
}

BOOST_AUTO_TEST_CASE(without_memory_to_work_in_nothing_is_written,
                     *boost::unit_test::label(kStandIn)) {
  Handle bias = on_gpu<float>({2}, {1}, kFloat32, {5, 6});
  Handle a = on_gpu<float>({2, 2}, {2, 1}, kFloat32, {1, 2, 3, 4});
  Handle out = on_gpu<float>({2, 2}, {2, 1}, kFloat32, {7, 7, 7, 7});
  fake().set_memory(fake().device_nbytes());
  check_refused(aoti_torch_cuda_addmm_out(out.get(), bias.get(), a.get(), a.get(), 0.5, 1.0),
                "out of memory: a workspace of 4096 bytes");
  BOOST_TEST((read<float>(out) == std::vector<float>{7, 7, 7, 7}));
  fake().set_memory(1 << 30);
  BOOST_TEST(aoti_torch_cuda_addmm_out(out.get(), bias.get(), a.get(), a.get(), 0.5, 1.0) == 0,
             reason());
  BOOST_TEST((read<float>(out) == std::vector<float>{9.5, 13, 17.5, 25}));
}

BOOST_AUTO_TEST_CASE(addmm_adds_self_in_every_form) {
  const auto a = numbers<float>(15, 1);
  const auto b = numbers<float>(20, 2);
  Handle first = on_gpu({3, 5}, {5, 1}, kFloat32, a);
  Handle second = on_gpu({5, 4}, {4, 1}, kFloat32, b);
  const auto row = numbers<float>(4, 5);
  const auto full = numbers<float>(12, 6);
  for (const double beta : {1.0, 0.5, 0.0}) {
    for (const Ints& out_strides : {Ints{4, 1}, Ints{1, 3}, Ints{9, 2}}) {
      Handle out = make_on(kCuda, {3, 4}, out_strides, kFloat32);
      Handle bias = on_gpu({4}, {1}, kFloat32, row);
      BOOST_TEST(aoti_torch_cuda_addmm_out(out.get(), bias.get(), first.get(), second.get(), beta,
                                           2.0) == 0,
                 reason());
      BOOST_TEST((read<float>(out) == expected<float>(1, 3, 4, 5, a, b, row, beta, 2.0)));
      for (const Ints& self_strides : layouts(3, 4)) {
        Handle self = on_gpu({3, 4}, self_strides, kFloat32, full);
        BOOST_TEST(aoti_torch_cuda_addmm_out(out.get(), self.get(), first.get(), second.get(), beta,
                                             1.0) == 0,
                   reason());
        BOOST_TEST((read<float>(out) == expected<float>(1, 3, 4, 5, a, b, full, beta)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_bias_without_a_kernel_for_it_is_added_all_the_same) {
  const auto a = numbers<double>(6, 1);
  const auto b = numbers<double>(6, 2);
  const auto row = numbers<double>(2, 3);
  Handle first = on_gpu({2, 3}, {3, 1}, kFloat64, a);
  Handle second = on_gpu({3, 2}, {2, 1}, kFloat64, b);
  Handle bias = on_gpu({2}, {1}, kFloat64, row);
  Handle out = make_on(kCuda, {2, 2}, {2, 1}, kFloat64);
  BOOST_TEST(
      aoti_torch_cuda_addmm_out(out.get(), bias.get(), first.get(), second.get(), 1.0, 1.0) == 0,
      reason());
  BOOST_TEST((read<double>(out) == expected<double>(1, 2, 2, 3, a, b, row, 1.0)));
}

BOOST_AUTO_TEST_CASE(self_may_be_the_result) {
  const auto a = numbers<float>(6, 1);
  const auto b = numbers<float>(6, 2);
  const auto old = numbers<float>(4, 3);
  Handle out = on_gpu({2, 2}, {2, 1}, kFloat32, old);
  Handle first = on_gpu({2, 3}, {3, 1}, kFloat32, a);
  Handle second = on_gpu({3, 2}, {2, 1}, kFloat32, b);
  BOOST_TEST(aoti_torch_cuda_addmm_out(out.get(), out.get(), first.get(), second.get(), 3.0, 1.0) ==
             0);
  BOOST_TEST((read<float>(out) == expected<float>(1, 2, 2, 3, a, b, old, 3.0)));
}

BOOST_AUTO_TEST_CASE(batches) {
  const auto a = numbers<float>(30, 1);
  const auto b = numbers<float>(40, 2);
  const auto self = numbers<float>(24, 3);
  const auto right = expected<float>(2, 3, 4, 5, a, b);
  for (const Ints& a_strides : {Ints{15, 5, 1}, Ints{15, 1, 3}, Ints{1, 10, 2}, Ints{5, 10, 1}}) {
    for (const Ints& out_strides : {Ints{12, 4, 1}, Ints{12, 1, 3}, Ints{4, 8, 1}, Ints{1, 8, 2}}) {
      Handle first = on_gpu({2, 3, 5}, a_strides, kFloat32, a);
      Handle second = on_gpu({2, 5, 4}, {20, 4, 1}, kFloat32, b);
      Handle out = make_on(kCuda, {2, 3, 4}, out_strides, kFloat32);
      BOOST_TEST(aoti_torch_cuda_bmm_out(out.get(), first.get(), second.get()) == 0, reason());
      BOOST_TEST((read<float>(out) == right));
      Handle added = on_gpu({2, 3, 4}, {12, 4, 1}, kFloat32, self);
      BOOST_TEST(aoti_torch_cuda_baddbmm_out(out.get(), added.get(), first.get(), second.get(), 2.0,
                                             -1.0) == 0,
                 reason());
      BOOST_TEST((read<float>(out) == expected<float>(2, 3, 4, 5, a, b, self, 2.0, -1.0)));
    }
  }
}

BOOST_AUTO_TEST_CASE(results_without_elements) {
  const Handle a = empty_on_gpu({3, 5});
  const Handle b = empty_on_gpu({5, 0});
  const Handle bias = empty_on_gpu({0});
  BOOST_TEST(aoti_torch_cuda_mm_out(empty_on_gpu({3, 0}).get(), a.get(), b.get()) == 0, reason());
  BOOST_TEST(aoti_torch_cuda_mm_out(empty_on_gpu({0, 3}).get(), empty_on_gpu({0, 5}).get(),
                                    empty_on_gpu({5, 3}).get()) == 0,
             reason());
  BOOST_TEST(aoti_torch_cuda_addmm_out(empty_on_gpu({3, 0}).get(), bias.get(), a.get(), b.get(), 1,
                                       1) == 0,
             reason());
  for (const auto& [batch, n] : {std::pair<int64_t, int64_t>{2, 0}, {0, 4}, {0, 0}}) {
    const Handle out = empty_on_gpu({batch, 3, n});
    const Handle first = empty_on_gpu({batch, 3, 5});
    const Handle second = empty_on_gpu({batch, 5, n});
    BOOST_TEST(aoti_torch_cuda_bmm_out(out.get(), first.get(), second.get()) == 0, reason());
    BOOST_TEST(
        aoti_torch_cuda_baddbmm_out(out.get(), out.get(), first.get(), second.get(), 2, 1) == 0,
        reason());
  }
  BOOST_TEST(aoti_torch_cuda__int_mm_out(empty_on_gpu({4, 0}, kInt32).get(),
                                         empty_on_gpu({4, 8}, kInt8).get(),
                                         empty_on_gpu({8, 0}, kInt8).get()) == 0,
             reason());
  AtenTensorHandle raw = nullptr;
  BOOST_TEST(aoti_torch_cuda__addmm_activation(bias.get(), a.get(), b.get(), 1, 1, 0, &raw) == 0,
             reason());
  const Handle activated(raw);
  BOOST_TEST(unwrap(raw)->size(0) == 3);
  BOOST_TEST(unwrap(raw)->size(1) == 0);
}

BOOST_AUTO_TEST_CASE(sums_over_nothing) {
  const Handle a = make_on(kCuda, {3, 0}, {1, 1}, kFloat32);
  const Handle b = make_on(kCuda, {0, 4}, {4, 1}, kFloat32);
  const Handle bias = on_gpu<float>({4}, {1}, kFloat32, {1, 2, 3, 4});
  for (const Ints& strides : layouts(3, 4)) {
    const Handle out = on_gpu({3, 4}, strides, kFloat32, numbers<float>(12, 1));
    BOOST_TEST(aoti_torch_cuda_mm_out(out.get(), a.get(), b.get()) == 0, reason());
    BOOST_TEST((read<float>(out) == std::vector<float>(12, 0.0f)));
    BOOST_TEST(aoti_torch_cuda_addmm_out(out.get(), bias.get(), a.get(), b.get(), 2.0, 1.0) == 0,
               reason());
    BOOST_TEST((read<float>(out) == std::vector<float>{2, 4, 6, 8, 2, 4, 6, 8, 2, 4, 6, 8}));
  }
  const Handle first = make_on(kCuda, {4, 0}, {1, 1}, kInt8);
  const Handle second = make_on(kCuda, {0, 8}, {8, 1}, kInt8);
  const Handle out = on_gpu({4, 8}, {8, 1}, kInt32, numbers<int32_t>(32, 1));
  BOOST_TEST(aoti_torch_cuda__int_mm_out(out.get(), first.get(), second.get()) == 0, reason());
  BOOST_TEST((read<int32_t>(out) == std::vector<int32_t>(32, 0)));
}

BOOST_AUTO_TEST_CASE(sums_over_nothing_in_batches) {
  const Handle a = make_on(kCuda, {2, 3, 0}, {3, 1, 1}, kFloat32);
  const Handle b = make_on(kCuda, {2, 0, 4}, {4, 4, 1}, kFloat32);
  const auto values = numbers<float>(24, 3);
  for (const Ints& strides : {Ints{12, 4, 1}, Ints{30, 1, 3}}) {
    const Handle out = on_gpu({2, 3, 4}, strides, kFloat32, values);
    const Handle self = on_gpu({2, 3, 4}, {12, 4, 1}, kFloat32, values);
    const auto add = [&](double beta) {
      return aoti_torch_cuda_baddbmm_out(out.get(), self.get(), a.get(), b.get(), beta, 1.0);
    };
    BOOST_TEST(aoti_torch_cuda_bmm_out(out.get(), a.get(), b.get()) == 0, reason());
    BOOST_TEST((read<float>(out) == std::vector<float>(24, 0.0f)));
    for (const double beta : {1.0, -2.0, 0.0}) {
      BOOST_TEST(add(beta) == 0, reason());
      BOOST_TEST((read<float>(out) == expected<float>(2, 3, 4, 0, {}, {}, values, beta)));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_activation_of_nothing_but_the_bias) {
  const Handle a = make_on(kCuda, {2, 0}, {1, 1}, kFloat32);
  const Handle b = make_on(kCuda, {0, 4}, {4, 1}, kFloat32);
  const Handle bias = on_gpu<float>({4}, {1}, kFloat32, {1, -2, 3, -4});
  const std::pair<double, std::vector<float>> cases[] = {{1.0, {1, 0, 3, 0, 1, 0, 3, 0}},
                                                         {-2.0, {0, 4, 0, 8, 0, 4, 0, 8}},
                                                         {0.0, std::vector<float>(8, 0.0f)}};
  for (const auto& [beta, right] : cases) {
    AtenTensorHandle raw = nullptr;
    BOOST_TEST(
        aoti_torch_cuda__addmm_activation(bias.get(), a.get(), b.get(), beta, 1.0, 0, &raw) == 0,
        reason());
    const Handle out(raw);
    BOOST_TEST((read<float>(out) == right));
  }
}

/// Strides of a batch of [rows, cols] that cuBLASLt takes as they are: rows one behind the other,
/// gaps after rows and matrices, columns one behind the other, gaps after those.
std::vector<Ints> plain_batches(int64_t rows, int64_t cols) {
  return {{rows * cols, cols, 1},
          {rows * (cols + 4) + 3, cols + 4, 1},
          {rows * cols, 1, rows},
          {cols * (rows + 2) + 5, 1, rows + 2}};
}

BOOST_AUTO_TEST_CASE(gaps_stay_as_they_are) {
  const auto a = numbers<float>(30, 1);
  const auto b = numbers<float>(40, 2);
  const auto right = expected<float>(2, 3, 4, 5, a, b);
  const std::vector<float> old(80, 77.0f);
  for (const Ints& a_strides : plain_batches(3, 5)) {
    const Handle first = on_gpu({2, 3, 5}, a_strides, kFloat32, a);
    for (const Ints& b_strides : plain_batches(5, 4)) {
      const Handle second = on_gpu({2, 5, 4}, b_strides, kFloat32, b);
      for (const Ints& strides : plain_batches(3, 4)) {
        const Handle memory = on_gpu({80}, {1}, kFloat32, old);
        const Handle out = seen_as(memory, {2, 3, 4}, strides);
        BOOST_TEST(aoti_torch_cuda_bmm_out(out.get(), first.get(), second.get()) == 0, reason());
        std::vector<float> written = old;
        for (size_t i = 0; i < right.size(); ++i) {
          const int64_t e = static_cast<int64_t>(i);
          written[static_cast<size_t>(e / 12 * strides[0] + e / 4 % 3 * strides[1] +
                                      e % 4 * strides[2])] = right[i];
        }
        BOOST_TEST((read<float>(memory) == written));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gaps_need_no_copy, *boost::unit_test::label(kStandIn)) {
  for (const Ints& a_strides : plain_batches(3, 5)) {
    const Handle first = on_gpu({2, 3, 5}, a_strides, kFloat32, numbers<float>(30, 1));
    for (const Ints& b_strides : plain_batches(5, 4)) {
      const Handle second = on_gpu({2, 5, 4}, b_strides, kFloat32, numbers<float>(40, 2));
      for (const Ints& strides : plain_batches(3, 4)) {
        const Handle out = make_on(kCuda, {2, 3, 4}, strides, kFloat32);
        BOOST_TEST((stream->synchronize() == Status::kOk));
        const size_t launches = fake().launches();
        const size_t copies = fake().calls("cuMemcpyDtoDAsync_v2");
        BOOST_TEST(aoti_torch_cuda_bmm_out(out.get(), first.get(), second.get()) == 0, reason());
        BOOST_TEST((stream->synchronize() == Status::kOk));
        BOOST_TEST(fake().launches() == launches);
        BOOST_TEST(fake().calls("cuMemcpyDtoDAsync_v2") == copies);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(one_matrix_for_the_whole_batch) {
  const auto a = numbers<float>(15, 1);
  const auto b = numbers<float>(40, 2);
  std::vector<float> twice = a;
  twice.insert(twice.end(), a.begin(), a.end());
  const Handle one = on_gpu({3, 5}, {5, 1}, kFloat32, a);
  const Handle first = seen_as(one, {2, 3, 5}, {0, 5, 1});
  const Handle second = on_gpu({2, 5, 4}, {20, 4, 1}, kFloat32, b);
  const Handle out = make_on(kCuda, {2, 3, 4}, {12, 4, 1}, kFloat32);
  BOOST_TEST(aoti_torch_cuda_bmm_out(out.get(), first.get(), second.get()) == 0, reason());
  BOOST_TEST((read<float>(out) == expected<float>(2, 3, 4, 5, twice, b)));
}

BOOST_AUTO_TEST_CASE(int8) {
  const auto a = numbers<int8_t>(32, 1);
  const auto b = numbers<int8_t>(64, 2);
  for (const Ints& a_strides : layouts(4, 8)) {
    for (const Ints& b_strides : layouts(8, 8)) {
      Handle first = on_gpu({4, 8}, a_strides, kInt8, a);
      Handle second = on_gpu({8, 8}, b_strides, kInt8, b);
      Handle out = make_on(kCuda, {4, 8}, {8, 1}, kInt32);
      BOOST_TEST(aoti_torch_cuda__int_mm_out(out.get(), first.get(), second.get()) == 0, reason());
      BOOST_TEST((read<int32_t>(out) == expected<int8_t, int32_t>(1, 4, 8, 8, a, b)));
    }
  }
}

BOOST_AUTO_TEST_CASE(activation) {
  Handle a = on_gpu<float>({2, 2}, {2, 1}, kFloat32, {1, 0, 0, 1});
  Handle b = on_gpu<float>({2, 2}, {2, 1}, kFloat32, {1, -5, -7, 3});
  Handle bias = on_gpu<float>({2}, {1}, kFloat32, {1, 2});
  AtenTensorHandle raw = nullptr;
  BOOST_TEST(
      aoti_torch_cuda__addmm_activation(bias.get(), a.get(), b.get(), 1.0, 1.0, 0, &raw) == 0,
      reason());
  Handle out(raw);
  BOOST_TEST((read<float>(out) == std::vector<float>{2, 0, 0, 5}));
}

BOOST_AUTO_TEST_CASE(float32_is_rounded_to_tf32_where_that_is_allowed,
                     *boost::unit_test::label(kStandIn)) {
  const auto asked_for = [](int32_t dtype) {
    const Handle a = make_on(kCuda, {3, 5}, {5, 1}, dtype);
    const Handle b = make_on(kCuda, {5, 4}, {4, 1}, dtype);
    const Handle out = make_on(kCuda, {3, 4}, {4, 1}, dtype);
    BOOST_TEST(aoti_torch_zero_(a.get()) == 0);
    BOOST_TEST(aoti_torch_zero_(b.get()) == 0);
    BOOST_TEST(aoti_torch_cuda_mm_out(out.get(), a.get(), b.get()) == 0, reason());
    return fake_cublaslt().compute_type();
  };
  BOOST_TEST(asked_for(kFloat32) == cuda::lt::kCompute32F);
  {
    const cuda::Tf32Scope convolutions({false, true});
    BOOST_TEST(asked_for(kFloat32) == cuda::lt::kCompute32F);
    const cuda::Tf32Scope products({true, false});
    BOOST_TEST(asked_for(kFloat32) == cuda::lt::kCompute32FFastTf32);
    BOOST_TEST(asked_for(kFloat64) == cuda::lt::kCompute64F);
  }
  BOOST_TEST(asked_for(kFloat32) == cuda::lt::kCompute32F);
}

BOOST_AUTO_TEST_CASE(a_kernel_is_chosen_once_for_a_problem, *boost::unit_test::label(kStandIn)) {
  // Sizes that no other case has.
  const Handle a = on_gpu({18, 19}, {19, 1}, kFloat32, numbers<float>(18 * 19, 1));
  const Handle b = on_gpu({19, 23}, {23, 1}, kFloat32, numbers<float>(19 * 23, 2));
  const Handle out = empty_on_gpu({18, 23});
  const Handle fewer = seen_as(a, {17, 19}, {19, 1});
  const Handle shorter = seen_as(out, {17, 23}, {23, 1});
  const auto choices = [&](const Handle& to, const Handle& first) {
    const size_t before = fake_cublaslt().choices();
    BOOST_TEST(aoti_torch_cuda_mm_out(to.get(), first.get(), b.get()) == 0, reason());
    return fake_cublaslt().choices() - before;
  };
  BOOST_TEST(choices(out, a) == 1);
  BOOST_TEST(choices(out, a) == 0);
  BOOST_TEST(choices(shorter, fewer) == 1);
  BOOST_TEST(choices(out, a) == 0);
}

BOOST_AUTO_TEST_CASE(two_threads) {
  std::atomic<int> right{0};
  const auto work = [&] {
    if (cuda::use_gpu(0) != Status::kOk) {
      return;
    }
    const auto own = cuda::Stream::create(0);
    const cuda::StreamScope own_scope(*own);
    bool ok = true;
    for (int64_t i = 1; i < 20; ++i) {
      const auto a = numbers<float>(static_cast<size_t>(3 * i), 1);
      const auto b = numbers<float>(static_cast<size_t>(4 * i), 2);
      Handle first = on_gpu({3, i}, {i, 1}, kFloat32, a);
      Handle second = on_gpu({i, 4}, {4, 1}, kFloat32, b);
      Handle out = make_on(kCuda, {3, 4}, {4, 1}, kFloat32);
      ok = ok && aoti_torch_cuda_mm_out(out.get(), first.get(), second.get()) == 0 &&
           read<float>(out) == expected<float>(1, 3, 4, i, a, b);
    }
    right += ok ? 1 : 0;
  };
  std::thread other(work);
  work();
  other.join();
  BOOST_TEST(right == 2);
}

BOOST_AUTO_TEST_SUITE_END()
