// Counters, misuse and faults to inject: what stand_in.h shows.
#pragma once

#include <atomic>
#include <cstddef>

namespace stand_in {

struct Counters {
  std::atomic<long> dispatches{0};
  std::atomic<long> commits{0};
  std::atomic<long> libraries{0};
  std::atomic<long> pipelines{0};
  std::atomic<long> buffers{0};
  std::atomic<long> wrapped{0};
  std::atomic<long> errors{0};
};

/// Faults: how many calls are left until it happens; 0 for never.
struct Faults {
  std::atomic<long> buffer{0};
  std::atomic<long> library{0};
  std::atomic<long> pipeline{0};
  std::atomic<long> command_buffer{0};
};

extern Counters counters;
extern Faults faults;
extern std::atomic<size_t> memory_limit;
extern std::atomic<size_t> thread_limit;

/// Whether the fault happens at this call.
bool happens(std::atomic<long>& fault);
void count_misuse(const char* text);

/// Living objects of a class, or of all but the device.
long live_objects(const char* class_name);
/// Bytes of all buffers, but for wrapped memory.
size_t allocated_nbytes();

}  // namespace stand_in
