#pragma once

#include <cstddef>

namespace aoti_plugins::cpu {

/// Alignment of blocks, in bytes.
inline constexpr size_t kBlockAlignment = 64;

/// Memory of at least `nbytes`, not initialized; null when there is none.
///
/// The C library gives large blocks back to the system, so that each page of them is made and
/// cleared anew in the next call of the same program. Here memory is kept for that call: never more
/// than was in use at once.
void* take_block(size_t nbytes) noexcept;

/// Gives back what `take_block(nbytes)` returned; null is allowed.
void give_block(void* block, size_t nbytes) noexcept;

/// Bytes that nobody uses and that are kept for later.
size_t kept_nbytes() noexcept;

/// Gives all that is kept back to the C library.
void release_kept_blocks() noexcept;

}  // namespace aoti_plugins::cpu
