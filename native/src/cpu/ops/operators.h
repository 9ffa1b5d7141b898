#pragma once

#include "ops/conv_plan.h"
#include "ops/gguf_linear.h"
#include "ops/operand.h"
#include "ops/scatter.h"
#include "ops/small_linear.h"

namespace aoti_plugins::cpu {

/// The CPU's table for the operators: see ops/operand.h, and each operator's header.
struct Operators {
  static constexpr int32_t kType = kCpu;
  static constexpr int64_t kMostScatterDims = Tensor::kMaxDims;
  using Scope = ops::NoScope;

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
  static constexpr auto select_lines = sort_lines;
  static Status check_places(const ops::Scatter& s);
  static Status scatter_pass(const ops::Scatter& s, Tensor& out, const Tensor* src, double value,
                             Combine combine);
  static Status fill_counts(Tensor& counts, int32_t number);
  static Status divide(Tensor& out, const Tensor& counts);
  static Status copy(Tensor& out, const Tensor& self);
  static Status fill(Tensor& tensor, const void* element);
  static Status small_linear(const ops::SmallLinear& linear, AtenTensorHandle* ret);
  static Status gguf_linear(const ops::GgufLinear& linear, AtenTensorHandle* ret);
  static Status begin_random() { return Status::kOk; }
};

}  // namespace aoti_plugins::cpu
