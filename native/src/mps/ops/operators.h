#pragma once

#include "mps/driver/kernel_arguments.h"
#include "ops/conv_plan.h"
#include "ops/fft_plan.h"
#include "ops/gguf_linear.h"
#include "ops/operand.h"
#include "ops/recurrent_steps.h"
#include "ops/scatter.h"
#include "ops/small_linear.h"

namespace aoti_plugins::mps {

/// The table of Apple GPUs for the operators: see ops/operand.h, and each operator's header.
struct Operators {
  static constexpr int32_t kType = kMps;
  static constexpr int64_t kMostScatterDims = LINES_DIMS;
  using Scope = ops::NoScope;

  /// Float64 is not a dtype of Metal.
  static bool computes(int32_t dtype) {
    return is_integer(dtype) || (is_real(dtype) && dtype != kFloat64);
  }
  static bool orders(int32_t dtype) { return computes(dtype); }

  static Status matmul(Tensor& out, const Tensor* self, const Tensor& a, const Tensor& b,
                       double beta, double alpha);
  static Tensor* convolution(const ConvPlan& plan, const Tensor& input, const Tensor& weight,
                             const Tensor* bias);
  static Status scan(const Tensor& self, Tensor& out, int64_t dim, bool product);
  static Status sort_lines(const Tensor& self, Tensor& values, Tensor& places, int64_t dim,
                           int64_t count, bool descending);
  static constexpr auto select_lines = sort_lines;
  /// The kernel leaves out what is out of range, and tells it: see `kFaultArgument`.
  static Status check_places(const ops::Scatter&) { return Status::kOk; }
  static Status scatter_pass(const ops::Scatter& s, Tensor& out, const Tensor* src, double value,
                             Combine combine);
  static Status fill_counts(Tensor& counts, int32_t number);
  static Status divide(Tensor& out, const Tensor& counts);
  static Status copy(Tensor& out, const Tensor& self);
  static Status begin_random() { return Status::kOk; }
  static Status store_random(Tensor& out, const Tensor& host);
  static Status small_linear(const ops::SmallLinear& linear, AtenTensorHandle* ret);
  static Status gguf_linear(const ops::GgufLinear& linear, AtenTensorHandle* ret);
  static Status recurrent_cell(const ops::RecurrentStep& step);
  static Status check_fft(const Tensor& self, int64_t count);
  static Status fft(const Tensor& self, Tensor& out, const FftPlan& plan, bool real, bool onesided,
                    bool forward);
};

}  // namespace aoti_plugins::mps
