#include "mps/memory/storage.h"

#include <cstring>
#include <optional>

#include "mps/memory/buffer_index.h"
#include "mps/memory/buffer_pool.h"

namespace aoti_plugins::mps {
namespace {

using ::executorch::runtime::FreeableBuffer;

/// Memory of the program itself.
class WrappedStorage final : public ConstantStorage {
 public:
  bool wrap(FreeableBuffer& buffer, size_t nbytes) {
    void* data = const_cast<void*>(buffer.data());
    if (!memory_.wrap(data, nbytes)) {
      return false;
    }
    buffer_.emplace(std::move(buffer));
    data_ = data;
    return true;
  }

 private:
  std::optional<FreeableBuffer> buffer_;
  WrappedMemory memory_;  // goes before the memory
};

class CopiedStorage final : public ConstantStorage {
 public:
  ~CopiedStorage() override {
    if (data_ != nullptr) {
      BufferPool::instance().deallocate(data_, nbytes_);
    }
  }

  Status copy(const void* bytes, const StorageRef& ref) {
    nbytes_ = ref.nbytes;
    data_ = BufferPool::instance().allocate(nbytes_);
    AOTIP_CHECK(data_ != nullptr, "out of memory: the weights '%s', %zu bytes on mps:0: %s",
                ref.key.c_str(), nbytes_, last_failure());
    std::memcpy(data_, bytes, nbytes_);
    return Status::kOk;
  }

 private:
  size_t nbytes_ = 0;
};

}  // namespace

std::shared_ptr<ConstantStorage> load_mps_storage(const ::executorch::runtime::NamedDataMap& map,
                                                  const StorageRef& ref, bool writable) {
  auto copied = std::make_shared<CopiedStorage>();
  if (ref.nbytes == 0) {
    return copied;
  }
  std::optional<FreeableBuffer> buffer = read_storage(map, ref);
  if (!buffer.has_value()) {
    return nullptr;
  }
  auto wrapped = std::make_shared<WrappedStorage>();
  if (!writable && wrapped->wrap(*buffer, ref.nbytes)) {
    return wrapped;
  }
  return copied->copy(buffer->data(), ref) == Status::kOk ? copied : nullptr;
}

}  // namespace aoti_plugins::mps
