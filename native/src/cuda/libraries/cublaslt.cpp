#include "cuda/libraries/cublaslt.h"

#include <cstdio>
#include <map>
#include <mutex>

#include "cuda/driver/driver.h"
#include "cuda/libraries/library_search.h"

namespace aoti_plugins::cuda::lt {
namespace {

std::mutex& mutex() {
  static std::mutex* instance = new std::mutex();
  return *instance;
}

Status load(Library* table) {
  const bool has_13 = driver_has_cuda_13();
  void* library =
      open_library({"cuBLASLt", "AOTI_PLUGINS_CUBLASLT", "libcublasLt.so.", has_13 ? "13 12" : "12",
                    has_13 ? "nvidia/cu13/lib nvidia/cublas/lib" : "nvidia/cublas/lib",
                    has_13 ? "Install it: pip install 'nvidia-cublas>=13'"
                           : "Install it: pip install nvidia-cublas-cu12"});
  AOTIP_RETURN_IF_NULL(library);
  const char* missing = nullptr;
#define AOTIP_LT_FIND(function) \
  find_function(library, "cublasLt" #function, &table->function, &missing)
  AOTIP_LT_FIND(Create);
  AOTIP_LT_FIND(MatmulDescCreate);
  AOTIP_LT_FIND(MatmulDescDestroy);
  AOTIP_LT_FIND(MatmulDescSetAttribute);
  AOTIP_LT_FIND(MatrixLayoutCreate);
  AOTIP_LT_FIND(MatrixLayoutDestroy);
  AOTIP_LT_FIND(MatrixLayoutSetAttribute);
  AOTIP_LT_FIND(MatmulPreferenceCreate);
  AOTIP_LT_FIND(MatmulPreferenceDestroy);
  AOTIP_LT_FIND(MatmulPreferenceSetAttribute);
  AOTIP_LT_FIND(MatmulAlgoGetHeuristic);
  AOTIP_LT_FIND(Matmul);
#undef AOTIP_LT_FIND
  AOTIP_CHECK(missing == nullptr, "cuBLASLt lacks %s", missing);
  return Status::kOk;
}

}  // namespace

const Library* open() noexcept {
  static OpenedOnce<Library> library;
  return library.get(load);
}

Handle handle_for(int32_t gpu) noexcept {
  const Library* library = open();
  if (library == nullptr) {
    return nullptr;
  }
  static auto* handles = new std::map<int32_t, Handle>();
  const std::lock_guard<std::mutex> lock(mutex());
  Handle& handle = (*handles)[gpu];
  if (handle == nullptr) {
    const Result result = library->Create(&handle);
    if (result != kSuccess) {
      handle = nullptr;
      (void)fail("cublasLtCreate failed: %s", result_text(result));
    }
  }
  return handle;
}

const char* result_text(Result result) noexcept {
  const struct {
    Result code;
    const char* name;
  } names[] = {{1, "NOT_INITIALIZED"}, {3, "ALLOC_FAILED"},
               {7, "INVALID_VALUE"},   {8, "ARCH_MISMATCH"},
               {11, "MAPPING_ERROR"},  {13, "EXECUTION_FAILED"},
               {14, "INTERNAL_ERROR"}, {kNotSupported, "NOT_SUPPORTED"},
               {16, "LICENSE_ERROR"}};
  thread_local char text[64];
  const char* name = "unknown";
  for (const auto& entry : names) {
    name = entry.code == result ? entry.name : name;
  }
  std::snprintf(text, sizeof(text), "CUBLAS_STATUS_%s (%d)", name, result);
  return text;
}

}  // namespace aoti_plugins::cuda::lt
