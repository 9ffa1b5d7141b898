#include <aoti_plugins/blob_device_name.h>

#include <boost/test/unit_test.hpp>
#include <regex>

using namespace aotip;

BOOST_AUTO_TEST_SUITE(blob_device_name)

BOOST_AUTO_TEST_CASE(a_name_is_taken_apart_as_the_expression_of_pytorch_does) {
  const std::regex expression("(cpu|cuda|xpu|mps)(:([0-9]+))?");
  for (const std::string name :
       {"cpu", "cuda", "xpu", "mps", "cuda:0", "mps:12", "cpu:007", "", ":", "cuda:", "cuda:1 ",
        "cuda:1:2", ":0", "hip", "cudacuda", " cpu", "cuda:-1"}) {
    BOOST_TEST_CONTEXT(name) {
      std::smatch expected;
      const bool matches = std::regex_match(name, expected, expression);
      std::vector<DeviceNamePart> parts;
      BOOST_TEST(match_device_name(name, parts) == matches);
      BOOST_TEST_REQUIRE(parts.size() == (matches ? 4u : 0u));
      for (std::size_t i = 0; i < parts.size(); ++i) {
        BOOST_TEST(parts[i].matched == expected[i].matched);
        BOOST_TEST(parts[i].str() == expected[i].str());
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
