#pragma once

#include <chrono>
#include <cstddef>

/// Time since it was made.
class Clock {
 public:
  double microseconds() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A field of /proc/self/status in bytes, for instance "VmRSS" or "VmHWM".
size_t status_nbytes(const char* field);

/// Files that the process has open.
size_t open_files();
