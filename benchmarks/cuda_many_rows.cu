// Time of the kernels for many rows of small weights, each way to divide a product, on this GPU;
// beside cuBLAS with a weight of 16 bits, and beside parts that become a matrix for it. Says where
// a result is wrong. What native/src/cuda/ops/many_rows_plan.cpp knows of times is from here.
//
//   nvcc -O3 -std=c++17 -I native/src -arch=sm_90a benchmarks/cuda_many_rows.cu \
//        -o many_rows -lcublas -lcuda
//   ./many_rows BITS GROUP_SIZE [COLUMNS_OF_WEIGHT [ROWS]]     # GROUP_SIZE 0: one group for a row
//
// Weights change from call to call until they no longer fit the cache; calls run in a CUDA graph,
// one when the one before has ended. For each row count and weight a line: cuBLAS, parts, and
// "columns of a block/blocks of a cluster" with microseconds.

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuda/kernels/many_rows.cu"
#include "cuda/kernels/small_weights.cu"

namespace {

constexpr size_t kColdNbytes = size_t{160} << 20;
constexpr int kPartElements = 4 << 20;  // as ops/weight_parts.h has it
constexpr int kMostRows = 2048;
constexpr int kCalls = 24;
constexpr double kMostError = 3e-3;

void check(int code, const char* what) {
  if (code != 0) {
    std::printf("%s failed: %d\n", what, code);
    std::exit(1);
  }
}
#define CHECK(call) check(static_cast<int>(call), #call)

__device__ uint32_t scrambled(uint32_t i, uint32_t seed) {
  i = i * 2654435761u + seed;
  i ^= i >> 15;
  i *= 2246822519u;
  return i ^ i >> 13;
}

__global__ void fill_codes(uint32_t* to, size_t count, uint32_t seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    to[i] = scrambled(static_cast<uint32_t>(i), seed);
  }
}

__global__ void fill_halves(__nv_bfloat16* to, size_t count, float middle, float reach) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    const float one = static_cast<float>(scrambled(static_cast<uint32_t>(i), 7) & 0xffff);
    to[i] = static_cast<__nv_bfloat16>(middle + reach * (one / 32768.0f - 1.0f));
  }
}

/// Squares of differences and of what is expected.
__global__ void compare(const __nv_bfloat16* found, const __nv_bfloat16* expected, size_t count,
                        double* sums) {
  double difference = 0;
  double square = 0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    const double other = static_cast<float>(expected[i]);
    const double apart = static_cast<float>(found[i]) - other;
    difference += apart == apart ? apart * apart : 1e30;
    square += other * other;
  }
  atomicAdd(sums, difference);
  atomicAdd(sums + 1, square);
}

using Kernel = void (*)(const SmallWeightProduct, const ManyRowsShape, const TensorMap);

struct Candidate {
  Kernel kernel;
  int bits;
  int columns;
};

constexpr Candidate kCandidates[] = {
    {aotip_many_rows_4_bf16_64, 4, 64},   {aotip_many_rows_4_bf16_128, 4, 128},
    {aotip_many_rows_4_bf16_256, 4, 256}, {aotip_many_rows_8_bf16_64, 8, 64},
    {aotip_many_rows_8_bf16_128, 8, 128}, {aotip_many_rows_8_bf16_256, 8, 256}};

template <typename T>
T* allocated(size_t count) {
  void* found = nullptr;
  CHECK(cudaMalloc(&found, count * sizeof(T)));
  return static_cast<T*>(found);
}

class Bench {
 public:
  Bench(int bits, int group_size) : bits_(bits), group_size_(group_size) {
    CHECK(cudaStreamCreate(&stream_));
    CHECK(cublasCreate(&blas_));
    CHECK(cublasSetStream(blas_, stream_));
    CHECK(cublasSetWorkspace(blas_, allocated<char>(size_t{64} << 20), size_t{64} << 20));
    CHECK(cudaEventCreate(&begin_));
    CHECK(cudaEventCreate(&end_));
    CHECK(cudaMallocManaged(&sums_, 2 * sizeof(double)));
    int count = 0;
    CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
    multiprocessors_ = count;
    part_ = allocated<__nv_bfloat16>(2 * kPartElements);
    for (const Candidate& one : kCandidates) {
      CHECK(cudaFuncSetAttribute(one.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 ManyRowsTile{one.columns}.shared_nbytes()));
    }
  }

  void run(int n, int k, const std::vector<int>& rows) {
    make(n, k);
    for (const int m : rows) {
      product_.m = m;
      const double blas =
          timed([&](int i) { multiply(matrices_[i % matrices_.size()], 0, n, r_); });
      multiply(matrices_[0], 0, n, r_);
      std::printf("%5d x %5d x %5d  cublas %.1f  parts %.1f ", m, n, k, blas,
                  timed([&](int i) { by_parts(i); }));
      for (const Candidate& one : kCandidates) {
        for (const int splits : {1, 2, 3, 4, 6, 8}) {
          if (one.bits == bits_ && splits <= tiles_ && (one.columns < 2 * m || one.columns == 64)) {
            measure(one, splits);
          }
        }
      }
      std::printf("\n");
      std::fflush(stdout);
    }
    free_all();
  }

 private:
  void make(int n, int k) {
    const int groups = group_size_ == 0 ? 1 : k / group_size_;
    const size_t nbytes = size_t(n) * k * bits_ / 8;
    tiles_ = (k + (bits_ == 4 ? 128 : 64) - 1) / (bits_ == 4 ? 128 : 64);
    weights_.resize(std::min<size_t>(std::max<size_t>(2, kColdNbytes / nbytes), 32));
    for (size_t i = 0; i < weights_.size(); ++i) {
      weights_[i] = allocated<uint32_t>(nbytes / 4);
      fill_codes<<<1024, 256, 0, stream_>>>(weights_[i], nbytes / 4, static_cast<uint32_t>(i));
    }
    scale_ = allocated<__nv_bfloat16>(size_t(n) * groups);
    fill_halves<<<256, 256, 0, stream_>>>(scale_, size_t(n) * groups, 0.01f, 0.005f);
    x_ = allocated<__nv_bfloat16>(size_t{kMostRows} * k);
    fill_halves<<<1024, 256, 0, stream_>>>(x_, size_t{kMostRows} * k, 0.0f, 1.0f);
    out_ = allocated<__nv_bfloat16>(size_t{kMostRows} * n);
    r_ = allocated<__nv_bfloat16>(size_t{kMostRows} * n);
    product_ = {};
    product_.x = x_;
    product_.weight = weights_[0];
    product_.scale = scale_;
    product_.out = out_;
    product_.x_step = k;
    product_.scale_tile_step = groups * kWeightTileRows;
    product_.scale_group_step = kWeightTileRows;
    product_.scale_row_step = 1;
    product_.n = n;
    product_.k = k;
    product_.group_shift = kGroupOfRow;
    for (int shift = 0; group_size_ != 0 && shift < kGroupOfRow; ++shift) {
      if (1 << shift == group_size_) {
        product_.group_shift = shift;
        break;
      }
    }
    matrices_.resize(std::min<size_t>(std::max<size_t>(2, kColdNbytes / (size_t(n) * k * 2)), 16));
    for (__nv_bfloat16*& matrix : matrices_) {
      matrix = allocated<__nv_bfloat16>(size_t(n) * k);
      SmallWeightProduct p = product_;
      unpack(p, matrix, 0, n);
    }
    CHECK(cudaStreamSynchronize(stream_));
  }

  void free_all() {
    for (void* one : weights_) {
      cudaFree(one);
    }
    for (void* one : matrices_) {
      cudaFree(one);
    }
    for (void* one : {scale_, x_, out_, r_}) {
      cudaFree(one);
    }
  }

  void unpack(SmallWeightProduct p, __nv_bfloat16* to, int first, int rows) {
    p.out = to;
    const auto kernel = bits_ == 4 ? aotip_unpack_weights_4_bf16 : aotip_unpack_weights_8_bf16;
    kernel<<<rows / kWeightTileRows * tiles_, 32, 0, stream_>>>(p, first);
  }

  /// Columns of the result from `first` on, by cuBLAS.
  void multiply(const __nv_bfloat16* matrix, int first, int rows, __nv_bfloat16* to) {
    const float one = 1;
    const float none = 0;
    const int k = product_.k;
    CHECK(cublasGemmEx(blas_, CUBLAS_OP_T, CUBLAS_OP_N, rows, product_.m, k, &one, matrix,
                       CUDA_R_16BF, k, x_, CUDA_R_16BF, k, &none, to + first, CUDA_R_16BF,
                       product_.n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  }

  void by_parts(int i) {
    SmallWeightProduct p = product_;
    p.weight = weights_[static_cast<size_t>(i) % weights_.size()];
    const int most = std::min(kPartElements / p.k / 8 * 8, p.n);
    for (int first = 0; first < p.n; first += most) {
      const int rows = std::min(most, p.n - first);
      unpack(p, part_, first, rows);
      multiply(part_, first, rows, out_);
    }
  }

  TensorMap map_of(int columns) {
    const cuuint64_t sizes[] = {static_cast<cuuint64_t>(product_.k),
                                static_cast<cuuint64_t>(product_.m)};
    const cuuint64_t strides[] = {sizes[0] * 2};
    const cuuint32_t box[] = {kSlabDepth, static_cast<cuuint32_t>(columns)};
    const cuuint32_t steps[] = {1, 1};
    TensorMap map;
    static_assert(sizeof(map) == sizeof(CUtensorMap), "a map of the driver");
    CHECK(cuTensorMapEncodeTiled(
        reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, x_, sizes, strides,
        box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
  }

  /// As many_rows_plan.cpp has it.
  int scaled_parts() const {
    return group_size_ == 32 ? 15 : group_size_ == 64 ? 5 : group_size_ == 0 ? 0 : 1;
  }

  void measure(const Candidate& one, int splits) {
    const int x_tiles = (product_.m + one.columns - 1) / one.columns;
    const int tiles = x_tiles * ((product_.n + kManyRowsOfWeight - 1) / kManyRowsOfWeight);
    if (splits > 1 && tiles * splits > 4 * multiprocessors_) {
      return;
    }
    const int k_tiles = (product_.k + kPlaceDepth - 1) / kPlaceDepth;
    const ManyRowsShape shape{splits,
                              x_tiles,
                              k_tiles / splits,
                              k_tiles % splits,
                              scaled_parts(),
                              ManyRowsTile{one.columns}.own_eights(splits)};
    const TensorMap map = map_of(one.columns);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned int>(splits), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = tiles * splits;
    config.blockDim = kManyRowsThreads;
    config.dynamicSmemBytes = ManyRowsTile{one.columns}.shared_nbytes();
    config.stream = stream_;
    config.attrs = &attribute;
    config.numAttrs = splits > 1 ? 1 : 0;
    const auto call = [&](int i) {
      SmallWeightProduct p = product_;
      p.weight = weights_[static_cast<size_t>(i) % weights_.size()];
      CHECK(cudaLaunchKernelEx(&config, one.kernel, static_cast<const SmallWeightProduct>(p), shape,
                               map));
    };
    const size_t count = size_t(product_.m) * product_.n;
    CHECK(cudaMemsetAsync(out_, 0xff, count * 2, stream_));
    call(0);
    CHECK(cudaStreamSynchronize(stream_));
    sums_[0] = sums_[1] = 0;
    compare<<<256, 256, 0, stream_>>>(out_, r_, count, sums_);
    CHECK(cudaStreamSynchronize(stream_));
    const double error = std::sqrt(sums_[0] / sums_[1]);
    std::printf(" %d/%d %.1f", one.columns, splits, timed(call));
    if (error > kMostError) {
      std::printf(" WRONG by %.3g", error);
    }
  }

  /// Microseconds of a call, the fastest of three graphs of them.
  template <typename Call>
  double timed(const Call& call) {
    for (int i = 0; i < 3; ++i) {
      call(i);
    }
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    CHECK(cudaStreamSynchronize(stream_));
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < kCalls; ++i) {
      call(i);
    }
    CHECK(cudaStreamEndCapture(stream_, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphLaunch(ready, stream_));
    float best = 1e9f;
    for (int round = 0; round < 3; ++round) {
      CHECK(cudaEventRecord(begin_, stream_));
      CHECK(cudaGraphLaunch(ready, stream_));
      CHECK(cudaEventRecord(end_, stream_));
      CHECK(cudaStreamSynchronize(stream_));
      float taken = 0;
      CHECK(cudaEventElapsedTime(&taken, begin_, end_));
      best = std::min(best, taken);
    }
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));
    return best * 1000 / kCalls;
  }

  const int bits_;
  const int group_size_;
  int multiprocessors_ = 0;
  int tiles_ = 0;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  double* sums_ = nullptr;
  SmallWeightProduct product_{};
  std::vector<uint32_t*> weights_;
  std::vector<__nv_bfloat16*> matrices_;
  __nv_bfloat16* scale_ = nullptr;
  __nv_bfloat16* x_ = nullptr;
  __nv_bfloat16* out_ = nullptr;
  __nv_bfloat16* r_ = nullptr;
  __nv_bfloat16* part_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const auto given = [&](int i, int otherwise) {
    return i < argc ? std::atoi(argv[i]) : otherwise;
  };
  if (argc < 3 || (given(1, 0) != 4 && given(1, 0) != 8)) {
    std::printf("usage: %s BITS GROUP_SIZE [COLUMNS_OF_WEIGHT [ROWS]]\n", argv[0]);
    return 2;
  }
  const std::vector<int> rows = argc > 4 ? std::vector<int>{std::min(given(4, 64), kMostRows)}
                                         : std::vector<int>{24, 64, 128, 256, 512, 1024, 2048};
  Bench bench(given(1, 4), given(2, 128));
  for (const auto& [n, k] : {std::pair<int, int>{2048, 2048},
                             {4096, 4096},
                             {16384, 2048},
                             {2048, 8192},
                             {28672, 4096},
                             {4096, 14336}}) {
    if (argc <= 3 || n == given(3, 0)) {
      bench.run(n, k, rows);
    }
  }
  return 0;
}
