#include "arguments.h"

#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace {

std::vector<std::int64_t> read_tokens(const std::string& text) {
  std::vector<std::int64_t> tokens;
  std::istringstream stream(text);
  for (std::int64_t token = 0; stream >> token;) {
    tokens.push_back(token);
  }
  if (!stream.eof()) {
    throw std::invalid_argument("'" + text + "' is no list of tokens, such as '72 101 108'");
  }
  return tokens;
}

double read_number(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') {
    throw std::invalid_argument(option + " is '" + text + "', expected a number");
  }
  return number;
}

void read_option(const std::string& option, const std::string& text, Arguments* arguments) {
  aotip_sampling& sampling = arguments->sampling;
  if (option == "--data") {
    arguments->data_files.push_back(text);
  } else if (option == "--adapter") {
    arguments->adapters.push_back(text);
  } else if (option == "--max-new-tokens") {
    arguments->max_new_tokens = static_cast<std::size_t>(read_number(option, text));
  } else if (option == "--temperature") {
    sampling.temperature = read_number(option, text);
  } else if (option == "--top-k") {
    sampling.top_k = static_cast<std::int64_t>(read_number(option, text));
  } else if (option == "--top-p") {
    sampling.top_p = read_number(option, text);
  } else if (option == "--min-p") {
    sampling.min_p = read_number(option, text);
  } else if (option == "--repetition-penalty") {
    sampling.repetition_penalty = read_number(option, text);
  } else if (option == "--seed") {
    sampling.seed = std::strtoull(text.c_str(), nullptr, 10);
    sampling.has_seed = 1;
  } else {
    throw std::invalid_argument("there is no option " + option);
  }
}

}  // namespace

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  aotip_sampling_init(&arguments.sampling);
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text.rfind("--", 0) == 0) {
      if (i + 1 == argc) {
        throw std::invalid_argument(text + " has no value");
      }
      read_option(text, argv[++i], &arguments);
    } else if (arguments.program.empty()) {
      arguments.program = text;
    } else {
      arguments.prompts.push_back(read_tokens(text));
    }
  }
  if (arguments.prompts.empty()) {
    throw std::invalid_argument("usage: cpp_generate model.pte 'TOKEN TOKEN ...' [options]");
  }
  return arguments;
}
