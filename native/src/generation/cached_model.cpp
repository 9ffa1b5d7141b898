#include "generation/cached_model.h"

#include <algorithm>
#include <numeric>

#include "runner/failure.h"
#include "runner/options.h"

namespace aoti_plugins::generation {
namespace {

using runner::Error;
using runner::failed;
using runner::MethodInstance;

constexpr int32_t kInt64 = 4;  // PyTorch's codes
constexpr int32_t kFloat32 = 6;

bool is_tensor(const aotip_value& value, int32_t dtype, int32_t ndim) {
  return value.tag == AOTIP_TAG_TENSOR && value.dtype == dtype && value.ndim == ndim;
}

aotip_value tensor(int32_t dtype, int32_t ndim, const int64_t* sizes, const void* data) {
  aotip_value result{};
  result.tag = AOTIP_TAG_TENSOR;
  result.dtype = dtype;
  result.ndim = ndim;
  result.sizes = sizes;
  result.data = const_cast<void*>(data);  // inputs are read only
  return result;
}

}  // namespace

int32_t CachedModel::create(std::shared_ptr<const LanguageModel> model,
                            std::unique_ptr<CachedModel>* ret) {
  auto result = std::make_unique<CachedModel>();
  result->model_ = std::move(model);
  const bool has_forward = result->model_->has("forward");
  if (const int32_t code = result->load(has_forward ? "forward" : "prefill", &result->many_)) {
    return code;
  }
  if (result->model_->has("decode")) {
    if (const int32_t code = result->load("decode", &result->one_)) {
      return code;
    }
  }
  if (result->model_->adapter_numel() > 0) {
    if (const int32_t code = result->load("adapt", &result->adapt_)) {
      return code;
    }
  }
  *ret = std::move(result);
  return 0;
}

int32_t CachedModel::load(const char* name, Method* ret) {
  MethodInstance::StateChoice state{state_of_, state_of_ == nullptr};
  runner::Options options;
  Method method;
  if (const int32_t code = MethodInstance::load(model_->file(), name, &options, state, &method)) {
    return code;
  }
  if (const int32_t code = check_method(name, *method)) {
    return code;
  }
  state_of_ = method.get();
  *ret = std::move(method);
  return 0;
}

int32_t CachedModel::check_method(const char* name, const MethodInstance& method) const {
  const bool is_adapt = std::string(name) == "adapt";
  bool fits = method.input_count() == (is_adapt ? 1U : 2U) && method.output_count() == 1;
  if (fits && is_adapt) {
    fits = is_tensor(method.input_info(0), kFloat32, 1);
  } else if (fits) {
    const aotip_value& logits = method.output_info(0);
    fits = is_tensor(method.input_info(0), kInt64, 2) &&
           is_tensor(method.input_info(1), kInt64, 1) && is_tensor(logits, kFloat32, 3) &&
           logits.sizes[2] == model_->vocabulary();
  }
  return fits ? 0
              : failed(Error::InvalidProgram,
                       "the method '%s' is not what aoti-plugins export makes; export the model "
                       "again",
                       name);
}

size_t CachedModel::reusable(const std::vector<int64_t>& tokens) const {
  const size_t most = std::min(tokens_.size(), tokens.size() - 1);
  const auto end = tokens_.begin() + static_cast<ptrdiff_t>(most);
  const auto common = static_cast<size_t>(
      std::mismatch(tokens_.begin(), end, tokens.begin()).first - tokens_.begin());
  return model_->is_recurrent() && common < tokens_.size() ? 0 : common;
}

int32_t CachedModel::read(const std::vector<int64_t>& tokens, const float** ret_logits) {
  const auto most = static_cast<size_t>(model_->most_of_a_call());
  for (size_t begin = reusable(tokens); begin < tokens.size();) {
    const size_t end = std::min(begin + most, tokens.size());
    MethodInstance& method = end - begin == 1 && one_ != nullptr ? *one_ : *many_;
    if (const int32_t code = call(method, tokens, begin, end, ret_logits)) {
      return code;
    }
    begin = end;
  }
  return 0;
}

int32_t CachedModel::call(MethodInstance& method, const std::vector<int64_t>& tokens, size_t begin,
                          size_t end, const float** ret_logits) {
  const auto count = static_cast<int64_t>(end - begin);
  const int64_t sizes[] = {1, count};
  positions_.resize(end - begin);
  std::iota(positions_.begin(), positions_.end(), static_cast<int64_t>(begin));
  const aotip_value inputs[] = {tensor(kInt64, 2, sizes, tokens.data() + begin),
                                tensor(kInt64, 1, sizes + 1, positions_.data())};
  aotip_value logits{};
  tokens_.clear();  // unless the call comes to its end
  if (const int32_t code = method.execute(inputs, &logits)) {
    return code;
  }
  if (logits.device_type != 0) {
    return failed(Error::NotSupported, "the logits are on a GPU, expected them on the CPU");
  }
  tokens_.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(end));
  *ret_logits = static_cast<const float*>(logits.data);
  return 0;
}

int32_t CachedModel::adapt(const float* adapter) {
  const int64_t size = model_->adapter_numel();
  const aotip_value input = tensor(kFloat32, 1, &size, adapter);
  aotip_value output{};
  tokens_.clear();
  return adapt_->execute(&input, &output);
}

}  // namespace aoti_plugins::generation
