// MTLLibrary, MTLFunction and MTLComputePipelineState: Metal text compiled for the host.
#pragma once

#include <string>

#include "../include/metal_host/abi.h"
#include "object.h"

namespace stand_in {

/// A compiled library. Those of equal text share it, and it stays for the process.
struct Program {
  const MetalHostKernel* kernels = nullptr;
  unsigned int count = 0;
};

struct Library : Object {
  explicit Library(const Program& program);
  Program program;
};

struct Function : Object {
  explicit Function(const MetalHostKernel& kernel);
  const MetalHostKernel& kernel;
};

struct Pipeline : Object {
  explicit Pipeline(const MetalHostKernel& kernel);
  const MetalHostKernel& kernel;
  size_t max_threads;
};

/// Null with a reason if the text does not compile.
Library* make_library(const std::string& text, std::string& reason);

}  // namespace stand_in
