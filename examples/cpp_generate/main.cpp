/**
 * Generates text with a program that `aoti-plugins export` made, through the C API:
 *
 *     cpp_generate model.pte '72 101 108 108 111' --max-new-tokens 16 --temperature 0.8 --seed 1
 *
 * Prompts are tokens, and so are the answers, a line each: which tokens a text has is known to the
 * checkpoint's tokenizer. Several prompts are answered in turns, each by a session with a cache of
 * its own over one set of weights.
 */

#include <aoti_plugins/generation.h>
#include <aoti_plugins/runner.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.h"

namespace {

/// Throws the reason of a call that failed.
void check(std::int32_t code) {
  if (code != 0) {
    throw std::runtime_error(aotip_last_error());
  }
}

using Program = std::unique_ptr<aotip_program, decltype(&aotip_program_destroy)>;
using Model = std::unique_ptr<aotip_language_model, decltype(&aotip_language_model_destroy)>;
using Session = std::unique_ptr<aotip_session, decltype(&aotip_session_destroy)>;

Program load(const Arguments& arguments) {
  std::vector<const char*> data_files;
  for (const std::string& path : arguments.data_files) {
    data_files.push_back(path.c_str());
  }
  aotip_program* program = nullptr;
  check(aotip_program_load(arguments.program.c_str(), data_files.data(), data_files.size(), 0,
                           &program));
  return Program(program, aotip_program_destroy);
}

Model make_model(const Program& program) {
  aotip_language_model* model = nullptr;
  check(aotip_language_model_create(program.get(), &model));
  return Model(model, aotip_language_model_destroy);
}

/// Gives a session an adapter: raw float32, which `read_adapter(...).tofile(path)` writes.
void adapt(const Session& session, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("cannot open " + path);
  }
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> numbers(bytes.size() / sizeof(float));
  bytes.copy(reinterpret_cast<char*>(numbers.data()), numbers.size() * sizeof(float));
  check(aotip_session_adapt(session.get(), numbers.data(), numbers.size()));
}

/// One prompt and its answer so far.
class Answer {
 public:
  Answer(const Model& model, const std::vector<std::int64_t>& prompt, const std::string& adapter,
         const aotip_sampling& sampling) {
    aotip_session* session = nullptr;
    check(aotip_session_create(model.get(), &session));
    session_.reset(session);
    if (!adapter.empty()) {
      adapt(session_, adapter);
    }
    check(aotip_session_begin(session, prompt.data(), prompt.size(), &sampling));
  }

  /// Generates a token; false once the answer is at its end.
  bool go_on() {
    if (end_ == AOTIP_END_NONE) {
      std::int64_t token = 0;
      check(aotip_session_next(session_.get(), &token, &end_));
      tokens_.push_back(token);
    }
    return end_ == AOTIP_END_NONE;
  }

  void print() const {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      std::printf(i == 0 ? "%lld" : " %lld", static_cast<long long>(tokens_[i]));
    }
    std::printf("\n");
  }

 private:
  Session session_{nullptr, aotip_session_destroy};
  std::vector<std::int64_t> tokens_;
  std::int32_t end_ = AOTIP_END_NONE;
};

void generate(const Arguments& arguments) {
  const Program program = load(arguments);
  const Model model = make_model(program);
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < arguments.prompts.size(); ++i) {
    const std::string adapter = i < arguments.adapters.size() ? arguments.adapters[i] : "";
    answers.emplace_back(model, arguments.prompts[i], adapter, arguments.sampling);
  }
  bool any = true;
  for (std::size_t i = 0; any && i < arguments.max_new_tokens; ++i) {
    any = false;
    for (Answer& answer : answers) {
      any = answer.go_on() || any;
    }
  }
  for (const Answer& answer : answers) {
    answer.print();
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    generate(read_arguments(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
