// With METAL_HOST_CHECK: every access of a kernel to memory is looked at, before it happens. The
// compiler calls the functions below (-fsanitize=thread, of which no run-time library is used).
//
//  - Device memory: the access has to be inside of a buffer that is bound.
//  - Threadgroup memory: two threads that use one byte, at least one of them writing, need a
//    threadgroup_barrier between, or a simdgroup_barrier if both are of one simdgroup. Threads that
//    write the value that is there already are let be. Atomic operations are not looked at.
#pragma once

#ifdef METAL_HOST_CHECK

extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" const char _end[] __attribute__((visibility("hidden")));

namespace metal_host {

/// A write that is fine only if it changes nothing.
struct PendingWrite {
  const char* address = nullptr;
  uint32_t nbytes = 0;
  uint32_t other = 0;  // the thread that wrote there before
  char before[16];
};

inline PendingWrite pending_write;

inline const char* name_of(const GroupMemoryRange& range) {
  return range.name == nullptr ? "an argument" : range.name;
}

/// Two threads of which neither waited for the other since.
inline bool concurrent(const ByteUse& use, uint32_t thread) {
  if (use.epoch != runtime.epoch || use.thread == thread) {
    return false;
  }
  const uint32_t simdgroup = thread / kSimdgroupSize;
  return use.thread / kSimdgroupSize != simdgroup ||
         use.simdgroup_epoch == runtime.simdgroup_epochs[simdgroup];
}

inline void settle_pending_write() {
  PendingWrite& pending = pending_write;
  if (pending.address != nullptr) {
    const char* address = pending.address;
    pending.address = nullptr;
    if (memcmp(address, pending.before, pending.nbytes) != 0) {
      fail("it and thread %u write to the same threadgroup memory without a barrier between",
           pending.other);
    }
  }
}

inline void use_byte(const GroupMemoryRange& range, size_t at, bool writes, const char* address,
                     uint32_t nbytes) {
  ByteUses& uses = range.uses[at];
  const uint32_t thread = runtime.running;
  const ByteUse now{runtime.epoch, runtime.simdgroup_epochs[thread / kSimdgroupSize], thread};
  if (concurrent(uses.write, thread)) {
    if (!writes) {
      fail("reads byte %lu of %s, which thread %u writes without a barrier between", at,
           name_of(range), uses.write.thread);
    }
    pending_write.address = address;
    pending_write.nbytes = nbytes;
    pending_write.other = uses.write.thread;
    memcpy(pending_write.before, address, nbytes);
  }
  if (!writes) {
    // Of two readers, both are kept: the one to stay is from another simdgroup than the last.
    if (uses.read[0].epoch != now.epoch ||
        uses.read[0].thread / kSimdgroupSize == thread / kSimdgroupSize) {
      if (uses.read[0].thread != thread && concurrent(uses.read[0], thread)) {
        uses.read[1] = uses.read[0];
      }
      uses.read[0] = now;
    } else {
      uses.read[1] = now;
    }
    return;
  }
  for (const ByteUse& read : uses.read) {
    if (concurrent(read, thread)) {
      fail("writes byte %lu of %s, which thread %u reads without a barrier between", at,
           name_of(range), read.thread);
    }
  }
  uses.write = now;
}

/// Whether the bytes are of a buffer, or of a stack, or constants of the library.
inline bool is_accessible(const char* address, size_t nbytes) {
  const MetalHostDispatch& dispatch = *runtime.dispatch;
  if (dispatch.buffer_nbytes == nullptr) {
    return true;
  }
  for (uint32_t i = 0; i < runtime.buffer_count; ++i) {
    const auto* start = static_cast<const char*>(dispatch.buffers[i]);
    if (start != nullptr && address >= start &&
        address + nbytes <= start + dispatch.buffer_nbytes[i]) {
      return true;
    }
  }
  const char* stacks = runtime.stacks;
  return (address >= stacks &&
          address < stacks + (runtime.capacity + kSpareStacks) * kStackNbytes) ||
         (address >= __ehdr_start && address < _end);
}

/// Says which buffer an address is closest to, that is in none.
inline void fail_outside(const char* address, size_t nbytes, bool writes) {
  const MetalHostDispatch& dispatch = *runtime.dispatch;
  uint32_t closest = 0;
  long long least = -1;
  for (uint32_t i = 0; i < runtime.buffer_count; ++i) {
    const auto* start = static_cast<const char*>(dispatch.buffers[i]);
    const auto* end = start + dispatch.buffer_nbytes[i];
    // Behind a buffer is likelier than before one.
    const long long distance = address < start ? 256 * (start - address) : address - end;
    if (start != nullptr && (least < 0 || distance < least)) {
      least = distance;
      closest = i;
    }
  }
  fail("%s %lu bytes at offset %lld of buffer %u, which has %llu bytes",
       writes ? "writes" : "reads", nbytes,
       static_cast<long long>(address - static_cast<const char*>(dispatch.buffers[closest])),
       closest, dispatch.buffer_nbytes[closest]);
}

inline void check_access(const volatile void* memory, uint32_t nbytes, bool writes) {
  if (runtime.count == 0) {
    return;  // no thread of a kernel runs
  }
  const char* address = const_cast<const char*>(static_cast<const volatile char*>(memory));
  settle_pending_write();
  for (int i = 0; i < group_memory.count(); ++i) {
    const GroupMemoryRange& range = group_memory.range(i);
    if (address + kCanaryNbytes >= range.start &&
        address < range.start + range.nbytes + kCanaryNbytes) {
      const long offset = address - range.start;
      if (offset < 0 || offset + nbytes > range.nbytes) {
        fail("%s %u bytes at offset %ld of %s, which has %lu bytes", writes ? "writes" : "reads",
             nbytes, offset, name_of(range), range.nbytes);
      }
      for (uint32_t k = 0; k < nbytes; ++k) {
        use_byte(range, offset + k, writes, address, nbytes);
      }
      return;
    }
  }
  if (!is_accessible(address, nbytes)) {
    fail_outside(address, nbytes, writes);
  }
}

}  // namespace metal_host

#define METAL_HOST_CALLBACK __attribute__((visibility("hidden"), used)) inline void
#define METAL_HOST_CHECKED(nbytes)                              \
  METAL_HOST_CALLBACK __tsan_read##nbytes(void* p) {            \
    metal_host::check_access(p, nbytes, false);                 \
  }                                                             \
  METAL_HOST_CALLBACK __tsan_write##nbytes(void* p) {           \
    metal_host::check_access(p, nbytes, true);                  \
  }                                                             \
  METAL_HOST_CALLBACK __tsan_unaligned_read##nbytes(void* p) {  \
    metal_host::check_access(p, nbytes, false);                 \
  }                                                             \
  METAL_HOST_CALLBACK __tsan_unaligned_write##nbytes(void* p) { \
    metal_host::check_access(p, nbytes, true);                  \
  }
extern "C" {
METAL_HOST_CHECKED(1)
METAL_HOST_CHECKED(2)
METAL_HOST_CHECKED(4)
METAL_HOST_CHECKED(8)
METAL_HOST_CHECKED(16)
METAL_HOST_CALLBACK __tsan_init() {}
__attribute__((visibility("hidden"), used)) inline void* __tsan_memcpy(void* to, const void* from,
                                                                       size_t nbytes) {
  for (size_t i = 0; i < nbytes; ++i) {
    metal_host::check_access(static_cast<const char*>(from) + i, 1, false);
    metal_host::check_access(static_cast<char*>(to) + i, 1, true);
  }
  return memcpy(to, from, nbytes);
}
__attribute__((visibility("hidden"), used)) inline void* __tsan_memmove(void* to, const void* from,
                                                                        size_t nbytes) {
  return __tsan_memcpy(to, from, nbytes);
}
__attribute__((visibility("hidden"), used)) inline void* __tsan_memset(void* to, int value,
                                                                       size_t nbytes) {
  for (size_t i = 0; i < nbytes; ++i) {
    metal_host::check_access(static_cast<char*>(to) + i, 1, true);
  }
  return memset(to, value, nbytes);
}
}
#undef METAL_HOST_CHECKED
#undef METAL_HOST_CALLBACK

#else

namespace metal_host {
inline void settle_pending_write() {}
}  // namespace metal_host

#endif  // METAL_HOST_CHECK
