// A stand-in for cuDNN's graph API that computes on the host. It is as strict as the real one about
// sizes that fit together and about the order of calls. It has no kernels for channels-last
// bfloat16. Its heuristic gives three engines, of which the first needs more memory than there is,
// the second has no plan, and the third rounds float32 to TF32; its fallback gives one more.

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <vector>

#include "cuda/libraries/cudnn.h"
#include "fake_cuda.h"
#include "slim/element.h"

namespace {

using namespace aoti_plugins::cuda::dnn;
using aoti_plugins::Element;

constexpr Result kBadParam = 2000;
constexpr size_t kWorkspaceNbytes = 1000;

struct Tensor {
  DataType type{};
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

struct Convolution {
  std::vector<int64_t> padding;
  std::vector<int64_t> stride;
  std::vector<int64_t> dilation;
  DataType compute{};
};

/// An attribute as it was set.
struct Value {
  AttributeType type{};
  int64_t count = 0;
  std::vector<char> bytes;
};

/// Any descriptor of the graph API.
struct Node {
  DescriptorKind kind{};
  bool finalized = false;
  std::map<Attribute, Value> values;
  int64_t engine = -1;  ///< of engines and their configurations

  template <typename T>
  std::vector<T> list(Attribute name) const {
    const auto found = values.find(name);
    if (found == values.end()) {
      return {};
    }
    std::vector<T> result(static_cast<size_t>(found->second.count));
    std::memcpy(result.data(), found->second.bytes.data(), found->second.bytes.size());
    return result;
  }
  template <typename T>
  T one(Attribute name) const {
    const std::vector<T> all = list<T>(name);
    return all.size() == 1 ? all[0] : T{};
  }
  const Node& node(Attribute name) const {
    static const Node nothing;
    const auto* found = static_cast<const Node*>(one<Opaque>(name));
    return found != nullptr ? *found : nothing;
  }
};

enum Engine : int64_t { kTooLarge, kBroken, kRounding, kGood };

struct State {
  CUstream stream = nullptr;
};

template <typename T>
T* as(void* opaque) {
  return static_cast<T*>(opaque);
}

int32_t dtype_of(DataType type) {
  switch (type) {
    case kDouble:
      return aoti_plugins::kFloat64;
    case kHalf:
      return aoti_plugins::kFloat16;
    case kBFloat:
      return aoti_plugins::kBFloat16;
    default:
      return aoti_plugins::kFloat32;
  }
}

double load(const void* data, int64_t i, DataType type) {
  const int32_t dtype = dtype_of(type);
  const int64_t nbytes = static_cast<int64_t>(aoti_plugins::element_nbytes(dtype));
  return aoti_plugins::load_element(static_cast<const char*>(data) + i * nbytes, dtype).real;
}

void store(void* data, int64_t i, DataType type, double value) {
  const int32_t dtype = dtype_of(type);
  const int64_t nbytes = static_cast<int64_t>(aoti_plugins::element_nbytes(dtype));
  Element element;
  element.kind = Element::kReal;
  element.real = value;
  aoti_plugins::store_element(static_cast<char*>(data) + i * nbytes, dtype, element);
}

Tensor tensor_of(const Node& node) {
  return {node.one<DataType>(kTensorDataType), node.list<int64_t>(kTensorSizes),
          node.list<int64_t>(kTensorStrides)};
}

/// One operation; of a transposed one `x` is the result.
struct Operation {
  Tensor x;
  Tensor w;
  Tensor y;
  Convolution conv;
  int64_t groups = 1;
  bool backward = false;

  explicit Operation(const Node& node)
      : x(tensor_of(node.node(node.kind == kConvolutionForward ? kForwardX : kBackwardDataDx))),
        w(tensor_of(node.node(node.kind == kConvolutionForward ? kForwardW : kBackwardDataW))),
        y(tensor_of(node.node(node.kind == kConvolutionForward ? kForwardY : kBackwardDataDy))),
        backward(node.kind == kConvolutionBackwardData) {
    const Node& c = node.node(backward ? kBackwardDataConv : kForwardConv);
    conv = {c.list<int64_t>(kConvPrePaddings), c.list<int64_t>(kConvStrides),
            c.list<int64_t>(kConvDilations), c.one<DataType>(kConvComputeType)};
    groups =
        w.sizes.size() > 1 && x.sizes.size() > 1 && w.sizes[1] > 0 ? x.sizes[1] / w.sizes[1] : 0;
  }
};

bool is_one_and_zero(const Node& node, bool backward, DataType compute) {
  const Attribute alpha = backward ? kBackwardDataAlpha : kForwardAlpha;
  const Attribute beta = backward ? kBackwardDataBeta : kForwardBeta;
  return compute == kDouble
             ? node.one<double>(alpha) == 1.0 && node.list<double>(beta) == std::vector<double>{0.0}
             : node.one<float>(alpha) == 1.0f && node.list<float>(beta) == std::vector<float>{0.0f};
}

Result check(const Node& node) {
  const Operation op(node);
  const Convolution& conv = op.conv;
  const size_t spatial = conv.padding.size();
  const Tensor& x = op.x;
  const Tensor& w = op.w;
  const Tensor& y = op.y;
  if (spatial < 2 || x.sizes.size() != spatial + 2 || w.sizes.size() != spatial + 2 ||
      y.sizes.size() != spatial + 2 || x.type != w.type || x.type != y.type ||
      x.sizes[0] != y.sizes[0] || x.sizes[1] != w.sizes[1] * op.groups ||
      y.sizes[1] != w.sizes[0] || y.sizes[1] % op.groups != 0 ||
      conv.compute != (x.type == kDouble ? kDouble : kFloat) ||
      !is_one_and_zero(node, op.backward, conv.compute)) {
    return kBadParam;
  }
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t reach = conv.dilation[d] * (w.sizes[d + 2] - 1) + 1;
    const int64_t out = (x.sizes[d + 2] + 2 * conv.padding[d] - reach) / conv.stride[d] + 1;
    if (out != y.sizes[d + 2]) {
      return kBadParam;
    }
  }
  return kSuccess;
}

bool is_channels_last(const Tensor& t) {
  return t.strides[1] == 1 && t.strides.back() == t.sizes[1] && t.sizes[1] > 1;
}

/// Calls `visit(x, w, y)` with the offsets of each product.
template <typename Visit>
void for_each_product(const Operation& op, const Visit& visit) {
  const Tensor& x = op.x;
  const Tensor& w = op.w;
  const Tensor& y = op.y;
  const Convolution& conv = op.conv;
  const size_t n = y.sizes.size();
  std::vector<int64_t> loops = y.sizes;  // [n, out, pixels..., in / groups, kernel...]
  loops.insert(loops.end(), w.sizes.begin() + 1, w.sizes.end());
  std::vector<int64_t> at(loops.size(), 0);
  int64_t count = 1;
  for (int64_t size : loops) {
    count *= size;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t group = at[1] / (y.sizes[1] / op.groups);
    int64_t in_x = at[0] * x.strides[0] + (group * w.sizes[1] + at[n]) * x.strides[1];
    int64_t in_w = at[1] * w.strides[0] + at[n] * w.strides[1];
    int64_t in_y = at[0] * y.strides[0] + at[1] * y.strides[1];
    bool inside = true;
    for (size_t d = 2; d < n; ++d) {
      const int64_t pixel =
          at[d] * conv.stride[d - 2] - conv.padding[d - 2] + at[n + d - 1] * conv.dilation[d - 2];
      inside = inside && pixel >= 0 && pixel < x.sizes[d];
      in_x += pixel * x.strides[d];
      in_w += at[n + d - 1] * w.strides[d];
      in_y += at[d] * y.strides[d];
    }
    if (inside) {
      visit(in_x, in_w, in_y);
    }
    for (size_t d = loops.size(); d-- > 0 && ++at[d] == loops[d];) {
      at[d] = 0;
    }
  }
}

int64_t extent(const Tensor& t) {
  int64_t last = 0;
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    last += (t.sizes[d] - 1) * t.strides[d];
  }
  return last + 1;
}

void write(const Tensor& t, void* data, const std::vector<double>& sums) {
  for (size_t i = 0; i < sums.size(); ++i) {
    store(data, static_cast<int64_t>(i), t.type, sums[i]);
  }
}

bool is_set(const Node& node, std::initializer_list<Attribute> names) {
  for (const Attribute name : names) {
    if (node.values.count(name) == 0) {
      return false;
    }
  }
  return true;
}

Result finalize_tensor(const Node& node) {
  const Tensor t = tensor_of(node);
  bool good = t.sizes.size() >= 4 && t.sizes.size() <= 5 && t.strides.size() == t.sizes.size() &&
              is_set(node, {kTensorDataType, kTensorId}) &&
              node.one<int64_t>(kTensorAlignment) == 16;
  for (size_t d = 0; good && d < t.sizes.size(); ++d) {
    good = t.sizes[d] >= 1 && t.strides[d] >= 1;
  }
  return good ? kSuccess : kBadParam;
}

Result finalize_plan(const Node& node) {
  const Node& config = node.node(kPlanConfig);
  if (!is_set(node, {kPlanHandle, kPlanConfig}) || config.engine < 0) {
    return kBadParam;
  }
  const Operation op(config.node(kHeuristicGraph).node(kGraphOperations));
  return config.engine == kBroken || (op.x.type == kBFloat && is_channels_last(op.w))
             ? kNotSupported
             : kSuccess;
}

Result finalize(const Node& node) {
  switch (node.kind) {
    case kTensor:
      return finalize_tensor(node);
    case kConvolution:
      return node.one<Mode>(kConvMode) == kCrossCorrelation &&
                     node.one<int64_t>(kConvSpatialDims) ==
                         static_cast<int64_t>(node.list<int64_t>(kConvStrides).size()) &&
                     node.list<int64_t>(kConvPrePaddings) == node.list<int64_t>(kConvPostPaddings)
                 ? kSuccess
                 : kBadParam;
    case kConvolutionForward:
    case kConvolutionBackwardData:
      return check(node);
    case kOperationGraph:
      return is_set(node, {kGraphHandle, kGraphOperations}) ? kSuccess : kBadParam;
    case kHeuristic:
      return is_set(node, {kHeuristicGraph, kHeuristicModeUsed}) ? kSuccess : kBadParam;
    case kExecutionPlan:
      return finalize_plan(node);
    case kVariantPack:
      return is_set(node, {kPackIds, kPackPointers, kPackWorkspace}) ? kSuccess : kBadParam;
    default:
      return kBadParam;
  }
}

/// Fills in the configurations that a heuristic gives.
void give_configs(const Node& heuristic, int64_t room, int64_t* count, void* values) {
  const std::vector<int64_t> engines = heuristic.one<HeuristicMode>(kHeuristicModeUsed) == kFallback
                                           ? std::vector<int64_t>{kGood}
                                           : std::vector<int64_t>{kTooLarge, kBroken, kRounding};
  *count = static_cast<int64_t>(engines.size());
  for (int64_t i = 0; i < std::min(room, *count); ++i) {
    Node& config = *static_cast<Node*>(static_cast<Opaque*>(values)[i]);
    config.engine = engines[static_cast<size_t>(i)];
    config.values[kHeuristicGraph] = heuristic.values.at(kHeuristicGraph);
    config.finalized = true;
  }
}

void* pointer_of(const Node& pack, int64_t id) {
  const std::vector<int64_t> ids = pack.list<int64_t>(kPackIds);
  const std::vector<void*> pointers = pack.list<void*>(kPackPointers);
  for (size_t i = 0; i < ids.size() && i < pointers.size(); ++i) {
    if (ids[i] == id) {
      return pointers[i];
    }
  }
  return nullptr;
}

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT Result cudnnCreate(Handle* ret) {
  *ret = reinterpret_cast<Handle>(new State());
  return kSuccess;
}
FAKE_EXPORT Result cudnnSetStream(Handle handle, CUstream stream) {
  as<State>(handle)->stream = stream;
  return kSuccess;
}
FAKE_EXPORT const char* cudnnGetErrorString(Result result) {
  return result == kNotSupported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}
FAKE_EXPORT Result cudnnBackendCreateDescriptor(DescriptorKind kind, Opaque* ret) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  *ret = node.release();
  return kSuccess;
}
FAKE_EXPORT Result cudnnBackendDestroyDescriptor(Opaque desc) {
  delete as<Node>(desc);
  return kSuccess;
}
FAKE_EXPORT Result cudnnBackendSetAttribute(Opaque desc, Attribute name, AttributeType type,
                                            int64_t count, const void* values) {
  Node& node = *as<Node>(desc);
  if (node.finalized) {
    return kBadParam;
  }
  const bool small = type == kTypeDataType || type == kTypeFloat || type == kTypeConvolutionMode ||
                     type == kTypeHeuristicMode;
  const size_t nbytes = static_cast<size_t>(count) * (small ? 4 : 8);
  const auto* bytes = static_cast<const char*>(values);
  if (type == kTypeDescriptor && !(*static_cast<Node* const*>(values))->finalized) {
    return kBadParam;
  }
  node.values[name] = {type, count, {bytes, bytes + nbytes}};
  return kSuccess;
}
FAKE_EXPORT Result cudnnBackendGetAttribute(Opaque desc, Attribute name, AttributeType,
                                            int64_t room, int64_t* count, void* values) {
  const Node& node = *as<Node>(desc);
  if (name == kEngineNotes) {
    *count = node.engine == kRounding ? 1 : 0;
    if (*count <= room && *count > 0) {
      *static_cast<NumericalNote*>(values) = kTensorCore;
    }
    return kSuccess;
  }
  if (!node.finalized) {
    return kBadParam;
  }
  switch (name) {
    case kHeuristicResults:
      give_configs(node, room, count, values);
      return kSuccess;
    case kConfigEngine:
      *count = 1;
      (*static_cast<Node**>(values))->engine = node.engine;
      return kSuccess;
    case kPlanWorkspaceNbytes:
      *count = 1;
      *static_cast<int64_t*>(values) = node.node(kPlanConfig).engine == kTooLarge
                                           ? int64_t{1} << 40
                                           : static_cast<int64_t>(kWorkspaceNbytes);
      return kSuccess;
    default:
      return kBadParam;
  }
}
FAKE_EXPORT Result cudnnBackendFinalize(Opaque desc) {
  Node& node = *as<Node>(desc);
  const Result result = finalize(node);
  node.finalized = result == kSuccess;
  return result;
}
FAKE_EXPORT Result cudnnBackendExecute(Handle handle, Opaque plan, Opaque variant_pack) {
  const Node& config = as<Node>(plan)->node(kPlanConfig);
  const Node& pack = *as<Node>(variant_pack);
  const Operation op(config.node(kHeuristicGraph).node(kGraphOperations));
  if (as<Node>(plan)->one<Handle>(kPlanHandle) != handle || !pack.finalized ||
      pack.one<void*>(kPackWorkspace) == nullptr || config.engine == kTooLarge ||
      (op.x.type == kFloat && config.engine == kRounding)) {
    return kBadParam;
  }
  (void)cuStreamSynchronize(as<State>(handle)->stream);
  const void* x = pointer_of(pack, 'x');
  const void* w = pointer_of(pack, 'w');
  void* y = pointer_of(pack, 'y');
  if (x == nullptr || w == nullptr || y == nullptr) {
    return kBadParam;
  }
  const Tensor& out = op.backward ? op.x : op.y;
  std::vector<double> sums(static_cast<size_t>(extent(out)));
  for_each_product(op, [&](int64_t in_x, int64_t in_w, int64_t in_y) {
    const int64_t from = op.backward ? in_y : in_x;
    const int64_t to = op.backward ? in_x : in_y;
    sums[static_cast<size_t>(to)] += load(x, from, out.type) * load(w, in_w, out.type);
  });
  write(out, y, sums);
  return kSuccess;
}
FAKE_EXPORT Result cudnnCreateTensorDescriptor(TensorDesc* ret) {
  *ret = reinterpret_cast<TensorDesc>(new Tensor());
  return kSuccess;
}
FAKE_EXPORT Result cudnnDestroyTensorDescriptor(TensorDesc desc) {
  delete as<Tensor>(desc);
  return kSuccess;
}
FAKE_EXPORT Result cudnnSetTensorNdDescriptor(TensorDesc desc, DataType type, int ndim,
                                              const int* sizes, const int* strides) {
  for (int d = 0; d < ndim; ++d) {
    if (sizes[d] < 1 || strides[d] < 1) {
      return kBadParam;
    }
  }
  *as<Tensor>(desc) = {type, {sizes, sizes + ndim}, {strides, strides + ndim}};
  return ndim >= 4 && ndim <= 5 ? kSuccess : kBadParam;
}
FAKE_EXPORT Result cudnnAddTensor(Handle handle, const void*, TensorDesc a, const void* a_data,
                                  const void*, TensorDesc c, void* c_data) {
  const Tensor& bias = *as<Tensor>(a);
  const Tensor& out = *as<Tensor>(c);
  if (bias.sizes[0] != 1 || bias.sizes[1] != out.sizes[1] || bias.sizes[2] != 1) {
    return kBadParam;
  }
  (void)cuStreamSynchronize(as<State>(handle)->stream);
  const int64_t numel = extent(out);
  for (int64_t i = 0; i < numel; ++i) {
    const int64_t channel = i / out.strides[1] % out.sizes[1];
    store(c_data, i, out.type,
          load(c_data, i, out.type) + load(a_data, channel * bias.strides[1], out.type));
  }
  return kSuccess;
}
