// The C shims for memory outside of tensors.

#include <aoti_plugins/mps_shim.h>

#include <cstring>
#include <map>
#include <mutex>

#include "mps/driver/gpu.h"
#include "mps/driver/stream.h"
#include "mps/memory/buffer_index.h"
#include "mps/memory/buffer_pool.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

/// The sizes of what generated code has allocated: it frees by address alone.
struct Sizes {
  std::mutex mutex;
  std::map<void*, size_t> by_address;
};

Sizes& sizes() {
  static Sizes* instance = new Sizes();
  return *instance;
}

/// The CPU may touch memory of the GPU once this thread's program has nothing left there.
Status finish_current() {
  mps::Stream* stream = mps::current_stream();
  return stream != nullptr ? stream->finish() : Status::kOk;
}

}  // namespace

AOTITorchError aoti_torch_mps_malloc(void** buffer, size_t num_bytes) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(buffer);
    AOTIP_RETURN_IF_NULL(mps::open_gpu());
    void* data = mps::BufferPool::instance().allocate(num_bytes);
    AOTIP_RETURN_IF_NULL(data);
    try {
      const std::lock_guard<std::mutex> lock(sizes().mutex);
      sizes().by_address[data] = num_bytes;
    } catch (...) {
      mps::BufferPool::instance().deallocate(data, num_bytes);
      throw;
    }
    *buffer = data;
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_mps_free(void* ptr) {
  return run_shim(__func__, [&] {
    if (ptr == nullptr) {
      return Status::kOk;
    }
    AOTIP_RETURN_IF_FAILED(finish_current());
    const std::lock_guard<std::mutex> lock(sizes().mutex);
    const auto found = sizes().by_address.find(ptr);
    AOTIP_CHECK(found != sizes().by_address.end(), "%p is not memory of aoti_torch_mps_malloc",
                ptr);
    mps::BufferPool::instance().deallocate(ptr, found->second);
    sizes().by_address.erase(found);
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_mps_memcpy(void* buffer, size_t constant_offset, size_t bytes_read,
                                     size_t data_size, uint8_t* constants_start) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(buffer);
    AOTIP_CHECK_ARG(constants_start);
    char* dst = static_cast<char*>(buffer) + constant_offset;
    mps::BufferSlice slice;
    AOTIP_RETURN_IF_FAILED(mps::BufferIndex::instance().find(dst, data_size, &slice));
    AOTIP_RETURN_IF_FAILED(finish_current());
    std::memcpy(dst, constants_start + bytes_read, data_size);
    return Status::kOk;
  });
}

AOTITorchError aoti_torch_mps_copy_buffer(void* src_buffer, void* dst_buffer, size_t data_size,
                                          size_t src_offset, size_t dst_offset) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_ARG(src_buffer);
    AOTIP_CHECK_ARG(dst_buffer);
    const char* src = static_cast<const char*>(src_buffer) + src_offset;
    char* dst = static_cast<char*>(dst_buffer) + dst_offset;
    mps::BufferSlice slice;
    AOTIP_RETURN_IF_FAILED(mps::BufferIndex::instance().find(src, data_size, &slice));
    AOTIP_RETURN_IF_FAILED(mps::BufferIndex::instance().find(dst, data_size, &slice));
    AOTIP_RETURN_IF_FAILED(finish_current());
    std::memmove(dst, src, data_size);
    return Status::kOk;
  });
}
