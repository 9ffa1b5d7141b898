#include "cuda/ops/gemm.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <unordered_map>

#include "cuda/driver/gpu.h"
#include "cuda/driver/stream.h"
#include "cuda/memory/workspace.h"

namespace aoti_plugins::cuda {
namespace {

// As PyTorch's: Hopper's and later kernels use more.
constexpr size_t kWorkspaceNbytes = size_t{8} << 20;
constexpr size_t kLargeWorkspaceNbytes = size_t{32} << 20;
constexpr size_t kMaxPlans = 4096;

/// All that the choice of a kernel depends on.
using Key = std::array<int64_t, 25>;

struct HashKey {
  size_t operator()(const Key& key) const noexcept {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (int64_t value : key) {
      hash = (hash ^ static_cast<uint64_t>(value)) * 0xff51afd7ed558ccdu;
      hash ^= hash >> 32;
    }
    return static_cast<size_t>(hash);
  }
};

/// The largest power of two, up to 256, that divides an address.
uint32_t alignment_of(const void* ptr) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(ptr) | 256;
  return static_cast<uint32_t>(address & ~(address - 1));
}

Key key_of(const Gemm& g, int32_t gpu) {
  return {gpu,
          g.m,
          g.n,
          g.k,
          g.batch,
          g.input_type,
          g.second_type,
          g.output_type,
          g.compute,
          static_cast<int64_t>(g.epilogue),
          g.beta != 0.0,
          (g.a.transposed ? 1 : 0) + (g.b.transposed ? 2 : 0),
          g.a.leading,
          g.b.leading,
          g.c.leading,
          g.d.leading,
          g.a.batch_stride,
          g.b.batch_stride,
          g.c.batch_stride,
          g.d.batch_stride,
          int64_t{alignment_of(g.a.data)} << 32 | alignment_of(g.b.data),
          int64_t{alignment_of(g.c.data)} << 32 | alignment_of(g.d.data),
          g.bias != nullptr ? int64_t{alignment_of(g.bias)} << 32 | g.bias_type : 0,
          (g.a_scale != nullptr ? 1 : 0) + (g.d_scale != nullptr ? 2 : 0) +
              (g.fast_accumulation ? 4 : 0),
          g.scale_mode};
}

/// cuBLASLt's descriptors of one problem, and the kernel that it chose.
class Plan {
 public:
  Plan() = default;
  ~Plan() {
    for (lt::MatrixLayout layout : {a_, b_, c_, d_}) {
      if (layout != nullptr) {
        (void)library_->MatrixLayoutDestroy(layout);
      }
    }
    if (desc_ != nullptr) {
      (void)library_->MatmulDescDestroy(desc_);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  Status create(const Gemm& g, const Gpu& gpu) {
    library_ = lt::open();
    handle_ = library_ != nullptr ? lt::handle_for(gpu.index) : nullptr;
    AOTIP_RETURN_IF_NULL(handle_);
    AOTIP_RETURN_IF_FAILED(describe(g));
    lt::Preference preference = nullptr;
    AOTIP_LT(*library_, MatmulPreferenceCreate, &preference);
    const Status status = choose(g, gpu, preference);
    (void)library_->MatmulPreferenceDestroy(preference);
    return status;
  }

  Status run(const Gemm& g, void* workspace) {
    if (g.bias != nullptr) {
      AOTIP_RETURN_IF_FAILED(set(lt::kDescBiasPointer, g.bias));
    }
    AOTIP_RETURN_IF_FAILED(set_scales(g));
    union Scalar {
      float f32;
      double f64;
      int32_t i32;
    };
    Scalar alpha;
    Scalar beta;
    if (g.scale_type == CUDA_R_64F) {
      alpha.f64 = g.alpha;
      beta.f64 = g.beta;
    } else if (g.scale_type == CUDA_R_32I) {
      alpha.i32 = static_cast<int32_t>(g.alpha);
      beta.i32 = static_cast<int32_t>(g.beta);
    } else {
      alpha.f32 = static_cast<float>(g.alpha);
      beta.f32 = static_cast<float>(g.beta);
    }
    AOTIP_LT(*library_, Matmul, handle_, desc_, &alpha, g.a.data, a_, g.b.data, b_, &beta, g.c.data,
             c_, const_cast<void*>(g.d.data), d_, &chosen_.algorithm, workspace,
             chosen_.workspace_nbytes, current_stream().handle);
    return Status::kOk;
  }

  size_t workspace_nbytes() const { return chosen_.workspace_nbytes; }

 private:
  template <typename T>
  Status set(lt::MatmulDescAttribute which, const T& value) {
    AOTIP_LT(*library_, MatmulDescSetAttribute, desc_, which, &value, sizeof(value));
    return Status::kOk;
  }

  Status set_scales(const Gemm& g) {
    if (g.a_scale == nullptr) {
      return Status::kOk;
    }
    AOTIP_RETURN_IF_FAILED(set(lt::kDescAScalePointer, g.a_scale));
    AOTIP_RETURN_IF_FAILED(set(lt::kDescBScalePointer, g.b_scale));
    return g.d_scale != nullptr ? set(lt::kDescDScalePointer, g.d_scale) : Status::kOk;
  }

  Status layout(lt::MatrixLayout* ret, cudaDataType type, int64_t rows, int64_t cols,
                const GemmOperand& operand, int64_t batch) {
    AOTIP_LT(*library_, MatrixLayoutCreate, ret, type,
             static_cast<uint64_t>(operand.transposed ? cols : rows),
             static_cast<uint64_t>(operand.transposed ? rows : cols), operand.leading);
    if (batch > 1) {
      const int32_t count = static_cast<int32_t>(batch);
      AOTIP_LT(*library_, MatrixLayoutSetAttribute, *ret, lt::kLayoutBatchCount, &count,
               sizeof(count));
      AOTIP_LT(*library_, MatrixLayoutSetAttribute, *ret, lt::kLayoutBatchStride,
               &operand.batch_stride, sizeof(operand.batch_stride));
    }
    return Status::kOk;
  }

  Status describe(const Gemm& g) {
    AOTIP_LT(*library_, MatmulDescCreate, &desc_, g.compute, g.scale_type);
    AOTIP_RETURN_IF_FAILED(set(lt::kDescTransA, g.a.transposed ? lt::kTranspose : lt::kNone));
    AOTIP_RETURN_IF_FAILED(set(lt::kDescTransB, g.b.transposed ? lt::kTranspose : lt::kNone));
    if (g.epilogue != lt::kDefault) {
      AOTIP_RETURN_IF_FAILED(set(lt::kDescEpilogue, g.epilogue));
    }
    if (g.bias != nullptr) {
      AOTIP_RETURN_IF_FAILED(set(lt::kDescBiasPointer, g.bias));
      AOTIP_RETURN_IF_FAILED(set(lt::kDescBiasDataType, static_cast<int32_t>(g.bias_type)));
    }
    if (g.a_scale != nullptr) {
      AOTIP_RETURN_IF_FAILED(set_scales(g));
      AOTIP_RETURN_IF_FAILED(
          set(lt::kDescFastAccumulation, static_cast<int8_t>(g.fast_accumulation ? 1 : 0)));
    }
    if (g.scale_mode != lt::kScaleScalar) {
      AOTIP_RETURN_IF_FAILED(set(lt::kDescAScaleMode, g.scale_mode));
      AOTIP_RETURN_IF_FAILED(set(lt::kDescBScaleMode, g.scale_mode));
    }
    AOTIP_RETURN_IF_FAILED(layout(&a_, g.input_type, g.m, g.k, g.a, g.batch));
    AOTIP_RETURN_IF_FAILED(layout(&b_, g.second_type, g.k, g.n, g.b, g.batch));
    AOTIP_RETURN_IF_FAILED(layout(&c_, g.output_type, g.m, g.n, g.c, g.batch));
    return layout(&d_, g.output_type, g.m, g.n, g.d, g.batch);
  }

  Status choose(const Gemm& g, const Gpu& gpu, lt::Preference preference) {
    const auto prefer = [&](lt::PreferenceAttribute which, auto value) {
      AOTIP_LT(*library_, MatmulPreferenceSetAttribute, preference, which, &value, sizeof(value));
      return Status::kOk;
    };
    const uint64_t workspace = gpu.major >= 9 ? kLargeWorkspaceNbytes : kWorkspaceNbytes;
    AOTIP_RETURN_IF_FAILED(prefer(lt::kMaxWorkspaceNbytes, workspace));
    // Else sums of parts of k may be added in the result's dtype, and rounded each time.
    AOTIP_RETURN_IF_FAILED(
        prefer(lt::kReductionSchemes, lt::kNoReduction | lt::kReductionInComputeType));
    AOTIP_RETURN_IF_FAILED(prefer(lt::kMinAlignmentA, alignment_of(g.a.data)));
    AOTIP_RETURN_IF_FAILED(prefer(lt::kMinAlignmentB, alignment_of(g.b.data)));
    AOTIP_RETURN_IF_FAILED(prefer(lt::kMinAlignmentC, alignment_of(g.c.data)));
    AOTIP_RETURN_IF_FAILED(prefer(lt::kMinAlignmentD, alignment_of(g.d.data)));
    int count = 0;
    const lt::Result result = library_->MatmulAlgoGetHeuristic(handle_, desc_, a_, b_, c_, d_,
                                                               preference, 1, &chosen_, &count);
    AOTIP_CHECK(result == lt::kSuccess && count > 0 && chosen_.state == lt::kSuccess,
                "cuBLASLt has no kernel for %lld x %lld x %lld, batch %lld, types %d to %d: %s",
                static_cast<long long>(g.m), static_cast<long long>(g.n),
                static_cast<long long>(g.k), static_cast<long long>(g.batch),
                static_cast<int>(g.input_type), static_cast<int>(g.output_type),
                lt::result_text(result != lt::kSuccess ? result : lt::kNotSupported));
    return Status::kOk;
  }

  const lt::Library* library_ = nullptr;
  lt::Handle handle_ = nullptr;
  lt::MatmulDesc desc_ = nullptr;
  lt::MatrixLayout a_ = nullptr;
  lt::MatrixLayout b_ = nullptr;
  lt::MatrixLayout c_ = nullptr;
  lt::MatrixLayout d_ = nullptr;
  lt::Heuristic chosen_{};
};

/// The plan of a problem. Plans belong to a thread, since running one with a bias changes it; so no
/// lock is needed either.
Plan* plan_for(const Gemm& gemm, int32_t gpu_index) {
  thread_local std::unordered_map<Key, std::unique_ptr<Plan>, HashKey> plans;
  const Key key = key_of(gemm, gpu_index);
  const auto known = plans.find(key);
  if (known != plans.end()) {
    return known->second.get();
  }
  const Gpu* gpu = find_gpu(gpu_index);
  auto plan = std::make_unique<Plan>();
  if (gpu == nullptr || plan->create(gemm, *gpu) != Status::kOk) {
    return nullptr;
  }
  if (plans.size() >= kMaxPlans) {
    plans.clear();  // shapes without end
  }
  return (plans[key] = std::move(plan)).get();
}

Status run_plan(Plan& plan, const Gemm& gemm, int32_t gpu) {
  const Workspace workspace(plan.workspace_nbytes(), gpu);
  AOTIP_RETURN_IF_FAILED(workspace.status());
  return plan.run(gemm, workspace.data());
}

}  // namespace

Status prepare_gemm(const Gemm& gemm, int32_t gpu) noexcept {
  try {
    return plan_for(gemm, gpu) != nullptr ? Status::kOk : Status::kFailed;
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

Status reserve_gemm(const Gemm& gemm, int32_t gpu) noexcept {
  try {
    const Plan* plan = plan_for(gemm, gpu);
    return plan != nullptr ? Workspace(plan->workspace_nbytes(), gpu).status() : Status::kFailed;
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

Status run_gemm(const Gemm& gemm, int32_t gpu) noexcept {
  try {
    Plan* plan = plan_for(gemm, gpu);
    return plan != nullptr ? run_plan(*plan, gemm, gpu) : Status::kFailed;
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

}  // namespace aoti_plugins::cuda
