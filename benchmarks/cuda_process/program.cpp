#include "program.h"

#include <cstring>
#include <random>

namespace {

constexpr int32_t kInt64 = 4;
constexpr int32_t kFloat32 = 6;
constexpr int32_t kBFloat16 = 15;
constexpr int32_t kCuda = 1;

/// Normal numbers, or numbers of tokens for int64; empty for other dtypes.
std::vector<char> random_bytes(int32_t dtype, size_t nbytes) {
  std::vector<char> bytes(nbytes);
  std::mt19937 random(0);
  std::normal_distribution<float> normal;
  const auto fill = [&](auto next) {
    for (size_t i = 0; i < nbytes; i += sizeof(next())) {
      const auto value = next();
      std::memcpy(bytes.data() + i, &value, sizeof(value));
    }
  };
  switch (dtype) {
    case kInt64:
      fill([&] { return static_cast<int64_t>(random() % 8192); });
      return bytes;
    case kFloat32:
      fill([&] { return normal(random); });
      return bytes;
    case kBFloat16:
      fill([&] {
        const float value = normal(random);
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof(bits));
        return static_cast<uint16_t>(bits >> 16);
      });
      return bytes;
    default:
      return {};
  }
}

}  // namespace

Program::Program(const std::string& path, bool graphs) {
  if (!load(path, graphs) || !make_inputs() || !make_outputs()) {
    method_.reset();
  }
}

bool Program::run() {
  return method_ != nullptr &&
         good(aotip_method_execute(method_.get(), inputs_.data(), inputs_.size(), outputs_.data(),
                                   outputs_.size()));
}

bool Program::good(int32_t code) {
  if (code != 0) {
    error_ = aotip_last_error();
  }
  return code == 0;
}

bool Program::load(const std::string& path, bool graphs) {
  aotip_program* program = nullptr;
  if (!good(aotip_program_load(path.c_str(), nullptr, 0, 0, &program))) {
    return false;
  }
  program_.reset(program);
  const aotip_option option{"AotiCudaBackend", "cuda_graphs", 1, graphs ? 1 : 0};
  aotip_method* method = nullptr;
  if (!good(aotip_method_load_with(program, "forward", &option, 1, &method))) {
    return false;
  }
  method_.reset(method);
  return true;
}

bool Program::make_inputs() {
  size_t count = 0;
  if (!good(aotip_method_input_count(method_.get(), &count))) {
    return false;
  }
  inputs_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    aotip_value& input = inputs_[i];
    if (!good(aotip_method_input_info(method_.get(), i, &input))) {
      return false;
    }
    const std::vector<char> bytes = random_bytes(input.dtype, input.nbytes);
    if (bytes.empty()) {
      error_ = "an input's dtype is not float32, bfloat16 or int64";
      return false;
    }
    memory_.emplace_back(bytes.size()).write(bytes.data(), bytes.size());
    input.data = memory_.back().data();
    input.device_type = kCuda;
  }
  return true;
}

bool Program::make_outputs() {
  size_t count = 0;
  if (!good(aotip_method_output_count(method_.get(), &count))) {
    return false;
  }
  outputs_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    aotip_value output = {};
    if (!good(aotip_method_output_info(method_.get(), i, &output))) {
      return false;
    }
    output.data = memory_.emplace_back(output.nbytes).data();
    output.device_type = kCuda;
    if (!good(aotip_method_set_output(method_.get(), i, &output))) {
      return false;
    }
  }
  return true;
}
