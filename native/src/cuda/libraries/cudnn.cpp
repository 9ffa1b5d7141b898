#include "cuda/libraries/cudnn.h"

#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/driver/capture.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/stream.h"
#include "cuda/libraries/library_search.h"

namespace aoti_plugins::cuda::dnn {
namespace {

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
  AOTIP_RETURN_IF_NULL(library);
  const char* missing = nullptr;
#define AOTIP_DNN_FIND(function) \
  find_function(library, "cudnn" #function, &table->function, &missing)
  AOTIP_DNN_FIND(Create);
  AOTIP_DNN_FIND(SetStream);
  AOTIP_DNN_FIND(GetErrorString);
  AOTIP_DNN_FIND(BackendCreateDescriptor);
  AOTIP_DNN_FIND(BackendDestroyDescriptor);
  AOTIP_DNN_FIND(BackendSetAttribute);
  AOTIP_DNN_FIND(BackendGetAttribute);
  AOTIP_DNN_FIND(BackendFinalize);
  AOTIP_DNN_FIND(BackendExecute);
  AOTIP_DNN_FIND(CreateTensorDescriptor);
  AOTIP_DNN_FIND(DestroyTensorDescriptor);
  AOTIP_DNN_FIND(SetTensorNdDescriptor);
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
  AOTIP_RETURN_IF_NULL(library);
  *ret = take(gpu);
  if (*ret == nullptr) {
    AOTIP_RETURN_IF_FAILED(refuse_in_capture("a handle of cuDNN"));
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
  static OpenedOnce<Library> library;
  return library.get(load);
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : library_(other.library_), opaque_(std::exchange(other.opaque_, nullptr)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(opaque_, other.opaque_);
  return *this;
}

Status Descriptor::create(const Library& library, DescriptorKind kind) noexcept {
  reset();
  library_ = &library;
  AOTIP_DNN(library, BackendCreateDescriptor, kind, &opaque_);
  return Status::kOk;
}

Status Descriptor::set(Attribute name, AttributeType type, const void* values,
                       int64_t count) noexcept {
  AOTIP_DNN(*library_, BackendSetAttribute, opaque_, name, type, count, values);
  return Status::kOk;
}

Status Descriptor::set(Attribute name, const int64_t* values, int64_t count) noexcept {
  return set(name, kTypeInt64, values, count);
}

Status Descriptor::set(Attribute name, const Descriptor& value) noexcept {
  return set(name, kTypeDescriptor, &value.opaque_);
}

Status Descriptor::get(Attribute name, AttributeType type, int64_t room, int64_t* ret_count,
                       void* values) const noexcept {
  AOTIP_DNN(*library_, BackendGetAttribute, opaque_, name, type, room, ret_count, values);
  return Status::kOk;
}

Status Descriptor::finalize() noexcept {
  AOTIP_DNN(*library_, BackendFinalize, opaque_);
  return Status::kOk;
}

void Descriptor::reset() noexcept {
  if (opaque_ != nullptr) {
    (void)library_->BackendDestroyDescriptor(opaque_);
    opaque_ = nullptr;
  }
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
