#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "cuda/driver/stream.h"
#include "cuda/memory/pinned.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// Page-locked memory with a twin on the device, handed out piece by piece during a call, so that
/// the small inputs of a call travel in one copy. Kept from call to call.
class Staging {
 public:
  /// Both sides of one piece.
  struct Piece {
    char* host = nullptr;
    char* device = nullptr;
  };

  explicit Staging(Stream& stream) : stream_(stream) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Takes all pieces back; the device must be done with them. Makes one block of several.
  Status reset() noexcept;

  /// A piece of `nbytes`, aligned to 256 bytes.
  Status take(size_t nbytes, Piece* ret) noexcept;

  /// Copies what was taken to the device, in the stream's order; a little of it, if wanted, by a
  /// kernel.
  Status to_device(bool by_kernel = false) noexcept;

  /// Whether nothing was taken. A block may be empty that was too small for the first piece.
  bool empty() const noexcept { return blocks_.empty() || blocks_.back()->used == 0; }

 private:
  struct Block {
    PinnedMemory host;
    char* device = nullptr;
    size_t used = 0;
  };

  Status add_block(size_t nbytes) noexcept;
  void drop_blocks() noexcept;

  Stream& stream_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace aoti_plugins::cuda
