#include "raw_input.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

using executorch::aten::SizesType;
using executorch::extension::make_tensor_ptr;
using executorch::extension::ones;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::Result;
using executorch::runtime::TensorInfo;

Result<TensorPtr> make_input(const TensorInfo& info, const std::string& path) {
  std::vector<SizesType> sizes(info.sizes().begin(), info.sizes().end());
  if (path.empty()) {
    return ones(std::move(sizes), info.scalar_type());
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot open %s\n", path.c_str());
    return Error::AccessFailed;
  }
  std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() != info.nbytes()) {
    std::fprintf(stderr, "%s: found %zu bytes, expected %zu\n", path.c_str(), bytes.size(),
                 info.nbytes());
    return Error::InvalidArgument;
  }
  return make_tensor_ptr(std::move(sizes), std::move(bytes), info.scalar_type());
}
