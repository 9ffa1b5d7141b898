// Products with weights in blocks of GGUF files.

#include <algorithm>
#include <cstdint>
#include <string>

#include "mps/driver/kernel.h"
#include "mps/driver/kernel_arguments.h"
#include "mps/kernels/sources.h"
#include "mps/ops/linear_operands.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/operators.h"

namespace aoti_plugins::mps {
namespace {

// Must match kernels/gguf_linear.metal.
constexpr int64_t kRowsGroups = 8;
constexpr int64_t kRowsColumns = 4;
constexpr int64_t kMaxRows = 4;
// For so many rows the blocks are read again for each four. A matrix of 16 bits is written and
// read, which is as many bytes as reading blocks five to seven times.
constexpr int64_t kFewRows = 16;

/// A product, after all checks: x [m, k] and out [m, n], row-major.
struct Problem {
  const ops::GgufLinear* linear;
  ops::GgufLinearSizes sizes;
  const Tensor* x;
  Tensor* out;
  std::string defines;
};

Status run_rows(const Problem& p) {
  const ops::GgufLinearSizes& s = p.sizes;
  const Tensor* bias = p.linear->bias;
  for (int64_t row = 0; row < s.m; row += kMaxRows) {
    const int64_t rows = std::min(kMaxRows, s.m - row);
    const GgufLinearArgs args{s.n, s.k, row, bias != nullptr ? 1 : 0, 0};
    const int64_t groups = (s.n + kRowsGroups * kRowsColumns - 1) / (kRowsGroups * kRowsColumns);
    Launch launch(
        find_kernel(metal_gguf_linear, "gguf_linear_rows", p.defines + define("ROWS", rows)));
    AOTIP_RETURN_IF_FAILED(launch.tensor(*p.x)
                               .tensor(*p.linear->blocks)
                               .tensor(bias != nullptr ? *bias : *p.out)
                               .tensor(*p.out)
                               .value(args)
                               .groups({static_cast<size_t>(groups), 1, 1},
                                       {static_cast<size_t>(32 * kRowsGroups), 1, 1}));
  }
  return Status::kOk;
}

Status run_matrix(const Problem& p) {
  const ops::GgufLinearSizes& s = p.sizes;
  const int64_t sizes[] = {s.n, s.k};
  OwnedTensor weight(Tensor::empty(2, sizes, p.out->dtype(), p.out->device()));
  AOTIP_RETURN_IF_NULL(weight);
  Launch launch(find_kernel(metal_gguf_linear, "gguf_widen", p.defines + define("ROWS", 1)));
  AOTIP_RETURN_IF_FAILED(
      launch.tensor(*p.linear->blocks)
          .tensor(*weight)
          .threads({32, static_cast<size_t>(s.n * (s.k / ops::kGgufBlock))}, {32}));
  const int64_t turned[] = {s.k, s.n};
  const int64_t strides[] = {1, s.k};
  OwnedTensor factor(weight->view(2, turned, strides, 0, weight->dtype()));
  AOTIP_RETURN_IF_NULL(factor);
  const Tensor* bias = p.linear->bias;
  return Operators::matmul(*p.out, bias, *p.x, *factor, bias != nullptr ? 1 : 0, 1);
}

/// The same elements as rows.
OwnedTensor as_rows(const Tensor& t, int64_t rows, int64_t columns) {
  const int64_t sizes[] = {rows, columns};
  const int64_t strides[] = {columns, 1};
  return OwnedTensor(t.view(2, sizes, strides, t.storage_offset(), t.dtype()));
}

}  // namespace

Status Operators::gguf_linear(const ops::GgufLinear& l, AtenTensorHandle* ret) {
  ops::GgufLinearSizes s{};
  AOTIP_RETURN_IF_FAILED(ops::check_gguf_linear(l, &s));
  AOTIP_RETURN_IF_FAILED(check_bias(l.bias, *l.x));
  LinearOperands operands;
  AOTIP_RETURN_IF_FAILED(make_operands(*l.x, s.n, &operands));
  if (operands.out->numel() > 0) {
    const OwnedTensor rows = as_rows(operands.rows(*l.x), s.m, s.k);
    const OwnedTensor results = as_rows(*operands.out, s.m, s.n);
    AOTIP_RETURN_IF_NULL(rows);
    AOTIP_RETURN_IF_NULL(results);
    const Problem problem{&l, s, rows.get(), results.get(),
                          define("T", metal_type(l.x->dtype())) + define("KIND", s.bits)};
    AOTIP_RETURN_IF_FAILED(s.m <= kFewRows ? run_rows(problem) : run_matrix(problem));
  }
  *ret = wrap(operands.out.release());
  return Status::kOk;
}

}  // namespace aoti_plugins::mps
