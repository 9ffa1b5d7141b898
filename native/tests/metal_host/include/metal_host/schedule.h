// The order in which threads, simdgroups and threadgroups run, and the bytes that stand for memory
// nobody has written. Both come from the environment at each dispatch:
//
//   METAL_HOST_SCHEDULE   forward (default), reverse, shuffle or shuffle:<seed>
//   METAL_HOST_INACTIVE   poison (default) or zero: what reading an inactive lane gives
#pragma once

namespace metal_host {

class Schedule {
 public:
  enum Kind { kForward, kReverse, kShuffle };

  void read_environment() {
    kind_ = kForward;
    const char* text = getenv("METAL_HOST_SCHEDULE");
    if (text != nullptr && strcmp(text, "reverse") == 0) {
      kind_ = kReverse;
    } else if (text != nullptr && text[0] == 's') {
      kind_ = kShuffle;
      state_ = 0x9E3779B97F4A7C15ull;
      for (const char* c = text; *c != 0; ++c) state_ = (state_ ^ uint64_t(*c)) * 0x100000001B3ull;
    }
    const char* inactive = getenv("METAL_HOST_INACTIVE");
    inactive_ = inactive != nullptr && strcmp(inactive, "zero") == 0 ? 0 : poison();
  }

  Kind kind() const { return kind_; }

  /// Differs per schedule, so that no single value, large, negative or not a number, hides.
  int poison() const { return kind_ == kForward ? 0xCD : kind_ == kReverse ? 0x7F : 0xFF; }
  int inactive() const { return inactive_; }

  uint32_t random(uint32_t bound) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return uint32_t((state_ >> 33) % bound);
  }

 private:
  Kind kind_ = kForward;
  uint64_t state_ = 0;
  int inactive_ = 0;
};

/// An order of 0 to count - 1: i-th is (i * step + start) mod count.
class Order {
 public:
  Order(Schedule& schedule, uint32_t count) : count_(count), step_(1), start_(0) {
    if (count <= 1 || schedule.kind() == Schedule::kForward) {
      return;
    }
    if (schedule.kind() == Schedule::kReverse) {
      step_ = start_ = count - 1;
      return;
    }
    start_ = schedule.random(count);
    do {
      step_ = 1 + schedule.random(count - 1);
    } while (common_divisor(step_, count) != 1);
  }

  uint32_t operator[](uint32_t i) const {
    return uint32_t((uint64_t(i) * step_ + start_) % count_);
  }

 private:
  static uint32_t common_divisor(uint32_t a, uint32_t b) {
    while (b != 0) {
      const uint32_t rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  }

  uint32_t count_;
  uint32_t step_;
  uint32_t start_;
};

}  // namespace metal_host
