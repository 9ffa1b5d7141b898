#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "generation/cached_model.h"
#include "generation/sampling.h"

namespace aoti_plugins::generation {

/// A text that grows, with a cache of its own. Calls wait for each other; they return 0, or a code
/// after `failed()`.
class Session {
 public:
  explicit Session(std::unique_ptr<CachedModel> cached) : cached_(std::move(cached)) {}

  int32_t begin(const int64_t* tokens, size_t count, const aotip_sampling& sampling);
  size_t cached() const;
  int32_t next(int64_t* ret_token, int32_t* ret_end);
  int32_t logits(const float** ret_logits);
  int32_t push(int64_t token);
  int32_t adapt(const float* adapter, size_t count);

 private:
  const LanguageModel& model() const { return cached_->model(); }
  int32_t check_token(int64_t token, const char* where) const;
  /// That there is a text, and room for one token more.
  int32_t check_room() const;
  /// Reads what is not read yet.
  int32_t read();

  mutable std::mutex mutex_;
  std::unique_ptr<CachedModel> cached_;
  std::unique_ptr<Sampler> sampler_;
  std::vector<int64_t> text_;
  size_t n_cached_ = 0;
  const float* logits_ = nullptr;  ///< after the last token of the text; null before it is read
};

}  // namespace aoti_plugins::generation
