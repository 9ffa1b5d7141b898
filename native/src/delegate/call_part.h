#pragma once

#include <cstddef>

#include "slim/export.h"

namespace aoti_plugins {

/// Which part of a call is wanted of the delegates that a thread executes.
enum class CallPart {
  kWhole,
  kBegin,   ///< outputs in host memory may come later, with a `kFinish`
  kFinish,  ///< only those of the oldest call that was begun
};

/// The most bytes of an output in host memory that may come later.
inline constexpr size_t kMostLateNbytes = size_t{4} << 20;

/// What this thread wants; `kWhole` unless a `CallPartScope` says otherwise.
AOTIP_CORE CallPart call_part() noexcept;

/// While one lives, this thread wants a part of a call.
class AOTIP_FOR_RUNNER CallPartScope {
 public:
  explicit CallPartScope(CallPart part) noexcept;
  ~CallPartScope();
  CallPartScope(const CallPartScope&) = delete;
  CallPartScope& operator=(const CallPartScope&) = delete;

 private:
  CallPart outer_;
};

}  // namespace aoti_plugins
