#include "mps/memory/buffer_index.h"

#ifdef __APPLE__
#include <unistd.h>
#endif

#include <exception>
#include <iterator>
#include <mutex>

#include "mps/driver/gpu.h"
#include "mps/driver/metal_values.h"

namespace aoti_plugins::mps {
namespace {

/// What Metal wraps begins and ends at a page: 4 kB on Intel's processors, 16 kB on Apple's, and so
/// where something stands in for Metal.
size_t page_nbytes() {
#ifdef __APPLE__
  static const size_t nbytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return nbytes;
#else
  return 16384;
#endif
}

uintptr_t address_of(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

}  // namespace

BufferIndex& BufferIndex::instance() noexcept {
  // Never destroyed: programs may be unloaded by destructors that run at exit.
  static BufferIndex* index = new BufferIndex();
  return *index;
}

Status BufferIndex::add(Owned buffer, size_t nbytes, void** ret_data) noexcept {
  void* data = send<void*>(buffer.get(), selectors().contents);
  AOTIP_CHECK(data != nullptr, "a buffer of %zu bytes has no address", nbytes);
  try {
    const std::lock_guard<std::shared_mutex> lock(mutex_);
    const auto [at, is_new] = entries_.try_emplace(address_of(data));
    AOTIP_CHECK(is_new, "there are two buffers at address %p", data);
    at->second.buffer = std::move(buffer);
    at->second.nbytes = nbytes;
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
  *ret_data = data;
  return Status::kOk;
}

Status BufferIndex::remove(void* data) noexcept {
  Owned buffer;  // released without the lock
  const std::lock_guard<std::shared_mutex> lock(mutex_);
  const auto found = entries_.find(address_of(data));
  AOTIP_CHECK(found != entries_.end(), "no buffer starts at address %p", data);
  buffer = std::move(found->second.buffer);
  entries_.erase(found);
  return Status::kOk;
}

bool BufferIndex::wrap(void* data, size_t nbytes) noexcept {
  const size_t page = page_nbytes();
  if (address_of(data) % page != 0 || nbytes == 0) {
    return false;
  }
  // The rest of the last page is memory of this process, too, and no kernel looks at it.
  const size_t whole = (nbytes + page - 1) / page * page;
  try {
    const std::lock_guard<std::shared_mutex> lock(mutex_);
    const auto known = entries_.find(address_of(data));
    if (known != entries_.end()) {
      known->second.users += known->second.nbytes >= whole ? 1 : 0;
      return known->second.nbytes >= whole;
    }
    const auto next = entries_.lower_bound(address_of(data));
    const bool crosses_next = next != entries_.end() && next->first < address_of(data) + whole;
    if (crosses_next || entry_of(address_of(data)) != entries_.end()) {
      return false;
    }
    Owned buffer(send<Id, void*, UInteger, UInteger, Id>(gpu().device, selectors().newBufferNoCopy,
                                                         data, whole, kResourceStorageModeShared,
                                                         nullptr));
    if (!buffer) {
      return false;
    }
    Entry& entry = entries_[address_of(data)];
    entry.buffer = std::move(buffer);
    entry.nbytes = whole;
    return true;
  } catch (const std::exception&) {  // out of memory
    return false;
  }
}

void BufferIndex::unwrap(void* data) noexcept {
  Owned buffer;
  const std::lock_guard<std::shared_mutex> lock(mutex_);
  const auto found = entries_.find(address_of(data));
  if (found != entries_.end() && --found->second.users == 0) {
    buffer = std::move(found->second.buffer);
    entries_.erase(found);
  }
}

BufferIndex::Entries::const_iterator BufferIndex::entry_of(uintptr_t address) const noexcept {
  auto at = entries_.upper_bound(address);
  if (at == entries_.begin()) {
    return entries_.end();
  }
  --at;
  return address - at->first < at->second.nbytes ? at : entries_.end();
}

Status BufferIndex::find(const void* data, size_t nbytes, BufferSlice* ret) const noexcept {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto at = entry_of(address_of(data));
  AOTIP_CHECK(at != entries_.end(), "address %p is in no buffer of the GPU", data);
  const size_t offset = address_of(data) - at->first;
  AOTIP_CHECK(nbytes <= at->second.nbytes - offset,
              "%zu bytes at address %p reach beyond the end of their buffer, which has %zu bytes "
              "there",
              nbytes, data, at->second.nbytes - offset);
  *ret = {at->second.buffer.get(), offset};
  return Status::kOk;
}

size_t BufferIndex::size() const noexcept {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  return entries_.size();
}

}  // namespace aoti_plugins::mps
