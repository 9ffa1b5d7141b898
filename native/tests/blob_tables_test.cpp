#include <boost/test/unit_test.hpp>

#include "handle.h"

// Stands for PyTorch's, which is in front of the header in a blob.
#define AOTI_TORCH_ERROR_CODE_CHECK(call) BOOST_TEST((call) == 0)

#include <aoti_plugins/blob_tables.h>

using namespace aoti_plugins::testing;

namespace {

/// Has what PyTorch's description of a constant has.
struct Info {
  const char* name = nullptr;
  std::string original_fqn;
  std::vector<int64_t> shape;
  std::vector<int64_t> stride;
  int32_t dtype = 0;
  size_t offset = 0;
  size_t data_size = 0;
  bool from_folded = false;
  int32_t type = 0;
  int32_t layout = 0;
};

constexpr int32_t kFloat = 6;

void check_refused(const Handle& tensor, const char* layout, const std::string& reason,
                   int32_t dtype = kFloat) {
  BOOST_CHECK_EXCEPTION(aotip::check_typed_layout(tensor.get(), layout, "ops.one", dtype, "a type"),
                        std::runtime_error, [&](const std::runtime_error& error) {
                          BOOST_TEST_INFO(error.what());
                          return std::string(error.what()).find(reason) == 0;
                        });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(blob_tables)

BOOST_AUTO_TEST_CASE(reads_numbers_up_to_what_is_none) {
  Ints found;
  const char* const text = "2,-3,9223372036854775807,;7,";
  BOOST_TEST(aotip::read_numbers(text, found) == text + 25);
  BOOST_TEST(found == (Ints{2, -3, INT64_MAX}), boost::test_tools::per_element());
  Ints none;
  const char* const empty = ";";
  BOOST_TEST(aotip::read_numbers(empty, none) == empty);
  BOOST_TEST(none.empty());
}

BOOST_AUTO_TEST_CASE(describes_a_constant) {
  Info info;
  aotip::describe_constant(info, "a_b", "a.b", "2,3,;3,1,", 15, 4, 12, true, 1, 2);
  BOOST_TEST(info.name == std::string("a_b"));
  BOOST_TEST(info.original_fqn == "a.b");
  BOOST_TEST(info.shape == (Ints{2, 3}), boost::test_tools::per_element());
  BOOST_TEST(info.stride == (Ints{3, 1}), boost::test_tools::per_element());
  BOOST_TEST(info.dtype == 15);
  BOOST_TEST(info.offset == 4u);
  BOOST_TEST(info.data_size == 12u);
  BOOST_TEST(info.from_folded);
  BOOST_TEST(info.type == 1);
  BOOST_TEST(info.layout == 2);
  Info scalar;
  aotip::describe_constant(scalar, "s", "s", ";", 6, 0, 4, false, 0, 2);
  BOOST_TEST(scalar.shape.empty());
  BOOST_TEST(scalar.stride.empty());
}

BOOST_AUTO_TEST_CASE(looks_at_layouts) {
  aotip::check_layout(make({2, 3}, kFloat).get(), "2,3,;3,1,", "ops.one");
  aotip::check_layout(make({1, 3}, {7, 1}, kFloat).get(), "1,3,;3,1,", "ops.one");
  aotip::check_layout(make({0, 3}, {9, 9}, kFloat).get(), "0,3,;3,1,", "ops.one");
  aotip::check_layout(make({}, kFloat).get(), ";", "ops.one");
  aotip::check_typed_layout(make({2, 3}, kFloat).get(), "2,3,;3,1,", "ops.one", kFloat, "a type");
  check_refused(make({2, 3}, kFloat), "2,3,;3,1,",
                "ops.one: expected a type, number 15 of PyTorch's types, got number 6", 15);
  check_refused(
      make({2, 3}, kFloat), "3,2,;2,1,",
      "ops.one: expected sizes [3, 2] with strides [2, 1], got [2, 3] with strides [3, 1]");
  check_refused(
      make({2, 3}, {1, 2}, kFloat), "2,3,;3,1,",
      "ops.one: expected sizes [2, 3] with strides [3, 1], got [2, 3] with strides [1, 2]");
  check_refused(make({2}, kFloat), ";", "ops.one: expected sizes [] with strides [], got [2]");
  check_refused(make({0}, kFloat), "0,1,;1,1,", "ops.one: expected sizes [0, 1]");
}

BOOST_AUTO_TEST_SUITE_END()
