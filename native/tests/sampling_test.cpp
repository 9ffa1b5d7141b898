// How tokens are chosen, against numbers of numpy and distributions that are known.

#include "generation/sampling.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "generation/random_numbers.h"

using aoti_plugins::generation::check_sampling;
using aoti_plugins::generation::greedy;
using aoti_plugins::generation::RandomNumbers;
using aoti_plugins::generation::Sampler;

namespace {

aotip_sampling drawn(double temperature = 1) {
  aotip_sampling sampling = greedy();
  sampling.temperature = temperature;
  sampling.has_seed = 1;
  return sampling;
}

/// How often each of `logits`' tokens is chosen, of 20000 times.
std::vector<double> shares(const aotip_sampling& sampling, const std::vector<float>& logits,
                           const std::vector<int64_t>& seen = {}) {
  constexpr int kCount = 20000;
  Sampler sampler(sampling);
  std::vector<double> result(logits.size());
  for (int i = 0; i < kCount; ++i) {
    result[static_cast<size_t>(sampler.choose(logits.data(), logits.size(), seen))] += 1.0 / kCount;
  }
  return result;
}

void check_close(const std::vector<double>& found, const std::vector<double>& expected) {
  BOOST_TEST_REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    BOOST_TEST(std::abs(found[i] - expected[i]) < 0.02, "token " << i << ": " << found[i]);
    BOOST_TEST((expected[i] > 0 || found[i] == 0), "token " << i << ": " << found[i]);
  }
}

/// Logits of probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> result;
  for (const double one : probabilities) {
    result.push_back(static_cast<float>(std::log(one)));
  }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sampling)

BOOST_AUTO_TEST_CASE(random_numbers_are_numpys) {
  struct Known {
    uint64_t seed;
    double numbers[3];
  };
  for (const Known& known : {
           Known{0U, {0x1.461fd79fb3850p-1, 0x1.1442f7e20b674p-2, 0x1.4fa7b529d9bd0p-5}},
           Known{3U, {0x1.5ed1a93cfbec0p-4, 0x1.e4fce8296f7e8p-3, 0x1.9a40a58e5cdbdp-1}},
           Known{4294967301U, {0x1.8c647d8643bd7p-1, 0x1.e20520871ce80p-2, 0x1.644a6db1c1d82p-1}},
           Known{18446744073709551615U,
                 {0x1.5c2c74f5188eap-1, 0x1.b0ccb3ebe6704p-1, 0x1.e52b195bc2d00p-8}},
       }) {
    RandomNumbers random(known.seed);
    for (const double expected : known.numbers) {
      BOOST_TEST(random.next() == expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(each_limit_leaves_what_it_says) {
  const std::vector<float> logits = logits_of({0.1, 0.4, 0.3, 0.2});
  check_close(shares(drawn(), logits), {0.1, 0.4, 0.3, 0.2});
  const double sum = 0.01 + 0.16 + 0.09 + 0.04;
  check_close(shares(drawn(0.5), logits), {0.01 / sum, 0.16 / sum, 0.09 / sum, 0.04 / sum});
  aotip_sampling sampling = drawn();
  sampling.top_k = 2;
  check_close(shares(sampling, logits), {0, 4.0 / 7, 3.0 / 7, 0});
  sampling = drawn();
  sampling.top_p = 0.75;
  check_close(shares(sampling, logits), {0, 4.0 / 9, 3.0 / 9, 2.0 / 9});
  sampling = drawn();
  sampling.min_p = 0.6;
  check_close(shares(sampling, logits), {0, 4.0 / 7, 3.0 / 7, 0});
}

BOOST_AUTO_TEST_CASE(tokens_that_were_there_become_less_likely_once) {
  const std::vector<float> logits = {2, 3, -1};
  aotip_sampling sampling = greedy();
  sampling.repetition_penalty = 2;
  Sampler sampler(sampling);
  BOOST_TEST(sampler.choose(logits.data(), 3, {}) == 1);
  BOOST_TEST(sampler.choose(logits.data(), 3, {1, 1, 1}) == 0);  // 1.5, not 0.375
  BOOST_TEST(sampler.choose(logits.data(), 3, {0, 1, 2}) == 1);
  sampling = drawn();
  sampling.repetition_penalty = 2;
  const double powers[] = {std::exp(2.0), std::exp(1.5), std::exp(-2.0)};
  const double sum = powers[0] + powers[1] + powers[2];
  check_close(shares(sampling, logits, {2, 1, 2}),
              {powers[0] / sum, powers[1] / sum, powers[2] / sum});
}

BOOST_AUTO_TEST_CASE(the_ends_of_ranges) {
  const std::vector<float> logits = {-1e30F, 5, 5, 1e30F, -std::numeric_limits<float>::infinity()};
  for (aotip_sampling sampling : {greedy(), drawn(1e-300), drawn(1)}) {
    sampling.top_k = 1000;
    Sampler sampler(sampling);
    BOOST_TEST(sampler.choose(logits.data(), logits.size(), {4, 4}) == 3);
  }
  const float alone = -3;
  BOOST_TEST(Sampler(drawn()).choose(&alone, 1, {0}) == 0);
}

BOOST_AUTO_TEST_CASE(values_outside_of_their_ranges) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double wrong : {-0.5, nan, infinity}) {
    aotip_sampling sampling = greedy();
    sampling.temperature = wrong;
    BOOST_TEST(check_sampling(sampling) != 0);
    sampling = greedy();
    sampling.repetition_penalty = wrong;
    BOOST_TEST(check_sampling(sampling) != 0);
    sampling = greedy();
    sampling.top_p = wrong;
    BOOST_TEST(check_sampling(sampling) != 0);
    sampling = greedy();
    sampling.min_p = wrong;
    BOOST_TEST(check_sampling(sampling) != 0);
  }
  aotip_sampling sampling = greedy();
  sampling.top_k = -1;
  BOOST_TEST(check_sampling(sampling) != 0);
  BOOST_TEST(check_sampling(greedy()) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
