#include "generation/session.h"

#include <cmath>

#include "runner/failure.h"

namespace aoti_plugins::generation {

using runner::Error;
using runner::failed;

int32_t Session::begin(const int64_t* tokens, size_t count, const aotip_sampling& sampling) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (count == 0) {
    return failed(Error::InvalidArgument, "the prompt has no tokens; give at least one");
  }
  if (count >= static_cast<size_t>(model().max_length())) {
    return failed(Error::InvalidArgument,
                  "the prompt has %zu tokens, and prompt and answer together can have at most "
                  "%lld; shorten it, or export with a larger --max-length",
                  count, static_cast<long long>(model().max_length()));
  }
  for (size_t i = 0; i < count; ++i) {
    if (const int32_t code = check_token(tokens[i], "of the prompt")) {
      return code;
    }
  }
  if (const int32_t code = check_sampling(sampling)) {
    return code;
  }
  auto sampler = std::make_unique<Sampler>(sampling);
  text_.assign(tokens, tokens + count);
  sampler_ = std::move(sampler);
  n_cached_ = cached_->reusable(text_);
  logits_ = nullptr;
  return 0;
}

size_t Session::cached() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return n_cached_;
}

int32_t Session::next(int64_t* ret_token, int32_t* ret_end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const int32_t code = check_room()) {
    return code;
  }
  if (const int32_t code = read()) {
    return code;
  }
  const auto vocabulary = static_cast<size_t>(model().vocabulary());
  const int64_t token = sampler_->choose(logits_, vocabulary, text_);
  text_.push_back(token);
  logits_ = nullptr;
  const bool is_full = text_.size() >= static_cast<size_t>(model().max_length());
  *ret_token = token;
  *ret_end = model().is_end(token) ? AOTIP_END_TOKEN : is_full ? AOTIP_END_LENGTH : AOTIP_END_NONE;
  return 0;
}

int32_t Session::logits(const float** ret_logits) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (text_.empty()) {
    return failed(Error::InvalidState, "no answer was begun; call aotip_session_begin");
  }
  if (const int32_t code = read()) {
    return code;
  }
  *ret_logits = logits_;
  return 0;
}

int32_t Session::push(int64_t token) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const int32_t code = check_room()) {
    return code;
  }
  if (const int32_t code = check_token(token, "that was pushed")) {
    return code;
  }
  text_.push_back(token);
  logits_ = nullptr;
  return 0;
}

int32_t Session::adapt(const float* adapter, size_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto expected = static_cast<size_t>(model().adapter_numel());
  if (expected == 0) {
    return failed(Error::NotSupported, "the program takes no adapters; export it with --lora-rank");
  }
  if (count != expected) {
    return failed(Error::InvalidArgument, "the adapter has %zu numbers, expected %zu", count,
                  expected);
  }
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(adapter[i])) {
      return failed(Error::InvalidArgument, "number %zu of the adapter is %g", i,
                    static_cast<double>(adapter[i]));
    }
  }
  logits_ = nullptr;
  n_cached_ = 0;
  return cached_->adapt(adapter);
}

int32_t Session::check_token(int64_t token, const char* where) const {
  return token >= 0 && token < model().vocabulary()
             ? 0
             : failed(Error::InvalidArgument, "token %lld %s is none of the program's %lld",
                      static_cast<long long>(token), where,
                      static_cast<long long>(model().vocabulary()));
}

int32_t Session::check_room() const {
  if (text_.empty()) {
    return failed(Error::InvalidState, "no answer was begun; call aotip_session_begin");
  }
  return text_.size() < static_cast<size_t>(model().max_length())
             ? 0
             : failed(Error::OutOfResources,
                      "the text has all the %lld tokens that the program takes",
                      static_cast<long long>(model().max_length()));
}

int32_t Session::read() {
  return logits_ != nullptr ? 0 : cached_->read(text_, &logits_);
}

}  // namespace aoti_plugins::generation
