#include "cuda/memory/staging.h"

#include <algorithm>
#include <exception>

#include "cuda/driver/driver.h"
#include "cuda/memory/kernel_copy.h"

namespace aoti_plugins::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kMinBlockNbytes = size_t{64} << 10;

}  // namespace

Staging::~Staging() {
  drop_blocks();
}

void Staging::drop_blocks() noexcept {
  for (const auto& block : blocks_) {
    stream_.deallocate(block->device, block->host.nbytes());
  }
  blocks_.clear();
}

Status Staging::add_block(size_t nbytes) noexcept {
  try {
    auto block = std::make_unique<Block>();
    AOTIP_RETURN_IF_FAILED(block->host.allocate(std::max(nbytes, kMinBlockNbytes)));
    blocks_.reserve(blocks_.size() + 1);
    block->device = static_cast<char*>(stream_.allocate(block->host.nbytes()));
    AOTIP_RETURN_IF_NULL(block->device);
    blocks_.push_back(std::move(block));
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

Status Staging::reset() noexcept {
  if (blocks_.size() > 1) {
    size_t total = 0;
    for (const auto& block : blocks_) {
      total += block->host.nbytes();
    }
    drop_blocks();
    return add_block(total);
  }
  if (!blocks_.empty()) {
    blocks_.front()->used = 0;
  }
  return Status::kOk;
}

Status Staging::take(size_t nbytes, Piece* ret) noexcept {
  const size_t size = (nbytes + kAlignment - 1) / kAlignment * kAlignment;
  if (blocks_.empty() || blocks_.back()->host.nbytes() - blocks_.back()->used < size) {
    AOTIP_RETURN_IF_FAILED(add_block(size));
  }
  Block& block = *blocks_.back();
  *ret = {block.host.data() + block.used, block.device + block.used};
  block.used += size;
  return Status::kOk;
}

Status Staging::to_device(bool by_kernel) noexcept {
  for (const auto& block : blocks_) {
    bool done = block->used == 0;
    if (!done && by_kernel) {
      AOTIP_RETURN_IF_FAILED(
          copy_by_kernel(stream_.gpu(), block->device, block->host.data(), block->used, &done));
    }
    if (!done) {
      AOTIP_CU(cuMemcpyHtoDAsync, device_address(block->device), block->host.data(), block->used,
               stream_.handle());
    }
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
