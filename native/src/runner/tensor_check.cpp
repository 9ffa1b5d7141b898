#include "runner/tensor_check.h"

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/core/exec_aten/util/tensor_dimension_limit.h>

#include <algorithm>
#include <limits>

namespace aoti_plugins::runner {
namespace {

using ::executorch::aten::ScalarType;

/// Whether each dim is there once.
bool is_permutation(const FlatVector<uint8_t>& order) {
  uint32_t seen = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] >= order.size() || (seen & (1u << order[i])) != 0) {
      return false;
    }
    seen |= 1u << order[i];
  }
  return true;
}

}  // namespace

TensorBytes check_tensor_layout(const FlatTable& table, Field scalar_type, Field sizes,
                                Field dim_order) {
  const auto dtype = table.number<int8_t>(scalar_type);
  if (!::executorch::runtime::isValid(static_cast<ScalarType>(dtype))) {
    damaged("scalar_type %d is not known", dtype);
  }
  const auto dims = table.numbers<int32_t>(sizes);
  const auto order = table.numbers<uint8_t>(dim_order);
  if (dims.size() > ::executorch::runtime::kTensorDimensionLimit || order.size() != dims.size() ||
      !is_permutation(order)) {
    damaged("%zu sizes and a dim_order of %zu, expected at most %zu sizes and each dim once",
            dims.size(), order.size(), ::executorch::runtime::kTensorDimensionLimit);
  }
  const size_t itemsize = ::executorch::runtime::elementSize(static_cast<ScalarType>(dtype));
  // ExecuTorch counts strides in 32 bits, and a size of 0 as 1 for them.
  int64_t stride = 1;
  bool empty = false;
  for (size_t i = order.size(); i-- > 0;) {
    const int32_t size = dims[order[i]];
    if (size < 0 || stride > std::numeric_limits<int32_t>::max()) {
      damaged("size %d and stride %lld in dim %u, expected ones from 0 that fit 32 bits", size,
              static_cast<long long>(stride), order[i]);
    }
    stride *= std::max(size, 1);
    empty = empty || size == 0;
  }
  if (stride > std::numeric_limits<int64_t>::max() / static_cast<int64_t>(itemsize)) {
    damaged("%lld elements of %zu bytes", static_cast<long long>(stride), itemsize);
  }
  return {dtype, itemsize, empty ? 0 : static_cast<size_t>(stride) * itemsize};
}

}  // namespace aoti_plugins::runner
