#include "cuda/ops/chosen_experts.h"

#include <cstdio>
#include <limits>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/kernels/experts.h"
#include "cuda/ops/aligned_rows.h"
#include "cuda/ops/small_weights.h"
#include "ops/operand.h"

namespace aoti_plugins::cuda {

Status chosen_experts(const Tensor& scores, int64_t chosen, bool is_normalised,
                      AtenTensorHandle* shares, AtenTensorHandle* experts) noexcept {
  AOTIP_RETURN_IF_FAILED(ops::check_on(scores, "scores", kCuda));
  const int32_t dtype = scores.dtype();
  AOTIP_CHECK(dtype == kFloat16 || dtype == kBFloat16 || dtype == kFloat32,
              "scores is %s, expected float16, bfloat16 or float32", dtype_name(dtype));
  AOTIP_CHECK(scores.ndim() == 2 && scores.size(1) > 0 && scores.size(1) <= kMostScores,
              "scores is not [rows, 1 to %d]", kMostScores);
  AOTIP_CHECK(chosen > 0 && chosen <= kMostChosen && chosen <= scores.size(1),
              "%lld of %lld experts, expected %d at most", static_cast<long long>(chosen),
              static_cast<long long>(scores.size(1)), kMostChosen);
  AOTIP_CHECK(scores.size(0) <= std::numeric_limits<int32_t>::max(), "too many rows");
  const ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(use_gpu(scores.device().index));
  OwnedTensor rows;
  AOTIP_RETURN_IF_FAILED(as_aligned_rows(scores, scores.size(0), scores.size(1), &rows));
  const int64_t sizes[] = {scores.size(0), chosen};
  OwnedTensor found(Tensor::empty(2, sizes, kFloat32, scores.device()));
  OwnedTensor numbers(Tensor::empty(2, sizes, kInt64, scores.device()));
  if (found == nullptr || numbers == nullptr) {
    return Status::kFailed;
  }
  if (scores.size(0) > 0) {
    int32_t lanes = 32;
    while (lanes * scores.size(1) > kMostScores) {
      lanes /= 2;
    }
    ExpertChoice choice{rows->data(),
                        static_cast<float*>(found->data()),
                        static_cast<int64_t*>(numbers->data()),
                        static_cast<int32_t>(scores.size(1)),
                        static_cast<int32_t>(chosen),
                        lanes,
                        is_normalised ? 1 : 0};
    char name[64];
    (void)std::snprintf(name, sizeof(name), "aotip_choose_experts_%s",
                        dtype == kFloat32 ? "f32" : kind_of_halves(scores));
    const auto threads = static_cast<unsigned int>((lanes * scores.size(1) + 31) / 32 * 32);
    void* arguments[] = {&choice};
    AOTIP_RETURN_IF_FAILED(launch_early(
        scores.device().index, name,
        {static_cast<unsigned int>(scores.size(0)), threads, sizeof(ExpertScores)}, arguments));
  }
  AOTIP_RETURN_IF_FAILED(give(found.release(), shares));
  return give(numbers.release(), experts);
}

}  // namespace aoti_plugins::cuda
