#include "cpu/memory/kept_blocks.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, nbytes) ((void)(data), (void)(nbytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, nbytes) ((void)(data), (void)(nbytes))
#endif

namespace aoti_plugins::cpu {
namespace {

// Below this, blocks of the C library stay where they are.
constexpr size_t kLeast = size_t{32} << 10;
constexpr size_t kLargest = SIZE_MAX / 4;
// What nobody may touch behind a block, where somebody watches.
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kRedZone = kBlockAlignment;
#else
constexpr size_t kRedZone = 0;
#endif

/// A piece of a region, which is one block of the C library: a header with the memory behind it.
struct alignas(kBlockAlignment) Piece {
  Piece* before;  ///< in the same region; null at its beginning
  Piece* after;   ///< likewise at its end
  size_t nbytes;  ///< behind the header
  bool is_free;
  Piece* previous_free;
  Piece* next_free;

  void* data() noexcept { return this + 1; }
  bool is_region() const noexcept { return before == nullptr && after == nullptr; }
};

size_t rounded(size_t nbytes) noexcept {
  return (nbytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

/// A block of the C library with room for its alignment, which is faster to get than an aligned
/// one. The byte in front says how far it was moved.
void* allocate_small(size_t nbytes) noexcept {
  auto* block = static_cast<unsigned char*>(std::malloc(nbytes + kBlockAlignment));
  if (block == nullptr) {
    return nullptr;
  }
  const size_t moved = kBlockAlignment - reinterpret_cast<uintptr_t>(block) % kBlockAlignment;
  block += moved;
  block[-1] = static_cast<unsigned char>(moved);
  return block;
}

void free_small(void* data) noexcept {
  if (data != nullptr) {
    auto* block = static_cast<unsigned char*>(data);
    std::free(block - block[-1]);
  }
}

void* allocate(size_t nbytes) noexcept {
  void* block = nullptr;
  return posix_memalign(&block, kBlockAlignment, nbytes) == 0 ? block : nullptr;
}

/// Regions that are cut where they are used and joined where they are free.
class KeptBlocks {
 public:
  void* take(size_t nbytes) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const size_t size = rounded(nbytes + kRedZone);
    Piece* piece = smallest_of(size);
    if (piece == nullptr) {
      piece = new_region(size);
      if (piece == nullptr) {
        return nullptr;
      }
    } else {
      leave_free(*piece);
      cut(*piece, size);
    }
    in_use_ += piece->nbytes;
    most_in_use_ = std::max(most_in_use_, in_use_);
    ASAN_UNPOISON_MEMORY_REGION(piece->data(), nbytes);
    return piece->data();
  }

  void give(void* data) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    Piece* piece = static_cast<Piece*>(data) - 1;
    in_use_ -= piece->nbytes;
    if (piece->after != nullptr && piece->after->is_free) {
      leave_free(*piece->after);
      join(*piece);
    }
    if (piece->before != nullptr && piece->before->is_free) {
      piece = piece->before;
      leave_free(*piece);
      join(*piece);
    }
    become_free(*piece);
    release_regions(most_in_use_);
  }

  void release_all() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    release_regions(0);
    most_in_use_ = in_use_;
  }

  size_t kept() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return kept_;
  }

 private:
  Piece* smallest_of(size_t nbytes) noexcept {
    Piece* found = nullptr;
    for (Piece* piece = free_; piece != nullptr; piece = piece->next_free) {
      if (piece->nbytes >= nbytes && (found == nullptr || piece->nbytes < found->nbytes)) {
        found = piece;
      }
    }
    return found;
  }

  Piece* new_region(size_t nbytes) noexcept {
    void* memory = allocate(sizeof(Piece) + nbytes);
    if (memory == nullptr) {
      release_regions(0);
      memory = allocate(sizeof(Piece) + nbytes);
    }
    if (memory == nullptr) {
      return nullptr;
    }
    auto* region = new (memory) Piece{nullptr, nullptr, nbytes, false, nullptr, nullptr};
    ASAN_POISON_MEMORY_REGION(region->data(), nbytes);
    return region;
  }

  void become_free(Piece& piece) noexcept {
    piece.is_free = true;
    piece.previous_free = nullptr;
    piece.next_free = free_;
    if (free_ != nullptr) {
      free_->previous_free = &piece;
    }
    free_ = &piece;
    kept_ += piece.nbytes;
    ASAN_POISON_MEMORY_REGION(piece.data(), piece.nbytes);
  }

  void leave_free(Piece& piece) noexcept {
    piece.is_free = false;
    (piece.previous_free != nullptr ? piece.previous_free->next_free : free_) = piece.next_free;
    if (piece.next_free != nullptr) {
      piece.next_free->previous_free = piece.previous_free;
    }
    kept_ -= piece.nbytes;
  }

  /// Makes what is behind the first bytes of a piece another one, which is free, if that is worth
  /// it.
  void cut(Piece& piece, size_t nbytes) noexcept {
    if (piece.nbytes < nbytes + sizeof(Piece) + kLeast) {
      return;
    }
    char* end = static_cast<char*>(piece.data()) + nbytes;
    ASAN_UNPOISON_MEMORY_REGION(end, sizeof(Piece));
    auto* rest = new (end)
        Piece{&piece, piece.after, piece.nbytes - nbytes - sizeof(Piece), false, nullptr, nullptr};
    if (rest->after != nullptr) {
      rest->after->before = rest;
    }
    piece.after = rest;
    piece.nbytes = nbytes;
    become_free(*rest);
  }

  /// Makes a piece and the one behind it one.
  static void join(Piece& piece) noexcept {
    const Piece& after = *piece.after;
    piece.nbytes += sizeof(Piece) + after.nbytes;
    piece.after = after.after;
    if (piece.after != nullptr) {
      piece.after->before = &piece;
    }
  }

  /// Gives a region back that is free as a whole.
  void release(Piece& region) noexcept {
    leave_free(region);
    ASAN_UNPOISON_MEMORY_REGION(region.data(), region.nbytes);
    std::free(&region);
  }

  /// Gives regions back, the smallest first as larger ones are cut anyway, until at most
  /// so much is kept or none is free as a whole.
  void release_regions(size_t most) noexcept {
    while (kept_ > most) {
      Piece* smallest = nullptr;
      for (Piece* piece = free_; piece != nullptr; piece = piece->next_free) {
        if (piece->is_region() && (smallest == nullptr || piece->nbytes < smallest->nbytes)) {
          smallest = piece;
        }
      }
      if (smallest == nullptr) {
        return;
      }
      release(*smallest);
    }
  }

  std::mutex mutex_;
  Piece* free_ = nullptr;  // those that became free last come first
  size_t kept_ = 0;
  size_t in_use_ = 0;
  size_t most_in_use_ = 0;
};

/// Never destroyed: tensors may end after the statics of this library.
KeptBlocks& kept_blocks() noexcept {
  static auto* all = new KeptBlocks();
  return *all;
}

}  // namespace

void* take_block(size_t nbytes) noexcept {
  if (nbytes < kLeast) {
    return allocate_small(nbytes);
  }
  return nbytes <= kLargest ? kept_blocks().take(nbytes) : nullptr;
}

void give_block(void* block, size_t nbytes) noexcept {
  if (nbytes < kLeast) {
    free_small(block);
  } else if (block != nullptr) {
    kept_blocks().give(block);
  }
}

size_t kept_nbytes() noexcept {
  return kept_blocks().kept();
}

void release_kept_blocks() noexcept {
  kept_blocks().release_all();
}

}  // namespace aoti_plugins::cpu
