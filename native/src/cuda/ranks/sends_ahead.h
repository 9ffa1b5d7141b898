#pragma once

#include <cstddef>
#include <cstdint>

#include "ranks/group.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// A run of a program begins on this thread. Graphs are captured of whole runs.
void begin_run_of_sums() noexcept;

/// One more sum of this thread's run is there for a group.
void count_sum(const ranks::Group& group) noexcept;

/// How many sums the group has had, one after the other, without one of another group between them.
/// From 1 on, each of its ranks knows that the other ones' runs before have read their memory.
int32_t sums_in_a_row(const ranks::Group& group) noexcept;

// Copies beside the work of this thread's stream, by what the GPU has for copies. Work that comes
// on the stream goes on meanwhile; also in a capture, in which a process cannot begin its first
// one. For one call of a program for several ranks at a time.

/// Begins to copy when the work so far is done.
Status copy_beside(int32_t gpu, void* to, const void* from, size_t nbytes) noexcept;

/// What comes on the stream waits for the copies that were begun.
Status wait_for_copies_beside(int32_t gpu) noexcept;

}  // namespace aoti_plugins::cuda
