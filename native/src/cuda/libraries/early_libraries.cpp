#include "cuda/libraries/early_libraries.h"

#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>

#include "cuda/driver/gpu.h"
#include "cuda/libraries/cublaslt.h"
#include "cuda/libraries/cudnn.h"
#include "delegate/fork_gate.h"

namespace aoti_plugins::cuda {
namespace {

/// A library, and the shims that call it. Must match matmul_shims.cpp, scaled_matmul_shims.cpp and
/// conv_shims.cpp.
struct Opener {
  void (*open)(int32_t gpu);
  const char* const* shims;
  size_t count;
};

void open_cublaslt(int32_t gpu) {
  const ContextGuard guard;
  if (use_gpu(gpu) == Status::kOk) {
    (void)lt::handle_for(gpu);
  }
}

void open_cudnn(int32_t) {
  (void)dnn::open();
}

constexpr const char* kProducts[] = {"aoti_torch_cuda_mm_out",
                                     "aoti_torch_cuda_addmm_out",
                                     "aoti_torch_cuda_bmm_out",
                                     "aoti_torch_cuda_baddbmm_out",
                                     "aoti_torch_cuda__addmm_activation",
                                     "aoti_torch_cuda__int_mm_out",
                                     "aoti_torch_cuda__scaled_mm",
                                     "aoti_torch_cuda__scaled_mm_out"};
constexpr const char* kConvolutions[] = {"aoti_torch_cuda_convolution"};

constexpr Opener kOpeners[] = {{open_cublaslt, kProducts, std::size(kProducts)},
                               {open_cudnn, kConvolutions, std::size(kConvolutions)}};

bool names_one(const std::vector<std::string>& symbols, const Opener& opener) {
  return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
    return std::find(opener.shims, opener.shims + opener.count, symbol) !=
           opener.shims + opener.count;
  });
}

/// Says once for each opener and GPU that it is to be done.
bool is_first(size_t opener, int32_t gpu) {
  static std::atomic<uint64_t> begun[std::size(kOpeners)] = {};
  const uint64_t bit = uint64_t{1} << (static_cast<uint32_t>(gpu) % 64);
  return (begun[opener].fetch_or(bit) & bit) == 0;
}

}  // namespace

EarlyLibraries::EarlyLibraries(const std::vector<std::string>& symbols, int32_t gpu) noexcept {
  try {
    std::vector<void (*)(int32_t)> wanted;
    for (size_t i = 0; i < std::size(kOpeners); ++i) {
      if (names_one(symbols, kOpeners[i]) && is_first(i, gpu)) {
        wanted.push_back(kOpeners[i].open);
      }
    }
    if (!wanted.empty()) {
      thread_ = std::thread([wanted, gpu] {
        work_for_others_inside();  // a child of a fork meanwhile cannot use CUDA anyway
        for (const auto open : wanted) {
          open(gpu);
        }
      });
    }
  } catch (const std::exception& error) {
    ET_LOG(Info, "AotiCudaBackend: libraries are opened by the first call: %s", error.what());
  }
}

EarlyLibraries::~EarlyLibraries() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace aoti_plugins::cuda
