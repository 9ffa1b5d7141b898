#include "cuda/ops/conv_algorithm.h"

#include <algorithm>
#include <array>
#include <climits>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "cuda/driver/capture.h"
#include "cuda/ops/tf32.h"

namespace aoti_plugins::cuda {
namespace {

// More buys little, and every stream keeps the largest that it has used.
constexpr size_t kMaxWorkspaceNbytes = size_t{256} << 20;

constexpr int kMaxDims = 5;
// More of them are never worth the time that finding out takes.
constexpr int64_t kMaxConfigs = 32;
// Kernels that load several elements at once want it; conv.cpp sees to it.
constexpr int64_t kAlignment = 16;

/// Names of the tensors in the graph.
constexpr int64_t kInputId = 'x';
constexpr int64_t kWeightId = 'w';
constexpr int64_t kOutputId = 'y';

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

/// cuDNN wants two spatial dims or more; a plan has three, the last ones used.
int64_t spatial_ndim(const ConvPlan& plan) {
  return std::max<int64_t>(plan.spatial_ndim, 2);
}

/// The spatial numbers that cuDNN wants, out of the three of a plan.
const int64_t* spatial(const ConvPlan& plan, const int64_t (&values)[3]) {
  return values + 3 - spatial_ndim(plan);
}

using Key = std::array<int64_t, 27>;
static_assert(sizeof(dnn::Handle) <= sizeof(int64_t));

Key key_of(const ConvPlan& p, int32_t dtype, dnn::Handle handle) {
  Key key{reinterpret_cast<intptr_t>(handle),
          dtype,
          p.spatial_ndim,
          p.transposed ? 1 : 0,
          p.batch,
          p.in_channels,
          p.out_channels,
          p.groups,
          p.channels_last ? 1 : 0};
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

struct Known {
  std::shared_ptr<ConvAlgorithm> algorithm;
  bool in_graph = false;
};

struct Cache {
  std::mutex mutex;
  std::map<Key, Known> known;
};

Cache& cache() {
  static Cache* instance = new Cache();
  return *instance;
}

/// One that is known, or null.
std::shared_ptr<ConvAlgorithm> find_known(const Key& key, bool captured) {
  const std::lock_guard<std::mutex> lock(cache().mutex);
  const auto found = cache().known.find(key);
  if (found == cache().known.end()) {
    return nullptr;
  }
  found->second.in_graph = found->second.in_graph || captured;
  return found->second.algorithm;
}

/// Makes room where shapes come without end. What is in a graph stays: cuDNN compiles some engines
/// when it makes a plan, and their code, which the graph launches, goes with the plan.
void make_room(std::map<Key, Known>& known) {
  const auto in_graphs = std::count_if(known.begin(), known.end(),
                                       [](const auto& entry) { return entry.second.in_graph; });
  if (known.size() - static_cast<size_t>(in_graphs) < ConvAlgorithm::kMaxKept) {
    return;
  }
  for (auto it = known.begin(); it != known.end();) {
    it = it->second.in_graph ? std::next(it) : known.erase(it);
  }
}

/// Remembers one; the one that counts if another thread was faster.
std::shared_ptr<ConvAlgorithm> remember(const Key& key, std::shared_ptr<ConvAlgorithm> made) {
  const std::lock_guard<std::mutex> lock(cache().mutex);
  make_room(cache().known);
  return cache().known.emplace(key, Known{std::move(made), false}).first->second.algorithm;
}

long long ll(int64_t value) {
  return static_cast<long long>(value);
}

}  // namespace

bool ConvAlgorithm::Memory::is_packed_as(const Memory& other) const noexcept {
  return input == other.input && weight == other.weight && output == other.output &&
         workspace == other.workspace;
}

ConvAlgorithm::~ConvAlgorithm() {
  for (dnn::TensorDesc desc : {output_, bias_}) {
    if (desc != nullptr) {
      (void)library_.DestroyTensorDescriptor(desc);
    }
  }
}

Status ConvAlgorithm::describe_tensor(int64_t id, const int64_t* sizes, dnn::Descriptor* ret) {
  const int64_t ndim = spatial_ndim(plan_) + 2;
  int64_t strides[kMaxDims];
  conv_strides(ndim, sizes, plan_.channels_last, strides);
  const dnn::DataType type = data_type(dtype_);
  AOTIP_RETURN_IF_FAILED(ret->create(library_, dnn::kTensor));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kTensorDataType, dnn::kTypeDataType, &type));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kTensorSizes, sizes, ndim));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kTensorStrides, strides, ndim));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kTensorId, &id, 1));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kTensorAlignment, &kAlignment, 1));
  return ret->finalize();
}

Status ConvAlgorithm::describe_conv(dnn::Descriptor* ret) {
  const int64_t ndim = spatial_ndim(plan_);
  const dnn::DataType compute = dtype_ == kFloat64 ? dnn::kDouble : dnn::kFloat;
  const dnn::Mode mode = dnn::kCrossCorrelation;
  const int64_t* padding = spatial(plan_, plan_.padding);
  AOTIP_RETURN_IF_FAILED(ret->create(library_, dnn::kConvolution));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kConvComputeType, dnn::kTypeDataType, &compute));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kConvMode, dnn::kTypeConvolutionMode, &mode));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kConvSpatialDims, &ndim, 1));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kConvPrePaddings, padding, ndim));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kConvPostPaddings, padding, ndim));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kConvStrides, spatial(plan_, plan_.stride), ndim));
  AOTIP_RETURN_IF_FAILED(ret->set(dnn::kConvDilations, spatial(plan_, plan_.dilation), ndim));
  return ret->finalize();
}

/// Makes the graph of one operation. Groups are in the sizes: the weight has the channels of one.
Status ConvAlgorithm::describe() {
  const int64_t ndim = spatial_ndim(plan_);
  int64_t input[kMaxDims] = {plan_.batch, plan_.in_channels};
  int64_t output[kMaxDims] = {plan_.batch, plan_.out_channels};
  int64_t weight[kMaxDims] = {plan_.transposed ? plan_.in_channels : plan_.out_channels,
                              plan_.transposed ? plan_.out_per_group() : plan_.in_per_group()};
  std::copy_n(spatial(plan_, plan_.in), ndim, input + 2);
  std::copy_n(spatial(plan_, plan_.out), ndim, output + 2);
  std::copy_n(spatial(plan_, plan_.kernel), ndim, weight + 2);
  parts_.resize(5);
  dnn::Descriptor& x = parts_[0];
  dnn::Descriptor& w = parts_[1];
  dnn::Descriptor& y = parts_[2];
  dnn::Descriptor& conv = parts_[3];
  dnn::Descriptor& operation = parts_[4];
  AOTIP_RETURN_IF_FAILED(describe_tensor(kInputId, input, &x));
  AOTIP_RETURN_IF_FAILED(describe_tensor(kWeightId, weight, &w));
  AOTIP_RETURN_IF_FAILED(describe_tensor(kOutputId, output, &y));
  AOTIP_RETURN_IF_FAILED(describe_conv(&conv));
  const bool back = plan_.transposed;  // the gradient of the convolution with the same weight
  AOTIP_RETURN_IF_FAILED(
      operation.create(library_, back ? dnn::kConvolutionBackwardData : dnn::kConvolutionForward));
  AOTIP_RETURN_IF_FAILED(operation.set(back ? dnn::kBackwardDataConv : dnn::kForwardConv, conv));
  AOTIP_RETURN_IF_FAILED(operation.set(back ? dnn::kBackwardDataW : dnn::kForwardW, w));
  AOTIP_RETURN_IF_FAILED(operation.set(back ? dnn::kBackwardDataDy : dnn::kForwardX, x));
  AOTIP_RETURN_IF_FAILED(operation.set(back ? dnn::kBackwardDataDx : dnn::kForwardY, y));
  const double wide[] = {1.0, 0.0};
  const float narrow[] = {1.0f, 0.0f};
  for (int i = 0; i < 2; ++i) {
    const dnn::Attribute name = i == 0 ? (back ? dnn::kBackwardDataAlpha : dnn::kForwardAlpha)
                                       : (back ? dnn::kBackwardDataBeta : dnn::kForwardBeta);
    AOTIP_RETURN_IF_FAILED(dtype_ == kFloat64 ? operation.set(name, dnn::kTypeDouble, &wide[i])
                                              : operation.set(name, dnn::kTypeFloat, &narrow[i]));
  }
  AOTIP_RETURN_IF_FAILED(operation.finalize());
  AOTIP_RETURN_IF_FAILED(graph_.create(library_, dnn::kOperationGraph));
  AOTIP_RETURN_IF_FAILED(graph_.set(dnn::kGraphHandle, dnn::kTypeHandle, &handle_));
  AOTIP_RETURN_IF_FAILED(graph_.set(dnn::kGraphOperations, operation));
  return graph_.finalize();
}

/// Describes a tensor as the older functions of the library want it.
Status ConvAlgorithm::describe_flat(const int64_t* sizes, dnn::TensorDesc* ret) {
  const int64_t ndim = spatial_ndim(plan_) + 2;
  int64_t strides[kMaxDims];
  conv_strides(ndim, sizes, plan_.channels_last, strides);
  int dims[kMaxDims];
  int steps[kMaxDims];
  for (int64_t d = 0; d < ndim; ++d) {
    AOTIP_CHECK(sizes[d] <= INT_MAX && strides[d] <= INT_MAX,
                "a tensor with %lld elements in dim %lld at stride %lld is more than cuDNN takes",
                ll(sizes[d]), ll(d), ll(strides[d]));
    dims[d] = static_cast<int>(sizes[d]);
    steps[d] = static_cast<int>(strides[d]);
  }
  AOTIP_DNN(library_, CreateTensorDescriptor, ret);
  AOTIP_DNN(library_, SetTensorNdDescriptor, *ret, data_type(dtype_), static_cast<int>(ndim), dims,
            steps);
  return Status::kOk;
}

Status ConvAlgorithm::add_bias(const Memory& memory) {
  if (bias_ == nullptr) {
    const int64_t ndim = spatial_ndim(plan_);
    int64_t whole[kMaxDims] = {plan_.batch, plan_.out_channels};
    std::copy_n(spatial(plan_, plan_.out), ndim, whole + 2);
    const int64_t one[kMaxDims] = {1, plan_.out_channels, 1, 1, 1};
    AOTIP_RETURN_IF_FAILED(describe_flat(whole, &output_));
    AOTIP_RETURN_IF_FAILED(describe_flat(one, &bias_));
  }
  const float narrow = 1.0f;
  const double wide = 1.0;
  const void* factor = dtype_ == kFloat64 ? static_cast<const void*>(&wide) : &narrow;
  AOTIP_DNN(library_, AddTensor, handle_, factor, bias_, memory.bias, factor, output_,
            memory.output);
  return Status::kOk;
}

/// Tensor cores as PyTorch has it: for float16 and bfloat16 always, for float32 where TF32 is
/// allowed, and never with inputs in a smaller dtype.
Status ConvAlgorithm::may_be_used(const dnn::Descriptor& config, bool* ret) const {
  *ret = true;
  if (dtype_ != kFloat32) {
    return Status::kOk;
  }
  dnn::Descriptor engine;
  AOTIP_RETURN_IF_FAILED(engine.create(library_, dnn::kEngine));
  int64_t count = 0;
  dnn::Opaque opaque = engine.opaque();
  AOTIP_RETURN_IF_FAILED(config.get(dnn::kConfigEngine, dnn::kTypeDescriptor, 1, &count, &opaque));
  dnn::NumericalNote notes[dnn::kMaxNotes];
  AOTIP_RETURN_IF_FAILED(
      engine.get(dnn::kEngineNotes, dnn::kTypeNumericalNote, dnn::kMaxNotes, &count, notes));
  for (int64_t i = 0; i < std::min(count, dnn::kMaxNotes); ++i) {
    if (notes[i] == dnn::kDownConvertsInputs ||
        (notes[i] == dnn::kTensorCore && !tf32().convolution)) {
      *ret = false;
    }
  }
  return Status::kOk;
}

/// Takes the first configuration of a heuristic that computes as asked and works within the limit
/// for workspaces, or else the one with the smallest workspace.
Status ConvAlgorithm::take_first(dnn::HeuristicMode mode, int64_t* ret_tried) {
  dnn::Descriptor heuristic;
  AOTIP_RETURN_IF_FAILED(heuristic.create(library_, dnn::kHeuristic));
  AOTIP_RETURN_IF_FAILED(heuristic.set(dnn::kHeuristicGraph, graph_));
  AOTIP_RETURN_IF_FAILED(heuristic.set(dnn::kHeuristicModeUsed, dnn::kTypeHeuristicMode, &mode));
  AOTIP_RETURN_IF_FAILED(heuristic.finalize());
  int64_t count = 0;
  AOTIP_RETURN_IF_FAILED(
      heuristic.get(dnn::kHeuristicResults, dnn::kTypeDescriptor, 0, &count, nullptr));
  std::vector<dnn::Descriptor> configs(static_cast<size_t>(std::min(count, kMaxConfigs)));
  std::vector<dnn::Opaque> opaques;
  for (dnn::Descriptor& config : configs) {
    AOTIP_RETURN_IF_FAILED(config.create(library_, dnn::kEngineConfig));
    opaques.push_back(config.opaque());
  }
  AOTIP_RETURN_IF_FAILED(heuristic.get(dnn::kHeuristicResults, dnn::kTypeDescriptor,
                                       static_cast<int64_t>(configs.size()), &count,
                                       opaques.data()));
  configs.resize(static_cast<size_t>(std::min<int64_t>(count, ll(configs.size()))));
  for (dnn::Descriptor& config : configs) {
    bool usable = false;
    AOTIP_RETURN_IF_FAILED(may_be_used(config, &usable));
    ++*ret_tried;
    dnn::Descriptor plan;
    int64_t nbytes = 0;
    // Some configurations turn out not to work here; the next one may.
    if (!usable || plan.create(library_, dnn::kExecutionPlan) != Status::kOk ||
        plan.set(dnn::kPlanHandle, dnn::kTypeHandle, &handle_) != Status::kOk ||
        plan.set(dnn::kPlanConfig, config) != Status::kOk || plan.finalize() != Status::kOk ||
        plan.get(dnn::kPlanWorkspaceNbytes, dnn::kTypeInt64, 1, &count, &nbytes) != Status::kOk ||
        (execution_plan_ && static_cast<size_t>(nbytes) >= workspace_nbytes_)) {
      continue;
    }
    execution_plan_ = std::move(plan);
    config_ = std::move(config);
    workspace_nbytes_ = static_cast<size_t>(nbytes);
    if (workspace_nbytes_ <= kMaxWorkspaceNbytes) {
      break;
    }
  }
  return Status::kOk;
}

Status ConvAlgorithm::choose() {
  int64_t tried = 0;
  for (const dnn::HeuristicMode mode : {dnn::kHeuristicA, dnn::kFallback}) {
    AOTIP_RETURN_IF_FAILED(take_first(mode, &tried));
    if (execution_plan_ && workspace_nbytes_ <= kMaxWorkspaceNbytes) {
      return Status::kOk;
    }
  }
  AOTIP_CHECK(execution_plan_, "none of its %lld configurations works: %s", ll(tried),
              last_failure());
  return Status::kOk;
}

std::shared_ptr<ConvAlgorithm> ConvAlgorithm::make(const ConvPlan& plan, int32_t dtype,
                                                   dnn::Handle handle) {
  std::shared_ptr<ConvAlgorithm> made(new ConvAlgorithm(*dnn::open(), plan, dtype, handle));
  if (made->describe() == Status::kOk && made->choose() == Status::kOk) {
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

std::shared_ptr<ConvAlgorithm> ConvAlgorithm::find(const ConvPlan& plan, int32_t dtype,
                                                   dnn::Handle handle) noexcept {
  try {
    const Key key = key_of(plan, dtype, handle);
    bool captured = false;
    if (is_captured(&captured) != Status::kOk) {
      return nullptr;
    }
    if (std::shared_ptr<ConvAlgorithm> known = find_known(key, captured)) {
      return known;
    }
    if (refuse_in_capture("a plan for a new convolution") != Status::kOk) {
      return nullptr;
    }
    std::shared_ptr<ConvAlgorithm> made = make(plan, dtype, handle);
    if (made == nullptr && plan.channels_last) {
      ConvPlan row_major = plan;
      row_major.channels_last = false;
      made = make(row_major, dtype, handle);
    }
    return made != nullptr ? remember(key, std::move(made)) : nullptr;
  } catch (const std::exception& error) {
    (void)fail("%s", error.what());
    return nullptr;
  }
}

Status ConvAlgorithm::pack(const Memory& memory) {
  const int64_t ids[] = {kInputId, kWeightId, kOutputId};
  const void* pointers[] = {memory.input, memory.weight, memory.output};
  dnn::Descriptor made;
  AOTIP_RETURN_IF_FAILED(made.create(library_, dnn::kVariantPack));
  AOTIP_RETURN_IF_FAILED(made.set(dnn::kPackIds, ids, 3));
  AOTIP_RETURN_IF_FAILED(made.set(dnn::kPackPointers, dnn::kTypePointer, pointers, 3));
  AOTIP_RETURN_IF_FAILED(made.set(dnn::kPackWorkspace, dnn::kTypePointer, &memory.workspace));
  AOTIP_RETURN_IF_FAILED(made.finalize());
  variant_pack_ = std::move(made);
  packed_ = memory;
  return Status::kOk;
}

Status ConvAlgorithm::run(const Memory& memory) noexcept {
  if (!variant_pack_ || !packed_.is_packed_as(memory)) {
    AOTIP_RETURN_IF_FAILED(pack(memory));
  }
  AOTIP_DNN(library_, BackendExecute, handle_, execution_plan_.opaque(), variant_pack_.opaque());
  return memory.bias != nullptr ? add_bias(memory) : Status::kOk;
}

}  // namespace aoti_plugins::cuda
