// A stand-in for cuDNN that computes on the host. It is as strict as the real one about sizes that
// fit together. It has no kernels for channels-last bfloat16, its first candidate always needs more
// memory than there is, and for float32 its second one rounds to TF32.

#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda/cudnn.h"
#include "fake_cuda.h"
#include "slim/element.h"

namespace {

using namespace aoti_plugins::cuda::dnn;
using aoti_plugins::Element;

constexpr Result kBadParam = 2000;
constexpr size_t kWorkspaceNbytes = 1000;

struct Tensor {
  DataType type{};
  std::vector<int> sizes;
  std::vector<int> strides;
};

struct Filter {
  DataType type{};
  Format format{};
  std::vector<int> sizes;
};

struct Convolution {
  std::vector<int> padding;
  std::vector<int> stride;
  std::vector<int> dilation;
  DataType compute{};
  int groups = 1;
  MathType math = kDefaultMath;
};

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

std::vector<int> filter_strides(const Filter& w) {
  const size_t n = w.sizes.size();
  std::vector<size_t> order;  // from the innermost
  if (w.format == kNhwc) {
    order.push_back(1);
  }
  for (size_t d = n; d-- > 2;) {
    order.push_back(d);
  }
  if (w.format == kNchw) {
    order.push_back(1);
  }
  order.push_back(0);
  std::vector<int> strides(n);
  int stride = 1;
  for (size_t d : order) {
    strides[d] = stride;
    stride *= w.sizes[d];
  }
  return strides;
}

Result check(const Tensor& x, const Filter& w, const Convolution& conv, const Tensor& y) {
  const size_t spatial = conv.padding.size();
  if (x.sizes.size() != spatial + 2 || w.sizes.size() != spatial + 2 ||
      y.sizes.size() != spatial + 2 || x.type != w.type || x.type != y.type ||
      x.sizes[0] != y.sizes[0] || x.sizes[1] != w.sizes[1] * conv.groups ||
      y.sizes[1] != w.sizes[0] || y.sizes[1] % conv.groups != 0 ||
      conv.compute != (x.type == kDouble ? kDouble : kFloat)) {
    return kBadParam;
  }
  for (size_t d = 0; d < spatial; ++d) {
    const int reach = conv.dilation[d] * (w.sizes[d + 2] - 1) + 1;
    const int out = (x.sizes[d + 2] + 2 * conv.padding[d] - reach) / conv.stride[d] + 1;
    if (out != y.sizes[d + 2]) {
      return kBadParam;
    }
  }
  return x.type == kBFloat && w.format == kNhwc ? kNotSupported : kSuccess;
}

/// Calls `visit(x, w, y)` with the offsets of each product.
template <typename Visit>
void for_each_product(const Tensor& x, const Filter& w, const Convolution& conv, const Tensor& y,
                      const Visit& visit) {
  const size_t n = y.sizes.size();
  const std::vector<int> w_strides = filter_strides(w);
  std::vector<int> loops = y.sizes;  // [n, out, pixels..., in / groups, kernel...]
  loops.insert(loops.end(), w.sizes.begin() + 1, w.sizes.end());
  std::vector<int> at(loops.size(), 0);
  int64_t count = 1;
  for (int size : loops) {
    count *= size;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int group = at[1] / (y.sizes[1] / conv.groups);
    int64_t in_x =
        int64_t{at[0]} * x.strides[0] + int64_t{group * w.sizes[1] + at[n]} * x.strides[1];
    int64_t in_w = int64_t{at[1]} * w_strides[0] + int64_t{at[n]} * w_strides[1];
    int64_t in_y = int64_t{at[0]} * y.strides[0] + int64_t{at[1]} * y.strides[1];
    bool inside = true;
    for (size_t d = 2; d < n; ++d) {
      const int pixel =
          at[d] * conv.stride[d - 2] - conv.padding[d - 2] + at[n + d - 1] * conv.dilation[d - 2];
      inside = inside && pixel >= 0 && pixel < x.sizes[d];
      in_x += int64_t{pixel} * x.strides[d];
      in_w += int64_t{at[n + d - 1]} * w_strides[d];
      in_y += int64_t{at[d]} * y.strides[d];
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
    last += int64_t{t.sizes[d] - 1} * t.strides[d];
  }
  return last + 1;
}

void write(const Tensor& t, void* data, const std::vector<double>& sums) {
  for (size_t i = 0; i < sums.size(); ++i) {
    store(data, static_cast<int64_t>(i), t.type, sums[i]);
  }
}

double scalar(const void* value, DataType type) {
  return type == kDouble ? *static_cast<const double*>(value)
                         : static_cast<double>(*static_cast<const float*>(value));
}

Result wait(Handle handle, int32_t algorithm, void* workspace, size_t nbytes) {
  if (algorithm == 0 || workspace == nullptr || nbytes != kWorkspaceNbytes) {
    return kBadParam;
  }
  (void)cuStreamSynchronize(as<State>(handle)->stream);
  return kSuccess;
}

Result candidates(const Convolution& conv, DataType type, Result result, int* count,
                  Algorithm* results) {
  if (result != kSuccess) {
    *count = 0;
    return result;
  }
  const MathType other = type == kFloat && conv.math == kFmaMath ? kDefaultMath : conv.math;
  results[0] = {0, kSuccess, 0.1f, size_t{1} << 40, 1, conv.math, {}};
  results[1] = {1, kSuccess, 0.2f, kWorkspaceNbytes, 1, other, {}};
  results[2] = {2, kSuccess, 0.3f, kWorkspaceNbytes, 1, conv.math, {}};
  *count = 3;
  return kSuccess;
}

size_t workspace_of(int32_t algorithm) {
  return algorithm == 0 ? size_t{1} << 40 : kWorkspaceNbytes;
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
FAKE_EXPORT Result cudnnCreateFilterDescriptor(FilterDesc* ret) {
  *ret = reinterpret_cast<FilterDesc>(new Filter());
  return kSuccess;
}
FAKE_EXPORT Result cudnnDestroyFilterDescriptor(FilterDesc desc) {
  delete as<Filter>(desc);
  return kSuccess;
}
FAKE_EXPORT Result cudnnSetFilterNdDescriptor(FilterDesc desc, DataType type, Format format,
                                              int ndim, const int* sizes) {
  *as<Filter>(desc) = {type, format, {sizes, sizes + ndim}};
  return kSuccess;
}
FAKE_EXPORT Result cudnnCreateConvolutionDescriptor(ConvDesc* ret) {
  *ret = reinterpret_cast<ConvDesc>(new Convolution());
  return kSuccess;
}
FAKE_EXPORT Result cudnnDestroyConvolutionDescriptor(ConvDesc desc) {
  delete as<Convolution>(desc);
  return kSuccess;
}
FAKE_EXPORT Result cudnnSetConvolutionNdDescriptor(ConvDesc desc, int ndim, const int* padding,
                                                   const int* stride, const int* dilation,
                                                   Mode mode, DataType compute) {
  Convolution& conv = *as<Convolution>(desc);
  conv.padding.assign(padding, padding + ndim);
  conv.stride.assign(stride, stride + ndim);
  conv.dilation.assign(dilation, dilation + ndim);
  conv.compute = compute;
  return mode == kCrossCorrelation ? kSuccess : kNotSupported;
}
FAKE_EXPORT Result cudnnSetConvolutionGroupCount(ConvDesc desc, int groups) {
  as<Convolution>(desc)->groups = groups;
  return kSuccess;
}
FAKE_EXPORT Result cudnnSetConvolutionMathType(ConvDesc desc, MathType math) {
  as<Convolution>(desc)->math = math;
  return kSuccess;
}
FAKE_EXPORT Result cudnnGetConvolutionForwardAlgorithm_v7(Handle, TensorDesc x, FilterDesc w,
                                                          ConvDesc conv, TensorDesc y, int,
                                                          int* count, Algorithm* results) {
  const Convolution& c = *as<Convolution>(conv);
  return candidates(c, as<Tensor>(x)->type,
                    check(*as<Tensor>(x), *as<Filter>(w), c, *as<Tensor>(y)), count, results);
}
FAKE_EXPORT Result cudnnGetConvolutionForwardWorkspaceSize(Handle, TensorDesc, FilterDesc, ConvDesc,
                                                           TensorDesc, int32_t algorithm,
                                                           size_t* nbytes) {
  *nbytes = workspace_of(algorithm);
  return kSuccess;
}
FAKE_EXPORT Result cudnnConvolutionForward(Handle handle, const void* alpha, TensorDesc x,
                                           const void* x_data, FilterDesc w, const void* w_data,
                                           ConvDesc conv, int32_t algorithm, void* workspace,
                                           size_t nbytes, const void* beta, TensorDesc y,
                                           void* y_data) {
  const Tensor& in = *as<Tensor>(x);
  const Tensor& out = *as<Tensor>(y);
  const Convolution& c = *as<Convolution>(conv);
  if (scalar(alpha, in.type) != 1.0 || scalar(beta, in.type) != 0.0 ||
      (in.type == kFloat && c.math != kFmaMath) || check(in, *as<Filter>(w), c, out) != kSuccess) {
    return kBadParam;
  }
  if (const Result result = wait(handle, algorithm, workspace, nbytes)) {
    return result;
  }
  std::vector<double> sums(static_cast<size_t>(extent(out)));
  for_each_product(in, *as<Filter>(w), c, out, [&](int64_t i, int64_t k, int64_t o) {
    sums[static_cast<size_t>(o)] += load(x_data, i, in.type) * load(w_data, k, in.type);
  });
  write(out, y_data, sums);
  return kSuccess;
}
FAKE_EXPORT Result cudnnGetConvolutionBackwardDataAlgorithm_v7(Handle, FilterDesc w, TensorDesc dy,
                                                               ConvDesc conv, TensorDesc dx, int,
                                                               int* count, Algorithm* results) {
  const Convolution& c = *as<Convolution>(conv);
  return candidates(c, as<Tensor>(dx)->type,
                    check(*as<Tensor>(dx), *as<Filter>(w), c, *as<Tensor>(dy)), count, results);
}
FAKE_EXPORT Result cudnnGetConvolutionBackwardDataWorkspaceSize(Handle, FilterDesc, TensorDesc,
                                                                ConvDesc, TensorDesc,
                                                                int32_t algorithm, size_t* nbytes) {
  *nbytes = workspace_of(algorithm);
  return kSuccess;
}
FAKE_EXPORT Result cudnnConvolutionBackwardData(Handle handle, const void*, FilterDesc w,
                                                const void* w_data, TensorDesc dy,
                                                const void* dy_data, ConvDesc conv,
                                                int32_t algorithm, void* workspace, size_t nbytes,
                                                const void*, TensorDesc dx, void* dx_data) {
  const Tensor& in = *as<Tensor>(dy);
  const Tensor& out = *as<Tensor>(dx);
  if (const Result result = wait(handle, algorithm, workspace, nbytes)) {
    return result;
  }
  std::vector<double> sums(static_cast<size_t>(extent(out)));
  for_each_product(
      out, *as<Filter>(w), *as<Convolution>(conv), in, [&](int64_t o, int64_t k, int64_t i) {
        sums[static_cast<size_t>(o)] += load(dy_data, i, in.type) * load(w_data, k, in.type);
      });
  write(out, dx_data, sums);
  return kSuccess;
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
