#include "delegate/delegate.h"

#include <exception>

#include "shim/run_shim.h"

namespace aoti_plugins {

using ::executorch::runtime::EValue;
using ::executorch::runtime::NamedDataMap;
using ::executorch::runtime::Span;

std::unique_ptr<Delegate> Delegate::create(const void* bytes, size_t nbytes,
                                           const NamedDataMap* map) noexcept {
  try {
    Payload payload;
    if (read_payload(bytes, nbytes, &payload) != Status::kOk) {
      return nullptr;
    }
    if (payload.device != "cpu") {
      (void)fail("the payload is for device '%s', this delegate runs 'cpu'",
                 payload.device.c_str());
      return nullptr;
    }
    std::unique_ptr<Delegate> delegate(new Delegate());
    delegate->method_ = payload.method;
    for (const ValueSpec& spec : payload.inputs) {
      delegate->inputs_.emplace_back("input", delegate->inputs_.size(), spec);
    }
    for (const ValueSpec& spec : payload.outputs) {
      delegate->outputs_.emplace_back("output", delegate->outputs_.size(), spec);
    }
    delegate->input_handles_.resize(payload.inputs.size());
    delegate->output_handles_.resize(payload.outputs.size());
    delegate->model_ = Model::load(payload, map);
    return delegate->model_ != nullptr ? std::move(delegate) : nullptr;
  } catch (const std::exception& error) {
    (void)fail("%s", error.what());
    return nullptr;
  }
}

Status Delegate::execute(Span<EValue*> args) noexcept {
  const size_t num_inputs = inputs_.size();
  const size_t num_outputs = outputs_.size();
  AOTIP_CHECK(args.size() == num_inputs + num_outputs,
              "%zu arguments, expected %zu inputs and %zu outputs", args.size(), num_inputs,
              num_outputs);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < num_inputs; ++i) {
    Tensor* tensor = nullptr;
    if (inputs_[i].to_model(*args[i], &tensor) != Status::kOk) {
      while (i-- > 0) {
        Tensor::destroy(unwrap(input_handles_[i]));
      }
      return Status::kFailed;
    }
    input_handles_[i] = wrap(tensor);
  }
  AOTIP_RETURN_IF_FAILED(
      model_->run(input_handles_.data(), num_inputs, output_handles_.data(), num_outputs));
  Status status = Status::kOk;
  for (size_t i = 0; i < num_outputs; ++i) {
    Tensor* result = unwrap(output_handles_[i]);
    if (status == Status::kOk) {
      status = result != nullptr ? outputs_[i].from_model(*result, args[num_inputs + i])
                                 : fail("the model returns no handle for output %zu", i);
    }
    Tensor::destroy(result);
  }
  return status;
}

}  // namespace aoti_plugins
