// The shims of products of float8 matrices over stand-ins for the driver and for cuBLASLt.

#include "matmul_numbers.h"
#include "slim/half.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

BOOST_FIXTURE_TEST_SUITE(cuda_scaled_matmul, CudaFixture)

BOOST_AUTO_TEST_CASE(factors_and_a_bias) {
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

BOOST_AUTO_TEST_CASE(sums_over_nothing) {
  const Handle a = make_on(kCuda, {3, 0}, {1, 1}, kFloat8E4M3FN);
  const Handle b = make_on(kCuda, {0, 4}, {1, 1}, kFloat8E4M3FN);
  const Handle one = on_gpu<float>({}, {}, kFloat32, {1});
  std::vector<uint16_t> bits;
  for (const float value : {1.0f, 2.0f, -3.0f, 4.0f}) {
    bits.push_back(float_to_bfloat16(value));
  }
  const Handle bias = on_gpu({4}, {1}, kBFloat16, bits);
  for (const Ints& strides : {Ints{4, 1}, Ints{1, 3}, Ints{7, 1}}) {
    const Handle out = on_gpu({3, 4}, strides, kFloat32, numbers<float>(12, 1));
    const auto call = [&](AtenTensorHandle* added) {
      return aoti_torch_cuda__scaled_mm_out(out.get(), a.get(), b.get(), one.get(), one.get(),
                                            added, nullptr, nullptr, 0);
    };
    BOOST_TEST(call(nullptr) == 0, reason());
    BOOST_TEST((read<float>(out) == std::vector<float>(12, 0.0f)));
    AtenTensorHandle added = bias.get();
    BOOST_TEST(call(&added) == 0, reason());
    BOOST_TEST((read<float>(out) == std::vector<float>{1, 2, -3, 4, 1, 2, -3, 4, 1, 2, -3, 4}));
  }
  const Handle narrow = on_gpu({3, 4}, {4, 1}, kFloat8E4M3FN, std::vector<uint8_t>(12, 0x38));
  BOOST_TEST(aoti_torch_cuda__scaled_mm_out(narrow.get(), a.get(), b.get(), one.get(), one.get(),
                                            nullptr, nullptr, nullptr, 0) == 0,
             reason());
  BOOST_TEST((read<uint8_t>(narrow) == std::vector<uint8_t>(12, 0)));
}

BOOST_AUTO_TEST_CASE(wrong_arguments_leave_the_result_untouched) {
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

BOOST_AUTO_TEST_CASE(a_result_that_lies_over_itself_is_refused) {
  const std::vector<float> old(16, 5.0f);
  const Handle memory = on_gpu({16}, {1}, kFloat32, old);
  const Handle first = make_on(kCuda, {4, 16}, {16, 1}, kFloat8E4M3FN);
  const Handle second = make_on(kCuda, {16, 16}, {1, 16}, kFloat8E4M3FN);
  const Handle one = on_gpu<float>({}, {}, kFloat32, {1});
  const Handle out = seen_as(memory, {4, 16}, {0, 1});
  check_refused(aoti_torch_cuda__scaled_mm_out(out.get(), first.get(), second.get(), one.get(),
                                               one.get(), nullptr, nullptr, nullptr, 0),
                "4 elements at each");
  BOOST_TEST((read<float>(memory) == old));
}

BOOST_AUTO_TEST_SUITE_END()
