// Random numbers: the sequence behind the option `seed`, and randint.low_out.

#include "ops/random.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <thread>

#include "handle.h"

using namespace aoti_plugins::testing;
using aoti_plugins::ops::random_between;
using aoti_plugins::ops::random_bits;
using aoti_plugins::ops::random_seed;
using aoti_plugins::ops::set_random_seed;

namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

std::vector<uint64_t> draw(size_t count) {
  std::vector<uint64_t> all(count);
  for (uint64_t& one : all) {
    one = random_bits();
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_seed_repeats_its_sequence) {
  set_random_seed(7);
  BOOST_TEST(random_seed() == 7);
  const auto first = draw(100);
  const auto more = draw(100);
  BOOST_TEST(first != more);
  set_random_seed(7);
  BOOST_TEST(draw(100) == first);
  for (const int other : {-7, 0, 8}) {
    set_random_seed(other);
    BOOST_TEST(draw(100) != first);
  }
}

BOOST_AUTO_TEST_CASE(numbers_are_spread_evenly) {
  set_random_seed(1);
  constexpr int kDraws = 60000;
  int counts[6] = {};
  for (int i = 0; i < kDraws; ++i) {
    const int64_t found = random_between(-2, 4);
    BOOST_TEST_REQUIRE((found >= -2 && found < 4));
    ++counts[found + 2];
  }
  const double expected = kDraws / 6.0;
  for (const int count : counts) {
    BOOST_TEST(std::abs(count - expected) < 6 * std::sqrt(expected));
  }
  BOOST_TEST(random_between(kMost - 1, kMost) == kMost - 1);
  BOOST_TEST(random_between(kLeast, kMost) != random_between(kLeast, kMost));
}

BOOST_AUTO_TEST_CASE(threads_share_one_sequence) {
  set_random_seed(3);
  const auto expected = draw(400);
  set_random_seed(3);
  std::vector<uint64_t> found[4];
  std::vector<std::thread> threads;
  for (auto& own : found) {
    threads.emplace_back([&own] { own = draw(100); });
  }
  std::set<uint64_t> all;
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i].join();
    all.insert(found[i].begin(), found[i].end());
  }
  BOOST_TEST((all == std::set<uint64_t>(expected.begin(), expected.end())));
}

BOOST_AUTO_TEST_CASE(seeds_of_generated_code) {
  const Ints sizes{3};
  const Handle out = make(sizes, aoti_torch_dtype_int64());
  const auto fill = [&] {
    return aoti_torch_cpu_randint_low_out(out.get(), kLeast, kMost, sizes.data(), 1);
  };
  set_random_seed(5);
  BOOST_TEST(fill() == 0, reason());
  const int64_t* data = data_of<int64_t>(out);
  const std::vector<int64_t> first(data, data + 3);
  BOOST_TEST(first[0] != first[1]);
  BOOST_TEST(fill() == 0);
  BOOST_TEST(first != std::vector<int64_t>(data, data + 3));
  set_random_seed(5);
  BOOST_TEST(fill() == 0);
  BOOST_TEST(first == std::vector<int64_t>(data, data + 3));
}

BOOST_AUTO_TEST_CASE(other_dtypes_and_shapes) {
  const Handle scalar = make({}, aoti_torch_dtype_float32());
  BOOST_TEST(aoti_torch_cpu_randint_low_out(scalar.get(), 4, 5, nullptr, 0) == 0, reason());
  BOOST_TEST(*data_of<float>(scalar) == 4.0f);
  const Ints none{2, 0};
  const Handle empty = make(none, aoti_torch_dtype_int32());
  BOOST_TEST(aoti_torch_cpu_randint_low_out(empty.get(), 0, 5, none.data(), 2) == 0, reason());
}

BOOST_AUTO_TEST_CASE(wrong_arguments) {
  const Ints sizes{2, 2};
  const Handle out = make(sizes, aoti_torch_dtype_int64());
  const auto refuse = [&](const Handle& to, int64_t low, int64_t high, const Ints& size,
                          const std::string& why) {
    BOOST_TEST(aoti_torch_cpu_randint_low_out(to.get(), low, high, size.data(),
                                              static_cast<int64_t>(size.size())) != 0);
    BOOST_TEST(reason().find(why) != std::string::npos, reason());
  };
  refuse(out, 3, 3, sizes, "which leaves none");
  refuse(out, 0, 3, {2, 3}, "not those of out");
  refuse(out, 0, 3, {4}, "not those of out");
  refuse(make(sizes, {1, 2}, aoti_torch_dtype_int64()), 0, 3, sizes, "not contiguous");
  refuse(make(sizes, aoti_torch_dtype_complex64()), 0, 3, sizes, "no random integers as complex64");
  refuse(Handle(), 0, 3, sizes, "null");
}
