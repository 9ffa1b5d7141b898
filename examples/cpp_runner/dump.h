#pragma once

#include <executorch/devtools/etdump/data_sinks/file_data_sink.h>
#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/runtime/core/error.h>

#include <memory>
#include <string>
#include <utility>

/// What ExecuTorch's Inspector reads of calls: when each kernel ran, or what it wrote.
class Dump {
 public:
  /// @param path file for events; empty for no dump.
  /// @param outputs file for the elements of intermediate outputs; empty to be told times instead.
  Dump(std::string path, std::string outputs);

  /// The tracer that a module is made with; null without a dump. It may be taken once.
  std::unique_ptr<executorch::runtime::EventTracer> take_tracer() { return std::move(tracer_); }

  /// Opens the file for outputs. Before the first call.
  executorch::runtime::Error open();

  /// Writes the events. The module must still be there, for it owns the tracer.
  executorch::runtime::Error write();

 private:
  std::string path_;
  std::string outputs_;
  std::unique_ptr<executorch::etdump::ETDumpGen> tracer_;
  executorch::etdump::ETDumpGen* events_ = nullptr;
  std::unique_ptr<executorch::etdump::FileDataSink> sink_;
};
