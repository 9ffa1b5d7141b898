// Running sums and products, sorts. The same cases on every device: see device.h.

#include "conformance/tensors.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

BOOST_FIXTURE_TEST_SUITE(scans_and_sorts, DeviceFixture)

BOOST_AUTO_TEST_CASE(running_sums_and_products) {
  for (const int32_t dtype : kNumbers) {
    for (const Ints& sizes : kSizes) {
      const Numbers values = some(sizes, dtype);
      for (const Ints& strides : layouts(sizes)) {
        const Handle x = tensor(sizes, strides, dtype, values);
        for (int64_t dim = 0; dim < std::max<int64_t>(static_cast<int64_t>(sizes.size()), 1);
             ++dim) {
          for (const bool product : {false, true}) {
            Numbers expected = values;
            each_line(sizes, dim, [&](const std::vector<size_t>& line) {
              for (size_t i = 1; i < line.size(); ++i) {
                const double before = expected[line[i - 1]];
                expected[line[i]] = product ? before * values[line[i]] : before + values[line[i]];
              }
            });
            const Handle found = result_of([&](auto* ret) {
              return product ? AOTIP_ON(cumprod)(x.get(), dim, nullptr, ret)
                             : AOTIP_ON(cumsum)(x.get(), dim, nullptr, ret);
            });
            BOOST_TEST(unwrap(found.get())->dtype() == (is_integer(dtype) ? kInt64 : dtype));
            BOOST_TEST(unwrap(found.get())->is_contiguous());
            check_equal(found, expected, title("scan", dtype, sizes, dim));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(running_sums_as_another_dtype) {
  const Handle x = tensor({4}, kFloat32, {1.5, -2.5, 3.0, 0.25});
  int32_t dtype = kInt64;
  check_equal(result_of([&](auto* ret) { return AOTIP_ON(cumsum)(x.get(), 0, &dtype, ret); }),
              {1, -1, 2, 2}, "truncated first");
  dtype = kFloat32;
  const Handle flags = tensor({3}, kBool, {1, 0, 1});
  check_equal(result_of([&](auto* ret) { return AOTIP_ON(cumsum)(flags.get(), -1, &dtype, ret); }),
              {1, 1, 2}, "flags");
}

BOOST_AUTO_TEST_CASE(what_running_sums_refuse) {
  const Handle x = tensor({2, 2}, kFloat32, {1, 2, 3, 4});
  AtenTensorHandle raw = nullptr;
  refused(AOTIP_ON(cumsum)(nullptr, 0, nullptr, &raw), "self is null");
  refused(AOTIP_ON(cumsum)(x.get(), 0, nullptr, nullptr), "ret0 is null");
  refused(AOTIP_ON(cumsum)(x.get(), 2, nullptr, &raw), "dim 2 is out of range");
  refused(AOTIP_ON(cumsum)(x.get(), -3, nullptr, &raw), "dim -3 is out of range");
  const Handle complex = empty({2}, kComplex64);
  refused(AOTIP_ON(cumprod)(complex.get(), 0, nullptr, &raw),
          std::string("no running product of complex64 as complex64 on ") + kName);
  int32_t dtype = 99;
  refused(AOTIP_ON(cumsum)(x.get(), 0, &dtype, &raw), "no running sum of float32 as unknown dtype");
  BOOST_TEST(raw == nullptr);
}

BOOST_AUTO_TEST_CASE(sorts) {
  for (const int32_t dtype : kNumbers) {
    for (const Ints& sizes : kSizes) {
      Numbers values = some(sizes, dtype);
      if (is_real(dtype) && values.size() > 3) {
        values[1] = kNan;
      }
      for (const Ints& strides : layouts(sizes)) {
        const Handle x = tensor(sizes, strides, dtype, values);
        for (int64_t dim = 0; dim < static_cast<int64_t>(sizes.size()); ++dim) {
          for (const bool descending : {false, true}) {
            Numbers sorted = values;
            Numbers places(values.size());
            each_line(sizes, dim, [&](const std::vector<size_t>& line) {
              std::vector<size_t> order(line.size());
              std::iota(order.begin(), order.end(), size_t{0});
              std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
                const double left = values[line[descending ? b : a]];
                const double right = values[line[descending ? a : b]];
                return left < right || (std::isnan(right) && !std::isnan(left));
              });
              for (size_t i = 0; i < line.size(); ++i) {
                sorted[line[i]] = values[line[order[i]]];
                places[line[i]] = static_cast<double>(order[i]);
              }
            });
            const auto [found, at] = results_of([&](auto* first, auto* second) {
              return AOTIP_ON(sort_stable)(x.get(), nullptr, dim, descending, first, second);
            });
            check_equal(found, sorted, title("sort", dtype, sizes, dim));
            check_equal(at, places, title("places of sort", dtype, sizes, dim));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(takes_the_first_of_sorted_lines) {
  const Ints sizes = {3, 7};
  for (const int32_t dtype : {kFloat32, kInt64}) {
    const Numbers values = {4, 1, 3, 3, 0, 2, 4, 1, 1, 1, 1, 1, 1, 1, 6, 5, 4, 3, 2, 1, 0};
    for (const Ints& strides : layouts(sizes)) {
      const Handle x = tensor(sizes, strides, dtype, values);
      const auto [largest, places] =
          results_of([&](auto* a, auto* b) { return AOTIP_ON(topk)(x.get(), 3, 1, 1, 1, a, b); });
      check_equal(largest, {4, 4, 3, 1, 1, 1, 6, 5, 4}, "largest");
      check_equal(places, {0, 6, 2, 0, 1, 2, 0, 1, 2}, "places of the largest");
      const auto [smallest, rows] =
          results_of([&](auto* a, auto* b) { return AOTIP_ON(topk)(x.get(), 1, 0, 0, 1, a, b); });
      check_equal(smallest, {1, 1, 1, 1, 0, 1, 0}, "smallest");
      check_equal(rows, {1, 0, 1, 1, 0, 1, 2}, "rows of the smallest");
      const auto [none, nowhere] =
          results_of([&](auto* a, auto* b) { return AOTIP_ON(topk)(x.get(), 0, 1, 1, 0, a, b); });
      BOOST_TEST(read_all(none).empty());
      BOOST_TEST(read_all(nowhere).empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(what_sorts_refuse) {
  const Handle x = tensor({2, 2}, kFloat32, {1, 2, 3, 4});
  const Handle complex = empty({2}, kComplex64);
  const Handle none = empty({0}, kComplex64);
  AtenTensorHandle a = nullptr;
  AtenTensorHandle b = nullptr;
  refused(AOTIP_ON(sort)(nullptr, 0, 0, &a, &b), "self is null");
  refused(AOTIP_ON(sort)(x.get(), 0, 0, nullptr, &b), "ret0 is null");
  refused(AOTIP_ON(sort)(x.get(), 0, 0, &a, nullptr), "ret1 is null");
  refused(AOTIP_ON(sort)(x.get(), 2, 0, &a, &b), "dim 2 is out of range");
  for (const Handle* one : {&complex, &none}) {
    refused(AOTIP_ON(sort)(one->get(), 0, 0, &a, &b),
            std::string("complex64 has no order on ") + kName);
  }
  refused(AOTIP_ON(topk)(x.get(), 3, 0, 0, 0, &a, &b), "k is 3, expected 0 to 2");
  refused(AOTIP_ON(topk)(x.get(), -1, 0, 0, 0, &a, &b), "k is -1, expected 0 to 2");
  BOOST_TEST((a == nullptr && b == nullptr));
}

BOOST_AUTO_TEST_SUITE_END()
