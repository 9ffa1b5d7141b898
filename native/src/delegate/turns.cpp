#include "delegate/turns.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "delegate/delegate_device.h"

namespace aoti_plugins {

void Turns::add(std::shared_ptr<Turn> turn) {
  const auto at =
      std::lower_bound(all_.begin(), all_.end(), turn, [](const auto& one, const auto& other) {
        return std::less<const Turn*>()(one.get(), other.get());
      });
  if (at == all_.end() || *at != turn) {
    all_.insert(at, std::move(turn));
  }
}

void Turns::lock() {
  for (const auto& turn : all_) {
    turn->mutex.lock();
  }
}

void Turns::unlock() {
  for (auto turn = all_.rbegin(); turn != all_.rend(); ++turn) {
    (*turn)->mutex.unlock();
  }
}

Status Turns::follow_others(DeviceSession& session) noexcept {
  for (const auto& turn : all_) {
    if (turn->last != nullptr && turn->last != &session) {
      AOTIP_RETURN_IF_FAILED(session.follow(*turn->last));
    }
    turn->last = &session;
  }
  return Status::kOk;
}

void Turns::leave(const DeviceSession& session) noexcept {
  for (const auto& turn : all_) {
    const std::lock_guard<std::mutex> lock(turn->mutex);
    turn->last = turn->last == &session ? nullptr : turn->last;
  }
}

}  // namespace aoti_plugins
