// Attention of one token over a cache, over a stand-in for the driver that runs our kernels on the
// host; against sums in float64.

#include <algorithm>
#include <array>
#include <cmath>

#include "cuda_numbers.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

/// A case: what it attends to is [begin, end), but for every `hole`-th position.
struct Case {
  int64_t heads = 4;
  int64_t kv_heads = 1;
  int64_t d = 64;
  int64_t capacity = 40;
  int64_t position = 20;
  int64_t begin = 0;
  int64_t end = 21;
  int64_t hole = 0;
  int32_t dtype = kBFloat16;
  bool norm = false;
  bool mask = true;
};

constexpr double kEpsilon = 0.5;
constexpr double kScale = 0.125;

struct Inputs {
  Handle query, key, value, cos, sin, query_norm, key_norm, keys, values, position, mask;
};

/// Numbers from -1 to 1.
Handle fractions(const Ints& sizes, int32_t dtype, int64_t seed) {
  Handle wide = make(sizes, kFloat64);
  uint32_t state = static_cast<uint32_t>(seed);
  for (int64_t i = 0; i < unwrap(wide.get())->numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    data_of<double>(wide)[i] = static_cast<double>(state >> 8) / (1 << 23) - 1;
  }
  Handle tensor = make(sizes, dtype);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(tensor.get(), wide.get(), 0) == 0, reason());
  return tensor;
}

bool is_let_in(const Case& c, int64_t i) {
  return !c.mask || (i >= c.begin && i < c.end && (c.hole == 0 || i % c.hole != 0));
}

Inputs inputs_of(const Case& c) {
  Inputs in;
  in.query = fractions({1, c.heads, 1, c.d}, c.dtype, 1);
  in.key = fractions({1, c.kv_heads, 1, c.d}, c.dtype, 2);
  in.value = fractions({1, c.kv_heads, 1, c.d}, c.dtype, 3);
  in.cos = fractions({1, 1, c.d}, c.dtype, 4);
  in.sin = fractions({1, 1, c.d}, c.dtype, 5);
  in.query_norm = fractions({c.d}, c.dtype, 6);
  in.key_norm = fractions({c.d}, c.dtype, 7);
  in.keys = fractions({1, c.kv_heads, c.capacity, c.d}, c.dtype, 8);
  in.values = fractions({1, c.kv_heads, c.capacity, c.d}, c.dtype, 9);
  in.position = make({1}, kInt64);
  data_of<int64_t>(in.position)[0] = c.position;
  in.mask = make({1, c.capacity}, kBool);
  for (int64_t i = 0; i < c.capacity; ++i) {
    data_of<bool>(in.mask)[i] = is_let_in(c, i);
  }
  return in;
}

Inputs on_gpu(const Inputs& in) {
  return {to_gpu(in.query),  to_gpu(in.key),        to_gpu(in.value),    to_gpu(in.cos),
          to_gpu(in.sin),    to_gpu(in.query_norm), to_gpu(in.key_norm), to_gpu(in.keys),
          to_gpu(in.values), to_gpu(in.position),   to_gpu(in.mask)};
}

Handle range_of(const Handle& mask) {
  return one([&](auto* ret) { return aoti_torch_cuda_attended_range(mask.get(), ret); });
}

AOTITorchError call(const Case& c, const Inputs& in, AtenTensorHandle* ret) {
  const Handle range = c.mask ? range_of(in.mask) : nullptr;
  std::array<AtenTensorHandle, 4> some = {in.query_norm.get(), in.key_norm.get(), in.mask.get(),
                                          range.get()};
  return aoti_torch_cuda_token_attention(
      in.query.get(), in.key.get(), in.value.get(), in.cos.get(), in.sin.get(),
      c.norm ? &some[0] : nullptr, c.norm ? &some[1] : nullptr, in.keys.get(), in.values.get(),
      in.position.get(), c.mask ? &some[2] : nullptr, c.mask ? &some[3] : nullptr, kScale, kEpsilon,
      ret);
}

/// A head, normed and rotated, rounded as the kernels round it.
std::vector<double> turned(const Case& c, const double* head, const Handle& norm,
                           const Inputs& in) {
  std::vector<double> x(head, head + c.d);
  const auto size = static_cast<size_t>(c.d);
  if (c.norm) {
    double square = 0;
    for (const double one : x) {
      square += one * one / static_cast<double>(c.d);
    }
    const std::vector<double> factors = numbers(norm);
    for (size_t i = 0; i < size; ++i) {
      x[i] *= factors[i] / std::sqrt(square + kEpsilon);
    }
  }
  const std::vector<double> cos = numbers(in.cos);
  const std::vector<double> sin = numbers(in.sin);
  std::vector<double> found;
  for (size_t i = 0; i < size; ++i) {
    const double other = x[(i + size / 2) % size];
    found.push_back(x[i] * cos[i] + (i < size / 2 ? -other : other) * sin[i]);
  }
  return found;
}

/// Rows of a cache after the token's was written: [kv_heads, capacity, d].
std::vector<double> with_row(const Case& c, const Handle& cache, const std::vector<double>& row,
                             int64_t head) {
  std::vector<double> all = numbers(cache);
  std::copy(row.begin(), row.end(), all.begin() + (head * c.capacity + c.position) * c.d);
  return all;
}

std::vector<double> expected_head(const Case& c, const Inputs& in, int64_t head) {
  const int64_t kv_head = head / (c.heads / c.kv_heads);
  const std::vector<double> queries = numbers(in.query);
  const std::vector<double> key = numbers(in.key);
  const std::vector<double> value = numbers(in.value);
  const std::vector<double> query = turned(c, queries.data() + head * c.d, in.query_norm, in);
  const std::vector<double> keys =
      with_row(c, in.keys, turned(c, key.data() + kv_head * c.d, in.key_norm, in), kv_head);
  const auto own = value.begin() + kv_head * c.d;
  const std::vector<double> values = with_row(c, in.values, {own, own + c.d}, kv_head);
  std::vector<double> sum(static_cast<size_t>(c.d), 0.0);
  double total = 0;
  for (int64_t i = 0; i < c.capacity; ++i) {
    if (is_let_in(c, i)) {
      const auto at = static_cast<size_t>((kv_head * c.capacity + i) * c.d);
      double score = 0;
      for (size_t j = 0; j < sum.size(); ++j) {
        score += query[j] * keys[at + j] * kScale;
      }
      total += std::exp(score);
      for (size_t j = 0; j < sum.size(); ++j) {
        sum[j] += std::exp(score) * values[at + j];
      }
    }
  }
  for (double& one : sum) {
    one = total > 0 ? one / total : 0;
  }
  return sum;
}

void check_rows(const std::vector<double>& found, const double* expected, size_t from,
                size_t count) {
  for (size_t i = 0; i < count; ++i) {
    BOOST_TEST(std::abs(found[from + i] - expected[i]) < 0.02);
  }
}

void check_attention(const Case& c) {
  BOOST_TEST_INFO_SCOPE(c.heads << " of " << c.kv_heads << " heads of " << c.d << ", position "
                                << c.position << " of " << c.capacity << ", [" << c.begin << ", "
                                << c.end << "), holes " << c.hole);
  const Inputs host = inputs_of(c);
  const Inputs in = on_gpu(host);
  const Handle found = one([&](auto* ret) { return call(c, in, ret); });
  BOOST_TEST(sizes_of(found) == (Ints{1, c.heads, 1, c.d}), boost::test_tools::per_element());
  const std::vector<double> result = numbers(found);
  for (int64_t head = 0; head < c.heads; ++head) {
    check_rows(result, expected_head(c, host, head).data(), static_cast<size_t>(head * c.d),
               static_cast<size_t>(c.d));
  }
  const std::vector<double> keys = numbers(in.keys);
  const std::vector<double> values = numbers(in.values);
  const std::vector<double> key = numbers(host.key);
  for (int64_t head = 0; head < c.kv_heads; ++head) {
    const std::vector<double> row = turned(c, key.data() + head * c.d, host.key_norm, host);
    const std::vector<double> all = with_row(c, host.keys, row, head);
    const size_t first = static_cast<size_t>(head * c.capacity * c.d);
    const size_t count = static_cast<size_t>(c.capacity * c.d);
    check_rows(keys, all.data() + first, first, count);
    const std::vector<double> value = numbers(host.value);
    const auto own = value.begin() + head * c.d;
    const std::vector<double> others = with_row(c, host.values, {own, own + c.d}, head);
    check_rows(values, others.data() + first, first, count);
  }
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_token_attention, CudaFixture)

BOOST_AUTO_TEST_CASE(finds_what_masks_let_in) {
  const auto found = [](int64_t size, const Ints& let_in) {
    Handle mask = make({size}, kBool);
    std::fill_n(data_of<bool>(mask), size, false);
    for (const int64_t i : let_in) {
      data_of<bool>(mask)[i] = true;
    }
    return numbers(range_of(to_gpu(mask)));
  };
  using Found = std::vector<double>;
  BOOST_TEST(found(40, {3, 4, 5}) == (Found{3, 6, 1, 0}), boost::test_tools::per_element());
  BOOST_TEST(found(3000, {1, 2999}) == (Found{1, 3000, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(found(1, {0}) == (Found{0, 1, 1, 0}), boost::test_tools::per_element());
  BOOST_TEST(found(7, {}) == (Found{0, 0, 1, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(attends_to_what_the_mask_lets_in) {
  check_attention({});
  check_attention({4, 2, 64, 40, 0, 0, 1});
  check_attention({8, 1, 64, 40, 39, 0, 40, 3});
  check_attention({2, 2, 128, 24, 5, 3, 17, 0, kFloat16});
  check_attention({10, 1, 64, 24, 23, 20, 24});
}

BOOST_AUTO_TEST_CASE(blocks_share_long_caches) {
  // A window in the middle, a whole cache of several chunks, holes, more chunks than blocks.
  check_attention({4, 1, 64, 600, 430, 250, 431});
  check_attention({4, 1, 64, 400, 399, 0, 400, 7});
  check_attention({8, 1, 128, 300, 280, 100, 281});
  check_attention({4, 1, 64, 1300, 1290, 0, 1291});
}

// Of four multiprocessors: a block on each, also with one head of the cache; a cluster of two for
// each two of them; as many as there are heads, where these are more.
BOOST_AUTO_TEST_CASE(all_multiprocessors_have_a_block, *boost::unit_test::label(kStandIn)) {
  const auto blocks = [](const Case& c) {
    check_attention(c);
    BOOST_TEST(fake().last_launch().cluster <= fake().last_launch().blocks);
    return fake().last_launch().blocks;
  };
  BOOST_TEST(blocks({4, 1, 64, 40, 30, 0, 31}) == 4);
  BOOST_TEST(blocks({4, 1, 64, 200, 30, 0, 31}) == 4);
  BOOST_TEST(fake().last_launch().cluster == 2);
  BOOST_TEST(blocks({6, 6, 64, 40, 30, 0, 31}) == 6);
}

BOOST_AUTO_TEST_CASE(norms_heads_and_needs_no_mask) {
  check_attention({4, 2, 64, 40, 20, 0, 21, 0, kBFloat16, true});
  check_attention({4, 1, 128, 20, 7, 0, 20, 0, kBFloat16, true, false});
}

BOOST_AUTO_TEST_CASE(a_token_that_nobody_may_read_is_written) {
  check_attention({4, 1, 64, 300, 290, 0, 20});
  check_attention({4, 1, 64, 40, 20, 0, 0});
}

BOOST_AUTO_TEST_CASE(takes_rows_of_one_product) {
  const Case c;
  const Inputs host = inputs_of(c);
  const Inputs plain = on_gpu(host);
  Inputs gaps = on_gpu(host);
  gaps.query = to_gpu(host.query, {512, 72, 64, 1});
  gaps.key = to_gpu(host.key, {9, 9, 9, 2});  // is copied
  const Handle expected = one([&](auto* ret) { return call(c, plain, ret); });
  check_same(one([&](auto* ret) { return call(c, gaps, ret); }), expected);
  check_same(gaps.keys, plain.keys);
}

BOOST_AUTO_TEST_CASE(a_position_outside_of_the_cache_writes_nothing) {
  for (const int64_t position : {int64_t{-1}, int64_t{40}, int64_t{1} << 40}) {
    Case c;
    c.position = position;
    const Inputs host = inputs_of(c);
    const Inputs in = on_gpu(host);
    (void)one([&](auto* ret) { return call(c, in, ret); });
    check_same(in.keys, host.keys);
    check_same(in.values, host.values);
  }
}

BOOST_AUTO_TEST_CASE(refuses_what_does_not_go_together) {
  const Case c;
  const Inputs host = inputs_of(c);
  AtenTensorHandle raw = nullptr;
  const auto refused = [&](auto change, const char* reason) {
    Inputs in = on_gpu(host);
    change(in);
    check_refused(call(c, in, &raw), reason);
  };
  const auto numbers_of = [](const Ints& sizes, int32_t dtype) {
    return to_gpu(host_numbers(sizes, dtype));
  };
  refused([&](Inputs& in) { in.query = numbers_of({1, 4, 1, 64}, kFloat32); },
          "query is float32, expected float16 or bfloat16");
  refused([&](Inputs& in) { in.query = numbers_of({1, 4, 1, 32}, kBFloat16); },
          "heads of 32 elements, expected 64 or 128");
  refused([&](Inputs& in) { in.query = host_numbers({1, 4, 1, 64}, kBFloat16); },
          "query is on cpu, expected cuda");
  refused([&](Inputs& in) { in.query = numbers_of({1, 4, 2, 64}, kBFloat16); },
          "query is not [1, 4, 1, 64]");
  refused([&](Inputs& in) { in.key = numbers_of({1, 3, 1, 64}, kBFloat16); },
          "4 heads do not share 3 of the cache");
  refused([&](Inputs& in) { in.value = numbers_of({1, 2, 1, 64}, kBFloat16); },
          "value is not [1, 1, 1, 64]");
  refused([&](Inputs& in) { in.cos = numbers_of({32}, kBFloat16); },
          "cos has not 64 elements without gaps");
  refused([&](Inputs& in) { in.sin = numbers_of({64}, kFloat32); },
          "sin is float32, expected bfloat16");
  refused([&](Inputs& in) { in.keys = numbers_of({1, 1, 40, 128}, kBFloat16); },
          "keys is not [1, 1, 40, 64]");
  refused([&](Inputs& in) { in.values = host_numbers({1, 1, 40, 64}, kBFloat16); },
          "values and query are on different dev");
  refused([&](Inputs& in) { in.mask = numbers_of({41}, kBool); },
          "mask has not 40 elements without gaps");
  AtenTensorHandle other = nullptr;
  check_refused(aoti_torch_cuda_attended_range(host.mask.get(), &other), "mask is on cpu");
  const Handle floats = numbers_of({4}, kFloat32);
  check_refused(aoti_torch_cuda_attended_range(floats.get(), &other), "mask is not bool");
  refused([&](Inputs& in) { in.position = numbers_of({1}, kInt32); },
          "position is int32, expected int64");
  BOOST_TEST(raw == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
