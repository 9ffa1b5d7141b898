#include "cuda/libraries/cufft.h"

#include <exception>
#include <map>
#include <mutex>
#include <tuple>

#include "cuda/driver/capture.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/stream.h"
#include "cuda/libraries/library_search.h"

namespace aoti_plugins::cuda::fft {
namespace {

struct Plans {
  std::mutex mutex;
  std::multimap<Shape, PlanScope::Plan> unused;
  uint64_t uses = 0;
};

Plans& plans() {
  static Plans* instance = new Plans();
  return *instance;
}

const char* text(Result result) {
  constexpr struct {
    Result code;
    const char* name;
  } kNames[] = {{2, "CUFFT_ALLOC_FAILED"}, {4, "CUFFT_INVALID_VALUE"}, {5, "CUFFT_INTERNAL_ERROR"},
                {6, "CUFFT_EXEC_FAILED"},  {7, "CUFFT_SETUP_FAILED"},  {8, "CUFFT_INVALID_SIZE"}};
  for (const auto& entry : kNames) {
    if (entry.code == result) {
      return entry.name;
    }
  }
  return "result";
}

#define AOTIP_FFT(library, function, ...)                                                     \
  do {                                                                                        \
    const Result aotip_fft = (library).function(__VA_ARGS__);                                 \
    AOTIP_CHECK(aotip_fft == kSuccess, "cufft" #function " failed: %s (%d)", text(aotip_fft), \
                aotip_fft);                                                                   \
  } while (0)

Status load(Library* table) {
  const bool has_13 = driver_has_cuda_13();
  void* library = open_library({"cuFFT", "AOTI_PLUGINS_CUFFT", "libcufft.so.",
                                has_13 ? "12 11" : "11", "nvidia/cu13/lib nvidia/cufft/lib",
                                has_13 ? "Install it: pip install nvidia-cufft"
                                       : "Install it: pip install nvidia-cufft-cu12"});
  AOTIP_RETURN_IF_NULL(library);
  const char* missing = nullptr;
#define AOTIP_FFT_FIND(function) \
  find_function(library, "cufft" #function, &table->function, &missing)
  AOTIP_FFT_FIND(Create);
  AOTIP_FFT_FIND(Destroy);
  AOTIP_FFT_FIND(SetAutoAllocation);
  AOTIP_FFT_FIND(MakePlanMany64);
  AOTIP_FFT_FIND(SetStream);
  AOTIP_FFT_FIND(SetWorkArea);
  AOTIP_FFT_FIND(XtExec);
#undef AOTIP_FFT_FIND
  AOTIP_CHECK(missing == nullptr, "cuFFT lacks %s", missing);
  return Status::kOk;
}

bool take(const Shape& shape, PlanScope::Plan* ret) {
  const std::lock_guard<std::mutex> lock(plans().mutex);
  const auto found = plans().unused.find(shape);
  if (found == plans().unused.end()) {
    return false;
  }
  *ret = found->second;
  plans().unused.erase(found);
  return true;
}

/// The plan that may be destroyed and was used longest ago, taken out of the unused ones.
bool take_oldest(PlanScope::Plan* ret) {
  auto& unused = plans().unused;
  auto oldest = unused.end();
  size_t count = 0;
  for (auto it = unused.begin(); it != unused.end(); ++it) {
    if (it->second.in_graph) {
      continue;
    }
    ++count;
    if (oldest == unused.end() || it->second.last_use < oldest->second.last_use) {
      oldest = it;
    }
  }
  if (count <= PlanScope::kKeptPlans) {
    return false;
  }
  *ret = oldest->second;
  unused.erase(oldest);
  return true;
}

void give_back(const Shape& shape, PlanScope::Plan plan) {
  PlanScope::Plan old;
  {
    const std::lock_guard<std::mutex> lock(plans().mutex);
    plan.last_use = ++plans().uses;
    plans().unused.emplace(shape, plan);
    if (!take_oldest(&old)) {
      return;
    }
  }
  (void)open()->Destroy(old.handle);
}

Status make_plan(const Library& library, const Shape& shape, PlanScope::Plan* plan) {
  AOTIP_FFT(library, SetAutoAllocation, plan->handle, 0);
  Shape copy = shape;
  AOTIP_FFT(library, MakePlanMany64, plan->handle, copy.rank, copy.sizes.data(), nullptr, 1, 1,
            nullptr, 1, 1, copy.kind, copy.batch, &plan->workspace_nbytes);
  return Status::kOk;
}

}  // namespace

const Library* open() noexcept {
  static OpenedOnce<Library> library;
  return library.get(load);
}

bool Shape::operator<(const Shape& other) const noexcept {
  return std::tie(gpu, kind, rank, sizes, batch) <
         std::tie(other.gpu, other.kind, other.rank, other.sizes, other.batch);
}

PlanScope::PlanScope(const Shape& shape) noexcept : shape_(shape) {
  try {
    status_ = make_ready();
  } catch (const std::exception& error) {
    (void)fail("cuFFT: %s", error.what());
  }
}

PlanScope::~PlanScope() {
  if (!made_) {
    return;
  }
  try {
    if (status_ == Status::kOk) {
      give_back(shape_, plan_);
      return;
    }
  } catch (const std::exception&) {
    // Without host memory to remember it, the plan goes.
  }
  (void)open()->Destroy(plan_.handle);
}

Status PlanScope::make_ready() {
  const Library* library = open();
  AOTIP_RETURN_IF_NULL(library);
  bool captured = false;
  AOTIP_RETURN_IF_FAILED(is_captured(&captured));
  made_ = take(shape_, &plan_);
  if (!made_) {
    AOTIP_RETURN_IF_FAILED(refuse_in_capture("a plan for a new size of transform"));
    AOTIP_FFT(*library, Create, &plan_.handle);
    made_ = true;
    AOTIP_RETURN_IF_FAILED(make_plan(*library, shape_, &plan_));
  }
  plan_.in_graph = plan_.in_graph || captured;
  AOTIP_FFT(*library, SetStream, plan_.handle, current_stream().handle);
  return Status::kOk;
}

Status PlanScope::run(void* in, void* out, Direction direction, void* workspace) const noexcept {
  const Library& library = *open();
  AOTIP_FFT(library, SetWorkArea, plan_.handle, workspace);
  AOTIP_FFT(library, XtExec, plan_.handle, in, out, direction);
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda::fft
