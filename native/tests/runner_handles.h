#pragma once

/// Owners of what the runner's C API makes.

#include <aoti_plugins/runner.h>

#include <memory>

struct DestroyProgram {
  void operator()(aotip_program* p) const { aotip_program_destroy(p); }
};
struct DestroyMethod {
  void operator()(aotip_method* m) const { aotip_method_destroy(m); }
};
using ProgramPtr = std::unique_ptr<aotip_program, DestroyProgram>;
using MethodPtr = std::unique_ptr<aotip_method, DestroyMethod>;
