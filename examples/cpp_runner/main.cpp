/**
 * Runs a program through ExecuTorch's C++ API, with the delegates of aoti_plugins linked in:
 *
 *     cpp_runner model.pte [input0.bin input1.bin ...]
 *
 * Each input file holds the elements of one input; inputs without a file are filled with ones.
 * Prints the shape and the sum of every output.
 */

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

#include <cstdio>
#include <string>
#include <vector>

#include "raw_input.h"

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Result;

namespace {

const char* kMethod = "forward";

template <typename T>
double sum_as(const Tensor& tensor) {
  double total = 0;
  const T* elements = tensor.const_data_ptr<T>();
  for (ssize_t i = 0; i < tensor.numel(); ++i) {
    total += static_cast<double>(elements[i]);
  }
  return total;
}

double sum(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      return sum_as<float>(tensor);
    case ScalarType::Double:
      return sum_as<double>(tensor);
    case ScalarType::Half:
      return sum_as<executorch::aten::Half>(tensor);
    case ScalarType::BFloat16:
      return sum_as<executorch::aten::BFloat16>(tensor);
    case ScalarType::Long:
      return sum_as<int64_t>(tensor);
    case ScalarType::Int:
      return sum_as<int32_t>(tensor);
    case ScalarType::Bool:
      return sum_as<bool>(tensor);
    default:
      return 0;
  }
}

void print_output(size_t index, const EValue& value) {
  if (!value.isTensor()) {
    std::printf("output %zu: no tensor\n", index);
    return;
  }
  const Tensor& tensor = value.toTensor();
  std::printf("output %zu: shape [", index);
  for (ssize_t dim = 0; dim < tensor.dim(); ++dim) {
    std::printf(dim == 0 ? "%zd" : ", %zd", static_cast<ssize_t>(tensor.size(dim)));
  }
  std::printf("], sum %.6f\n", sum(tensor));
}

Result<std::vector<TensorPtr>> make_inputs(const MethodMeta& method,
                                           const std::vector<std::string>& paths) {
  std::vector<TensorPtr> inputs;
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    auto info = ET_UNWRAP(method.input_tensor_meta(i));
    inputs.push_back(ET_UNWRAP(make_input(info, i < paths.size() ? paths[i] : "")));
  }
  return inputs;
}

Error run(const std::string& program, const std::vector<std::string>& paths) {
  Module module(program);
  MethodMeta method = ET_UNWRAP(module.method_meta(kMethod));
  if (paths.size() > method.num_inputs()) {
    std::fprintf(stderr, "found %zu input files, expected at most %zu\n", paths.size(),
                 method.num_inputs());
    return Error::InvalidArgument;
  }
  std::vector<TensorPtr> inputs = ET_UNWRAP(make_inputs(method, paths));
  std::vector<EValue> values(inputs.begin(), inputs.end());
  std::vector<EValue> outputs = ET_UNWRAP(module.execute(kMethod, values));
  for (size_t i = 0; i < outputs.size(); ++i) {
    print_output(i, outputs[i]);
  }
  return Error::Ok;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s model.pte [input0.bin ...]\n", argv[0]);
    return 2;
  }
  const std::vector<std::string> paths(argv + 2, argv + argc);
  const Error error = run(argv[1], paths);
  if (error != Error::Ok) {
    std::fprintf(stderr, "%s failed with executorch error 0x%x\n", argv[1],
                 static_cast<unsigned>(error));
    return 1;
  }
  return 0;
}
