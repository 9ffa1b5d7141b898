#include "counters.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "object.h"
#include "stand_in.h"

namespace stand_in {
namespace {

std::string& last_error() {
  static auto* text = new std::string();
  return *text;
}

size_t limit_from_environment() {
  const char* text = std::getenv("AOTI_PLUGINS_METAL_MEMORY");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

}  // namespace

Counters counters;
Faults faults;
std::atomic<size_t> memory_limit{limit_from_environment()};
std::atomic<size_t> thread_limit{0};

bool happens(std::atomic<long>& fault) {
  long left = fault.load();
  while (left > 0 && !fault.compare_exchange_weak(left, left - 1)) {
  }
  return left == 1;
}

void count_misuse(const char* text) {
  const std::lock_guard<std::recursive_mutex> guard(lock());
  ++counters.errors;
  last_error() = text;
  const char* mode = std::getenv("AOTI_PLUGINS_METAL_MISUSE");
  if (mode == nullptr || std::strcmp(mode, "count") != 0) {
    std::fprintf(stderr, "Metal stand-in: %s\n", text);
    std::abort();
  }
}

}  // namespace stand_in

using stand_in::counters;
using stand_in::faults;

long metal_stand_in_dispatches(void) {
  return counters.dispatches;
}
long metal_stand_in_commits(void) {
  return counters.commits;
}
long metal_stand_in_libraries(void) {
  return counters.libraries;
}
long metal_stand_in_pipelines(void) {
  return counters.pipelines;
}
long metal_stand_in_buffers(void) {
  return counters.buffers;
}
long metal_stand_in_wrapped(void) {
  return counters.wrapped;
}
long metal_stand_in_errors(void) {
  return counters.errors;
}
const char* metal_stand_in_last_error(void) {
  return stand_in::last_error().c_str();
}

void metal_stand_in_reset(void) {
  for (auto* counter :
       {&counters.dispatches, &counters.commits, &counters.libraries, &counters.pipelines,
        &counters.buffers, &counters.wrapped, &counters.errors, &faults.buffer, &faults.library,
        &faults.pipeline, &faults.command_buffer}) {
    *counter = 0;
  }
  stand_in::last_error().clear();
  stand_in::memory_limit = stand_in::limit_from_environment();
  stand_in::thread_limit = 0;
}

long metal_stand_in_live_objects(void) {
  return stand_in::live_objects(nullptr);
}
long metal_stand_in_live_of(const char* class_name) {
  return stand_in::live_objects(class_name);
}
size_t metal_stand_in_allocated_nbytes(void) {
  return stand_in::allocated_nbytes();
}

void metal_stand_in_fail_buffer(long nth) {
  faults.buffer = nth;
}
void metal_stand_in_fail_library(long nth) {
  faults.library = nth;
}
void metal_stand_in_fail_pipeline(long nth) {
  faults.pipeline = nth;
}
void metal_stand_in_fail_command_buffer(long nth) {
  faults.command_buffer = nth;
}
void metal_stand_in_limit_memory(size_t nbytes) {
  stand_in::memory_limit = nbytes;
}
void metal_stand_in_limit_threads(size_t threads) {
  stand_in::thread_limit = threads;
}
