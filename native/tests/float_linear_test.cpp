// Products with weights of floats of 8 and 4 bits against sums in float64.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "cpu/math/narrow_weights.h"
#include "packed_numbers.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;
using namespace aoti_plugins::cpu;
using namespace aoti_plugins::testing;

namespace {

/// What a float of a sign, `exponent` and `fraction` bits stands for, by its definition; those that
/// are infinite or not numbers are left to a test of their own.
double float_of(int bits, int exponent, int fraction) {
  const int middle = (1 << (exponent - 1)) - 1;
  const int power = bits_of(static_cast<uint8_t>(bits), fraction, exponent);
  const int rest = bits_of(static_cast<uint8_t>(bits), 0, fraction);
  const double steps = rest + (power == 0 ? 0 : 1 << fraction);
  const double found = std::ldexp(steps, std::max(power, 1) - middle - fraction);
  return bits_of(static_cast<uint8_t>(bits), exponent + fraction, 1) != 0 ? -found : found;
}

/// A weight of floats of 8 or 4 bits, and what it stands for.
struct Floats {
  Handle codes;
  Handle scale;
  double whole = 1;
  std::vector<double> weights;  // [n, k]
};

struct FloatKind {
  const char* name;
  NarrowForm form;
  int exponent;
  int fraction;
  int64_t group;  ///< 0: a row
};

constexpr FloatKind kFloatKinds[] = {{"e4m3", NarrowForm::kE4M3, 4, 3, 0},
                                     {"e5m2", NarrowForm::kE5M2, 5, 2, 0},
                                     {"mx_e4m3", NarrowForm::kE4M3, 4, 3, 32},
                                     {"mx_e5m2", NarrowForm::kE5M2, 5, 2, 32},
                                     {"nvfp4", NarrowForm::kE2M1, 2, 1, 16}};

Floats random_floats(const FloatKind& kind, int64_t n, int64_t k) {
  std::mt19937 random(static_cast<unsigned>(n + k + kind.group + kind.exponent));
  const bool is_half = kind.form == NarrowForm::kE2M1;
  const int64_t size = kind.group == 0 ? k : kind.group;
  Floats f;
  f.codes = make({n, is_half ? k / 2 : k}, kUInt8);
  f.scale = make({n, k / size}, kind.group == 0 ? kFloat32 : kUInt8);
  f.whole = is_half ? 0.375 : 1;
  auto* bytes = data_of<uint8_t>(f.codes);
  std::memset(bytes, 0, n * k / (is_half ? 2 : 1));
  for (int64_t i = 0; i < n * k; ++i) {
    const int64_t group = i / size;
    if (i % size == 0 && kind.group == 0) {
      data_of<float>(f.scale)[group] = 0.01F + static_cast<float>(random() % 100) * 0.001F;
    } else if (i % size == 0) {
      data_of<uint8_t>(f.scale)[group] =
          static_cast<uint8_t>(is_half ? random() % 0x7f : 120 + random() % 8);
    }
    const double scale = kind.group == 0 ? data_of<float>(f.scale)[group]
                         : is_half       ? float_of(data_of<uint8_t>(f.scale)[group], 4, 3)
                                         : std::ldexp(1.0, data_of<uint8_t>(f.scale)[group] - 127);
    const int sign = static_cast<int>(random() % 2) << (kind.exponent + kind.fraction);
    const int most = kind.form == NarrowForm::kE4M3   ? 0x7e
                     : kind.form == NarrowForm::kE5M2 ? 0x4f
                                                      : 7;
    const int code = sign | static_cast<int>(random() % (most + 1));
    if (is_half) {
      const int64_t byte = i / 32 * 16 + i % 16;
      bytes[byte] = static_cast<uint8_t>(bytes[byte] | code << (i % 32 < 16 ? 0 : 4));
    } else {
      bytes[i] = static_cast<uint8_t>(code);
    }
    f.weights.push_back(float_of(code, kind.exponent, kind.fraction) * scale * f.whole);
  }
  return f;
}

AOTITorchError multiply_floats(const Handle& x, const Handle& codes, const Handle& scale,
                               const Handle* bias, double whole, const char* kind, Handle* ret) {
  AtenTensorHandle added = bias != nullptr ? bias->get() : nullptr;
  AtenTensorHandle out = nullptr;
  const AOTITorchError error = aoti_torch_cpu_float_linear(
      x.get(), codes.get(), scale.get(), bias != nullptr ? &added : nullptr, whole, kind, &out);
  ret->reset(out);
  return error;
}

/// Of all instruction sets that this machine has.
std::vector<NarrowKernels> all_narrow_kernels() {
  std::vector<NarrowKernels> found{narrow_kernels_baseline()};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    found.push_back(narrow_kernels_avx2());
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    found.push_back(narrow_kernels_avx512());
  }
#endif
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(float_linear)

BOOST_AUTO_TEST_CASE(floats_of_few_bits) {
  const int64_t n = 70;
  const int64_t k = 160;
  for (const FloatKind& kind : kFloatKinds) {
    const Floats f = random_floats(kind, n, k);
    const Handle bias = floats({n}, {1}, 5);
    const double reach =
        std::fabs(*std::max_element(f.weights.begin(), f.weights.end(), [](double a, double b) {
          return std::fabs(a) < std::fabs(b);
        }));
    for (const int64_t m : {1, 3, 4, 9, 40}) {
      const Handle x = floats({m, k}, {k, 1}, 4);
      Handle out;
      BOOST_REQUIRE_MESSAGE(
          multiply_floats(x, f.codes, f.scale, &bias, f.whole, kind.name, &out) == 0, reason());
      check_close(values(out), products_of(x, f.weights, bias, m, n, k), 1e-5 * reach * k);
    }
  }
}

BOOST_AUTO_TEST_CASE(floats_of_few_bits_by_every_instruction_set) {
  for (const FloatKind& kind : kFloatKinds) {
    for (int bits = 0; bits < (kind.form == NarrowForm::kE2M1 ? 16 : 256); ++bits) {
      uint8_t codes[32];
      std::fill_n(codes, 32,
                  static_cast<uint8_t>(kind.form == NarrowForm::kE2M1 ? bits * 17 : bits));
      const float scale[] = {0.5F, 0.5F};
      const bool is_special = kind.form == NarrowForm::kE4M3
                                  ? (bits & 0x7f) == 0x7f
                                  : kind.form == NarrowForm::kE5M2 && (bits & 0x7f) >= 0x7c;
      const double one = float_of(bits, kind.exponent, kind.fraction);
      NarrowWeight weight;
      weight.form = kind.form;
      weight.n = 1;
      weight.k = 32;
      weight.data = codes;
      weight.groups = kind.group == 16 ? 2 : 1;
      weight.scale = scale;
      weight.whole = 4;
      for (const NarrowKernels& kernels : all_narrow_kernels()) {
        float wide[32];
        kernels.widen(weight, 0, 1, wide);
        float ones[5 * 32];
        std::fill_n(ones, 5 * 32, 1.0F);
        float sums[5];  // four rows at once, and one
        kernels.multiply({weight, 5, ones, nullptr, sums}, 0, 1);
        if (!is_special) {
          BOOST_TEST(std::all_of(wide, wide + 32, [&](float w) { return w == one * 2; }));
          BOOST_TEST(std::all_of(sums, sums + 5, [&](float sum) { return sum == one * 64; }));
        } else if (kind.form == NarrowForm::kE5M2 && (bits & 3) == 0) {
          BOOST_TEST(std::isinf(wide[0]));
          BOOST_TEST(std::signbit(wide[0]) == (bits >= 128));
        } else {
          BOOST_TEST(std::isnan(wide[31]));
          BOOST_TEST(std::isnan(sums[0]));
          BOOST_TEST(std::isnan(sums[4]));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(scales_of_8_bits_are_what_they_stand_for) {
  const Handle codes = make({256, 32}, kUInt8);
  std::fill_n(data_of<uint8_t>(codes), 256 * 32, 0x38);  // 1
  const Handle scale = make({256, 1}, kUInt8);
  std::iota(data_of<uint8_t>(scale), data_of<uint8_t>(scale) + 256, 0);
  const Handle x = make({1, 32}, kFloat32);
  std::fill_n(data_of<float>(x), 32, 0.0F);
  data_of<float>(x)[0] = 1;
  Handle out;
  BOOST_REQUIRE_MESSAGE(multiply_floats(x, codes, scale, nullptr, 1, "mx_e4m3", &out) == 0,
                        reason());
  for (int i = 0; i < 255; ++i) {
    BOOST_TEST(data_of<float>(out)[i] == static_cast<float>(std::ldexp(1.0, i - 127)));
  }
  BOOST_TEST(std::isnan(data_of<float>(out)[255]));
}

BOOST_AUTO_TEST_CASE(floats_that_do_not_fit_are_refused) {
  const Floats f = random_floats(kFloatKinds[2], 8, 64);
  const Handle x = floats({2, 64}, {64, 1}, 1);
  const auto refused = [&](const Handle& rows, const Handle& codes, const Handle& scale,
                           const Handle* bias, const char* kind, const char* part) {
    Handle out;
    BOOST_TEST(multiply_floats(rows, codes, scale, bias, 1, kind, &out) != 0);
    BOOST_TEST(out.get() == nullptr);
    BOOST_TEST(reason().find(part) != std::string::npos, reason());
  };
  refused(nullptr, f.codes, f.scale, nullptr, "mx_e4m3", "x is null");
  refused(x, nullptr, f.scale, nullptr, "mx_e4m3", "codes is null");
  refused(x, f.codes, nullptr, nullptr, "mx_e4m3", "scale is null");
  refused(x, f.codes, f.scale, nullptr, nullptr, "kind");
  refused(x, f.codes, f.scale, nullptr, "e3m4", "weights of kind e3m4, expected e4m3");
  refused(x, f.codes, f.scale, nullptr, "e4m3",
          "scales are uint8 of 2 dims, expected contiguous float32 [8, 1]");
  refused(x, f.codes, f.scale, nullptr, "nvfp4",
          "rows of x have 64 elements, those of the weight 128");
  refused(make({2, 64}, kInt8), f.codes, f.scale, nullptr, "mx_e4m3", "x is int8");
  refused(make({}, kFloat32), f.codes, f.scale, nullptr, "mx_e4m3", "x has no dims");
  refused(make({2, 48}, kFloat32), make({8, 48}, kUInt8), f.scale, nullptr, "mx_e4m3",
          "not the same multiple of 32");
  refused(x, make({8, 64}, kInt8), f.scale, nullptr, "mx_e4m3", "codes are int8 of 2 dims");
  refused(x, f.codes, make({8, 1}, kUInt8), nullptr, "mx_e4m3", "expected contiguous uint8 [8, 2]");
  const Handle bias = make({7}, kFloat32);
  refused(x, f.codes, f.scale, &bias, "mx_e4m3", "one for each of 8 columns");
}

BOOST_AUTO_TEST_SUITE_END()
