#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "generation/language_model.h"
#include "runner/method.h"

namespace aoti_plugins::generation {

/// Reads tokens, and knows which are in the cache. Must match
/// aoti_plugins/generation/cached_model.py.
class CachedModel {
 public:
  /// Loads the methods with a cache that no others have. 0, or a code after `failed()`.
  static int32_t create(std::shared_ptr<const LanguageModel> model,
                        std::unique_ptr<CachedModel>* ret);

  /// How many tokens of a text, but for its last one, the cache stands for.
  size_t reusable(const std::vector<int64_t>& tokens) const;

  /// Reads the tokens that the cache does not have, at least the last one. `ret_logits` becomes
  /// [vocabulary], valid until the next call.
  int32_t read(const std::vector<int64_t>& tokens, const float** ret_logits);

  /// Makes the model another one by `adapter_numel` numbers; what was read is forgotten.
  int32_t adapt(const float* adapter);

  const LanguageModel& model() const { return *model_; }

 private:
  using Method = std::unique_ptr<runner::MethodInstance>;

  int32_t load(const char* name, Method* ret);
  /// 0, or a code: the method is not what `aoti-plugins export` makes.
  int32_t check_method(const char* name, const runner::MethodInstance& method) const;
  int32_t call(runner::MethodInstance& method, const std::vector<int64_t>& tokens, size_t begin,
               size_t end, const float** ret_logits);

  std::shared_ptr<const LanguageModel> model_;
  Method many_;
  Method one_;  ///< null: `many_` reads single tokens as well
  Method adapt_;
  runner::MethodInstance* state_of_ = nullptr;
  std::vector<int64_t> tokens_;  ///< those in the cache
  std::vector<int64_t> positions_;
};

}  // namespace aoti_plugins::generation
