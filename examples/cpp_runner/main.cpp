/**
 * Runs a program through ExecuTorch's C++ API, with the delegates of aoti_plugins linked in:
 *
 *     cpp_runner [--etdump events.etdump [--outputs outputs.bin]] model.pte [input0.bin ...]
 *
 * Each input file holds the elements of one input; inputs without a file are filled with ones.
 * Prints the shape and the sum of every output. With --etdump, writes when each kernel ran, for
 * ExecuTorch's Inspector; with --outputs as well, what each wrote instead.
 */

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "dump.h"
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

Error run(const std::string& program, const std::vector<std::string>& paths, Dump& dump) {
  Module module(program, Module::LoadMode::File, dump.take_tracer());
  ET_CHECK_OK_OR_RETURN_ERROR(dump.open());
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
  return dump.write();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  std::map<std::string, std::string> files = {{"--etdump", ""}, {"--outputs", ""}};
  for (int i = 1; i < argc; ++i) {
    const auto option = files.find(argv[i]);
    if (option != files.end() && i + 1 < argc) {
      option->second = argv[++i];
    } else {
      paths.emplace_back(argv[i]);
    }
  }
  const bool has_events = !files["--etdump"].empty() || files["--outputs"].empty();
  if (paths.empty() || paths[0].rfind("--", 0) == 0 || !has_events) {
    std::fprintf(stderr, "usage: %s [--etdump file [--outputs file]] model.pte [input0.bin ...]\n",
                 argv[0]);
    return 2;
  }
  Dump dump(files["--etdump"], files["--outputs"]);
  const Error error = run(paths[0], {paths.begin() + 1, paths.end()}, dump);
  if (error != Error::Ok) {
    std::fprintf(stderr, "%s failed with executorch error 0x%x\n", paths[0].c_str(),
                 static_cast<unsigned>(error));
    return 1;
  }
  return 0;
}
