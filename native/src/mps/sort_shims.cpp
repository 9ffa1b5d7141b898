// sort and topk: the values of each line in order, with their places.

#include <aoti_plugins/mps_op_shims.h>

#include <algorithm>

#include "mps/metal_types.h"
#include "mps/sort.h"
#include "shim/run_shim.h"
#include "shim/wrap_dim.h"

using namespace aoti_plugins;

namespace {

Status check(AtenTensorHandle self, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  AOTIP_CHECK_TENSOR(self);
  AOTIP_CHECK_ARG(ret0);
  AOTIP_CHECK_ARG(ret1);
  return mps::check_on_mps(*unwrap(self), "self");
}

/// The results, with these sizes and strides.
Status take_first(const Tensor& self, const int64_t* sizes, const int64_t* strides, int64_t dim,
                  int64_t count, bool descending, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  OwnedTensor values(
      Tensor::empty_strided(self.ndim(), sizes, strides, self.dtype(), self.device()));
  if (values == nullptr) {
    return Status::kFailed;
  }
  OwnedTensor places(Tensor::empty_strided(self.ndim(), sizes, strides, kInt64, self.device()));
  if (places == nullptr) {
    return Status::kFailed;
  }
  AOTIP_RETURN_IF_FAILED(mps::sort_lines(self, *values, *places, dim, count, descending));
  *ret0 = wrap(values.release());
  *ret1 = wrap(places.release());
  return Status::kOk;
}

Status sort(AtenTensorHandle self, int64_t dim, bool descending, AtenTensorHandle* ret0,
            AtenTensorHandle* ret1) {
  AOTIP_RETURN_IF_FAILED(check(self, ret0, ret1));
  const Tensor& t = *unwrap(self);
  AOTIP_RETURN_IF_FAILED(wrap_dim(t, dim, &dim));
  int64_t strides[Tensor::kMaxDims];
  dense_strides(t, strides);
  return take_first(t, t.sizes(), strides, dim, t.ndim() > 0 ? t.size(dim) : 1, descending, ret0,
                    ret1);
}

Status topk(AtenTensorHandle self, int64_t k, int64_t dim, bool largest, AtenTensorHandle* ret0,
            AtenTensorHandle* ret1) {
  AOTIP_RETURN_IF_FAILED(check(self, ret0, ret1));
  const Tensor& t = *unwrap(self);
  AOTIP_RETURN_IF_FAILED(wrap_dim(t, dim, &dim));
  const int64_t length = t.ndim() > 0 ? t.size(dim) : 1;
  AOTIP_CHECK(k >= 0 && k <= length, "k is %lld, expected 0 to %lld", static_cast<long long>(k),
              static_cast<long long>(length));
  int64_t sizes[Tensor::kMaxDims];
  int64_t strides[Tensor::kMaxDims];
  std::copy(t.sizes(), t.sizes() + t.ndim(), sizes);
  if (t.ndim() > 0) {
    sizes[dim] = k;
  }
  contiguous_strides(t.ndim(), sizes, strides);
  return take_first(t, sizes, strides, dim, t.ndim() > 0 ? k : std::min<int64_t>(k, 1), largest,
                    ret0, ret1);
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
