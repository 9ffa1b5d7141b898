// The threads of one threadgroup: each a fiber that runs until it waits for others. Waiting are
// those of a simdgroup for each other (a meeting), and all for all (a barrier).
#pragma once

namespace metal_host {

constexpr uint32_t kSimdgroupSize = 32;
constexpr uint32_t kMaxSimdgroups = 32;
// Below those that are used: what a thread writes that needs too much, until that is noticed.
constexpr uint32_t kSpareStacks = 4;
constexpr size_t kSlotNbytes = 16;

struct Lane {
  enum State : uint8_t { kReady, kMeeting, kBarrier, kDone };
  Fiber fiber;
  State state;
  Site site;
  alignas(16) unsigned char slot[kSlotNbytes];  // what it brings to a meeting
};

/// What the lanes of a simdgroup brought to their last meeting.
struct Meeting {
  alignas(16) unsigned char slots[kSimdgroupSize][kSlotNbytes];
  uint32_t active;
};

/// State of the running dispatch; a library runs one at a time.
struct Runtime {
  const MetalHostDispatch* dispatch = nullptr;
  const char* kernel = "";
  Schedule schedule;
  Fiber host;  // of the caller
  Lane* lanes = nullptr;
  Meeting* meetings = nullptr;
  char* stacks = nullptr;
  uint32_t capacity = 0;
  uint32_t count = 0;    // threads of the running threadgroup
  uint32_t running = 0;  // index of the running thread
  uint64_t group_number = 0;
  uint32_t buffer_count = 0;  // of the kernel
  uint32_t epoch = 0;         // what is between two barriers, or two threadgroups
  uint32_t simdgroup_epochs[kMaxSimdgroups] = {};  // of each, between two simdgroup_barrier
  uint3 group_position;                            // of the running threadgroup
  uint3 group_size;                                // smaller at the edges of a grid
  bool failed = false;
  bool alone = false;        // one fiber runs all threads, as none of them waits
  void (*body)() = nullptr;  // of one thread, or of all of them
};

inline Runtime runtime;

inline void fail(const char* format, ...) {
  Runtime& r = runtime;
  if (!r.failed && r.dispatch->message != nullptr) {
    char* out = r.dispatch->message;
    const size_t room = r.dispatch->message_nbytes;
    size_t used =
        size_t(snprintf(out, room, "kernel %s, threadgroup %u %u %u, thread %u: ", r.kernel,
                        r.group_position.x, r.group_position.y, r.group_position.z, r.running));
    if (used < room) {
      __builtin_va_list arguments;
      __builtin_va_start(arguments, format);
      vsnprintf(out + used, room - used, format, arguments);
      __builtin_va_end(arguments);
    }
  }
  r.failed = true;
  if (r.count != 0) {  // on the stack of a thread
    switch_fiber(r.lanes[r.alone ? 0 : r.running].fiber, r.host);
  }
}

void settle_pending_write();

/// Gives the running thread's turn away, in a state other than ready.
inline void wait(Lane::State state, const Site& site) {
  settle_pending_write();
  if (runtime.alone && state != Lane::kDone) {
    fail("line %d: %s was not seen when the kernel was translated", site.line, site.operation);
  }
  Lane& lane = runtime.lanes[runtime.alone ? 0 : runtime.running];
  lane.state = state;
  lane.site = site;
  switch_fiber(lane.fiber, runtime.host);
}

inline void thread_entry() {
  arrived(runtime.host);
  runtime.body();
  wait(Lane::kDone, {});
}

__attribute__((destructor)) inline void free_stacks() {
  free(runtime.lanes);
  free(runtime.meetings);
  free(runtime.stacks);
  runtime.lanes = nullptr;
  runtime.meetings = nullptr;
  runtime.stacks = nullptr;
  runtime.capacity = 0;
}

inline bool reserve(uint32_t count) {
  if (count <= runtime.capacity) {
    return true;
  }
  free_stacks();
  const uint32_t simdgroups = (count + kSimdgroupSize - 1) / kSimdgroupSize;
  runtime.lanes = static_cast<Lane*>(aligned_alloc(64, (count * sizeof(Lane) + 63) / 64 * 64));
  runtime.meetings =
      static_cast<Meeting*>(aligned_alloc(64, (simdgroups * sizeof(Meeting) + 63) / 64 * 64));
  runtime.stacks = static_cast<char*>(aligned_alloc(4096, (count + kSpareStacks) * kStackNbytes));
  if (runtime.lanes == nullptr || runtime.meetings == nullptr || runtime.stacks == nullptr) {
    return false;
  }
  runtime.capacity = count;
  return true;
}

inline void start(uint32_t index) {
  Lane& lane = runtime.lanes[index];
  char* stack = runtime.stacks + (index + kSpareStacks) * kStackNbytes;
  prepare(lane.fiber, stack, thread_entry);
  lane.state = Lane::kReady;
}

inline void resume(uint32_t index) {
  runtime.running = index;
  switch_fiber(runtime.host, runtime.lanes[index].fiber);
  if (!runtime.failed && overflowed(runtime.lanes[index].fiber)) {
    runtime.count = 0;
    fail("more than %lu bytes of variables in one thread", kStackNbytes);
  }
}

/// Runs the lanes from `first` on until each waits or is done.
inline void run_ready(uint32_t first, uint32_t width) {
  const Order order(runtime.schedule, width);
  for (uint32_t i = 0; i < width && !runtime.failed; ++i) {
    if (runtime.lanes[first + order[i]].state == Lane::kReady) {
      resume(first + order[i]);
    }
  }
}

/// Lets the lanes meet that wait at the first place in the text: those of a branch before those
/// behind it. False if none waits for a meeting.
inline bool meet(uint32_t first, uint32_t width) {
  const Site* site = nullptr;
  for (uint32_t i = first; i < first + width; ++i) {
    const Lane& lane = runtime.lanes[i];
    if (lane.state == Lane::kMeeting && (site == nullptr || lane.site < *site)) {
      site = &lane.site;
    }
  }
  if (site == nullptr) {
    return false;
  }
  Meeting& meeting = runtime.meetings[first / kSimdgroupSize];
  meeting.active = 0;
  memset(meeting.slots, runtime.schedule.inactive(), sizeof(meeting.slots));
  const Site where = *site;
  runtime.simdgroup_epochs[first / kSimdgroupSize] += where.orders_memory ? 1 : 0;
  for (uint32_t i = 0; i < width; ++i) {
    Lane& lane = runtime.lanes[first + i];
    if (lane.state == Lane::kMeeting && lane.site == where) {
      meeting.active |= 1u << i;
      memcpy(meeting.slots[i], lane.slot, kSlotNbytes);
      lane.state = Lane::kReady;
    }
  }
  return true;
}

/// Runs a simdgroup until all of it waits at a barrier or is done; a shuffled one may stop earlier.
inline void run_simdgroup(uint32_t simdgroup) {
  const uint32_t first = simdgroup * kSimdgroupSize;
  const uint32_t rest = runtime.count - first;
  const uint32_t width = rest < kSimdgroupSize ? rest : kSimdgroupSize;
  do {
    run_ready(first, width);
    if (runtime.failed || !meet(first, width)) {
      return;
    }
  } while (runtime.schedule.kind() != Schedule::kShuffle || runtime.schedule.random(4) != 0);
}

/// All threads wait at a barrier or are done: lets them go on. False if all are done, or it fails.
inline bool pass_barrier() {
  uint32_t waiting = 0;
  const Site* site = nullptr;
  for (uint32_t i = 0; i < runtime.count; ++i) {
    if (runtime.lanes[i].state != Lane::kBarrier) {
      continue;
    }
    ++waiting;
    if (site == nullptr) {
      site = &runtime.lanes[i].site;
    } else if (!(*site == runtime.lanes[i].site)) {
      const int line = runtime.lanes[i].site.line;
      runtime.count = 0;
      fail("divergent barrier: some threads wait at line %d, others at line %d", site->line, line);
      return false;
    }
  }
  if (waiting != 0 && waiting != runtime.count) {
    const uint32_t count = runtime.count;
    runtime.count = 0;
    fail("divergent barrier: line %d is reached by %u of %u threads", site->line, waiting, count);
    return false;
  }
  ++runtime.epoch;
  for (uint32_t i = 0; i < runtime.count; ++i) {
    if (runtime.lanes[i].state == Lane::kBarrier) {
      runtime.lanes[i].state = Lane::kReady;
    }
  }
  return waiting != 0;
}

/// Runs a threadgroup of `count` threads, whose body is runtime.body, to its end.
inline void run_threads(uint32_t count) {
  runtime.count = count;
  ++runtime.epoch;
  for (uint32_t i = 0; i < count; ++i) {
    start(i);
  }
  const uint32_t simdgroups = (count + kSimdgroupSize - 1) / kSimdgroupSize;
  bool more = true;
  while (more && !runtime.failed) {
    const Order order(runtime.schedule, simdgroups);
    for (uint32_t i = 0; i < simdgroups && !runtime.failed; ++i) {
      run_simdgroup(order[i]);
    }
    bool moving = false;
    for (uint32_t i = 0; i < count; ++i) {
      const Lane::State state = runtime.lanes[i].state;
      moving = moving || state == Lane::kReady || state == Lane::kMeeting;
    }
    if (!moving && !runtime.failed) {
      more = pass_barrier();
    }
  }
  runtime.count = 0;
}

}  // namespace metal_host

namespace metal {

enum class mem_flags : uint {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8,
};
constexpr mem_flags operator|(mem_flags a, mem_flags b) {
  return mem_flags(uint(a) | uint(b));
}

inline void threadgroup_barrier(mem_flags, metal_host::Place place = metal_host::Place::here()) {
  metal_host::wait(metal_host::Lane::kBarrier, {"threadgroup_barrier", place.line, place.column});
}

}  // namespace metal
