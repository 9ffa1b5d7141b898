#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace aoti_plugins::cpu {

/// Sleeps while `word` holds `value`, until `futex_wake`; may return earlier.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value) noexcept;

/// Wakes up to `count` threads that sleep on `word`.
void futex_wake(std::atomic<uint32_t>& word, int count) noexcept;

/// Tells the processor that this is a waiting loop.
inline void spin_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// What is waited for without sleeping: a thread's end of a region, and, by a thread that has
/// nothing to do, the next region, which in a program comes soon. To wake a thread takes as long as
/// many a region, on virtual machines above all.
constexpr std::chrono::microseconds kShortSpin(50);
constexpr std::chrono::microseconds kLongSpin(200);

/// Waits that long for `done()`; false when it still does not hold.
template <typename Done>
bool spin_until(const Done& done, std::chrono::microseconds spin = kShortSpin) noexcept {
  const auto end = std::chrono::steady_clock::now() + spin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) {
        return true;
      }
      spin_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

}  // namespace aoti_plugins::cpu
