#include "runner/method.h"

#include "delegate/call_part.h"
#include "runner/abort_guard.h"
#include "runner/failure.h"

namespace aoti_plugins::runner {
namespace {

using ::executorch::runtime::EValue;
using ::executorch::runtime::to_string;

constexpr int32_t kCudaType = 1;

}  // namespace

std::unique_lock<std::mutex> MethodInstance::lock_arena() {
  return plans_state_ ? std::unique_lock<std::mutex>(state_->mutex)
                      : std::unique_lock<std::mutex>();
}

int32_t MethodInstance::set_output(size_t index, const aotip_value& memory) {
  const EValue& output = method_->get_output(index);
  if (!output.isTensor()) {
    return failed(Error::InvalidArgument, "output %zu is no tensor, it takes no memory", index);
  }
  if (n_begun_ > 0) {
    return failed(Error::InvalidState,
                  "output %zu gets memory while calls of method '%s' are begun: finish them first",
                  index, name_.c_str());
  }
  const bool takes_gpu = all_on_cuda_ || is_on_gpu(output);
  if (memory.device_type != 0 && !(takes_gpu && memory.device_type == kCudaType)) {
    return failed(Error::InvalidArgument,
                  "output %zu gets memory of device type %d, expected the cpu (0): method '%s' is "
                  "not one delegate for a GPU as a whole, and does not plan this output on one",
                  index, memory.device_type, name_.c_str());
  }
  if (memory.data != nullptr && memory.device_type != kCudaType && is_on_gpu(output)) {
    return failed(Error::InvalidArgument,
                  "output %zu gets memory of device type %d, expected CUDA (%d): method '%s' plans "
                  "it on a GPU",
                  index, memory.device_type, kCudaType, name_.c_str());
  }
  OwnOutput& own = own_outputs_[index];
  if (memory.data == nullptr) {
    if (own.replaced) {
      set_tensor_data(output.toTensor(), own.data);
    }
    own = OwnOutput{};
    return 0;
  }
  if (memory.nbytes < outputs_[index]->info().nbytes) {
    return failed(Error::InvalidArgument, "output %zu needs %zu bytes, found %zu", index,
                  outputs_[index]->info().nbytes, memory.nbytes);
  }
  if (!own.replaced) {
    own.data = output.toTensor().mutable_data_ptr();
    own.replaced = true;
  }
  own.device_type = memory.device_type;
  set_tensor_data(output.toTensor(), memory.data);
  return 0;
}

void MethodInstance::put_back_inputs() {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  for (const auto& [index, data] : replaced_inputs_) {
    set_tensor_data(method_->get_input(index).toTensor(), data);
  }
#pragma GCC diagnostic pop
  replaced_inputs_.clear();
}

int32_t MethodInstance::mark_input(size_t index, const EValue& input) {
  if (marked_inputs_[index]) {
    return 0;
  }
  const EValue same = input;
  const Error error = method_->set_input(same, index);
  marked_inputs_[index] = error == Error::Ok;
  return error == Error::Ok
             ? 0
             : failed(error, "method '%s' refuses input %zu in memory of a GPU (%s)%s",
                      name_.c_str(), index, to_string(error),
                      is_on_gpu(input)
                          ? ": make the program with MemoryPlanningPass(alloc_graph_input=False)"
                          : "");
}

/// Whether memory is an output's, too: what a call gave may be what the next one takes.
bool MethodInstance::is_in_output(const void* data, size_t nbytes) const {
  const auto* begin = static_cast<const char*>(data);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const EValue& output = method_->get_output(i);
    if (output.isTensor()) {
      const auto* other = static_cast<const char*>(output.toTensor().const_data_ptr());
      if (begin < other + outputs_[i]->info().nbytes && other < begin + nbytes) {
        return true;
      }
    }
  }
  return false;
}

/// Lets an input look at the caller's memory until `put_back_inputs()`.
int32_t MethodInstance::point_input(size_t index, const aotip_value& value) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const EValue& input = method_->get_input(index);
#pragma GCC diagnostic pop
  void* own = input.isTensor() ? input.toTensor().mutable_data_ptr() : nullptr;
  // The method runs only when each input was set once. One that is planned in memory of the host
  // is copied onto itself; others share memory, which they have only then.
  int32_t code = own != nullptr && !gpu_inputs_[index] ? mark_input(index, input) : 0;
  code = code == 0 ? inputs_[index]->point_to(value, dynamic_inputs_[index], input) : code;
  code = code == 0 ? mark_input(index, input) : code;
  if (code == 0) {
    replaced_inputs_.emplace_back(index, own);
  }
  return code;
}

int32_t MethodInstance::set_input(size_t index, const aotip_value& value) {
  const bool wanted_on_gpu = gpu_inputs_[index];
  if (takes_cuda_ && value.tag == AOTIP_TAG_TENSOR && value.device_type == kCudaType) {
    if (!all_on_cuda_ && !wanted_on_gpu) {
      // Kernels of the runtime, or another delegate, would read it as memory of the host.
      return failed(Error::InvalidArgument,
                    "input %zu is in memory of a GPU, expected the cpu: method '%s' is not one "
                    "delegate for a GPU as a whole",
                    index, name_.c_str());
    }
    return point_input(index, value);
  }
  if (wanted_on_gpu) {
    return failed(
        Error::InvalidArgument,
        "input %zu is in memory of the cpu, expected memory of a GPU: the program was made "
        "with skip_h2d_for_method_inputs",
        index);
  }
  if (in_place_inputs_[index] && value.tag == AOTIP_TAG_TENSOR && value.device_type == 0 &&
      !is_in_output(value.data, inputs_[index]->info().nbytes)) {
    return point_input(index, value);
  }
  EValue evalue;
  if (const int32_t code = inputs_[index]->to_evalue(value, dynamic_inputs_[index], &evalue)) {
    return code;
  }
  const Error error = method_->set_input(evalue, index);
  return error == Error::Ok ? 0
                            : failed(error, "method '%s' refuses input %zu (%s)", name_.c_str(),
                                     index, to_string(error));
}

int32_t MethodInstance::run() {
  Error error = Error::Internal;
  try {
    const AbortGuard guard;
    error = method_->execute();
  } catch (const ExecutorchAborted& aborted) {
    return failed(error, "running method '%s' failed, load it again: %s", name_.c_str(),
                  aborted.what());
  }
  return error == Error::Ok
             ? 0
             : failed(error, "running method '%s' failed (%s)", name_.c_str(), to_string(error));
}

int32_t MethodInstance::run_on(const aotip_value* inputs) {
  const auto lock = lock_arena();
  if (trace_ != nullptr) {
    trace_->clear();
  }
  int32_t code = 0;
  for (size_t i = 0; i < inputs_.size() && code == 0; ++i) {
    code = set_input(i, inputs[i]);
  }
  return code == 0 ? run() : code;
}

void MethodInstance::describe_outputs(aotip_value* outputs) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const EValue& output = method_->get_output(i);
    outputs_[i]->from_evalue(output, &outputs[i]);
    outputs[i].device_type = is_on_gpu(output) ? kCudaType : own_outputs_[i].device_type;
  }
}

int32_t MethodInstance::execute(const aotip_value* inputs, aotip_value* outputs) {
  const int32_t code = run_on(inputs);
  if (code == 0) {
    describe_outputs(outputs);
  }
  put_back_inputs();
  return code;
}

bool MethodInstance::can_begin() const {
  return all_on_cuda_ && outputs_may_be_late_;
}

int32_t MethodInstance::check_begin() const {
  return can_begin() ? 0
                     : failed(Error::NotSupported,
                              "calls of method '%s' cannot be begun and finished apart: it is not "
                              "one delegate for a GPU as a whole, or an output changes its size, "
                              "is on a GPU, is an input, or has more than 4 MiB",
                              name_.c_str());
}

int32_t MethodInstance::begin(const aotip_value* inputs) {
  if (const int32_t code = check_begin()) {
    return code;
  }
  for (const OwnOutput& own : own_outputs_) {
    if (own.device_type != 0) {
      return failed(Error::InvalidState,
                    "an output of method '%s' has memory of a GPU: give it its own memory before "
                    "a call is begun",
                    name_.c_str());
    }
  }
  const CallPartScope part(CallPart::kBegin);
  const int32_t code = run_on(inputs);
  n_begun_ += code == 0 ? 1 : 0;
  put_back_inputs();
  return code;
}

int32_t MethodInstance::finish(aotip_value* outputs) {
  if (const int32_t code = check_begin()) {
    return code;
  }
  n_begun_ -= n_begun_ > 0 ? 1 : 0;
  const CallPartScope part(CallPart::kFinish);
  const int32_t code = run();
  if (code == 0) {
    describe_outputs(outputs);
  }
  return code;
}

}  // namespace aoti_plugins::runner
