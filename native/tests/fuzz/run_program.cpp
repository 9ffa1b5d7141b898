#include "run_program.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

/// More than any program of the corpus takes: a method that wants more is not run.
constexpr size_t kMaxInputBytes = size_t{64} << 20;

/// An input of the largest sizes, of zeros.
class Zeros {
 public:
  explicit Zeros(const aotip_value& info) : value_(info) {
    if (info.tag == AOTIP_TAG_TENSOR && info.nbytes <= kMaxInputBytes) {
      memory_.resize(std::max<size_t>(info.nbytes, 1));
      value_.data = memory_.data();
    }
  }
  bool fits() const { return value_.tag != AOTIP_TAG_TENSOR || value_.data != nullptr; }
  const aotip_value& value() const { return value_; }

 private:
  aotip_value value_;
  std::vector<uint8_t> memory_;
};

/// Reads all bytes of a result, so that the sanitizer sees each.
uint64_t checksum(const aotip_value& output) {
  uint64_t sum = 0;
  const auto* bytes = static_cast<const uint8_t*>(output.data);
  for (size_t i = 0; output.tag == AOTIP_TAG_TENSOR && bytes != nullptr && i < output.nbytes; ++i) {
    sum += bytes[i];
  }
  return sum;
}

void run_method(const MethodPtr& owner) {
  aotip_method* method = owner.get();
  size_t n_inputs = 0;
  size_t n_outputs = 0;
  (void)aotip_method_input_count(method, &n_inputs);
  (void)aotip_method_output_count(method, &n_outputs);
  std::vector<Zeros> zeros;
  std::vector<aotip_value> inputs;
  for (size_t i = 0; i < n_inputs; ++i) {
    aotip_value info{};
    (void)aotip_method_input_info(method, i, &info);
    zeros.emplace_back(info);
    if (!zeros.back().fits()) {
      return;
    }
  }
  for (const Zeros& zero : zeros) {
    inputs.push_back(zero.value());
  }
  std::vector<aotip_value> outputs(n_outputs);
  for (int call = 0; call < 2; ++call) {
    if (succeeded(
            aotip_method_execute(method, inputs.data(), n_inputs, outputs.data(), n_outputs))) {
      volatile uint64_t sum = 0;
      for (const aotip_value& output : outputs) {
        sum = sum + checksum(output);
      }
    }
  }
}

}  // namespace

bool succeeded(int32_t code) {
  if (code != 0 && std::getenv("AOTIP_FUZZ_VERBOSE") != nullptr) {
    std::fprintf(stderr, "%s\n", aotip_last_error());
  }
  return code == 0;
}

void run_program(const ProgramPtr& program) {
  size_t count = 0;
  (void)aotip_program_method_count(program.get(), &count);
  for (size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    (void)aotip_program_method_name(program.get(), i, &name);
    for (int32_t which = AOTIP_TEXT_INPUT_SPEC; which <= AOTIP_TEXT_INTERFACE; ++which) {
      const char* text = nullptr;
      size_t nbytes = 0;
      volatile uint64_t sum = 0;
      if (succeeded(aotip_program_method_text(program.get(), name, which, &text, &nbytes))) {
        for (size_t k = 0; k < nbytes; ++k) {
          sum = sum + static_cast<uint8_t>(text[k]);
        }
      }
    }
    aotip_method* method = nullptr;
    if (succeeded(aotip_method_load(program.get(), name, &method))) {
      run_method(MethodPtr(method));
    }
  }
}
