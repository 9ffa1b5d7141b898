#pragma once

#include <cstdint>

#include "slim/export.h"

namespace aoti_plugins {

/// fork() copies one thread. A lock that another thread holds at that moment stays locked in the
/// child for good, and what it protects stays as it was in the middle of a change. So fork() waits
/// until no thread is inside the library, and others wait with entering it until the fork is done.
///
/// One of these stands in every function through which a thread comes in and takes locks. They may
/// be nested. Threads that work for others do not count, and a fork from inside the library waits
/// for nobody.
class AOTIP_FOR_RUNNER InsideLibrary {
 public:
  InsideLibrary() noexcept;
  ~InsideLibrary();
  InsideLibrary(const InsideLibrary&) = delete;
  InsideLibrary& operator=(const InsideLibrary&) = delete;
};

/// Makes the calling thread one of the library's own, for good: it works for threads that are
/// inside, so it neither counts nor waits at a fork.
AOTIP_CORE void work_for_others_inside() noexcept;

/// How often this process and its parents have been forked since the library was loaded: another
/// number than before says that this is the child.
AOTIP_CORE uint32_t fork_generation() noexcept;

}  // namespace aoti_plugins
