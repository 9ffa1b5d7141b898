#include "generation/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "runner/failure.h"

namespace aoti_plugins::generation {
namespace {

using runner::Error;
using runner::failed;

constexpr double kNever = -std::numeric_limits<double>::infinity();

uint64_t seed_of(const aotip_sampling& sampling) {
  if (sampling.has_seed != 0) {
    return sampling.seed;
  }
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

/// Divides or multiplies the values of tokens that were there, each once.
template <typename Number>
void penalise(Number* values, const std::vector<int64_t>& seen, double penalty) {
  std::vector<int64_t> tokens = seen;
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  const auto factor = static_cast<Number>(penalty);
  for (const int64_t token : tokens) {
    Number& value = values[token];
    value = value > 0 ? value / factor : value * factor;
  }
}

int32_t check_range(bool fits, const char* name, double found, const char* expected) {
  return fits ? 0 : failed(Error::InvalidArgument, "%s is %g, expected %s", name, found, expected);
}

}  // namespace

aotip_sampling greedy() {
  aotip_sampling result{};
  result.repetition_penalty = 1;
  result.top_p = 1;
  return result;
}

int32_t check_sampling(const aotip_sampling& sampling) {
  const double penalty = sampling.repetition_penalty;
  const double warmth = sampling.temperature;
  const double top_p = sampling.top_p;
  const double min_p = sampling.min_p;
  if (const int32_t code = check_range(penalty > 0 && std::isfinite(penalty), "repetition_penalty",
                                       penalty, "over 0")) {
    return code;
  }
  if (const int32_t code =
          check_range(warmth >= 0 && std::isfinite(warmth), "temperature", warmth, "0 or more")) {
    return code;
  }
  if (const int32_t code = check_range(sampling.top_k >= 0, "top_k",
                                       static_cast<double>(sampling.top_k), "0 or more")) {
    return code;
  }
  if (const int32_t code =
          check_range(top_p > 0 && top_p <= 1, "top_p", top_p, "over 0 and at most 1")) {
    return code;
  }
  return check_range(min_p >= 0 && min_p <= 1, "min_p", min_p, "0 to 1");
}

Sampler::Sampler(const aotip_sampling& sampling)
    : sampling_(sampling), random_(seed_of(sampling)) {}

int64_t Sampler::choose(const float* logits, size_t count, const std::vector<int64_t>& seen) {
  if (sampling_.temperature == 0) {
    return likeliest(logits, count, seen);
  }
  weigh(logits, count, seen);
  std::partial_sum(weights_.begin(), weights_.end(), weights_.begin());
  const double place = random_.next() * weights_.back();
  const auto found = std::upper_bound(weights_.begin(), weights_.end(), place);
  return std::min<int64_t>(found - weights_.begin(), static_cast<int64_t>(count) - 1);
}

int64_t Sampler::likeliest(const float* logits, size_t count,
                           const std::vector<int64_t>& seen) const {
  std::vector<float> fair;
  if (sampling_.repetition_penalty != 1) {
    fair.assign(logits, logits + count);
    penalise(fair.data(), seen, sampling_.repetition_penalty);
    logits = fair.data();
  }
  return std::max_element(logits, logits + count) - logits;
}

void Sampler::weigh(const float* logits, size_t count, const std::vector<int64_t>& seen) {
  weights_.assign(logits, logits + count);
  if (sampling_.repetition_penalty != 1) {
    penalise(weights_.data(), seen, sampling_.repetition_penalty);
  }
  const double most = *std::max_element(weights_.begin(), weights_.end());
  for (double& weight : weights_) {
    weight = (weight - most) / sampling_.temperature;  // at most 0, however low the temperature
  }
  limit_count();
  for (double& weight : weights_) {
    weight = std::exp(weight);
  }
  const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  for (double& weight : weights_) {
    weight /= sum;
  }
  limit_probability();
  limit_share();
}

void Sampler::limit_count() {
  const auto most = static_cast<size_t>(sampling_.top_k);
  if (most == 0 || most >= weights_.size()) {
    return;
  }
  sorted_ = weights_;
  const auto last = sorted_.begin() + static_cast<ptrdiff_t>(most) - 1;
  std::nth_element(sorted_.begin(), last, sorted_.end(), std::greater<>());
  for (double& weight : weights_) {
    weight = weight < *last ? kNever : weight;
  }
}

void Sampler::limit_probability() {
  if (sampling_.top_p >= 1) {
    return;
  }
  std::vector<size_t> order(weights_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t one, size_t other) { return weights_[one] > weights_[other]; });
  double sum = 0;
  for (const size_t token : order) {
    const double weight = weights_[token];
    sum += weight;
    if (sum - weight >= sampling_.top_p) {
      weights_[token] = 0;
    }
  }
}

void Sampler::limit_share() {
  if (sampling_.min_p <= 0) {
    return;
  }
  const double least = sampling_.min_p * *std::max_element(weights_.begin(), weights_.end());
  for (double& weight : weights_) {
    weight = weight < least ? 0 : weight;
  }
}

}  // namespace aoti_plugins::generation
