// Threadgroup memory: filled with poison when a threadgroup first touches it, with canaries around
// that are looked at when the threadgroup is done. A kernel has 32 KiB of it.
#pragma once

namespace metal_host {

constexpr size_t kGroupMemoryNbytes = 32768;
constexpr size_t kCanaryNbytes = 64;
constexpr int kCanary = 0xA5;
constexpr int kMaxGroupMemories = 256;

/// Who used a byte, and when: see memory_check.h. Epochs are counted from 1.
struct ByteUse {
  uint32_t epoch;
  uint32_t simdgroup_epoch;
  uint32_t thread;
};
struct ByteUses {
  ByteUse write;
  ByteUse read[2];
};

struct GroupMemoryRange {
  char* start;
  size_t nbytes;
  const char* name;
  ByteUses* uses;  // of each byte; null where accesses are not checked
  uint64_t group;  // that it was last prepared for
};

/// The memories that the running threadgroup has touched.
class GroupMemory {
 public:
  void begin(uint64_t group, int poison) {
    group_ = group;
    poison_ = poison;
    count_ = 0;
    nbytes_ = 0;
  }

  /// Memory with canaries before and behind, ready for the running threadgroup.
  void use(GroupMemoryRange& range) {
    if (range.group == group_) {
      return;
    }
    range.group = group_;
    memset(range.start - kCanaryNbytes, kCanary, kCanaryNbytes);
    memset(range.start, poison_, range.nbytes);
    memset(range.start + range.nbytes, kCanary, kCanaryNbytes);
    nbytes_ += range.nbytes;
    if (nbytes_ > kGroupMemoryNbytes) {
      fail("%lu bytes of threadgroup memory, more than %lu", nbytes_, kGroupMemoryNbytes);
    }
    if (count_ == kMaxGroupMemories) {
      fail("more than %d variables in threadgroup memory", kMaxGroupMemories);
    }
    ranges_[count_++] = &range;
  }

  int count() const { return count_; }
  const GroupMemoryRange& range(int i) const { return *ranges_[i]; }

  /// Whether all canaries live.
  bool intact() const {
    for (int i = 0; i < count_; ++i) {
      const GroupMemoryRange& range = *ranges_[i];
      for (size_t k = 0; k < kCanaryNbytes; ++k) {
        if (static_cast<unsigned char>(range.start[k - kCanaryNbytes]) != kCanary ||
            static_cast<unsigned char>(range.start[range.nbytes + k]) != kCanary) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  GroupMemoryRange* ranges_[kMaxGroupMemories];
  int count_ = 0;
  size_t nbytes_ = 0;
  uint64_t group_ = 0;
  int poison_ = 0;
};

inline GroupMemory group_memory;

/// A variable of type T that the kernel declares in threadgroup memory; kNumber tells them apart.
template <typename T, int kNumber>
struct GroupVariable {
  alignas(64) static inline char bytes[sizeof(T) + 2 * kCanaryNbytes];
#ifdef METAL_HOST_CHECK
  static inline ByteUses uses[sizeof(T)];
#else
  static constexpr ByteUses* uses = nullptr;
#endif
  static inline GroupMemoryRange range{bytes + kCanaryNbytes, sizeof(T), nullptr, uses, 0};

  static T& get(const char* name) {
    range.name = name;
    group_memory.use(range);
    return *reinterpret_cast<T*>(range.start);
  }
};

}  // namespace metal_host
