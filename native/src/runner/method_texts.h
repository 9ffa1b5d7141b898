#pragma once

#include <cstdint>
#include <string_view>

#include "runner/program.h"

namespace aoti_plugins::runner {

/// What a program's file says about a method in words: the value of `which` in
/// `aotip_program_method_text`. Empty where it says nothing; borrowed from the program.
///
/// 0, or a code after `failed()`.
int32_t find_method_text(const ProgramFile& file, std::string_view method, int32_t which,
                         std::string_view* ret_text);

}  // namespace aoti_plugins::runner
