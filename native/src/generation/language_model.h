#pragma once

#include <aoti_plugins/generation.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runner/program.h"

namespace aoti_plugins::generation {

/// What a program says of its model, by its constant methods. Must match aoti_plugins/language.
class LanguageModel {
 public:
  /// 0, or a code after `failed()`.
  static int32_t create(std::shared_ptr<runner::ProgramFile> file,
                        std::shared_ptr<const LanguageModel>* ret);

  const std::shared_ptr<runner::ProgramFile>& file() const { return file_; }
  bool has(const char* method) const;

  int64_t vocabulary() const { return vocabulary_; }
  /// The most tokens of a text.
  int64_t max_length() const { return max_length_; }
  /// The most tokens of one call.
  int64_t most_of_a_call() const { return most_of_a_call_; }
  int64_t adapter_numel() const { return adapter_numel_; }
  bool is_recurrent() const { return is_recurrent_ != 0; }
  bool is_end(int64_t token) const;
  aotip_language_model_info info() const;

 private:
  int32_t read();
  int32_t check_kind() const;
  int32_t check_numbers() const;
  /// Reads a constant method; `ret` keeps its value where the program has none and none is needed.
  int32_t constant(const char* name, bool is_needed, int64_t* ret) const;
  int32_t constants(const char* name, std::vector<int64_t>* ret) const;

  std::shared_ptr<runner::ProgramFile> file_;
  int64_t vocabulary_ = 0;
  int64_t max_length_ = 0;
  int64_t most_of_a_call_ = 0;
  int64_t begin_token_ = -1;
  int64_t adapter_numel_ = 0;
  int64_t is_recurrent_ = 0;
  std::vector<int64_t> end_tokens_;
};

/// Says that a program is no language model, and why.
int32_t no_language_model(const std::string& missing);

}  // namespace aoti_plugins::generation
