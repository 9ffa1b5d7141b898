// A stand-in for cuFFT that computes on the host, term by term. It is as strict as the real one
// about the order of calls, the work area and alignment.

#include <cuda.h>

#include <atomic>
#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/libraries/cufft.h"

namespace {

using namespace aoti_plugins::cuda::fft;

constexpr Result kInvalidPlan = 1;
constexpr Result kInvalidValue = 4;
constexpr size_t kWorkspaceNbytes = 768;

struct Made {
  std::vector<int64_t> sizes;
  int64_t batch = 0;
  Kind kind = kC2C;
  bool automatic = true;
  CUstream stream = nullptr;
  void* workspace = nullptr;
};

std::mutex mutex;
std::map<Handle, std::shared_ptr<Made>> plans;
Handle next_handle = 1;

std::shared_ptr<Made> find(Handle handle) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = plans.find(handle);
  return found != plans.end() ? found->second : nullptr;
}

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (const int64_t size : sizes) {
    result *= size;
  }
  return result;
}

/// The places of the flat index `i`.
std::vector<int64_t> places(int64_t i, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> result(sizes.size());
  for (size_t d = sizes.size(); d-- > 0; i /= sizes[d]) {
    result[d] = i % sizes[d];
  }
  return result;
}

template <typename In, typename Real>
void transform(const Made& plan, const In* in, std::complex<Real>* out, double sign) {
  const bool real = plan.kind == kR2C || plan.kind == kD2Z;
  const int64_t numel = product(plan.sizes);
  std::vector<int64_t> out_sizes = plan.sizes;
  out_sizes.back() = real ? out_sizes.back() / 2 + 1 : out_sizes.back();
  const int64_t out_numel = product(out_sizes);
  for (int64_t b = 0; b < plan.batch; ++b) {
    std::vector<std::complex<double>> sums(static_cast<size_t>(out_numel));
    for (int64_t k = 0; k < out_numel; ++k) {
      const std::vector<int64_t> to = places(k, out_sizes);
      for (int64_t i = 0; i < numel; ++i) {
        const std::vector<int64_t> from = places(i, plan.sizes);
        double turns = 0.0;
        for (size_t d = 0; d < to.size(); ++d) {
          turns += static_cast<double>(to[d] * from[d]) / static_cast<double>(plan.sizes[d]);
        }
        sums[static_cast<size_t>(k)] += std::complex<double>(in[b * numel + i]) *
                                        std::polar(1.0, sign * 2.0 * 3.14159265358979324 * turns);
      }
    }
    for (int64_t k = 0; k < out_numel; ++k) {
      out[b * out_numel + k] = std::complex<Real>(sums[static_cast<size_t>(k)]);
    }
  }
}

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT Result cufftCreate(Handle* ret) {
  const std::lock_guard<std::mutex> lock(mutex);
  *ret = next_handle++;
  plans[*ret] = std::make_shared<Made>();
  return kSuccess;
}
FAKE_EXPORT Result cufftDestroy(Handle handle) {
  const std::lock_guard<std::mutex> lock(mutex);
  return plans.erase(handle) == 1 ? kSuccess : kInvalidPlan;
}
FAKE_EXPORT Result cufftSetAutoAllocation(Handle handle, int automatic) {
  const auto plan = find(handle);
  if (plan == nullptr) {
    return kInvalidPlan;
  }
  plan->automatic = automatic != 0;
  return kSuccess;
}
FAKE_EXPORT Result cufftMakePlanMany64(Handle handle, int rank, long long* sizes,
                                       long long* in_embed, long long, long long,
                                       long long* out_embed, long long, long long, Kind kind,
                                       long long batch, size_t* workspace_nbytes) {
  const auto plan = find(handle);
  if (plan == nullptr || !plan->sizes.empty()) {
    return kInvalidPlan;
  }
  if (rank < 1 || rank > kMaxRank || in_embed != nullptr || out_embed != nullptr || batch < 1) {
    return kInvalidValue;
  }
  plan->sizes.assign(sizes, sizes + rank);
  plan->batch = batch;
  plan->kind = kind;
  *workspace_nbytes = kWorkspaceNbytes;
  return product(plan->sizes) > 0 ? kSuccess : kInvalidValue;
}
FAKE_EXPORT Result cufftSetStream(Handle handle, CUstream stream) {
  const auto plan = find(handle);
  if (plan == nullptr) {
    return kInvalidPlan;
  }
  plan->stream = stream;
  return kSuccess;
}
FAKE_EXPORT Result cufftSetWorkArea(Handle handle, void* workspace) {
  const auto plan = find(handle);
  if (plan == nullptr) {
    return kInvalidPlan;
  }
  plan->workspace = workspace;
  return kSuccess;
}
FAKE_EXPORT Result cufftXtExec(Handle handle, void* in, void* out, Direction direction) {
  const auto plan = find(handle);
  if (plan == nullptr || plan->sizes.empty()) {
    return kInvalidPlan;
  }
  const bool wide = plan->kind == kZ2Z || plan->kind == kD2Z;
  const uintptr_t mask = wide ? 15 : 7;
  if (plan->automatic || plan->workspace == nullptr ||
      ((reinterpret_cast<uintptr_t>(in) | reinterpret_cast<uintptr_t>(out)) & mask) != 0) {
    return kInvalidValue;
  }
  (void)cuStreamSynchronize(plan->stream);
  const auto sign = static_cast<double>(direction);
  switch (plan->kind) {
    case kC2C: {
      const auto* from = static_cast<const std::complex<float>*>(in);
      transform(*plan, from, static_cast<std::complex<float>*>(out), sign);
      return kSuccess;
    }
    case kZ2Z: {
      const auto* from = static_cast<const std::complex<double>*>(in);
      transform(*plan, from, static_cast<std::complex<double>*>(out), sign);
      return kSuccess;
    }
    case kR2C:
      transform(*plan, static_cast<const float*>(in), static_cast<std::complex<float>*>(out), -1.0);
      return kSuccess;
    case kD2Z:
      transform(*plan, static_cast<const double*>(in), static_cast<std::complex<double>*>(out),
                -1.0);
      return kSuccess;
  }
  return kInvalidValue;
}

/// How many plans there are.
FAKE_EXPORT size_t fake_cufft_plans() {
  const std::lock_guard<std::mutex> lock(mutex);
  return plans.size();
}
