#pragma once

#include <string>

namespace aoti_plugins::runner {

/// What the kernel of an operator, by its full name, takes: one letter per argument, which
/// kernel_signatures.inc explains. Kernels with an out argument are given one more, which they
/// ignore. Null for an operator that is not ExecuTorch's.
const char* kernel_signature(const std::string& op);

}  // namespace aoti_plugins::runner
