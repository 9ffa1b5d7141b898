#pragma once

#include <unistd.h>

#include <utility>

namespace aoti_plugins::ranks {

/// A file descriptor that is closed with it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const noexcept { return fd_; }
  bool is_open() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace aoti_plugins::ranks
