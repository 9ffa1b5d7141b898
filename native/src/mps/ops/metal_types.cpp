#include "mps/ops/metal_types.h"

namespace aoti_plugins::mps {

const char* metal_type(int32_t dtype) noexcept {
  constexpr struct {
    int32_t dtype;
    const char* name;
  } kTypes[] = {{kBool, "bool"},    {kUInt8, "uchar"},     {kInt8, "char"},
                {kInt16, "short"},  {kUInt16, "ushort"},   {kInt32, "int"},
                {kUInt32, "uint"},  {kInt64, "long"},      {kUInt64, "ulong"},
                {kFloat16, "half"}, {kBFloat16, "bfloat"}, {kFloat32, "float"}};
  for (const auto& type : kTypes) {
    if (type.dtype == dtype) {
      return type.name;
    }
  }
  return nullptr;
}

std::string define(const char* name, const std::string& value) {
  return std::string("#define ") + name + " " + value + "\n";
}

std::string define(const char* name, int64_t value) {
  return define(name, std::to_string(value));
}

bool has_small_offsets(const Tensor* const* tensors, int32_t count) noexcept {
  constexpr int64_t kLimit = int64_t{1} << 30;
  for (int32_t t = 0; t < count; ++t) {
    if (tensors[t] == nullptr) {
      continue;
    }
    int64_t reach = 0;
    for (int64_t d = 0; d < tensors[t]->ndim(); ++d) {
      // Tiles step up to 64 places past the end of a dim.
      const int64_t steps = tensors[t]->size(d) + 64;
      const int64_t stride = tensors[t]->stride(d);
      if (stride > kLimit / steps) {
        return false;
      }
      reach += steps * stride;
    }
    if (reach > kLimit) {
      return false;
    }
  }
  return true;
}

}  // namespace aoti_plugins::mps
