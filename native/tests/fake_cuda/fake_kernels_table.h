#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "emulated_grid.h"

namespace fake_cuda {

/// A kernel as a host function. `arguments` are the addresses of copies of its arguments.
struct Kernel {
  std::vector<size_t> argument_nbytes;
  std::function<void(void** arguments, const Grid& grid)> run;
};

/// The kernel of a name, or null.
const Kernel* find_kernel(const std::string& name);

/// Notes a misuse unless these bytes are device memory.
void check_device(const void* ptr, size_t nbytes);

}  // namespace fake_cuda
