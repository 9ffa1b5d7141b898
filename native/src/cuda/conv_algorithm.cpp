#include "cuda/conv_algorithm.h"

#include <algorithm>
#include <array>
#include <climits>
#include <exception>
#include <map>
#include <mutex>

#include "cuda/tf32.h"

namespace aoti_plugins::cuda {
namespace {

// More buys little, and every stream keeps the largest that it has used.
constexpr size_t kMaxWorkspaceNbytes = size_t{256} << 20;

constexpr int kMaxDims = 5;

dnn::DataType data_type(int32_t dtype) {
  switch (dtype) {
    case kFloat64:
      return dnn::kDouble;
    case kFloat16:
      return dnn::kHalf;
    case kBFloat16:
      return dnn::kBFloat;
    default:
      return dnn::kFloat;
  }
}

/// Tensor cores as PyTorch has it: for float16 and bfloat16 always, for float32 where TF32 is
/// allowed.
dnn::MathType math_type(int32_t dtype) {
  if (dtype == kFloat32) {
    return tf32().convolution ? dnn::kDefaultMath : dnn::kFmaMath;
  }
  return dtype == kFloat16 ? dnn::kTensorOpMath : dnn::kDefaultMath;
}

/// cuDNN wants two spatial dims or more; a plan has three, the last ones used.
int spatial_ndim(const ConvPlan& plan) {
  return static_cast<int>(std::max<int64_t>(plan.spatial_ndim, 2));
}

/// The spatial numbers that cuDNN wants, out of the three of a plan.
std::array<int, 3> spatial(const ConvPlan& plan, const int64_t (&values)[3]) {
  const int ndim = spatial_ndim(plan);
  std::array<int, 3> result{};
  for (int d = 0; d < ndim; ++d) {
    result[static_cast<size_t>(d)] = static_cast<int>(values[3 - ndim + d]);
  }
  return result;
}

using Key = std::array<int64_t, 27>;

Key key_of(const ConvPlan& p, int32_t dtype, int32_t gpu) {
  Key key{gpu,           dtype,          p.spatial_ndim, p.transposed ? 1 : 0,   p.batch,
          p.in_channels, p.out_channels, p.groups,       p.channels_last ? 1 : 0};
  size_t at = 9;
  for (const auto* list : {&p.in, &p.kernel, &p.stride, &p.padding, &p.dilation}) {
    for (int64_t value : *list) {
      key[at++] = value;
    }
  }
  // Of a transposed one, the padding of the output leaves a choice.
  key[at++] = p.out[0];
  key[at++] = p.out[1] << 32 | p.out[2];
  key[at] = tf32().convolution ? 1 : 0;
  return key;
}

struct Cache {
  std::mutex mutex;
  std::map<Key, std::shared_ptr<const ConvAlgorithm>> known;
};

Cache& cache() {
  static Cache* instance = new Cache();
  return *instance;
}

long long ll(int64_t value) {
  return static_cast<long long>(value);
}

}  // namespace

ConvAlgorithm::~ConvAlgorithm() {
  for (dnn::TensorDesc desc : {input_, output_, bias_}) {
    if (desc != nullptr) {
      (void)library_.DestroyTensorDescriptor(desc);
    }
  }
  if (weight_ != nullptr) {
    (void)library_.DestroyFilterDescriptor(weight_);
  }
  if (conv_ != nullptr) {
    (void)library_.DestroyConvolutionDescriptor(conv_);
  }
}

Status ConvAlgorithm::set_tensor(dnn::TensorDesc* ret, int64_t channels, int64_t batch,
                                 const int64_t* pixels) {
  const int ndim = spatial_ndim(plan_) + 2;
  int64_t sizes[kMaxDims] = {batch, channels};
  std::copy(pixels + 5 - ndim, pixels + 3, sizes + 2);
  int64_t strides[kMaxDims];
  conv_strides(ndim, sizes, plan_.channels_last, strides);
  int dims[kMaxDims];
  int steps[kMaxDims];
  for (int d = 0; d < ndim; ++d) {
    AOTIP_CHECK(sizes[d] <= INT_MAX && strides[d] <= INT_MAX,
                "a tensor with %lld elements in dim %d at stride %lld is more than cuDNN takes",
                ll(sizes[d]), d, ll(strides[d]));
    dims[d] = static_cast<int>(sizes[d]);
    steps[d] = static_cast<int>(strides[d]);
  }
  AOTIP_DNN(library_, CreateTensorDescriptor, ret);
  AOTIP_DNN(library_, SetTensorNdDescriptor, *ret, data_type(dtype_), ndim, dims, steps);
  return Status::kOk;
}

Status ConvAlgorithm::describe() {
  const int64_t one[3] = {1, 1, 1};
  AOTIP_RETURN_IF_FAILED(set_tensor(&input_, plan_.in_channels, plan_.batch, plan_.in));
  AOTIP_RETURN_IF_FAILED(set_tensor(&output_, plan_.out_channels, plan_.batch, plan_.out));
  AOTIP_RETURN_IF_FAILED(set_tensor(&bias_, plan_.out_channels, 1, one));
  const int ndim = spatial_ndim(plan_);
  const std::array<int, 3> kernel = spatial(plan_, plan_.kernel);
  int sizes[kMaxDims] = {
      static_cast<int>(plan_.transposed ? plan_.in_channels : plan_.out_channels),
      static_cast<int>(plan_.transposed ? plan_.out_per_group() : plan_.in_per_group())};
  std::copy_n(kernel.begin(), ndim, sizes + 2);
  AOTIP_DNN(library_, CreateFilterDescriptor, &weight_);
  AOTIP_DNN(library_, SetFilterNdDescriptor, weight_, data_type(dtype_),
            plan_.channels_last ? dnn::kNhwc : dnn::kNchw, ndim + 2, sizes);
  AOTIP_DNN(library_, CreateConvolutionDescriptor, &conv_);
  AOTIP_DNN(library_, SetConvolutionNdDescriptor, conv_, ndim, spatial(plan_, plan_.padding).data(),
            spatial(plan_, plan_.stride).data(), spatial(plan_, plan_.dilation).data(),
            dnn::kCrossCorrelation, dtype_ == kFloat64 ? dnn::kDouble : dnn::kFloat);
  AOTIP_DNN(library_, SetConvolutionGroupCount, conv_, static_cast<int>(plan_.groups));
  AOTIP_DNN(library_, SetConvolutionMathType, conv_, math_type(dtype_));
  return Status::kOk;
}

Status ConvAlgorithm::choose(dnn::Handle handle) {
  dnn::Algorithm candidates[dnn::kMaxAlgorithms];
  int count = 0;
  if (plan_.transposed) {
    AOTIP_DNN(library_, GetConvolutionBackwardDataAlgorithm_v7, handle, weight_, input_, conv_,
              output_, dnn::kMaxAlgorithms, &count, candidates);
  } else {
    AOTIP_DNN(library_, GetConvolutionForwardAlgorithm_v7, handle, input_, weight_, conv_, output_,
              dnn::kMaxAlgorithms, &count, candidates);
  }
  return take_best(handle, candidates, count);
}

/// The first that computes as asked within the limit for workspaces, or else the one with the
/// smallest workspace.
Status ConvAlgorithm::take_best(dnn::Handle handle, const dnn::Algorithm* candidates, int count) {
  bool found = false;
  for (int i = 0; i < count; ++i) {
    dnn::Algorithm candidate = candidates[i];
    const bool rounds = math_type(dtype_) == dnn::kFmaMath && candidate.math != dnn::kFmaMath;
    if (candidate.status != dnn::kSuccess || rounds) {
      continue;
    }
    AOTIP_DNN(library_, SetConvolutionMathType, conv_, candidate.math);
    size_t nbytes = 0;
    const dnn::Result result =
        plan_.transposed
            ? library_.GetConvolutionBackwardDataWorkspaceSize(
                  handle, weight_, input_, conv_, output_, candidate.algorithm, &nbytes)
            : library_.GetConvolutionForwardWorkspaceSize(handle, input_, weight_, conv_, output_,
                                                          candidate.algorithm, &nbytes);
    if (result != dnn::kSuccess || (found && nbytes >= chosen_.workspace_nbytes)) {
      continue;
    }
    found = true;
    chosen_ = candidate;
    chosen_.workspace_nbytes = nbytes;
    if (nbytes <= kMaxWorkspaceNbytes) {
      break;
    }
  }
  AOTIP_CHECK(found, "none of its %d algorithms works", count);
  AOTIP_DNN(library_, SetConvolutionMathType, conv_, chosen_.math);
  return Status::kOk;
}

std::shared_ptr<const ConvAlgorithm> ConvAlgorithm::make(const ConvPlan& plan, int32_t dtype,
                                                         dnn::Handle handle) {
  std::shared_ptr<ConvAlgorithm> made(new ConvAlgorithm(*dnn::open(), plan, dtype));
  if (made->describe() == Status::kOk && made->choose(handle) == Status::kOk) {
    return made;
  }
  (void)fail(
      "cuDNN has no convolution of %s [%lld, %lld, %lld, %lld, %lld] with a kernel [%lld, %lld, "
      "%lld] to %lld channels in %lld groups: %s",
      dtype_name(dtype), ll(plan.batch), ll(plan.in_channels), ll(plan.in[0]), ll(plan.in[1]),
      ll(plan.in[2]), ll(plan.kernel[0]), ll(plan.kernel[1]), ll(plan.kernel[2]),
      ll(plan.out_channels), ll(plan.groups), last_failure());
  return nullptr;
}

std::shared_ptr<const ConvAlgorithm> ConvAlgorithm::find(const ConvPlan& plan, int32_t dtype,
                                                         int32_t gpu) noexcept {
  try {
    const Key key = key_of(plan, dtype, gpu);
    {
      const std::lock_guard<std::mutex> lock(cache().mutex);
      const auto found = cache().known.find(key);
      if (found != cache().known.end()) {
        return found->second;
      }
    }
    const dnn::HandleScope handle(gpu);
    if (handle.get() == nullptr) {
      return nullptr;
    }
    std::shared_ptr<const ConvAlgorithm> made = make(plan, dtype, handle.get());
    if (made == nullptr && plan.channels_last) {
      ConvPlan row_major = plan;
      row_major.channels_last = false;
      made = make(row_major, dtype, handle.get());
    }
    if (made == nullptr) {
      return nullptr;
    }
    const std::lock_guard<std::mutex> lock(cache().mutex);
    if (cache().known.size() >= kMaxKept) {
      cache().known.clear();  // shapes without end
    }
    return cache().known.emplace(key, made).first->second;
  } catch (const std::exception& error) {
    (void)fail("%s", error.what());
    return nullptr;
  }
}

Status ConvAlgorithm::run(dnn::Handle handle, const void* input, const void* weight,
                          const void* bias, void* output, void* workspace) const noexcept {
  const float ones[] = {1.0f, 0.0f};
  const double wide[] = {1.0, 0.0};
  const void* one = dtype_ == kFloat64 ? static_cast<const void*>(&wide[0]) : &ones[0];
  const void* zero = dtype_ == kFloat64 ? static_cast<const void*>(&wide[1]) : &ones[1];
  if (plan_.transposed) {
    AOTIP_DNN(library_, ConvolutionBackwardData, handle, one, weight_, weight, input_, input, conv_,
              chosen_.algorithm, workspace, chosen_.workspace_nbytes, zero, output_, output);
  } else {
    AOTIP_DNN(library_, ConvolutionForward, handle, one, input_, input, weight_, weight, conv_,
              chosen_.algorithm, workspace, chosen_.workspace_nbytes, zero, output_, output);
  }
  if (bias != nullptr) {
    AOTIP_DNN(library_, AddTensor, handle, one, bias_, bias, one, output_, output);
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
