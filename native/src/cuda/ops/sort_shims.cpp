// sort and topk: the values of each line in order, with their places.

#include <aoti_plugins/cuda_shim.h>

#include "cuda/driver/gpu.h"
#include "cuda/ops/sort.h"
#include "shim/run_shim.h"
#include "shim/sorted.h"

using namespace aoti_plugins;

namespace {

Status check(AtenTensorHandle self, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  AOTIP_CHECK_TENSOR(self);
  AOTIP_CHECK_ARG(ret0);
  AOTIP_CHECK_ARG(ret1);
  AOTIP_CHECK(unwrap(self)->device().type == kCuda, "self is on %s, expected cuda",
              device_type_name(unwrap(self)->device().type));
  return cuda::use_gpu(unwrap(self)->device().index);
}

Status sort(AtenTensorHandle self, int64_t dim, bool descending, AtenTensorHandle* ret0,
            AtenTensorHandle* ret1) {
  const cuda::ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(check(self, ret0, ret1));
  return sorted(*unwrap(self), dim, descending, cuda::sort_lines, ret0, ret1);
}

Status topk(AtenTensorHandle self, int64_t k, int64_t dim, bool largest, bool in_order,
            AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  const cuda::ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(check(self, ret0, ret1));
  return top(*unwrap(self), k, dim, largest, in_order ? cuda::sort_lines : cuda::select_lines, ret0,
             ret1);
}

}  // namespace

AOTITorchError aoti_torch_cuda_sort(AtenTensorHandle self, int64_t dim, int32_t descending,
                                    AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  return run_shim(__func__, [&] { return sort(self, dim, descending != 0, ret0, ret1); });
}

AOTITorchError aoti_torch_cuda_sort_stable(AtenTensorHandle self, int32_t* stable, int64_t dim,
                                           int32_t descending, AtenTensorHandle* ret0,
                                           AtenTensorHandle* ret1) {
  (void)stable;  // it always is
  return run_shim(__func__, [&] { return sort(self, dim, descending != 0, ret0, ret1); });
}

AOTITorchError aoti_torch_cuda_topk(AtenTensorHandle self, int64_t k, int64_t dim, int32_t largest,
                                    int32_t sorted, AtenTensorHandle* ret0,
                                    AtenTensorHandle* ret1) {
  return run_shim(__func__,
                  [&] { return topk(self, k, dim, largest != 0, sorted != 0, ret0, ret1); });
}
