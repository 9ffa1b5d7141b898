// The matrix products' shims over stand-ins for the driver and for cuBLASLt: which layouts reach
// the library, what they give, and what is refused.

#include <atomic>
#include <thread>

#include "cuda_fixture.h"
#include "slim/half.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

template <typename T>
std::vector<T> numbers(size_t count, int seed) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(static_cast<int>(i * 7 + static_cast<size_t>(seed)) % 11 - 5);
  }
  return values;
}

/// beta * self + alpha * a @ b for row-major values; self may have 0, n or m * n elements.
template <typename T, typename Out = T>
std::vector<Out> expected(int64_t batch, int64_t m, int64_t n, int64_t k, const std::vector<T>& a,
                          const std::vector<T>& b, const std::vector<Out>& self = {},
                          double beta = 0.0, double alpha = 1.0) {
  std::vector<Out> out(static_cast<size_t>(batch * m * n));
  for (int64_t i = 0; i < batch * m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t x = 0; x < k; ++x) {
        sum += static_cast<double>(a[static_cast<size_t>(i * k + x)]) *
               static_cast<double>(b[static_cast<size_t>((i / m * k + x) * n + j)]);
      }
      const size_t at = static_cast<size_t>(i * n + j);
      const size_t s = self.size() == static_cast<size_t>(n) ? static_cast<size_t>(j) : at;
      out[at] = static_cast<Out>(alpha * sum +
                                 (self.empty() ? 0.0 : beta * static_cast<double>(self[s])));
    }
  }
  return out;
}

/// A view of the same memory.
Handle seen_as(const Handle& tensor, const Ints& sizes, const Ints& strides) {
  AtenTensorHandle raw = nullptr;
  BOOST_TEST_REQUIRE(
      aoti_torch__reinterpret_tensor(tensor.get(), static_cast<int64_t>(sizes.size()), sizes.data(),
                                     strides.data(), 0, &raw) == 0,
      reason());
  return Handle(raw);
}

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

BOOST_AUTO_TEST_CASE(sizes_of_zero) {
  Handle bias = on_gpu<float>({4}, {1}, kFloat32, {1, 2, 3, 4});
  Handle out = make_on(kCuda, {3, 4}, {4, 1}, kFloat32);
  Handle none_a = make_on(kCuda, {3, 0}, {1, 1}, kFloat32);
  Handle none_b = make_on(kCuda, {0, 4}, {4, 1}, kFloat32);
  BOOST_TEST(aoti_torch_cuda_mm_out(out.get(), none_a.get(), none_b.get()) == 0, reason());
  BOOST_TEST((read<float>(out) == std::vector<float>(12, 0.0f)));
  BOOST_TEST(
      aoti_torch_cuda_addmm_out(out.get(), bias.get(), none_a.get(), none_b.get(), 2.0, 1.0) == 0,
      reason());
  BOOST_TEST((read<float>(out) == std::vector<float>{2, 4, 6, 8, 2, 4, 6, 8, 2, 4, 6, 8}));
  Handle empty = make_on(kCuda, {0, 4}, {4, 1}, kFloat32);
  Handle no_rows = make_on(kCuda, {0, 5}, {5, 1}, kFloat32);
  Handle b = make_on(kCuda, {5, 4}, {4, 1}, kFloat32);
  BOOST_TEST(aoti_torch_cuda_mm_out(empty.get(), no_rows.get(), b.get()) == 0, reason());
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

BOOST_AUTO_TEST_CASE(float8) {
  // 1, 2, -1 and 0.5 as e4m3 and as e5m2.
  const uint8_t e4m3[] = {0x38, 0x40, 0xb8, 0x30};
  const uint8_t e5m2[] = {0x3c, 0x40, 0xbc, 0x38};
  const float values[] = {1.0f, 2.0f, -1.0f, 0.5f};
  std::vector<uint8_t> a_bits(3 * 16);
  std::vector<uint8_t> b_bits(16 * 32);
  std::vector<float> a(a_bits.size());
  std::vector<float> b(b_bits.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a_bits[i] = e4m3[i * 7 % 4];
    a[i] = values[i * 7 % 4];
  }
  for (size_t i = 0; i < b.size(); ++i) {
    b_bits[i] = e5m2[i * 5 / 3 % 4];
    b[i] = values[i * 5 / 3 % 4];
  }
  std::vector<float> bias_values(32);
  std::vector<uint16_t> bias_bits(32);
  for (size_t i = 0; i < 32; ++i) {
    bias_values[i] = static_cast<float>(i);
    bias_bits[i] = float_to_bfloat16(bias_values[i]);
  }
  const auto product = expected<float>(1, 3, 32, 16, a, b);
  Handle bias = on_gpu({32}, {1}, kBFloat16, bias_bits);
  AtenTensorHandle bias_handle = bias.get();
  for (const bool by_row : {false, true}) {
    const std::vector<float> a_scales = {2, 4, 0.5};
    std::vector<float> b_scales(32, 1.0f);
    b_scales[5] = 8.0f;
    Handle scale_a = by_row ? on_gpu<float>({3, 1}, {1, 1}, kFloat32, a_scales)
                            : on_gpu<float>({}, {}, kFloat32, {2});
    Handle scale_b = by_row ? on_gpu<float>({1, 32}, {32, 1}, kFloat32, b_scales)
                            : on_gpu<float>({1}, {1}, kFloat32, {1});
    std::vector<float> right = product;
    for (size_t i = 0; i < right.size(); ++i) {
      right[i] =
          right[i] * (by_row ? a_scales[i / 32] * b_scales[i % 32] : 2.0f) + bias_values[i % 32];
    }
    for (const Ints& a_strides : {Ints{16, 1}, Ints{1, 3}, Ints{19, 1}}) {
      for (const Ints& b_strides : {Ints{1, 16}, Ints{32, 1}, Ints{1, 24}}) {
        Handle first = on_gpu({3, 16}, a_strides, kFloat8E4M3FN, a_bits);
        Handle second = on_gpu({16, 32}, b_strides, kFloat8E5M2, b_bits);
        int32_t dtype = kFloat32;
        AtenTensorHandle raw = nullptr;
        BOOST_TEST(
            aoti_torch_cuda__scaled_mm(first.get(), second.get(), scale_a.get(), scale_b.get(),
                                       &bias_handle, nullptr, &dtype, 1, &raw) == 0,
            reason());
        const Handle out(raw);
        BOOST_TEST((read<float>(out) == right));
        Handle columns = make_on(kCuda, {3, 32}, {1, 3}, kFloat32);
        BOOST_TEST(
            aoti_torch_cuda__scaled_mm_out(columns.get(), first.get(), second.get(), scale_a.get(),
                                           scale_b.get(), &bias_handle, nullptr, nullptr, 0) == 0,
            reason());
        BOOST_TEST((read<float>(columns) == right));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(wrong_float8_products_leave_the_result_untouched) {
  Handle a = make_on(kCuda, {3, 16}, {16, 1}, kFloat8E4M3FN);
  Handle b = make_on(kCuda, {16, 32}, {1, 16}, kFloat8E4M3FN);
  Handle short_a = make_on(kCuda, {3, 8}, {8, 1}, kFloat8E4M3FN);
  Handle short_b = make_on(kCuda, {8, 32}, {1, 8}, kFloat8E4M3FN);
  Handle floats = make_on(kCuda, {3, 16}, {16, 1}, kFloat32);
  Handle one = on_gpu<float>({}, {}, kFloat32, {1});
  Handle three = on_gpu<float>({3, 1}, {1, 1}, kFloat32, {1, 2, 3});
  Handle doubled = on_gpu<double>({}, {}, kFloat64, {1});
  Handle host = make({}, kFloat32);
  const std::vector<float> old(96, 5.0f);
  Handle out = on_gpu({3, 32}, {32, 1}, kFloat32, old);
  AtenTensorHandle wrong_bias = three.get();
  const auto call = [&](const Handle& o, const Handle& x, const Handle& y, const Handle& s,
                        const Handle& t, AtenTensorHandle* bias = nullptr) {
    return aoti_torch_cuda__scaled_mm_out(o.get(), x.get(), y.get(), s.get(), t.get(), bias,
                                          nullptr, nullptr, 0);
  };
  const Handle nothing;
  check_refused(call(out, nothing, b, one, one), "self is null");
  check_refused(call(out, a, b, nothing, one), "scale_a is null");
  check_refused(call(out, floats, b, one, one), "the matrices are float32");
  check_refused(call(out, a, b, host, one), "scale_a is on cpu");
  check_refused(call(out, a, b, one, doubled), "scale_b is float64, expected float32");
  check_refused(call(out, a, b, three, one), "scale_a has 3 elements and scale_b 1");
  check_refused(call(out, a, b, one, three), "scale_b has 3 elements");
  check_refused(call(out, a, b, one, one, &wrong_bias), "bias has 2 dims, expected 1");
  check_refused(call(floats, a, b, one, one), "the result is [3, 16]");
  check_refused(call(out, short_a, short_b, one, one), "has no kernel for");
  int32_t other = kBFloat16;
  check_refused(aoti_torch_cuda__scaled_mm_out(out.get(), a.get(), b.get(), one.get(), one.get(),
                                               nullptr, nullptr, &other, 0),
                "out is float32, expected bfloat16");
  BOOST_TEST((read<float>(out) == old));
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

BOOST_AUTO_TEST_CASE(wrong_arguments_leave_the_result_untouched) {
  Handle a = on_gpu({3, 5}, {5, 1}, kFloat32, numbers<float>(15, 1));
  Handle b = on_gpu({5, 4}, {4, 1}, kFloat32, numbers<float>(20, 2));
  const auto old = numbers<float>(12, 3);
  Handle out = on_gpu({3, 4}, {4, 1}, kFloat32, old);
  Handle host = make({5, 4}, kFloat32);
  Handle doubles = make_on(kCuda, {5, 4}, {4, 1}, kFloat64);
  Handle cube = make_on(kCuda, {1, 5, 4}, {20, 4, 1}, kFloat32);
  Handle wide = make_on(kCuda, {3, 5}, {5, 1}, kFloat32);
  Handle bools = make_on(kCuda, {3, 3}, {3, 1}, kBool);
  check_refused(aoti_torch_cuda_mm_out(nullptr, a.get(), b.get()), "out is null");
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), nullptr), "second matrix is null");
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), host.get()), "on cpu, expected cuda");
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), doubles.get()), "the second float64");
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), cube.get()), "has 3 dims, expected 2");
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), a.get()), "inner sizes differ");
  check_refused(aoti_torch_cuda_mm_out(wide.get(), a.get(), b.get()), "the result is [3, 5]");
  check_refused(aoti_torch_cuda_mm_out(bools.get(), bools.get(), bools.get()),
                "no matrix product for bool");
  check_refused(aoti_torch_cuda_addmm_out(out.get(), wide.get(), a.get(), b.get(), 1.0, 1.0),
                "does not broadcast");
  check_refused(aoti_torch_cuda_addmm_out(out.get(), nullptr, a.get(), b.get(), 1.0, 1.0),
                "self is null");
  check_refused(aoti_torch_cuda__int_mm_out(out.get(), a.get(), b.get()),
                "expected int8 and int32");
  BOOST_TEST((read<float>(out) == old));
}

BOOST_AUTO_TEST_CASE(matrices_of_two_gpus_are_refused, *boost::unit_test::label(kTwoGpus)) {
  Handle a = on_gpu({3, 5}, {5, 1}, kFloat32, numbers<float>(15, 1));
  Handle b = make_on(kCuda, {5, 4}, {4, 1}, kFloat32, 1);
  const auto old = numbers<float>(12, 3);
  Handle out = on_gpu({3, 4}, {4, 1}, kFloat32, old);
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), b.get()), "cuda:1, expected cuda:0");
  BOOST_TEST((read<float>(out) == old));
}

BOOST_AUTO_TEST_CASE(a_product_without_a_kernel_leaves_the_result_untouched) {
  Handle a = on_gpu({3, 3}, {3, 1}, kInt8, numbers<int8_t>(9, 1));
  Handle out = on_gpu({3, 3}, {3, 1}, kInt32, numbers<int32_t>(9, 2));
  check_refused(aoti_torch_cuda__int_mm_out(out.get(), a.get(), a.get()), "has no kernel for");
  BOOST_TEST((read<int32_t>(out) == numbers<int32_t>(9, 2)));
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
