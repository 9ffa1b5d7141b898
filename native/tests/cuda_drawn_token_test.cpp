// A token that is drawn, over a stand-in for the driver that runs our kernels on the host; against
// shares that are sorted and added up one by one.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "cuda_numbers.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Settings {
  double temperature = 1;
  double top_k = 0;
  double top_p = 1;
  double min_p = 0;
};

std::ostream& operator<<(std::ostream& out, const Settings& s) {
  return out << s.temperature << " " << s.top_k << " " << s.top_p << " " << s.min_p;
}

/// What each token's share is, of all that may be drawn.
std::vector<double> shares_of(const std::vector<double>& logits, const Settings& s) {
  const double most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> depth(logits.size());
  std::transform(logits.begin(), logits.end(), depth.begin(),
                 [&](double x) { return (most - x) / s.temperature; });
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return depth[a] < depth[b]; });
  std::vector<double> shares(logits.size());
  const auto k = static_cast<size_t>(s.top_k);
  const double deepest = k > 0 && k < order.size() ? depth[order[k - 1]] : kInfinite;
  double all = 0;
  for (const size_t i : order) {
    shares[i] = depth[i] <= deepest ? std::exp(-depth[i]) : 0;
    all += shares[i];
  }
  double before = 0;
  for (const size_t i : order) {
    const double share = shares[i];
    if ((s.top_p < 1 && before >= s.top_p * all) || share < s.min_p) {
      shares[i] = 0;
    }
    before += share;
  }
  return shares;
}

int64_t draw(const std::vector<double>& logits, const Settings& s, double number) {
  const auto count = static_cast<int64_t>(logits.size());
  Handle all = make({count}, kFloat64);
  std::copy(logits.begin(), logits.end(), data_of<double>(all));
  Handle settings = make({6}, kFloat64);
  const double given[] = {1, s.temperature, s.top_k, s.top_p, s.min_p, number};
  std::copy(std::begin(given), std::end(given), data_of<double>(settings));
  const Handle on_gpu = to_gpu(all);
  const Handle settings_on_gpu = to_gpu(settings);
  const Handle token = one([&](auto* ret) {
    return aoti_torch_cuda_drawn_token(on_gpu.get(), settings_on_gpu.get(), ret);
  });
  return read<int64_t>(token)[0];
}

/// Draws where shares begin and end, of the first, the last and a middle token that has one.
void check_draws(const std::vector<double>& logits, const Settings& s) {
  BOOST_TEST_CONTEXT(s << " of " << logits.size()) {
    const std::vector<double> shares = shares_of(logits, s);
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::vector<size_t> left;
    for (size_t i = 0; i < shares.size(); ++i) {
      if (shares[i] > 1e-9 * all) {
        left.push_back(i);
      }
    }
    BOOST_TEST_REQUIRE(!left.empty());
    for (const size_t i : {left.front(), left[left.size() / 2], left.back()}) {
      const double before =
          std::accumulate(shares.begin(), shares.begin() + static_cast<ptrdiff_t>(i), 0.0);
      for (const double part : {1e-3, 0.999}) {
        BOOST_TEST(draw(logits, s, (before + part * shares[i]) / all) == static_cast<int64_t>(i));
      }
    }
  }
}

/// Normal numbers, rounded to multiples of `step` where that is over 0.
std::vector<double> normal(size_t count, double scale, double step, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> distribution(0, scale);
  std::vector<double> logits(count);
  for (double& one : logits) {
    one = distribution(engine);
    one = step > 0 ? std::round(one / step) * step : one;
  }
  return logits;
}

const std::vector<Settings> kSettings = {
    {1, 0, 1, 0},     {0.8, 40, 0.95, 0}, {1, 1, 1, 0},      {1, 7, 1, 0},        {0.7, 0, 0.5, 0},
    {1.3, 0, 0.9, 0}, {1, 0, 1, 0.1},     {1, 50, 0.3, 0.2}, {0.01, 0, 0.9, 0},   {100, 90, 0.7, 0},
    {2, 5000, 1, 0},  {1, 0, 1e-9, 0},    {1, 0, 1, 1},      {1, 3, 0.999999, 0}, {1e-30, 0, 1, 0},
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_drawn_token, CudaFixture)

BOOST_AUTO_TEST_CASE(tokens_are_drawn_by_their_shares) {
  for (const size_t count : {1, 2, 31, 600}) {
    for (const Settings& settings : kSettings) {
      check_draws(normal(count, 2, 0, static_cast<uint32_t>(count)), settings);
    }
  }
}

BOOST_AUTO_TEST_CASE(tokens_that_are_as_likely_are_taken_in_their_order) {
  for (const double step : {0.125, 1.0, 50.0}) {
    for (const Settings& settings : kSettings) {
      check_draws(normal(400, 2, step, 5), settings);
    }
  }
}

BOOST_AUTO_TEST_CASE(tokens_near_each_other_are_told_apart) {
  for (const Settings& settings : kSettings) {
    check_draws(normal(400, 1e-6, 0, 6), settings);
    check_draws(normal(400, 200, 0, 7), settings);
  }
}

BOOST_AUTO_TEST_CASE(many_tokens) {
  const std::vector<double> logits = normal(33000, 2, 0, 8);
  check_draws(logits, {0.8, 40, 0.95, 0});
  check_draws(logits, {1, 0, 0.9, 0});
}

BOOST_AUTO_TEST_CASE(numbers_that_are_none) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Settings settings{0.8, 3, 0.9, 0};
  std::vector<double> logits(600, -kInfinite);
  logits[321] = 1;
  BOOST_TEST(draw(logits, settings, 0.999) == 321);
  for (const size_t place : {size_t{17}, size_t{0}, size_t{200}, size_t{400}, size_t{320}}) {
    logits[place] = nan;  // at 0, 200 and 400 blocks begin
    BOOST_TEST(draw(logits, settings, 0.5) == 321);
  }
  for (const double value : {nan, kInfinite, -kInfinite}) {
    for (const Settings& one : kSettings) {
      const int64_t token = draw(std::vector<double>(600, value), one, 0.5);
      BOOST_TEST((token >= 0 && token < 600));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_it_does_not_take_is_refused) {
  const Handle logits = to_gpu(make({5}, kFloat64));
  const Handle settings = to_gpu(make({6}, kFloat64));
  AtenTensorHandle ret = nullptr;
  const auto refused = [&](const Handle& given, const Handle& how, const char* reason) {
    check_refused(aoti_torch_cuda_drawn_token(given.get(), how.get(), &ret), reason);
  };
  refused(make({5}, kFloat64), settings, "logits is on cpu");
  refused(logits, make({6}, kFloat64), "settings is on cpu");
  refused(to_gpu(make({5}, kFloat32)), settings, "logits is not a float64 vector");
  refused(to_gpu(make({1, 5}, kFloat64)), settings, "logits is not a float64 vector");
  refused(logits, to_gpu(make({5}, kFloat64)), "settings has 5 numbers, expected 6");
  refused(to_gpu(make({0}, kFloat64)), settings, "0 logits, expected 1 to 1048575");
  refused(to_gpu(make({1048576}, kFloat64)), settings, "1048576 logits");
}

BOOST_AUTO_TEST_SUITE_END()
