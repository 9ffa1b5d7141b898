#include "cuda/cudnn.h"

#include <atomic>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/driver.h"
#include "cuda/library_search.h"
#include "cuda/stream.h"

namespace aoti_plugins::cuda::dnn {
namespace {

std::atomic<const Library*> opened{nullptr};

struct Handles {
  std::mutex mutex;
  std::map<int32_t, std::vector<Handle>> unused;
};

Handles& handles() {
  static Handles* instance = new Handles();
  return *instance;
}

Status load(Library* table) {
  const bool has_13 = driver_has_cuda_13();
  void* library =
      open_library({"cuDNN", "AOTI_PLUGINS_CUDNN", "libcudnn.so.", "9", "nvidia/cudnn/lib",
                    has_13 ? "Install it: pip install nvidia-cudnn-cu13"
                           : "Install it: pip install nvidia-cudnn-cu12"});
  if (library == nullptr) {
    return Status::kFailed;
  }
  const char* missing = nullptr;
#define AOTIP_DNN_FIND(function) \
  find_function(library, "cudnn" #function, &table->function, &missing)
  AOTIP_DNN_FIND(Create);
  AOTIP_DNN_FIND(SetStream);
  AOTIP_DNN_FIND(GetErrorString);
  AOTIP_DNN_FIND(CreateTensorDescriptor);
  AOTIP_DNN_FIND(DestroyTensorDescriptor);
  AOTIP_DNN_FIND(SetTensorNdDescriptor);
  AOTIP_DNN_FIND(CreateFilterDescriptor);
  AOTIP_DNN_FIND(DestroyFilterDescriptor);
  AOTIP_DNN_FIND(SetFilterNdDescriptor);
  AOTIP_DNN_FIND(CreateConvolutionDescriptor);
  AOTIP_DNN_FIND(DestroyConvolutionDescriptor);
  AOTIP_DNN_FIND(SetConvolutionNdDescriptor);
  AOTIP_DNN_FIND(SetConvolutionGroupCount);
  AOTIP_DNN_FIND(SetConvolutionMathType);
  AOTIP_DNN_FIND(GetConvolutionForwardAlgorithm_v7);
  AOTIP_DNN_FIND(GetConvolutionForwardWorkspaceSize);
  AOTIP_DNN_FIND(ConvolutionForward);
  AOTIP_DNN_FIND(GetConvolutionBackwardDataAlgorithm_v7);
  AOTIP_DNN_FIND(GetConvolutionBackwardDataWorkspaceSize);
  AOTIP_DNN_FIND(ConvolutionBackwardData);
  AOTIP_DNN_FIND(AddTensor);
#undef AOTIP_DNN_FIND
  AOTIP_CHECK(missing == nullptr, "cuDNN lacks %s", missing);
  return Status::kOk;
}

Handle take(int32_t gpu) {
  const std::lock_guard<std::mutex> lock(handles().mutex);
  std::vector<Handle>& unused = handles().unused[gpu];
  if (unused.empty()) {
    return nullptr;
  }
  const Handle handle = unused.back();
  unused.pop_back();
  return handle;
}

/// A handle of the current GPU, on the current stream.
Status make_ready(int32_t gpu, Handle* ret) {
  const Library* library = open();
  if (library == nullptr) {
    return Status::kFailed;
  }
  *ret = take(gpu);
  if (*ret == nullptr) {
    AOTIP_DNN(*library, Create, ret);
  }
  AOTIP_DNN(*library, SetStream, *ret, current_stream().handle);
  return Status::kOk;
}

void give_back(int32_t gpu, Handle handle) {
  const std::lock_guard<std::mutex> lock(handles().mutex);
  handles().unused[gpu].push_back(handle);
}

}  // namespace

const Library* open() noexcept {
  if (const Library* known = opened.load(std::memory_order_acquire)) {
    return known;
  }
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (const Library* known = opened.load(std::memory_order_acquire)) {
    return known;
  }
  static Library table{};
  if (load(&table) != Status::kOk) {
    return nullptr;
  }
  opened.store(&table, std::memory_order_release);
  return &table;
}

HandleScope::HandleScope(int32_t gpu) noexcept : gpu_(gpu) {
  try {
    Handle handle = nullptr;
    if (make_ready(gpu, &handle) == Status::kOk) {
      handle_ = handle;
    } else if (handle != nullptr) {
      give_back(gpu, handle);
    }
  } catch (const std::exception& error) {
    (void)fail("cuDNN: %s", error.what());
  }
}

HandleScope::~HandleScope() {
  try {
    if (handle_ != nullptr) {
      give_back(gpu_, handle_);
    }
  } catch (const std::exception&) {
    // Without host memory to remember it, the handle is lost.
  }
}

const char* result_text(const Library& library, Result result) noexcept {
  thread_local char text[96];
  std::snprintf(text, sizeof(text), "%s (%d)", library.GetErrorString(result), result);
  return text;
}

}  // namespace aoti_plugins::cuda::dnn
