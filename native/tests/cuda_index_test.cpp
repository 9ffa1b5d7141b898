// The shims that order elements or add them up in order, over a stand-in for the driver that runs
// our kernels on the host; against the CPU's.

#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda_numbers.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

void check_sort(const Handle& host, const Handle& device, int64_t dim, bool descending) {
  const int32_t down = descending ? 1 : 0;
  const auto expected =
      two([&](auto* a, auto* b) { return aoti_torch_cpu_sort(host.get(), dim, down, a, b); });
  const auto found = two([&](auto* a, auto* b) {
    return aoti_torch_cuda_sort_stable(device.get(), nullptr, dim, down, a, b);
  });
  check_same(found.first, expected.first);
  check_same(found.second, expected.second);
}

void check_top(const Handle& host, const Handle& device, int64_t k, int64_t dim) {
  for (const int32_t largest : {0, 1}) {
    const auto expected = two([&](auto* a, auto* b) {
      return aoti_torch_cpu_topk(host.get(), k, dim, largest, 1, a, b);
    });
    const auto found = two([&](auto* a, auto* b) {
      return aoti_torch_cuda_topk(device.get(), k, dim, largest, 1, a, b);
    });
    check_same(found.first, expected.first);
    check_same(found.second, expected.second);
  }
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_index, CudaFixture)

BOOST_AUTO_TEST_CASE(running_sums_and_products) {
  for (const int32_t dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt8, kUInt8, kInt64, kBool}) {
    const Handle host = host_numbers({3, 5, 4}, dtype, 3);
    for (const Ints& strides : {Ints{20, 4, 1}, Ints{1, 3, 15}, Ints{40, 8, 2}}) {
      const Handle device = to_gpu(host, strides);
      for (const int64_t dim : {0, 1, -1}) {
        check_same(
            one([&](auto* r) { return aoti_torch_cuda_cumsum(device.get(), dim, nullptr, r); }),
            one([&](auto* r) { return aoti_torch_cpu_cumsum(host.get(), dim, nullptr, r); }));
        check_same(
            one([&](auto* r) { return aoti_torch_cuda_cumprod(device.get(), dim, nullptr, r); }),
            one([&](auto* r) { return aoti_torch_cpu_cumprod(host.get(), dim, nullptr, r); }));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(running_sums_of_long_lines_and_other_dtypes) {
  for (const int64_t length : {1, 31, 33, 256, 257, 1000}) {
    const Handle host = host_numbers({2, length}, kInt32);
    const Handle device = to_gpu(host);
    for (int32_t to : {kInt64, kFloat32, kInt8}) {
      check_same(one([&](auto* r) { return aoti_torch_cuda_cumsum(device.get(), 1, &to, r); }),
                 one([&](auto* r) { return aoti_torch_cpu_cumsum(host.get(), 1, &to, r); }));
    }
  }
  const Handle scalar = on_gpu<float>({}, {}, kFloat32, {7.0f});
  const Handle sum =
      one([&](auto* r) { return aoti_torch_cuda_cumsum(scalar.get(), 0, nullptr, r); });
  BOOST_TEST(numbers(sum)[0] == 7.0);
  const Handle none = make_on(kCuda, {2, 0}, {1, 1}, kFloat32);
  const Handle empty =
      one([&](auto* r) { return aoti_torch_cuda_cumsum(none.get(), 1, nullptr, r); });
  BOOST_TEST(numbers(empty).empty());
}

BOOST_AUTO_TEST_CASE(sorts_every_dtype_along_every_dim) {
  for (const int32_t dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt16, kInt8, kUInt8, kInt64, kBool}) {
    const Handle host = host_numbers({3, 7, 4}, dtype);
    for (const Ints& strides : {Ints{28, 4, 1}, Ints{1, 3, 21}}) {
      const Handle device = to_gpu(host, strides);
      for (const int64_t dim : {0, 1, -1}) {
        check_sort(host, device, dim, false);
        check_sort(host, device, dim, true);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(sorts_lines_of_any_length) {
  for (const int64_t length :
       {1,   2,   3,   5,    16,   17,   31,   32,   33,   63,   64,   65,   100,  127,  128, 129,
        255, 256, 257, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 5000, 8193}) {
    for (const int32_t dtype : {kFloat32, kInt64, kBFloat16, kInt8}) {
      const Handle host =
          host_numbers({length < 300 ? 7 : 2, length}, dtype, dtype == kInt8 ? 100 : length);
      check_sort(host, to_gpu(host), 1, (length + (dtype == kInt64 ? 1 : 0)) % 2 == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(sorts_long_lines_of_every_dtype) {
  for (const int32_t dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt16, kInt8, kUInt8, kInt64, kBool}) {
    const Handle host = host_numbers({200, 2, 3}, dtype, 300);
    check_sort(host, to_gpu(host, {1, 200, 400}), 0, false);
    const Handle longer = host_numbers({2, 4500}, dtype, 1000);
    check_sort(longer, to_gpu(longer, {1, 2}), 1, true);
    check_sort(longer, to_gpu(longer), 1, false);
  }
}

BOOST_AUTO_TEST_CASE(sorts_very_long_lines) {
  for (const int32_t dtype : {kFloat32, kInt64}) {
    const Handle host = host_numbers({2, 70000}, dtype, 1 << 22);
    check_sort(host, to_gpu(host), 1, dtype == kInt64);
  }
  const Handle equal = host_numbers({1, 10000}, kInt32, 1);
  check_sort(equal, to_gpu(equal), 1, true);
}

template <typename T>
void check_all_bits(int32_t dtype) {
  for (const int64_t length : {100, 200, 700, 1500, 5000}) {
    Handle host = make({length}, dtype);
    uint64_t state = 3;
    for (int64_t i = 0; i < length; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      data_of<T>(host)[i] = static_cast<T>(state ^ state >> 29);
    }
    check_sort(host, to_gpu(host), 0, false);
    check_sort(host, to_gpu(host), 0, true);
    check_top(host, to_gpu(host), length / 5, 0);
  }
}

BOOST_AUTO_TEST_CASE(sorts_all_bits_of_integers) {
  check_all_bits<int8_t>(kInt8);
  check_all_bits<int16_t>(kInt16);
  check_all_bits<int32_t>(kInt32);
  check_all_bits<int64_t>(kInt64);
}

/// Unsigned integers, which the CPU's kernels do not sort: the upper half comes last.
template <typename T>
void check_unsigned(int32_t dtype) {
  for (const int64_t length : {3, 300, 5000}) {
    std::vector<T> values(static_cast<size_t>(length), T{5});
    values[0] = std::numeric_limits<T>::max();
    values[1] = T{1} << (8 * sizeof(T) - 1);
    const Handle device = on_gpu<T>({length}, {1}, dtype, values);
    const auto up =
        two([&](auto* a, auto* b) { return aoti_torch_cuda_sort(device.get(), 0, 0, a, b); });
    const std::vector<int64_t> places = read<int64_t>(up.second);
    BOOST_TEST(places[0] == 2);
    BOOST_TEST(places[static_cast<size_t>(length) - 2] == 1);
    BOOST_TEST(places[static_cast<size_t>(length) - 1] == 0);
    BOOST_TEST((read<T>(up.first).back() == std::numeric_limits<T>::max()));
  }
}

BOOST_AUTO_TEST_CASE(sorts_unsigned_integers) {
  check_unsigned<uint16_t>(kUInt16);
  check_unsigned<uint32_t>(kUInt32);
  check_unsigned<uint64_t>(kUInt64);
}

BOOST_AUTO_TEST_CASE(sorts_special_values) {
  const float values[] = {1.0f, kNan, -kInf, 0.0f, -0.0f, kInf, -kNan, -1.0f};
  for (const int64_t length : {8, 400, 5000}) {
    Handle host = make({length}, kFloat32);
    for (int64_t i = 0; i < length; ++i) {
      data_of<float>(host)[i] = values[i % 8];
    }
    for (const int32_t dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      Handle converted = make({length}, dtype);
      BOOST_TEST_REQUIRE(aoti_torch_copy_(converted.get(), host.get(), 0) == 0, reason());
      const Handle device = to_gpu(converted);
      check_sort(converted, device, 0, false);
      check_sort(converted, device, 0, true);
    }
    const Handle device = to_gpu(host);
    const auto sorted =
        two([&](auto* a, auto* b) { return aoti_torch_cuda_sort(device.get(), 0, 0, a, b); });
    const size_t zero = static_cast<size_t>(length) / 4;  // after -inf and -1
    BOOST_TEST(!std::signbit(read<float>(sorted.first)[zero]));
    BOOST_TEST(std::signbit(read<float>(sorted.first)[zero + 1]));
  }
  Handle wide = make({4}, kInt64);
  const int64_t integers[] = {std::numeric_limits<int64_t>::max(), -1,
                              std::numeric_limits<int64_t>::min(), 0};
  std::copy(integers, integers + 4, data_of<int64_t>(wide));
  const auto sorted =
      two([&](auto* a, auto* b) { return aoti_torch_cuda_sort(to_gpu(wide).get(), 0, 0, a, b); });
  BOOST_TEST((read<int64_t>(sorted.second) == std::vector<int64_t>{2, 1, 3, 0}));
  const Handle scalar = on_gpu<float>({}, {}, kFloat32, {7.0f});
  const auto alone =
      two([&](auto* a, auto* b) { return aoti_torch_cuda_sort(scalar.get(), -1, 0, a, b); });
  BOOST_TEST((read<int64_t>(alone.second) == std::vector<int64_t>{0}));
}

BOOST_AUTO_TEST_CASE(takes_the_first_ones) {
  for (const int64_t length : {5, 100, 1000}) {
    const Handle host = host_numbers({2, length, 3}, kFloat32, 50);
    const Handle device = to_gpu(host);
    for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{4}, length}) {
      check_top(host, device, k, 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(takes_the_first_ones_of_long_lines) {
  for (const int32_t dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt16, kInt8, kUInt8, kInt64, kBool}) {
    for (const int64_t range : {3, 100000}) {
      const Handle host = host_numbers({2000, 2}, dtype, range);
      for (const int64_t k : {1, 50, 500}) {
        check_top(host, to_gpu(host), k, 0);
      }
    }
  }
  const Handle host = host_numbers({4, 9000}, kFloat32, 7000);
  for (const int64_t k : {33, 2048, 2049, 8999}) {
    check_top(host, to_gpu(host), k, 1);
  }
  const Handle longest = host_numbers({1, (1 << 17) + 1}, kFloat16, 30000);
  check_top(longest, to_gpu(longest), 40, 1);
}

BOOST_AUTO_TEST_CASE(takes_the_first_ones_from_parts_of_lines) {
  for (const int64_t range : {3, 30000}) {
    const Handle host = host_numbers({30011, 1, 2}, kFloat32, range);
    const Handle device = to_gpu(host, {1, 5, 30017});
    for (const int64_t k : {1, 50, 1500}) {
      check_top(host, device, k, 0);
    }
  }
  for (const int32_t dtype : {kInt8, kBFloat16, kInt64}) {
    const Handle host = host_numbers({3, 12289}, dtype, 100);
    check_top(host, to_gpu(host), 7, 1);
  }
  const Handle across = host_numbers({2, 9000, 2}, kFloat32, 5000);
  check_top(across, to_gpu(across, {9000 * 5 + 7, 5, 2}), 9, 1);
}

BOOST_AUTO_TEST_CASE(takes_special_values) {
  const float values[] = {1.0f, kNan, -kInf, 0.0f, -0.0f, kInf, -kNan, -1.0f};
  for (const int64_t length : {2000, 16000}) {
    Handle host = make({length}, kFloat32);
    for (int64_t i = 0; i < length; ++i) {
      data_of<float>(host)[i] = values[i % 8];
    }
    for (const int32_t dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      Handle converted = make({length}, dtype);
      BOOST_TEST_REQUIRE(aoti_torch_copy_(converted.get(), host.get(), 0) == 0, reason());
      for (const int64_t k : {1, 499, 500, 501}) {
        check_top(converted, to_gpu(converted), k, 0);
      }
    }
  }
}

/// The elements of each line with their places, by places.
std::vector<std::pair<double, double>> by_place(const std::pair<Handle, Handle>& taken, int64_t k) {
  const std::vector<double> values = numbers(taken.first);
  const std::vector<double> places = numbers(taken.second);
  std::vector<std::pair<double, double>> pairs;
  for (size_t i = 0; i < values.size(); ++i) {
    pairs.emplace_back(places[i], values[i]);
  }
  for (auto line = pairs.begin(); line != pairs.end(); line += k) {
    std::sort(line, line + k);
  }
  return pairs;
}

/// Checks what is taken when the order is left open: the same elements, with their places.
void check_unordered(const Handle& host, const Handle& device, int64_t k) {
  const auto expected =
      two([&](auto* a, auto* b) { return aoti_torch_cpu_topk(host.get(), k, 1, 0, 1, a, b); });
  const auto found =
      two([&](auto* a, auto* b) { return aoti_torch_cuda_topk(device.get(), k, 1, 0, 0, a, b); });
  BOOST_TEST((by_place(found, k) == by_place(expected, k)));
}

BOOST_AUTO_TEST_CASE(takes_in_any_order) {
  for (const int32_t dtype : {kFloat32, kInt64, kBFloat16, kInt8}) {
    for (const int64_t length : {60, 129, 3000, 13000}) {
      const Handle host = host_numbers({4, length}, dtype, 1000);
      const Handle device = to_gpu(host);
      for (const int64_t k : {int64_t{1}, length / 2, length - 1, length}) {
        check_unordered(host, device, k);
      }
    }
  }
  const Handle long_line = host_numbers({1, (1 << 17) + 1}, kFloat16, 30000);
  check_unordered(long_line, to_gpu(long_line), 20000);
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_named) {
  const Handle host = make({2, 3}, kFloat32);
  const Handle device = make_on(kCuda, {2, 3}, {3, 1}, kFloat32);
  const Handle complex = make_on(kCuda, {2}, {1}, kComplex64);
  AtenTensorHandle a = nullptr;
  AtenTensorHandle b = nullptr;
  check_refused(aoti_torch_cuda_sort(nullptr, 0, 0, &a, &b), "self is null");
  check_refused(aoti_torch_cuda_sort(device.get(), 0, 0, &a, nullptr), "ret1 is null");
  check_refused(aoti_torch_cuda_sort(host.get(), 0, 0, &a, &b), "on cpu, expected cuda");
  check_refused(aoti_torch_cuda_sort(device.get(), 2, 0, &a, &b), "dim 2 is out of range");
  check_refused(aoti_torch_cuda_sort(complex.get(), 0, 0, &a, &b), "complex64 has no order");
  check_refused(aoti_torch_cuda_topk(device.get(), 4, 1, 1, 1, &a, &b), "k is 4, expected 0 to 3");
  check_refused(aoti_torch_cuda_topk(device.get(), -1, 1, 1, 1, &a, &b), "k is -1");
  check_refused(aoti_torch_cuda_cumsum(nullptr, 0, nullptr, &a), "self is null");
  check_refused(aoti_torch_cuda_cumsum(host.get(), 0, nullptr, &a), "on cpu, expected cuda");
  check_refused(aoti_torch_cuda_cumsum(device.get(), -3, nullptr, &a), "dim -3 is out of range");
  check_refused(aoti_torch_cuda_cumprod(complex.get(), 0, nullptr, &a), "no running product");
  BOOST_TEST(a == nullptr);
  BOOST_TEST(b == nullptr);
}

BOOST_AUTO_TEST_CASE(out_of_memory_while_sorting, *boost::unit_test::label(kStandIn)) {
  const Handle device = make_on(kCuda, {1, 5000}, {5000, 1}, kFloat32);
  const size_t before = fake().device_nbytes();
  // The results are 60 kB, keys and places 20 kB each, twice, and what tiles tell and totals 8 kB.
  for (const size_t room : {30000, 70000, 90000, 110000, 130000, 142000}) {
    fake().set_memory(before + room);
    AtenTensorHandle a = nullptr;
    AtenTensorHandle b = nullptr;
    check_refused(aoti_torch_cuda_sort(device.get(), 1, 0, &a, &b), "out of memory");
    BOOST_TEST(a == nullptr);
    BOOST_TEST(b == nullptr);
  }
  fake().set_memory(before + (size_t{1} << 20));
  for (int i = 0; i < 8; ++i) {  // nothing of what was refused is still held
    AtenTensorHandle a = nullptr;
    AtenTensorHandle b = nullptr;
    BOOST_TEST_REQUIRE(aoti_torch_cuda_sort(device.get(), 1, 0, &a, &b) == 0, reason());
    const Handle values(a);
    const Handle places(b);
  }
  BOOST_TEST(fake().device_nbytes() <= before + 200000);
}

BOOST_AUTO_TEST_SUITE_END()
