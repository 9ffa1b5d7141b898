// Products with weights of 4, 8 and 16 bits against sums in float64.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>

#include "packed_numbers.h"
#include "shim/run_shim.h"
#include "slim/half.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

/// A weight of few bits, and what it stands for.
struct Small {
  Handle codes;
  Handle scale;
  Handle zero;
  std::vector<double> weights;  // [n, k]
};

Small small_weight(int64_t n, int64_t k, int64_t bits, int64_t groups, int64_t zero_kind) {
  std::mt19937 random(static_cast<unsigned>(n + k + bits + groups + zero_kind));
  const int64_t size = k / groups;
  Small s;
  s.codes = make({n, bits == 4 ? k / 2 : k}, bits == 4 ? kUInt8 : kInt8);
  s.scale = make({n, groups}, kFloat32);
  if (zero_kind != 0) {
    s.zero = make({n, groups}, kFloat32);
  }
  s.weights.resize(n * k);
  auto* bytes = data_of<uint8_t>(s.codes);
  std::memset(bytes, 0, n * k * bits / 8);
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t g = 0; g < groups; ++g) {
      const float scale = 0.01F + static_cast<float>(random() % 100) * 0.001F;
      const float zero = zero_kind == 1 ? static_cast<float>(random() % 8)
                                        : static_cast<float>(random() % 8) * 0.125F;
      data_of<float>(s.scale)[row * groups + g] = scale;
      if (zero_kind != 0) {
        data_of<float>(s.zero)[row * groups + g] = zero;
      }
      for (int64_t i = 0; i < size; ++i) {
        const int64_t place = row * k + g * size + i;
        const int code =
            bits == 4 ? static_cast<int>(random() % 16) : static_cast<int>(random() % 256) - 128;
        if (bits == 8) {
          bytes[place] = static_cast<uint8_t>(code);
        } else {
          const int64_t byte = row * k / 2 + g * size / 2 + i % (size / 2);
          bytes[byte] = static_cast<uint8_t>(bytes[byte] | code << (i < size / 2 ? 0 : 4));
        }
        const double middle = bits == 4 ? 8 : 0;
        s.weights[place] = zero_kind == 1   ? (code - zero) * double(scale)
                           : zero_kind == 2 ? (code - middle) * double(scale) + zero
                                            : (code - middle) * double(scale);
      }
    }
  }
  return s;
}

AOTITorchError multiply_small(const Handle& x, const Handle* row_scale, const Handle* row_zero,
                              const Small& s, const Handle* bias, int64_t bits, int64_t zero_kind,
                              Handle* ret) {
  const auto pointer = [](const Handle* handle) {
    return handle != nullptr ? handle->get() : nullptr;
  };
  AtenTensorHandle handles[] = {pointer(row_scale), pointer(row_zero), s.zero.get(), pointer(bias)};
  AtenTensorHandle out = nullptr;
  const AOTITorchError error =
      aoti_torch_cpu_small_linear(x.get(), &handles[0], &handles[1], s.codes.get(), s.scale.get(),
                                  &handles[2], &handles[3], bits, zero_kind, &out);
  ret->reset(out);
  return error;
}

/// Random blocks of 256 weights of a GGUF file, and what they stand for.
struct Blocks {
  Handle bytes;                 // [n, nbytes]
  std::vector<double> weights;  // [n, k]
};

double half_of(const uint8_t* at) {
  return half_to_float(static_cast<uint16_t>(at[0] | at[1] << 8));
}

void set_half(uint8_t* at, float value) {
  const uint16_t bits = float_to_half(value);
  std::memcpy(at, &bits, sizeof(bits));
}

/// The `i`-th weight of a block, by llama.cpp's description of `kind`: one at a time.
double weight_of_block(const std::string& kind, const uint8_t* block, int i) {
  if (kind == "q6_k") {
    const int half = i / 128;
    const int run = i % 128 / 32;
    const int low = bits_of(block[half * 64 + run % 2 * 32 + i % 32], run / 2 * 4, 4);
    const int high = bits_of(block[128 + half * 32 + i % 32], run * 2, 2);
    const auto scale = static_cast<int8_t>(block[192 + i / 16]);
    return half_of(block + 208) * scale * ((low | high << 4) - 32);
  }
  const int group = i / 32;
  const uint8_t* packed = block + 4;
  const int scale = group < 4
                        ? bits_of(packed[group], 0, 6)
                        : bits_of(packed[group + 4], 0, 4) | bits_of(packed[group - 4], 6, 2) << 4;
  const int minimum = group < 4
                          ? bits_of(packed[group + 4], 0, 6)
                          : bits_of(packed[group + 4], 4, 4) | bits_of(packed[group], 6, 2) << 4;
  const bool has_fifth = kind == "q5_k";
  const uint8_t* low = block + (has_fifth ? 48 : 16);
  int code = bits_of(low[i / 64 * 32 + i % 32], group % 2 * 4, 4);
  if (has_fifth) {
    code |= bits_of(block[16 + i % 32], group, 1) << 4;
  }
  return half_of(block) * scale * code - half_of(block + 2) * minimum;
}

Blocks random_blocks(const std::string& kind, int64_t n, int64_t k) {
  const int64_t nbytes = kind == "q4_k" ? 144 : kind == "q5_k" ? 176 : 210;
  std::mt19937 random(static_cast<unsigned>(n + k + nbytes));
  Blocks blocks;
  blocks.bytes = make({n, k / 256 * nbytes}, kUInt8);
  auto* block = data_of<uint8_t>(blocks.bytes);
  for (int64_t b = 0; b < n * (k / 256); ++b, block += nbytes) {
    std::generate_n(block, nbytes, [&] { return static_cast<uint8_t>(random()); });
    for (const int64_t at :
         kind == "q6_k" ? std::vector<int64_t>{208} : std::vector<int64_t>{0, 2}) {
      set_half(block + at, static_cast<float>(random() % 100) * 1e-5F);
    }
    for (int i = 0; i < 256; ++i) {
      blocks.weights.push_back(weight_of_block(kind, block, i));
    }
  }
  return blocks;
}

AOTITorchError multiply_blocks(const Handle& x, const Handle& blocks, const Handle* bias,
                               const char* kind, Handle* ret) {
  AtenTensorHandle added = bias != nullptr ? bias->get() : nullptr;
  AtenTensorHandle out = nullptr;
  const AOTITorchError error = aoti_torch_cpu_gguf_linear(
      x.get(), blocks.get(), bias != nullptr ? &added : nullptr, kind, &out);
  ret->reset(out);
  return error;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(small_linear)

BOOST_AUTO_TEST_CASE(blocks_of_gguf_files) {
  const int64_t n = 70;
  const int64_t k = 768;
  for (const char* kind : {"q4_k", "q5_k", "q6_k"}) {
    const Blocks blocks = random_blocks(kind, n, k);
    const Handle bias = floats({n}, {1}, 5);
    for (const int64_t m : {1, 3, 4, 9, 40}) {
      const Handle x = floats({m, k}, {k, 1}, 4);
      Handle out;
      BOOST_REQUIRE_MESSAGE(multiply_blocks(x, blocks.bytes, &bias, kind, &out) == 0, reason());
      check_close(values(out), products_of(x, blocks.weights, bias, m, n, k), 1e-3);
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_of_any_dims_times_blocks) {
  const Blocks blocks = random_blocks("q4_k", 8, 256);
  for (const int32_t dtype : {kFloat16, kBFloat16}) {
    const Handle x = make({2, 3, 256}, dtype);
    std::fill_n(data_of<uint16_t>(x), 6 * 256, dtype == kFloat16 ? 0x3c00 : 0x3f80);  // ones
    Handle out;
    BOOST_REQUIRE_MESSAGE(multiply_blocks(x, blocks.bytes, nullptr, "q4_k", &out) == 0, reason());
    const Tensor& found = *unwrap(out.get());
    BOOST_TEST(found.ndim() == 3);
    BOOST_TEST(found.size(2) == 8);
    BOOST_TEST(found.dtype() == dtype);
    const auto to_float = dtype == kFloat16 ? half_to_float : bfloat16_to_float;
    for (int64_t j = 0; j < 8; ++j) {
      const double sum = std::accumulate(blocks.weights.begin() + j * 256,
                                         blocks.weights.begin() + (j + 1) * 256, 0.0);
      BOOST_TEST(std::fabs(to_float(data_of<uint16_t>(out)[j]) - sum) <=
                 std::fabs(sum) * 0x1p-8 + 1e-3);
    }
  }
  Handle empty;
  BOOST_TEST(multiply_blocks(make({0, 256}, kFloat32), blocks.bytes, nullptr, "q4_k", &empty) == 0);
  BOOST_TEST(unwrap(empty.get())->numel() == 0);
}

BOOST_AUTO_TEST_CASE(blocks_that_do_not_fit_are_refused) {
  const Blocks blocks = random_blocks("q4_k", 8, 256);
  const Handle x = floats({2, 256}, {256, 1}, 1);
  const auto refused = [&](const Handle& rows, const Handle& weight, const Handle* bias,
                           const char* kind, const char* part) {
    Handle out;
    BOOST_TEST(multiply_blocks(rows, weight, bias, kind, &out) != 0);
    BOOST_TEST(out.get() == nullptr);
    BOOST_TEST(reason().find(part) != std::string::npos, reason());
  };
  refused(nullptr, blocks.bytes, nullptr, "q4_k", "x is null");
  refused(x, nullptr, nullptr, "q4_k", "blocks is null");
  refused(x, blocks.bytes, nullptr, nullptr, "kind");
  refused(x, blocks.bytes, nullptr, "q3_k", "blocks of kind q3_k, expected q4_k");
  refused(x, blocks.bytes, nullptr, "q5_k", "144 bytes: not 176 for each 256");
  refused(make({2, 256}, kInt8), blocks.bytes, nullptr, "q4_k", "x is int8");
  refused(make({2, 128}, kFloat32), blocks.bytes, nullptr, "q4_k", "rows of x have 128 elements");
  refused(make({}, kFloat32), blocks.bytes, nullptr, "q4_k", "x has no dims");
  refused(x, make({8, 144}, kInt8), nullptr, "q4_k", "blocks are int8 of 2 dims");
  const Handle bias = make({7}, kFloat32);
  refused(x, blocks.bytes, &bias, "q4_k", "one for each of 8 columns");
}

BOOST_AUTO_TEST_CASE(weights_of_few_bits_times_floats) {
  const int64_t n = 70;
  for (const int64_t bits : {4, 8}) {
    for (const int64_t zero_kind : {0, 1, 2}) {
      for (const auto& [k, groups] : {std::pair<int64_t, int64_t>{64, 1}, {256, 8}, {256, 2}}) {
        const Small s = small_weight(n, k, bits, groups, zero_kind);
        const Kept kept{&s.codes, &s.scale};
        for (const int64_t m : {1, 3, 4, 9, 40}) {
          const Handle x = floats({m, k}, {k, 1}, 4);
          const Handle bias = floats({n}, {1}, 5);
          Handle out;
          BOOST_REQUIRE_MESSAGE(
              multiply_small(x, nullptr, nullptr, s, &bias, bits, zero_kind, &out) == 0, reason());
          check_close(values(out), products_of(x, s.weights, bias, m, n, k),
                      bits == 4 ? 1e-3 : 1e-2);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(weights_of_few_bits_times_codes) {
  const int64_t n = 70;
  for (const int64_t bits : {4, 8}) {
    for (const auto& [k, groups] : {std::pair<int64_t, int64_t>{64, 1}, {256, 8}, {96, 1}}) {
      for (const bool is_constant : {false, true}) {
        const Small s = small_weight(n, k, bits, groups, 0);
        const Handle bias = floats({n}, {1}, 5);
        const std::optional<Kept> kept =
            is_constant ? std::optional<Kept>(
                              std::in_place,
                              std::initializer_list<const Handle*>{&s.codes, &s.scale, &bias})
                        : std::nullopt;
        for (const int64_t m : {1, 5, 40}) {
          const Handle x = make({m, k}, kInt8);
          const Handle row_scale = floats({m, 1}, {1, 1}, 6);
          const Handle row_zero = make({m}, kInt8);
          std::mt19937 random(7);
          for (int64_t i = 0; i < m * k; ++i) {
            data_of<int8_t>(x)[i] = static_cast<int8_t>(random());
          }
          for (int64_t i = 0; i < m; ++i) {
            data_of<int8_t>(row_zero)[i] = static_cast<int8_t>(random());
          }
          Handle out;
          BOOST_REQUIRE_MESSAGE(
              multiply_small(x, &row_scale, &row_zero, s, &bias, bits, 0, &out) == 0, reason());
          std::vector<float> expected;
          double largest = 0;
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              double sum = 0;
              for (int64_t p = 0; p < k; ++p) {
                sum += (data_of<int8_t>(x)[i * k + p] - data_of<int8_t>(row_zero)[i]) *
                       s.weights[j * k + p];
              }
              largest = std::max(largest, std::fabs(sum));
              expected.push_back(
                  static_cast<float>(sum * data_of<float>(row_scale)[i] + data_of<float>(bias)[j]));
            }
          }
          // XNNPACK holds scales of groups in 16 bits.
          check_close(values(out), expected, largest * (groups > 1 && is_constant ? 4e-3 : 1e-5));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(sixteen_bits_are_read_as_they_are) {
  const int64_t n = 50;
  for (const int32_t dtype : {kFloat16, kBFloat16}) {
    for (const int64_t k : {7, 64, 131}) {
      for (const int64_t m : {1, 4, 6, 33}) {
        std::mt19937 random(8);
        const Handle a = make({m, k}, dtype);
        const Handle b = make({k, n}, {1, k}, dtype);
        const auto to_float = dtype == kFloat16 ? half_to_float : bfloat16_to_float;
        const auto from_float = dtype == kFloat16 ? float_to_half : float_to_bfloat16;
        for (const Handle* handle : {&a, &b}) {
          for (int64_t i = 0; i < (handle == &a ? m : n) * k; ++i) {
            data_of<uint16_t>(*handle)[i] =
                from_float(static_cast<float>(random() % 64) / 64 - 0.5F);
          }
        }
        data_of<uint16_t>(b)[0] = from_float(1e-7F);  // a subnormal float16
        Handle out = make({m, n}, dtype);
        BOOST_REQUIRE(aoti_torch_cpu_mm_out(out.get(), a.get(), b.get()) == 0);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t p = 0; p < k; ++p) {
              sum += static_cast<double>(to_float(data_of<uint16_t>(a)[i * k + p])) *
                     to_float(data_of<uint16_t>(b)[j * k + p]);
            }
            const double found = to_float(data_of<uint16_t>(out)[i * n + j]);
            BOOST_TEST(std::fabs(found - sum) <= std::fabs(sum) * 0x1p-8 + 1e-6);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(arguments_that_do_not_fit_are_refused) {
  const Small s = small_weight(8, 64, 4, 2, 0);
  const Handle x = floats({2, 64}, {64, 1}, 1);
  const auto refused = [&](const Handle& rows, const Handle* row_scale, const Handle* row_zero,
                           int64_t bits, int64_t kind, const char* part) {
    Handle out;
    BOOST_TEST(multiply_small(rows, row_scale, row_zero, s, nullptr, bits, kind, &out) != 0);
    BOOST_TEST(out.get() == nullptr);
    BOOST_TEST(reason().find(part) != std::string::npos, reason());
  };
  refused(nullptr, nullptr, nullptr, 4, 0, "x is null");
  refused(make({2, 64}, kInt64), nullptr, nullptr, 4, 0, "x is int64");
  refused(make({2, 32}, kFloat32), nullptr, nullptr, 4, 0, "rows of x have 32 elements");
  refused(make({2, 64}, kInt8), nullptr, nullptr, 4, 0, "with no row_scale");
  const Handle scales = make({3}, kFloat32);
  refused(make({2, 64}, kInt8), &scales, nullptr, 4, 0, "expected float32 of 2");
  refused(x, &scales, nullptr, 4, 0, "with row_scale");
  refused(x, nullptr, nullptr, 5, 0, "weights of 5 bits");
  refused(x, nullptr, nullptr, 8, 0, "expected contiguous int8");
  refused(x, nullptr, nullptr, 4, 1, "no zeros");
  refused(x, nullptr, nullptr, 4, 7, "zero_kind 7");
}

BOOST_AUTO_TEST_SUITE_END()
