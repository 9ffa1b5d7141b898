#include "dump.h"

#include <cstdio>
#include <cstdlib>

using executorch::etdump::ETDumpGen;
using executorch::etdump::FileDataSink;
using executorch::runtime::Error;
using executorch::runtime::EventTracerDebugLogLevel;

Dump::Dump(std::string path, std::string outputs)
    : path_(std::move(path)), outputs_(std::move(outputs)) {
  if (!path_.empty()) {
    tracer_ = std::make_unique<ETDumpGen>();
    events_ = tracer_.get();
  }
}

Error Dump::open() {
  if (events_ == nullptr || outputs_.empty()) {
    return Error::Ok;
  }
  sink_ = std::make_unique<FileDataSink>(ET_UNWRAP(FileDataSink::create(outputs_.c_str())));
  events_->set_data_sink(sink_.get());
  events_->set_event_tracer_debug_level(EventTracerDebugLogLevel::kIntermediateOutputs);
  return Error::Ok;
}

Error Dump::write() {
  if (events_ == nullptr) {
    return Error::Ok;
  }
  if (sink_ != nullptr) {
    sink_->close();
  }
  const auto found = events_->get_etdump_data();
  std::FILE* file = std::fopen(path_.c_str(), "wb");
  const bool opened = file != nullptr;
  bool written =
      opened && found.buf != nullptr && std::fwrite(found.buf, 1, found.size, file) == found.size;
  written = (!opened || std::fclose(file) == 0) && written;
  std::free(found.buf);
  if (!written) {
    std::fprintf(stderr, "cannot write %s\n", path_.c_str());
    return Error::AccessFailed;
  }
  return Error::Ok;
}
