// A token that is drawn by its logits.

#include <aoti_plugins/cuda_shim.h>

#include <algorithm>
#include <cstdint>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/kernels/drawn_token.h"
#include "ops/operand.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

namespace {

constexpr int64_t kSettings = 6;

Status check_vector(const Tensor& tensor, const char* name) {
  AOTIP_RETURN_IF_FAILED(ops::check_on(tensor, name, kCuda));
  AOTIP_CHECK(tensor.dtype() == kFloat64 && tensor.ndim() == 1 && tensor.is_contiguous(),
              "%s is not a float64 vector without gaps", name);
  return Status::kOk;
}

Status check(const Tensor& logits, const Tensor& settings) {
  AOTIP_RETURN_IF_FAILED(check_vector(logits, "logits"));
  AOTIP_RETURN_IF_FAILED(check_vector(settings, "settings"));
  AOTIP_CHECK(logits.device() == settings.device(), "logits and settings are on different GPUs");
  AOTIP_CHECK(settings.numel() == kSettings, "settings has %lld numbers, expected %lld",
              static_cast<long long>(settings.numel()), static_cast<long long>(kSettings));
  AOTIP_CHECK(logits.numel() > 0 && logits.numel() <= cuda::kMostDrawn,
              "%lld logits, expected 1 to %lld", static_cast<long long>(logits.numel()),
              static_cast<long long>(cuda::kMostDrawn));
  return Status::kOk;
}

/// Memory of a GPU for work on the current stream.
OwnedTensor make_bytes(int64_t nbytes, Device device) {
  return OwnedTensor(Tensor::empty(1, &nbytes, kUInt8, device));
}

Status draw_token(const Tensor& logits, const Tensor& settings, AtenTensorHandle* ret0) {
  AOTIP_RETURN_IF_FAILED(check(logits, settings));
  const cuda::ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(cuda::use_gpu(logits.device().index));
  const int64_t one = 1;
  const int64_t n_tokens = logits.numel();
  OwnedTensor token(Tensor::empty(1, &one, kInt64, logits.device()));
  const OwnedTensor state = make_bytes(sizeof(cuda::DrawState), logits.device());
  const OwnedTensor listed =
      make_bytes(n_tokens * static_cast<int64_t>(sizeof(uint32_t)), logits.device());
  if (token == nullptr || state == nullptr || listed == nullptr) {
    return Status::kFailed;
  }
  const auto count = static_cast<uint32_t>(n_tokens);
  const uint32_t wanted = (count + cuda::kDrawThreads - 1) / cuda::kDrawThreads;
  const uint32_t most = std::min(wanted, cuda::kMostDrawBlocks);
  const uint32_t per_block = (count + most - 1) / most;
  const uint32_t blocks = (count + per_block - 1) / per_block;  // each has a token
  cuda::Draw draw{static_cast<const double*>(logits.data()),
                  static_cast<const double*>(settings.data()),
                  static_cast<int64_t*>(token->data()),
                  static_cast<cuda::DrawState*>(state->data()),
                  static_cast<uint32_t*>(listed->data()),
                  count,
                  per_block};
  void* arguments[] = {&draw};
  for (const char* kernel : {"aotip_draw_likeliest", "aotip_draw_bins", "aotip_draw_top_k",
                             "aotip_draw_top_p", "aotip_draw_number"}) {
    AOTIP_RETURN_IF_FAILED(cuda::launch_early(logits.device().index, kernel,
                                              {blocks, cuda::kDrawThreads, 0}, arguments));
  }
  return give(token.release(), ret0);
}

}  // namespace

AOTITorchError aoti_torch_cuda_drawn_token(AtenTensorHandle logits, AtenTensorHandle settings,
                                           AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(logits, settings);
    AOTIP_CHECK_ARG(ret0);
    return draw_token(*unwrap(logits), *unwrap(settings), ret0);
  });
}
