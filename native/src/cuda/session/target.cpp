#include "cuda/session/target.h"

#include <algorithm>
#include <charconv>
#include <exception>

#include "delegate/target.h"

namespace aoti_plugins::cuda {
namespace {

/// The number behind `prefix`, and an `a` behind it where `suffix` allows; false for other text.
bool parse(const std::string& feature, const std::string& prefix, uint64_t* ret_number,
           bool* ret_suffix) {
  if (feature.compare(0, prefix.size(), prefix) != 0) {
    return false;
  }
  const char* end = feature.data() + feature.size();
  const auto parsed = std::from_chars(feature.data() + prefix.size(), end, *ret_number);
  *ret_suffix = parsed.ptr + 1 == end && *parsed.ptr == 'a';
  return parsed.ec == std::errc() && (parsed.ptr == end || *ret_suffix);
}

/// What one feature says about a GPU.
struct Verdict {
  bool code = false;  ///< it names code, of which one must fit
  bool fits = false;
  int32_t fit = 0;
};

Verdict judge(const std::string& feature, const Gpu& gpu) {
  Verdict verdict;
  uint64_t number = 0;
  bool exactly = false;
  if (parse(feature, "sm_", &number, &exactly)) {
    verdict.code = true;
    const bool same = number == gpu.arch();
    verdict.fits = exactly ? same : number / 10 == gpu.arch() / 10 && number <= gpu.arch();
    verdict.fit =
        same ? static_cast<int32_t>(TargetFit::kExact)
             : static_cast<int32_t>(TargetFit::kSameMajor) + static_cast<int32_t>(number % 10);
  } else if (parse(feature, "compute_", &number, &exactly) && !exactly) {
    verdict.code = true;
    verdict.fits = number <= gpu.arch();
    verdict.fit = static_cast<int32_t>(TargetFit::kPtx);
  } else if (parse(feature, "shared_memory_", &number, &exactly) && !exactly) {
    verdict.fits = number <= gpu.shared_memory_nbytes;
  }
  return verdict;
}

std::string describe(const std::vector<Gpu>& gpus) {
  std::string text;
  for (const Gpu& gpu : gpus) {
    text += (text.empty() ? "" : ", ") + std::string("cuda:") + std::to_string(gpu.index) + " " +
            gpu.name + " (sm_" + std::to_string(gpu.arch()) + ", " +
            std::to_string(gpu.shared_memory_nbytes) + " bytes of shared memory per block)";
  }
  return text.empty() ? "no GPU" : text;
}

}  // namespace

int32_t target_fit(const TargetArtifact& target, const Gpu& gpu) {
  if (target.machine != host_machine()) {
    return 0;
  }
  int32_t best = 0;
  for (const std::string& feature : target.features) {
    const Verdict verdict = judge(feature, gpu);
    if (verdict.code && verdict.fits) {
      best = std::max(best, verdict.fit);
    } else if (!verdict.code && !verdict.fits) {
      return 0;
    }
  }
  return best;
}

Status choose_gpu_target(const Payload& payload, const Gpu& gpu, const std::vector<Gpu>& all,
                         const TargetArtifact** ret) noexcept {
  try {
    const TargetArtifact* best = nullptr;
    int32_t best_fit = 0;
    for (const TargetArtifact& target : payload.targets) {
      const int32_t fit = target_fit(target, gpu);
      if (fit > best_fit) {
        best = &target;
        best_fit = fit;
      }
    }
    AOTIP_CHECK(best != nullptr,
                "no code for GPU cuda:%d of this %s machine. The program was made for %s; here is "
                "%s. Lower the model for this GPU.",
                gpu.index, host_machine(), describe_targets(payload).c_str(),
                describe(all).c_str());
    *ret = best;
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("choosing a target: %s", error.what());
  }
}

}  // namespace aoti_plugins::cuda
