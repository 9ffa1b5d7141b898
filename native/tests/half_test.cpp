#include "slim/half.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

using namespace aoti_plugins;

BOOST_AUTO_TEST_SUITE(half)

BOOST_AUTO_TEST_CASE(every_half_survives_the_way_to_float_and_back) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      BOOST_TEST((bits & 0x7c00u) == 0x7c00u);
      BOOST_TEST((float_to_half(value) & 0x7fffu) == 0x7e00u);
    } else if (float_to_half(value) != bits) {
      BOOST_ERROR("half " << bits << " becomes " << float_to_half(value));
    }
  }
}

BOOST_AUTO_TEST_CASE(half_values) {
  BOOST_TEST(half_to_float(0x3c00) == 1.0f);
  BOOST_TEST(half_to_float(0xc000) == -2.0f);
  BOOST_TEST(half_to_float(0x7bff) == 65504.0f);
  BOOST_TEST(half_to_float(0x0001) == std::ldexp(1.0f, -24));
  BOOST_TEST(half_to_float(0x7c00) == std::numeric_limits<float>::infinity());
}

BOOST_AUTO_TEST_CASE(floats_round_to_the_nearest_half_ties_to_even) {
  BOOST_TEST(float_to_half(1.0f + std::ldexp(1.0f, -11)) == 0x3c00);
  BOOST_TEST(float_to_half(1.0f + 3 * std::ldexp(1.0f, -11)) == 0x3c02);
  BOOST_TEST(float_to_half(65519.0f) == 0x7bff);
  BOOST_TEST(float_to_half(65520.0f) == 0x7c00);
  BOOST_TEST(float_to_half(std::ldexp(1.0f, -25)) == 0x0000);
  BOOST_TEST(float_to_half(std::ldexp(1.5f, -25)) == 0x0001);
  BOOST_TEST(float_to_half(std::ldexp(1.0f, -14)) == 0x0400);
  BOOST_TEST(float_to_half(-0.0f) == 0x8000);
}

BOOST_AUTO_TEST_CASE(bfloat16_rounds_and_keeps_nan) {
  BOOST_TEST(bfloat16_to_float(0x3f80) == 1.0f);
  BOOST_TEST(float_to_bfloat16(1.0f + std::ldexp(1.0f, -8)) == 0x3f80);
  BOOST_TEST(float_to_bfloat16(1.0f + 3 * std::ldexp(1.0f, -8)) == 0x3f82);
  BOOST_TEST(std::isnan(bfloat16_to_float(float_to_bfloat16(std::nanf("")))));
  BOOST_TEST(std::isinf(bfloat16_to_float(float_to_bfloat16(std::numeric_limits<float>::max()))));
}

BOOST_AUTO_TEST_SUITE_END()
