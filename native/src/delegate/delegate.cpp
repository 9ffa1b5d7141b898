#include "delegate/delegate.h"

#include <exception>

#include "shim/run_shim.h"

namespace aoti_plugins {

using ::executorch::runtime::EValue;
using ::executorch::runtime::NamedDataMap;
using ::executorch::runtime::Span;

std::unique_ptr<Delegate> Delegate::create(const DelegateDevice& device, int32_t device_index,
                                           const void* bytes, size_t nbytes,
                                           const NamedDataMap* map) noexcept {
  try {
    Payload payload;
    if (read_payload(bytes, nbytes, &payload) != Status::kOk) {
      return nullptr;
    }
    if (payload.device != device.name()) {
      (void)fail("the payload is for device '%s', this delegate runs '%s'", payload.device.c_str(),
                 device.name());
      return nullptr;
    }
    std::unique_ptr<Delegate> delegate(new Delegate());
    return delegate->load(device, device_index, payload, map) == Status::kOk ? std::move(delegate)
                                                                             : nullptr;
  } catch (const std::exception& error) {
    (void)fail("%s", error.what());
    return nullptr;
  }
}

Delegate::~Delegate() {
  if (session_ != nullptr) {
    const SessionScope scope(*session_);
    session_->wait();
    model_.reset();
  }
}

Status Delegate::load(const DelegateDevice& device, int32_t device_index, const Payload& payload,
                      const NamedDataMap* map) {
  method_ = payload.method;
  for (const ValueSpec& spec : payload.inputs) {
    inputs_.emplace_back("input", inputs_.size(), spec);
  }
  for (const ValueSpec& spec : payload.outputs) {
    outputs_.emplace_back("output", outputs_.size(), spec);
  }
  input_handles_.resize(payload.inputs.size());
  output_handles_.resize(payload.outputs.size());
  const TargetArtifact* target = nullptr;
  AOTIP_RETURN_IF_FAILED(device.choose_target(payload, device_index, &target));
  session_ = device.open(payload, device_index);
  if (session_ == nullptr) {
    return Status::kFailed;
  }
  const SessionScope scope(*session_);
  AOTIP_RETURN_IF_FAILED(scope.status());
  model_ = Model::load(payload, *target, *session_, map);
  return model_ != nullptr ? Status::kOk : Status::kFailed;
}

Status Delegate::give_inputs(Span<EValue*> args) noexcept {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Tensor* tensor = nullptr;
    if (inputs_[i].to_model(*args[i], *session_, &tensor) != Status::kOk) {
      while (i-- > 0) {
        Tensor::destroy(unwrap(input_handles_[i]));
      }
      return Status::kFailed;
    }
    input_handles_[i] = wrap(tensor);
  }
  return Status::kOk;
}

Status Delegate::run(Span<EValue*> args) noexcept {
  const size_t num_inputs = inputs_.size();
  const size_t num_outputs = outputs_.size();
  AOTIP_RETURN_IF_FAILED(session_->begin_call());
  AOTIP_RETURN_IF_FAILED(give_inputs(args));
  Status status = session_->inputs_done();
  if (status != Status::kOk) {
    for (AtenTensorHandle handle : input_handles_) {
      Tensor::destroy(unwrap(handle));
    }
    return status;
  }
  AOTIP_RETURN_IF_FAILED(
      model_->run(input_handles_.data(), num_inputs, output_handles_.data(), num_outputs));
  for (size_t i = 0; i < num_outputs; ++i) {
    Tensor* result = unwrap(output_handles_[i]);
    if (status == Status::kOk) {
      status = result != nullptr ? outputs_[i].from_model(*result, *session_, args[num_inputs + i])
                                 : fail("the model returns no handle for output %zu", i);
    }
    Tensor::destroy(result);
  }
  AOTIP_RETURN_IF_FAILED(status);
  return session_->end_call();
}

Status Delegate::execute(Span<EValue*> args) noexcept {
  AOTIP_CHECK(args.size() == inputs_.size() + outputs_.size(),
              "%zu arguments, expected %zu inputs and %zu outputs", args.size(), inputs_.size(),
              outputs_.size());
  const std::lock_guard<std::mutex> lock(mutex_);
  const SessionScope scope(*session_);
  AOTIP_RETURN_IF_FAILED(scope.status());
  const Status status = run(args);
  if (status != Status::kOk) {
    session_->wait();
  }
  return status;
}

}  // namespace aoti_plugins
