#pragma once

/// PyTorch's base class of models, without regular expressions.
///
/// Its header takes the name of a device apart with `std::regex`. That is half of the time of
/// compiling a small model, since every file that includes the header compiles it again,
/// precompiled or not; and beside a libtorch with expressions of its own, models have crashed in
/// it. Here the three names it uses stand for a few lines that do the same. To be included before
/// every header of PyTorch; where PyTorch no longer uses the expression, nothing is replaced.

#include <aoti_plugins/blob_device_name.h>

#include <regex>  // here, so that the macros below do not reach it

// Each stands after `std::`.
#define regex string
#define smatch vector<aotip::DeviceNamePart>
#define regex_match(name, parts, expression) move(aotip::match_device_name(name, parts))
#include <torch/csrc/inductor/aoti_runtime/model_base.h>
#undef regex
#undef smatch
#undef regex_match
