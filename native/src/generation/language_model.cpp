#include "generation/language_model.h"

#include <algorithm>

#include "runner/failure.h"
#include "runner/method.h"
#include "runner/options.h"

namespace aoti_plugins::generation {

using runner::Error;
using runner::failed;
using runner::MethodInstance;
using runner::ProgramFile;

int32_t no_language_model(const std::string& missing) {
  return failed(Error::InvalidProgram,
                "the program has no method '%s', so it is no language model; make one with "
                "aoti-plugins export",
                missing.c_str());
}

int32_t LanguageModel::create(std::shared_ptr<ProgramFile> file,
                              std::shared_ptr<const LanguageModel>* ret) {
  auto model = std::make_shared<LanguageModel>();
  model->file_ = std::move(file);
  if (const int32_t code = model->read()) {
    return code;
  }
  *ret = std::move(model);
  return 0;
}

bool LanguageModel::has(const char* method) const {
  const auto& names = file_->method_names();
  return std::find(names.begin(), names.end(), method) != names.end();
}

bool LanguageModel::is_end(int64_t token) const {
  return std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
}

aotip_language_model_info LanguageModel::info() const {
  aotip_language_model_info result{};
  result.vocabulary = vocabulary_;
  result.max_length = max_length_;
  result.begin_token = begin_token_;
  result.end_tokens = end_tokens_.data();
  result.n_end_tokens = end_tokens_.size();
  result.adapter_numel = adapter_numel_;
  result.is_recurrent = is_recurrent() ? 1 : 0;
  return result;
}

int32_t LanguageModel::read() {
  struct Wanted {
    const char* name;
    bool is_needed;
    int64_t* ret;
  };
  if (const int32_t code = check_kind()) {
    return code;
  }
  for (const Wanted& one :
       {Wanted{"get_max_seq_len", true, &most_of_a_call_},
        Wanted{"get_max_context_len", true, &max_length_},
        Wanted{"get_vocab_size", true, &vocabulary_}, Wanted{"get_bos_id", false, &begin_token_},
        Wanted{"is_recurrent", false, &is_recurrent_},
        Wanted{"get_adapter_numel", false, &adapter_numel_}}) {
    if (const int32_t code = constant(one.name, one.is_needed, one.ret)) {
      return code;
    }
  }
  if (const int32_t code = constants("get_eos_ids", &end_tokens_)) {
    return code;
  }
  return check_numbers();
}

int32_t LanguageModel::check_kind() const {
  if (has("encode")) {
    return failed(Error::NotSupported,
                  "the program writes down speech, and takes no prompt; use aoti-plugins "
                  "transcribe, or aoti_plugins.generation.Transcriber");
  }
  return has("forward") || has("prefill") ? 0 : no_language_model("forward");
}

int32_t LanguageModel::check_numbers() const {
  const bool are_right = most_of_a_call_ > 0 && max_length_ > 1 && vocabulary_ > 0 &&
                         adapter_numel_ >= 0 && (adapter_numel_ == 0 || has("adapt"));
  return are_right
             ? 0
             : failed(Error::InvalidProgram,
                      "the program says that it has %lld tokens, texts of %lld, calls of "
                      "%lld and adapters of %lld numbers; export it again",
                      static_cast<long long>(vocabulary_), static_cast<long long>(max_length_),
                      static_cast<long long>(most_of_a_call_),
                      static_cast<long long>(adapter_numel_));
}

int32_t LanguageModel::constant(const char* name, bool is_needed, int64_t* ret) const {
  if (!has(name)) {
    return is_needed ? no_language_model(name) : 0;
  }
  std::vector<int64_t> found;
  if (const int32_t code = constants(name, &found)) {
    return code;
  }
  if (found.size() != 1) {
    return failed(Error::InvalidProgram, "the method '%s' gives %zu numbers, expected 1", name,
                  found.size());
  }
  *ret = found[0];
  return 0;
}

int32_t LanguageModel::constants(const char* name, std::vector<int64_t>* ret) const {
  if (!has(name)) {
    return no_language_model(name);
  }
  runner::Options options;
  std::unique_ptr<MethodInstance> method;
  if (const int32_t code = MethodInstance::load(file_, name, &options, {}, &method)) {
    return code;
  }
  if (method->input_count() != 0) {
    return failed(Error::InvalidProgram, "the method '%s' takes %zu inputs, expected none", name,
                  method->input_count());
  }
  std::vector<aotip_value> values(method->output_count());
  if (const int32_t code = method->execute(nullptr, values.data())) {
    return code;
  }
  for (const aotip_value& value : values) {
    if (value.tag != AOTIP_TAG_INT && value.tag != AOTIP_TAG_BOOL) {
      return failed(Error::InvalidProgram, "the method '%s' does not give integers", name);
    }
    ret->push_back(value.int_value);
  }
  return 0;
}

}  // namespace aoti_plugins::generation
