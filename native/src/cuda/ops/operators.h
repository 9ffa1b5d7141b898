#pragma once

#include "cuda/driver/gpu.h"
#include "cuda/kernels/scatter.h"
#include "ops/conv_plan.h"
#include "ops/fft_plan.h"
#include "ops/operand.h"
#include "ops/recurrent_steps.h"
#include "ops/scatter.h"

namespace aoti_plugins::cuda {

/// CUDA's table for the operators: see ops/operand.h, and each operator's header.
struct Operators {
  static constexpr int32_t kType = kCuda;
  static constexpr int64_t kMostScatterDims = kScatterMaxDims;

  /// Makes a tensor's GPU current, and at the end what was current before.
  class Scope {
   public:
    explicit Scope(const Tensor& t) : status_(use_gpu(t.device().index)) {}
    Status status() const { return status_; }

   private:
    ContextGuard guard_;
    Status status_;
  };

  static bool computes(int32_t dtype) { return is_integer(dtype) || is_real(dtype); }
  static bool orders(int32_t dtype) {
    return computes(dtype) || dtype == kUInt16 || dtype == kUInt32 || dtype == kUInt64;
  }

  static Status matmul(Tensor& out, const Tensor* self, const Tensor& a, const Tensor& b,
                       double beta, double alpha);
  static Tensor* convolution(const ConvPlan& plan, const Tensor& input, const Tensor& weight,
                             const Tensor* bias);
  static Status scan(const Tensor& self, Tensor& out, int64_t dim, bool product);
  static Status sort_lines(const Tensor& self, Tensor& values, Tensor& places, int64_t dim,
                           int64_t count, bool descending);
  static Status select_lines(const Tensor& self, Tensor& values, Tensor& places, int64_t dim,
                             int64_t count, bool descending);
  /// The kernel looks at the numbers.
  static Status check_places(const ops::Scatter&) { return Status::kOk; }
  static Status scatter_pass(const ops::Scatter& s, Tensor& out, const Tensor* src, double value,
                             Combine combine);
  static Status fill_counts(Tensor& counts, int32_t number);
  static Status divide(Tensor& out, const Tensor& counts);
  static Status copy(Tensor& out, const Tensor& self);
  static Status fill(Tensor& tensor, const void* element);
  /// A graph would repeat the numbers that it was captured with.
  static Status begin_random();
  static Status store_random(Tensor& out, const Tensor& host);
  static Status recurrent_cell(const ops::RecurrentStep& step);
  static Status check_fft(const Tensor& self, int64_t count);
  static Status fft(const Tensor& self, Tensor& out, const FftPlan& plan, bool real, bool onesided,
                    bool forward);
};

}  // namespace aoti_plugins::cuda
