// Products with weights of 4 and 8 bits, which are read as they are.

#include "ops/small_linear.h"

#include <aoti_plugins/mps_op_shims.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "mps/driver/kernel.h"
#include "mps/driver/kernel_arguments.h"
#include "mps/kernels/sources.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/operators.h"
#include "shim/run_shim.h"

namespace aoti_plugins::mps {
namespace {

// Must match kernels/small_linear_rows.metal and kernels/gemm.metal.
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

size_t ceil_div(int64_t a, int64_t b) {
  return static_cast<size_t>((a + b - 1) / b);
}

Status check(const ops::SmallLinear& l, ops::SmallLinearSizes* ret) {
  AOTIP_RETURN_IF_FAILED(ops::check_small_linear(l, ret));
  AOTIP_CHECK(l.x->dtype() != kInt8, "x is int8, expected float32, float16 or bfloat16");
  AOTIP_CHECK(
      l.scale->dtype() != kFloat64 && l.scale->is_contiguous() &&
          (l.zero == nullptr || (l.zero->dtype() == l.scale->dtype() && l.zero->is_contiguous())),
      "scales and zeros are not contiguous floats of one dtype");
  AOTIP_CHECK(l.bias == nullptr || (l.bias->dtype() == l.x->dtype() && l.bias->is_contiguous()),
              "bias is not contiguous %s", dtype_name(l.x->dtype()));
  return Status::kOk;
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
    Launch launch(
        find_kernel(metal_small_linear_rows, "small_linear_rows", defines + define("ROWS", p.m)));
    return bind(launch, problem)
        .groups({ceil_div(p.n, kRowsGroups * kRowsColumns), 1, 1},
                {static_cast<size_t>(32 * kRowsGroups), 1, 1});
  }
  const Tensor* const tensors[] = {problem.out, problem.x, l.codes, l.scale};
  defines += define("INDEX", has_small_offsets(tensors, 4) ? "int" : "long") +
             define("CONVOLUTION", 0) + define("A_K_FAST", 1) + define("B_K_FAST", 1);
  // As in matmul.cpp.
  const bool large = p.m >= 32 && p.n >= 32;
  const Kernel* kernel =
      large ? find_kernel(metal_gemm, "gemm", defines + define("SIMDGROUP", 1)) : nullptr;
  const bool simdgroup = kernel != nullptr;
  if (!simdgroup) {
    kernel = find_kernel(metal_gemm, "gemm", defines + define("SIMDGROUP", 0));
  }
  const int64_t tile = simdgroup ? 64 : 32;
  Launch launch(kernel);
  return bind(launch, problem)
      .groups({ceil_div(p.n, tile), ceil_div(p.m, tile), 1},
              {static_cast<size_t>(simdgroup ? 128 : 256), 1, 1});
}

Status small_linear(const ops::SmallLinear& l, AtenTensorHandle* ret) {
  ops::SmallLinearSizes sizes{};
  AOTIP_RETURN_IF_FAILED(check(l, &sizes));
  const Tensor& x = *l.x;
  OwnedTensor dense;
  if (!x.is_contiguous()) {
    dense.reset(Tensor::empty(x.ndim(), x.sizes(), x.dtype(), x.device()));
    AOTIP_RETURN_IF_NULL(dense);
    AOTIP_RETURN_IF_FAILED(Operators::copy(*dense, x));
  }
  int64_t shape[Tensor::kMaxDims];
  std::copy_n(x.sizes(), x.ndim(), shape);
  shape[x.ndim() - 1] = sizes.n;
  OwnedTensor out(Tensor::empty(x.ndim(), shape, x.dtype(), x.device()));
  AOTIP_RETURN_IF_NULL(out);
  if (out->numel() > 0) {
    const Problem problem{
        &l,
        dense != nullptr ? dense.get() : &x,
        out.get(),
        {sizes.m, sizes.n, sizes.k, sizes.k / sizes.groups, l.bits == 4 ? kMiddle4 : 0.0F,
         static_cast<int32_t>(l.zero_kind), l.bias != nullptr ? 1 : 0, 0}};
    AOTIP_RETURN_IF_FAILED(run(problem));
  }
  *ret = wrap(out.release());
  return Status::kOk;
}

}  // namespace
}  // namespace aoti_plugins::mps

using namespace aoti_plugins;

AOTITorchError aoti_torch_mps_small_linear(AtenTensorHandle x, AtenTensorHandle* row_scale,
                                           AtenTensorHandle* row_zero, AtenTensorHandle codes,
                                           AtenTensorHandle scale, AtenTensorHandle* zero,
                                           AtenTensorHandle* bias, int64_t bits, int64_t zero_kind,
                                           AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(x, codes, scale);
    AOTIP_CHECK_ARG(ret0);
    AOTIP_CHECK(unwrap(x)->device().type == kMps, "x is on %s, expected mps",
                device_type_name(unwrap(x)->device().type));
    const ops::SmallLinear linear{
        unwrap(x),     unwrap_optional(row_scale), unwrap_optional(row_zero), unwrap(codes),
        unwrap(scale), unwrap_optional(zero),      unwrap_optional(bias),     bits,
        zero_kind};
    return mps::small_linear(linear, ret0);
  });
}
