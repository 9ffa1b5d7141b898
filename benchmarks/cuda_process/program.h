#pragma once

#include <aoti_plugins/runner.h>

#include <memory>
#include <string>
#include <vector>

#include "gpu.h"

/// The method `forward` of a program with inputs and outputs in device memory. Inputs are random:
/// zeros run faster than data does.
class Program {
 public:
  /// Loads a program; the reason of a failure is in `error()`.
  ///
  /// @param graphs whether calls go through CUDA graphs.
  Program(const std::string& path, bool graphs);

  const std::string& error() const { return error_; }

  /// Runs the method once, without waiting for the GPU; false where it fails.
  bool run();

 private:
  struct Delete {
    void operator()(aotip_program* program) const { aotip_program_destroy(program); }
    void operator()(aotip_method* method) const { aotip_method_destroy(method); }
  };

  bool good(int32_t code);
  bool load(const std::string& path, bool graphs);
  bool make_inputs();
  bool make_outputs();

  // Memory that the method writes to outlives it.
  std::vector<DeviceMemory> memory_;
  std::unique_ptr<aotip_program, Delete> program_;
  std::unique_ptr<aotip_method, Delete> method_;
  std::vector<aotip_value> inputs_;
  std::vector<aotip_value> outputs_;
  std::string error_;
};
