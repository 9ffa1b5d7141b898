#pragma once

#include <aoti_plugins/generation.h>

#include <cstdint>
#include <string>
#include <vector>

/// What the command line asks for.
struct Arguments {
  std::string program;
  std::vector<std::string> data_files;
  std::vector<std::vector<std::int64_t>> prompts;  ///< each for a session of its own
  std::vector<std::string> adapters;               ///< of the sessions in their order; empty: none
  std::size_t max_new_tokens = 32;
  aotip_sampling sampling{};
};

/// Reads the command line; throws std::invalid_argument, which says what is wrong with it.
Arguments read_arguments(int argc, char** argv);
