#pragma once

#include <executorch/runtime/core/named_data_map.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace aoti_plugins::testing {

/// Named data in memory that counts what is asked for and what is still held.
class NamedData final : public ::executorch::runtime::NamedDataMap {
 public:
  using Error = ::executorch::runtime::Error;
  using FreeableBuffer = ::executorch::runtime::FreeableBuffer;
  template <typename T>
  using Result = ::executorch::runtime::Result<T>;

  /// Stores a copy; `misalign` moves it off its alignment.
  void set(const std::string& key, const void* data, size_t nbytes, size_t misalign = 0,
           size_t alignment = 64) {
    Entry entry;
    void* block = nullptr;
    if (posix_memalign(&block, alignment, nbytes + misalign + 1) != 0) {
      std::abort();
    }
    entry.block.reset(static_cast<char*>(block));
    entry.data = entry.block.get() + misalign;
    entry.nbytes = nbytes;
    std::memcpy(entry.data, data, nbytes);
    entries_[key] = std::move(entry);
  }
  void erase(const std::string& key) { entries_.erase(key); }
  const void* bytes(const std::string& key) const { return entries_.at(key).data; }
  size_t gets(const std::string& key) const { return gets_[key]; }
  size_t open_buffers() const { return open_; }

  Result<FreeableBuffer> get_data(std::string_view key) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(std::string(key));
    if (found == entries_.end()) {
      return Error::NotFound;
    }
    ++gets_[found->first];
    ++open_;
    return FreeableBuffer(found->second.data, found->second.nbytes, &NamedData::close,
                          const_cast<NamedData*>(this));
  }

  Result<const ::executorch::runtime::TensorLayout> get_tensor_layout(
      std::string_view) const override {
    return Error::NotImplemented;
  }
  Error load_data_into(std::string_view, void*, size_t) const override {
    return Error::NotImplemented;
  }
  Result<uint32_t> get_num_keys() const override { return static_cast<uint32_t>(entries_.size()); }
  Result<const char*> get_key(uint32_t) const override { return Error::NotImplemented; }

 private:
  struct Free {
    void operator()(char* block) const { std::free(block); }
  };
  struct Entry {
    std::unique_ptr<char, Free> block;
    char* data = nullptr;
    size_t nbytes = 0;
  };

  static void close(void* self, void*, size_t) {
    const auto* map = static_cast<NamedData*>(self);
    const std::lock_guard<std::mutex> lock(map->mutex_);
    --map->open_;
  }

  std::map<std::string, Entry> entries_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, size_t> gets_;
  mutable size_t open_ = 0;
};

}  // namespace aoti_plugins::testing
