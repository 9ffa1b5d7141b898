// Products with weights of 4 and 8 bits, which are read as they are.

#include <cstdint>
#include <string>

#include "mps/driver/kernel.h"
#include "mps/driver/kernel_arguments.h"
#include "mps/kernels/sources.h"
#include "mps/ops/gemm_tiles.h"
#include "mps/ops/linear_operands.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/operators.h"

namespace aoti_plugins::mps {
namespace {

// Must match kernels/small_linear_rows.metal.
constexpr int64_t kRowsGroups = 8;
constexpr int64_t kRowsColumns = 4;
constexpr int64_t kMaxRows = 4;
constexpr float kMiddle4 = 8;  // the code of 4 bits that stands for 0

/// A product, after all checks.
struct Problem {
  const ops::SmallLinear* linear;
  const Tensor* x;  ///< row-major
  const Tensor* out;
  SmallLinearArgs args;
};

Status check(const ops::SmallLinear& l, ops::SmallLinearSizes* ret) {
  AOTIP_RETURN_IF_FAILED(ops::check_small_linear(l, ret));
  AOTIP_CHECK(l.x->dtype() != kInt8, "x is int8, expected float32, float16 or bfloat16");
  AOTIP_CHECK(
      l.scale->dtype() != kFloat64 && l.scale->is_contiguous() &&
          (l.zero == nullptr || (l.zero->dtype() == l.scale->dtype() && l.zero->is_contiguous())),
      "scales and zeros are not contiguous floats of one dtype");
  return check_bias(l.bias, *l.x);
}

Launch& bind(Launch& launch, const Problem& p) {
  const ops::SmallLinear& l = *p.linear;
  return launch.tensor(*p.x)
      .tensor(*l.codes)
      .tensor(l.bias != nullptr ? *l.bias : *p.out)
      .tensor(*p.out)
      .value(p.args)
      .tensor(*l.scale)
      .tensor(l.zero != nullptr ? *l.zero : *l.scale);
}

bool is_aligned(const Tensor& t, size_t nbytes) {
  return reinterpret_cast<uintptr_t>(t.data()) % nbytes == 0;
}

/// Few rows are bound by reading the weight; for others a tile of it becomes floats, which stay in
/// the memory of a group of threads.
Status run(const Problem& problem) {
  const ops::SmallLinear& l = *problem.linear;
  const SmallLinearArgs& p = problem.args;
  std::string defines = define("T", metal_type(problem.out->dtype())) +
                        define("S", metal_type(l.scale->dtype())) + define("CODES", l.bits);
  if (p.m <= kMaxRows && is_aligned(*l.codes, 4) &&
      is_aligned(*problem.x, 4 * problem.x->itemsize())) {
    constexpr int64_t kColumns = kRowsGroups * kRowsColumns;
    Launch launch(
        find_kernel(metal_small_linear_rows, "small_linear_rows", defines + define("ROWS", p.m)));
    return bind(launch, problem)
        .groups({static_cast<size_t>((p.n + kColumns - 1) / kColumns), 1, 1},
                {static_cast<size_t>(32 * kRowsGroups), 1, 1});
  }
  const Tensor* const tensors[] = {problem.out, problem.x, l.codes, l.scale};
  defines += define("INDEX", has_small_offsets(tensors, 4) ? "int" : "long") +
             define("CONVOLUTION", 0) + define("A_K_FAST", 1) + define("B_K_FAST", 1);
  const GemmTiles tiles = gemm_tiles(defines, p.m, p.n, p.k);
  Launch launch(tiles.kernel);
  return bind(launch, problem).groups(tiles.groups(p.m, p.n, 1), tiles.group);
}

}  // namespace

Status Operators::small_linear(const ops::SmallLinear& l, AtenTensorHandle* ret) {
  ops::SmallLinearSizes sizes{};
  AOTIP_RETURN_IF_FAILED(check(l, &sizes));
  LinearOperands operands;
  AOTIP_RETURN_IF_FAILED(make_operands(*l.x, sizes.n, &operands));
  if (operands.out->numel() > 0) {
    const Problem problem{
        &l,
        &operands.rows(*l.x),
        operands.out.get(),
        {sizes.m, sizes.n, sizes.k, sizes.k / sizes.groups, l.bits == 4 ? kMiddle4 : 0.0F,
         static_cast<int32_t>(l.zero_kind), l.bias != nullptr ? 1 : 0, 0}};
    AOTIP_RETURN_IF_FAILED(run(problem));
  }
  *ret = wrap(operands.out.release());
  return Status::kOk;
}

}  // namespace aoti_plugins::mps
