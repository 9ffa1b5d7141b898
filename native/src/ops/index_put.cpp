#include "ops/index_put.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "ops/operand.h"
#include "slim/element.h"

using namespace aoti_plugins;

namespace {

constexpr int32_t kMostTypes = 32;

/// The functions of the devices, by their type.
std::atomic<ops::IndexPut> functions[kMostTypes];

Status check_tensors(const Tensor& out, const Tensor& self, const Tensor& values) {
  AOTIP_RETURN_IF_FAILED(ops::check_beside(self, "self", out));
  AOTIP_RETURN_IF_FAILED(ops::check_beside(values, "values", out));
  const int32_t dtype = self.dtype();
  AOTIP_CHECK(out.dtype() == dtype && values.dtype() == dtype,
              "out is %s and values are %s, expected %s as self", dtype_name(out.dtype()),
              dtype_name(values.dtype()), dtype_name(dtype));
  AOTIP_CHECK(is_convertible(dtype), "no index_put for %s", dtype_name(dtype));
  AOTIP_CHECK(
      out.ndim() == self.ndim() && std::equal(out.sizes(), out.sizes() + out.ndim(), self.sizes()),
      "the sizes of out and self differ");
  return Status::kOk;
}

Status index_put(AtenTensorHandle out, AtenTensorHandle self, const AtenTensorHandle* indices,
                 uint32_t count, AtenTensorHandle values, bool accumulate) {
  AOTIP_CHECK_TENSORS(out, self, values);
  AOTIP_CHECK(indices != nullptr || count == 0, "indices is null");
  const int32_t type = unwrap(out)->device().type;
  const ops::IndexPut function = type >= 0 && type < kMostTypes ? functions[type].load() : nullptr;
  AOTIP_CHECK(function != nullptr, "no index_put on %s", device_type_name(type));
  AOTIP_RETURN_IF_FAILED(check_tensors(*unwrap(out), *unwrap(self), *unwrap(values)));
  std::vector<const Tensor*> tensors;
  for (uint32_t i = 0; i < count; ++i) {
    const Tensor* index = unwrap(indices[i]);
    tensors.push_back(index != nullptr && index->defined() ? index : nullptr);
    if (tensors.back() != nullptr) {
      AOTIP_RETURN_IF_FAILED(ops::check_beside(*index, "an index", *unwrap(out)));
    }
  }
  return function(*unwrap(out), *unwrap(self), tensors.data(), count, *unwrap(values), accumulate);
}

}  // namespace

void ops::register_index_put(int32_t device_type, IndexPut function) noexcept {
  if (device_type >= 0 && device_type < kMostTypes) {
    functions[device_type].store(function);
  }
}

AOTITorchError aoti_torch_index_put_out(AtenTensorHandle out, AtenTensorHandle self,
                                        const AtenTensorHandle* indices, const uint32_t num_indices,
                                        const AtenTensorHandle values, bool accumulate) {
  return run_shim(__func__,
                  [&] { return index_put(out, self, indices, num_indices, values, accumulate); });
}
