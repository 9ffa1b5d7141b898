// cumsum and cumprod.

#include <string>

#include "mps/driver/kernel.h"
#include "mps/kernels/sources.h"
#include "mps/ops/lines.h"
#include "mps/ops/metal_types.h"
#include "mps/ops/operators.h"

namespace aoti_plugins::mps {

Status Operators::scan(const Tensor& self, Tensor& out, int64_t dim, bool product) {
  LinesArgs lines;
  const Tensor* const tensors[] = {&out, &self};
  AOTIP_RETURN_IF_FAILED(make_lines(tensors, 2, dim, &lines));
  size_t threads = 32;
  while (threads < 256 && 4 * static_cast<int64_t>(threads) < lines.length) {
    threads *= 2;
  }
  const std::string defines =
      define("FROM", metal_type(self.dtype())) + define("TO", metal_type(out.dtype())) +
      define("ACC", is_integer(out.dtype()) ? "ulong" : "float") +
      define("PRODUCT", product ? 1 : 0) + define("THREADS", static_cast<int64_t>(threads));
  Launch launch(find_kernel(metal_scan, "scan", defines));
  return launch.tensor(self).tensor(out).value(lines).groups({static_cast<size_t>(lines.count)},
                                                             {threads});
}

}  // namespace aoti_plugins::mps
