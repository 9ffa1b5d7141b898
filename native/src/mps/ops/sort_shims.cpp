// sort and topk: the values of each line in order, with their places.

#include <aoti_plugins/mps_op_shims.h>

#include "mps/ops/metal_types.h"
#include "mps/ops/sort.h"
#include "shim/run_shim.h"
#include "shim/sorted.h"

using namespace aoti_plugins;

namespace {

Status check(AtenTensorHandle self, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  AOTIP_CHECK_TENSOR(self);
  AOTIP_CHECK_ARG(ret0);
  AOTIP_CHECK_ARG(ret1);
  return mps::check_on_mps(*unwrap(self), "self");
}

Status sort(AtenTensorHandle self, int64_t dim, bool descending, AtenTensorHandle* ret0,
            AtenTensorHandle* ret1) {
  AOTIP_RETURN_IF_FAILED(check(self, ret0, ret1));
  return sorted(*unwrap(self), dim, descending, mps::sort_lines, ret0, ret1);
}

Status topk(AtenTensorHandle self, int64_t k, int64_t dim, bool largest, AtenTensorHandle* ret0,
            AtenTensorHandle* ret1) {
  AOTIP_RETURN_IF_FAILED(check(self, ret0, ret1));
  return top(*unwrap(self), k, dim, largest, mps::sort_lines, ret0, ret1);
}

}  // namespace

AOTITorchError aoti_torch_mps_sort(AtenTensorHandle self, int64_t dim, int32_t descending,
                                   AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  return run_shim(__func__, [&] { return sort(self, dim, descending != 0, ret0, ret1); });
}

AOTITorchError aoti_torch_mps_sort_stable(AtenTensorHandle self, int32_t* stable, int64_t dim,
                                          int32_t descending, AtenTensorHandle* ret0,
                                          AtenTensorHandle* ret1) {
  (void)stable;  // it always is
  return run_shim(__func__, [&] { return sort(self, dim, descending != 0, ret0, ret1); });
}

AOTITorchError aoti_torch_mps_topk(AtenTensorHandle self, int64_t k, int64_t dim, int32_t largest,
                                   int32_t sorted, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  (void)sorted;  // it always is
  return run_shim(__func__, [&] { return topk(self, k, dim, largest != 0, ret0, ret1); });
}
