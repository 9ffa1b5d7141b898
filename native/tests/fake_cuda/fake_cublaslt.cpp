// A stand-in for cuBLASLt that computes on the host, for the types float32, float64, int8 and
// float8. It is as strict as the real one about leading dimensions, and about which kernels there
// are for int8 and float8.

#include "fake_cublaslt.h"

#include <cuda.h>
#include <library_types.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "cuda/libraries/cublaslt.h"
#include "fake_cuda.h"
#include "slim/half.h"

namespace {

using namespace aoti_plugins::cuda::lt;

constexpr Result kInvalidValue = 7;

std::atomic<int32_t> last_compute_type{0};
std::atomic<int64_t> products_until_failure{-1};
std::atomic<size_t> choices{0};
std::atomic<size_t> handles_made{0};

struct Desc {
  ComputeType compute;
  cudaDataType scale;
  std::map<int32_t, std::vector<char>> attributes;

  template <typename T>
  T get(int32_t which, T otherwise) const {
    const auto found = attributes.find(which);
    if (found != attributes.end()) {
      std::memcpy(&otherwise, found->second.data(), sizeof(T));
    }
    return otherwise;
  }
};

struct Layout {
  cudaDataType type;
  uint64_t rows;
  uint64_t cols;
  int64_t leading;
  int32_t batch = 1;
  int64_t batch_stride = 0;

  template <typename T>
  int64_t index(int64_t b, uint64_t r, uint64_t c) const {
    return b * batch_stride + static_cast<int64_t>(r) + static_cast<int64_t>(c) * leading;
  }
};

template <typename T>
T* as(void* opaque) {
  return static_cast<T*>(opaque);
}

/// A 16-bit float as the loops below want an element.
template <float (*TO_FLOAT)(uint16_t), uint16_t (*FROM_FLOAT)(float)>
struct Narrow {
  explicit Narrow(double value) : bits(FROM_FLOAT(static_cast<float>(value))) {}
  explicit operator double() const { return static_cast<double>(TO_FLOAT(bits)); }

  uint16_t bits;
};

using Float16 = Narrow<aoti_plugins::half_to_float, aoti_plugins::float_to_half>;
using BFloat16 = Narrow<aoti_plugins::bfloat16_to_float, aoti_plugins::float_to_bfloat16>;

bool is_float8(cudaDataType type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

/// A float8 of 5 and 2 or 4 and 3 bits, without NaN and infinity.
double float8(uint8_t bits, cudaDataType type) {
  const int fraction_bits = type == CUDA_R_8F_E5M2 ? 2 : 3;
  const int bias = type == CUDA_R_8F_E5M2 ? 15 : 7;
  const int exponent = (bits & 0x7f) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double value = std::ldexp(exponent == 0 ? fraction : fraction + (1 << fraction_bits),
                                  (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
  return (bits & 0x80) != 0 ? -value : value;
}

Result check(const Desc& desc, const Layout& a, const Layout& b, const Layout& d) {
  const bool ta = desc.get<int32_t>(kDescTransA, 0) != 0;
  const bool tb = desc.get<int32_t>(kDescTransB, 0) != 0;
  const uint64_t m = ta ? a.cols : a.rows;
  const uint64_t k = ta ? a.rows : a.cols;
  const uint64_t n = tb ? b.rows : b.cols;
  if (m != d.rows || n != d.cols || k != (tb ? b.cols : b.rows)) {
    return kInvalidValue;
  }
  for (const Layout* layout : {&a, &b, &d}) {
    if (layout->leading < static_cast<int64_t>(layout->rows)) {
      return kInvalidValue;
    }
  }
  const auto apart = [&](int64_t unit) { return a.leading % unit != 0 || b.leading % unit != 0; };
  if (a.type == CUDA_R_8I && (!ta || tb || m % 4 != 0 || k % 4 != 0 || apart(4))) {
    return kNotSupported;
  }
  if (is_float8(a.type) && (!ta || tb || k % 16 != 0 || m % 8 != 0 || apart(16) ||
                            desc.get<const void*>(kDescAScalePointer, nullptr) == nullptr)) {
    return kNotSupported;
  }
  if (a.type == CUDA_R_64F && desc.get<uint32_t>(kDescEpilogue, kDefault) != kDefault) {
    return kNotSupported;
  }
  return kSuccess;
}

template <typename In, typename Out, typename Scale>
void multiply(const Desc& desc, const void* alpha, const void* a_data, const Layout& a,
              const void* b_data, const Layout& b, const void* beta, const void* c_data,
              const Layout& c, void* d_data, const Layout& d) {
  const bool ta = desc.get<int32_t>(kDescTransA, 0) != 0;
  const bool tb = desc.get<int32_t>(kDescTransB, 0) != 0;
  const uint32_t epilogue = desc.get<uint32_t>(kDescEpilogue, kDefault);
  const Out* bias = desc.get<const Out*>(kDescBiasPointer, nullptr);
  const uint64_t inner = ta ? a.rows : a.cols;
  for (int64_t batch = 0; batch < d.batch; ++batch) {
    for (uint64_t i = 0; i < d.rows; ++i) {
      for (uint64_t j = 0; j < d.cols; ++j) {
        double sum = 0;
        for (uint64_t k = 0; k < inner; ++k) {
          sum += static_cast<double>(static_cast<const In*>(
                     a_data)[ta ? a.index<In>(batch, k, i) : a.index<In>(batch, i, k)]) *
                 static_cast<double>(static_cast<const In*>(
                     b_data)[tb ? b.index<In>(batch, j, k) : b.index<In>(batch, k, j)]);
        }
        double value = static_cast<double>(*static_cast<const Scale*>(alpha)) * sum;
        const double factor = static_cast<double>(*static_cast<const Scale*>(beta));
        if (factor != 0.0) {
          value += factor *
                   static_cast<double>(static_cast<const Out*>(c_data)[c.index<Out>(batch, i, j)]);
        }
        value += (epilogue & kBias) != 0 ? static_cast<double>(bias[i]) : 0.0;
        value = (epilogue & kRelu) != 0 && value < 0 ? 0.0 : value;
        static_cast<Out*>(d_data)[d.index<Out>(batch, i, j)] = static_cast<Out>(value);
      }
    }
  }
}

/// A product that a stream has still to do, also again and again in a graph.
struct Call {
  Desc desc;
  Layout a_layout;
  Layout b_layout;
  Layout c_layout;
  Layout d_layout;
  const void* a;
  const void* b;
  const void* c;
  void* d;
  alignas(8) char alpha[8] = {};
  alignas(8) char beta[8] = {};
};

Result submit(CUstream stream, std::function<void()> work) {
  return submit_kept(stream, std::move(work)) == CUDA_SUCCESS ? kSuccess : kInvalidValue;
}

/// d = (a^T * its factors) @ (b * its factors) + bias, as float32.
void multiply_scaled(const Desc& desc, const void* a_data, const Layout& a, const void* b_data,
                     const Layout& b, void* d_data, const Layout& d) {
  const bool by_row = desc.get<int32_t>(kDescAScaleMode, kScaleScalar) == kScaleOuterVector;
  const float* a_scale = desc.get<const float*>(kDescAScalePointer, nullptr);
  const float* b_scale = desc.get<const float*>(kDescBScalePointer, nullptr);
  const uint16_t* bias = desc.get<const uint16_t*>(kDescBiasPointer, nullptr);
  for (uint64_t i = 0; i < d.rows; ++i) {
    for (uint64_t j = 0; j < d.cols; ++j) {
      double sum = 0;
      for (uint64_t k = 0; k < a.rows; ++k) {
        sum += float8(static_cast<const uint8_t*>(a_data)[a.index<uint8_t>(0, k, i)], a.type) *
               float8(static_cast<const uint8_t*>(b_data)[b.index<uint8_t>(0, k, j)], b.type);
      }
      sum *= static_cast<double>(a_scale[by_row ? i : 0]) *
             static_cast<double>(b_scale[by_row ? j : 0]);
      if (bias != nullptr) {
        sum += static_cast<double>(aoti_plugins::bfloat16_to_float(bias[i]));
      }
      static_cast<float*>(d_data)[d.index<float>(0, i, j)] = static_cast<float>(sum);
    }
  }
}

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT int32_t fake_cublaslt_compute_type() {
  return last_compute_type;
}
FAKE_EXPORT size_t fake_cublaslt_choices() {
  return choices;
}
FAKE_EXPORT size_t fake_cublaslt_handles() {
  return handles_made;
}
FAKE_EXPORT void fake_cublaslt_fail_after(size_t products) {
  products_until_failure = static_cast<int64_t>(products);
}
FAKE_EXPORT Result cublasLtCreate(Handle* ret) {
  ++handles_made;
  *ret = reinterpret_cast<Handle>(new int(0));
  return kSuccess;
}
FAKE_EXPORT Result cublasLtMatmulDescCreate(MatmulDesc* ret, ComputeType compute,
                                            cudaDataType scale) {
  *ret = reinterpret_cast<MatmulDesc>(new Desc{compute, scale, {}});
  return kSuccess;
}
FAKE_EXPORT Result cublasLtMatmulDescDestroy(MatmulDesc desc) {
  delete as<Desc>(desc);
  return kSuccess;
}
FAKE_EXPORT Result cublasLtMatmulDescSetAttribute(MatmulDesc desc, MatmulDescAttribute which,
                                                  const void* value, size_t nbytes) {
  const char* bytes = static_cast<const char*>(value);
  as<Desc>(desc)->attributes[which].assign(bytes, bytes + nbytes);
  return kSuccess;
}
FAKE_EXPORT Result cublasLtMatrixLayoutCreate(MatrixLayout* ret, cudaDataType type, uint64_t rows,
                                              uint64_t cols, int64_t leading) {
  *ret = reinterpret_cast<MatrixLayout>(new Layout{type, rows, cols, leading});
  return kSuccess;
}
FAKE_EXPORT Result cublasLtMatrixLayoutDestroy(MatrixLayout layout) {
  delete as<Layout>(layout);
  return kSuccess;
}
FAKE_EXPORT Result cublasLtMatrixLayoutSetAttribute(MatrixLayout layout, LayoutAttribute which,
                                                    const void* value, size_t nbytes) {
  if (which == kLayoutBatchCount && nbytes == sizeof(int32_t)) {
    std::memcpy(&as<Layout>(layout)->batch, value, nbytes);
  } else if (which == kLayoutBatchStride && nbytes == sizeof(int64_t)) {
    std::memcpy(&as<Layout>(layout)->batch_stride, value, nbytes);
  } else {
    return kInvalidValue;
  }
  return kSuccess;
}
FAKE_EXPORT Result cublasLtMatmulPreferenceCreate(Preference* ret) {
  *ret = reinterpret_cast<Preference>(new int(0));
  return kSuccess;
}
FAKE_EXPORT Result cublasLtMatmulPreferenceDestroy(Preference preference) {
  delete as<int>(preference);
  return kSuccess;
}
FAKE_EXPORT Result cublasLtMatmulPreferenceSetAttribute(Preference, PreferenceAttribute,
                                                        const void*, size_t) {
  return kSuccess;
}
FAKE_EXPORT Result cublasLtMatmulAlgoGetHeuristic(Handle, MatmulDesc desc, MatrixLayout a,
                                                  MatrixLayout b, MatrixLayout, MatrixLayout d,
                                                  Preference, int, Heuristic* results,
                                                  int* ret_count) {
  ++choices;
  const Result result = check(*as<Desc>(desc), *as<Layout>(a), *as<Layout>(b), *as<Layout>(d));
  *ret_count = result == kSuccess ? 1 : 0;
  results[0] = {};
  results[0].workspace_nbytes = 4096;
  return result;
}
FAKE_EXPORT Result cublasLtMatmul(Handle, MatmulDesc desc, const void* alpha, const void* a,
                                  MatrixLayout a_layout, const void* b, MatrixLayout b_layout,
                                  const void* beta, const void* c, MatrixLayout c_layout, void* d,
                                  MatrixLayout d_layout, const Algorithm*, void* workspace,
                                  size_t workspace_nbytes, CUstream stream) {
  if (workspace == nullptr || workspace_nbytes != 4096) {
    return kInvalidValue;
  }
  if (products_until_failure >= 0 && products_until_failure-- == 0) {
    return kInvalidValue;
  }
  const Desc& description = *as<Desc>(desc);
  last_compute_type = description.compute;
  const Layout& first = *as<Layout>(a_layout);
  const size_t scale_nbytes = first.type == CUDA_R_64F ? 8 : 4;
  Call call{
      description, first, *as<Layout>(b_layout), *as<Layout>(c_layout), *as<Layout>(d_layout), a, b,
      c,           d};
  std::memcpy(call.alpha, alpha, scale_nbytes);
  std::memcpy(call.beta, beta, scale_nbytes);
  const auto run = [&](auto multiply_typed) {
    return submit(stream, [call, multiply_typed] {
      multiply_typed(call.desc, call.alpha, call.a, call.a_layout, call.b, call.b_layout, call.beta,
                     call.c, call.c_layout, call.d, call.d_layout);
    });
  };
  switch (first.type) {
    case CUDA_R_32F:
      return run(multiply<float, float, float>);
    case CUDA_R_64F:
      return run(multiply<double, double, double>);
    case CUDA_R_16F:
      return run(multiply<Float16, Float16, float>);
    case CUDA_R_16BF:
      return run(multiply<BFloat16, BFloat16, float>);
    case CUDA_R_8I:
      return run(multiply<int8_t, int32_t, int32_t>);
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return submit(stream, [call] {
        multiply_scaled(call.desc, call.a, call.a_layout, call.b, call.b_layout, call.d,
                        call.d_layout);
      });
    default:
      return kNotSupported;
  }
}
