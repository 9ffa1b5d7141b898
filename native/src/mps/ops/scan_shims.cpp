// cumsum and cumprod.

#include <aoti_plugins/mps_op_shims.h>

#include <algorithm>
#include <string>

#include "mps/driver/kernel.h"
#include "mps/kernels/sources.h"
#include "mps/ops/lines.h"
#include "mps/ops/metal_types.h"
#include "shim/run_shim.h"
#include "shim/wrap_dim.h"

using namespace aoti_plugins;

namespace {

Status run(const Tensor& self, const Tensor& out, int64_t dim, bool product) {
  if (out.numel() == 0) {
    return Status::kOk;
  }
  mps::LinesArgs lines;
  const Tensor* const tensors[] = {&out, &self};
  AOTIP_RETURN_IF_FAILED(mps::make_lines(tensors, 2, dim, &lines));
  size_t threads = 32;
  while (threads < 256 && 4 * static_cast<int64_t>(threads) < lines.length) {
    threads *= 2;
  }
  using mps::define;
  const std::string defines =
      define("FROM", mps::metal_type(self.dtype())) + define("TO", mps::metal_type(out.dtype())) +
      define("ACC", is_integer(out.dtype()) ? "ulong" : "float") +
      define("PRODUCT", product ? 1 : 0) + define("THREADS", static_cast<int64_t>(threads));
  mps::Launch launch(mps::find_kernel(mps::metal_scan, "scan", defines));
  return launch.tensor(self).tensor(out).value(lines).groups({static_cast<size_t>(lines.count)},
                                                             {threads});
}

/// Float64 is not a dtype of Metal.
bool is_summed(int32_t dtype) {
  return is_integer(dtype) || (is_real(dtype) && dtype != kFloat64);
}

Status scan(AtenTensorHandle self, int64_t dim, const int32_t* dtype, bool product,
            AtenTensorHandle* ret0) {
  AOTIP_CHECK_TENSOR(self);
  AOTIP_CHECK_ARG(ret0);
  const Tensor& t = *unwrap(self);
  const int32_t from = t.dtype();
  const int32_t to = dtype != nullptr   ? *dtype
                     : is_integer(from) ? static_cast<int32_t>(kInt64)
                                        : from;
  AOTIP_RETURN_IF_FAILED(mps::check_on_mps(t, "self"));
  AOTIP_CHECK(is_summed(from) && is_summed(to), "no running %s of %s as %s on mps",
              product ? "product" : "sum", dtype_name(from), dtype_name(to));
  AOTIP_RETURN_IF_FAILED(wrap_dim(t, dim, &dim));
  OwnedTensor out(Tensor::empty(t.ndim(), t.sizes(), to, t.device()));
  if (out == nullptr) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(run(t, *out, dim, product));
  *ret0 = wrap(out.release());
  return Status::kOk;
}

}  // namespace

AOTITorchError aoti_torch_mps_cumsum(AtenTensorHandle self, int64_t dim, int32_t* dtype,
                                     AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] { return scan(self, dim, dtype, false, ret0); });
}

AOTITorchError aoti_torch_mps_cumprod(AtenTensorHandle self, int64_t dim, int32_t* dtype,
                                      AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] { return scan(self, dim, dtype, true, ret0); });
}
