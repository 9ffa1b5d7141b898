// Random numbers, views, and tensors of another device. The same cases on every device: see
// device.h.

#include "conformance/tensors.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

BOOST_FIXTURE_TEST_SUITE(others, DeviceFixture)

BOOST_AUTO_TEST_CASE(draws_integers) {
  const Ints sizes = {40, 3};
  for (const int32_t dtype : {kInt64, kInt32, kFloat32, kUInt8}) {
    const Handle out = empty(sizes, dtype);
    BOOST_TEST_REQUIRE(AOTIP_ON(randint_low_out)(out.get(), 2, 5, sizes.data(), 2) == 0, reason());
    const Numbers values = read_all(out);
    for (const double number : {2.0, 3.0, 4.0}) {
      BOOST_TEST(std::count(values.begin(), values.end(), number) > 10);
    }
    BOOST_TEST(
        std::count_if(values.begin(), values.end(), [](double v) { return v < 2 || v > 4; }) == 0);
  }
  const Handle nothing = empty({0}, kInt64);
  const Ints zero = {0};
  BOOST_TEST(AOTIP_ON(randint_low_out)(nothing.get(), 0, 9, zero.data(), 1) == 0, reason());
  const Handle out = empty(sizes, kInt64);
  refused(AOTIP_ON(randint_low_out)(nullptr, 0, 9, sizes.data(), 2), "out is null");
  refused(AOTIP_ON(randint_low_out)(out.get(), 5, 5, sizes.data(), 2), "which leaves none");
  refused(AOTIP_ON(randint_low_out)(out.get(), 0, 5, sizes.data(), 1), "the sizes asked for");
  refused(AOTIP_ON(randint_low_out)(empty(sizes, {1, 40}, kInt64).get(), 0, 5, sizes.data(), 2),
          "out is not contiguous");
  refused(AOTIP_ON(randint_low_out)(empty(sizes, kComplex64).get(), 0, 5, sizes.data(), 2),
          "no random integers as complex64");
}

BOOST_AUTO_TEST_CASE(sees_other_dtypes) {
  const Handle x = tensor({2, 2}, kFloat32, {1, -2, 0, 3});
  const Handle bits =
      result_of([&](auto* ret) { return AOTIP_ON(view_dtype)(x.get(), kInt32, ret); });
  check_equal(bits, {0x3f800000, -1073741824, 0, 0x40400000}, "bits");
  AtenTensorHandle raw = nullptr;
  refused(AOTIP_ON(view_dtype)(x.get(), 99, &raw), "99 is not the code of a known dtype");
  refused(AOTIP_ON(view_as_real)(x.get(), &raw), "expected a complex tensor, found float32");
}

BOOST_AUTO_TEST_CASE(what_is_on_another_device_is_refused) {
  if (kDevice == kCpu) {
    return;  // there is no other
  }
  const Handle host = on_another_device({2, 2}, kFloat32);
  const Handle index = on_another_device({2, 2}, kInt64);
  const Handle here = tensor({2, 2}, kFloat32, {1, 2, 3, 4});
  const std::string expected = std::string(" is on cpu, expected ") + kName;
  AtenTensorHandle a = nullptr;
  AtenTensorHandle b = nullptr;
  refused(AOTIP_ON(cumsum)(host.get(), 0, nullptr, &a), "self" + expected);
  refused(AOTIP_ON(sort)(host.get(), 0, 0, &a, &b), "self" + expected);
  refused(AOTIP_ON(mm_out)(host.get(), here.get(), here.get()), "out" + expected);
  refused(AOTIP_ON(mm_out)(here.get(), host.get(), here.get()), "the first matrix" + expected);
  refused(AOTIP_ON(addmm_out)(here.get(), host.get(), here.get(), here.get(), 1, 1),
          "self" + expected);
  refused(AOTIP_ON(scatter_value_out)(here.get(), here.get(), 0, index.get(), 1),
          "index" + expected);
  refused(AOTIP_ON(scatter_value_out)(host.get(), here.get(), 0, index.get(), 1), "out" + expected);
  const int64_t sizes[] = {2, 2};
  refused(AOTIP_ON(randint_low_out)(host.get(), 0, 9, sizes, 2), "out" + expected);
}

BOOST_AUTO_TEST_SUITE_END()
