#include "cuda/memory/workspace.h"

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/stream.h"

namespace aoti_plugins::cuda {

Workspace::Workspace(size_t nbytes, int32_t gpu) noexcept : nbytes_(nbytes), gpu_(gpu) {
  if (nbytes == 0) {
    return;
  }
  Stream* owner = current_stream().owner;
  is_block_ = owner == nullptr || owner->gpu() != gpu;
  data_ = is_block_ ? cuda_device().allocate(nbytes, gpu, &block_owner_) : owner->workspace(nbytes);
  if (data_ == nullptr) {
    status_ = fail("out of memory: a workspace of %zu bytes: %s", nbytes, last_failure());
  }
}

Workspace::~Workspace() {
  if (is_block_ && data_ != nullptr) {
    cuda_device().deallocate(data_, nbytes_, gpu_, block_owner_);
  }
}

}  // namespace aoti_plugins::cuda
