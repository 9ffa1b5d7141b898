#include "delegate/delegate.h"

#include <algorithm>
#include <exception>

#include "delegate/call_part.h"
#include "delegate/kernel_watch.h"
#include "delegate/rank_storages.h"
#include "delegate/state_option.h"
#include "shim/run_shim.h"

namespace aoti_plugins {

using ::executorch::runtime::EValue;
using ::executorch::runtime::EventTracer;
using ::executorch::runtime::NamedDataMap;
using ::executorch::runtime::Span;

namespace {

/// Ports for `count` values; those that nobody describes take any tensor.
void add_ports(const char* what, std::vector<ValueSpec> specs, size_t count,
               std::vector<ValuePort>* ports) {
  specs.resize(count);
  for (const ValueSpec& spec : specs) {
    ports->emplace_back(what, ports->size(), spec);
  }
}

}  // namespace

std::unique_ptr<Delegate> Delegate::create(const DelegateDevice& device, int32_t device_index,
                                           const DelegateLoad& load,
                                           const Payload& payload) noexcept {
  try {
    if (payload.device != device.name()) {
      (void)fail("the payload is for device '%s', this delegate runs '%s'", payload.device.c_str(),
                 device.name());
      return nullptr;
    }
    std::unique_ptr<Delegate> delegate(new Delegate());
    Status status = Status::kOk;
    if ((payload.flags & kRanks) != 0) {
      Payload own = payload;
      status = delegate->load_for_rank(device, device_index, load, &own);
    } else {
      status = delegate->load(device, std::max(device_index, 0), load, payload);
    }
    return status == Status::kOk ? std::move(delegate) : nullptr;
  } catch (const std::exception& error) {
    (void)fail("%s", error.what());
    return nullptr;
  }
}

Delegate::~Delegate() {
  if (session_ != nullptr) {
    const SessionScope scope(*session_);
    session_->close();
    if (model_ != nullptr) {
      model_->turns().leave(*session_);
    }
    model_.reset();
  }
}

Status Delegate::load_for_rank(const DelegateDevice& device, int32_t device_index,
                               const DelegateLoad& load, Payload* payload) {
  int32_t local_rank = 0;
  AOTIP_RETURN_IF_FAILED(join_ranks(load.map, payload, &local_rank));
  const int32_t index = device_index >= 0 ? device_index : device.index_for_rank(local_rank);
  return this->load(device, index, load, *payload);
}

Status Delegate::load(const DelegateDevice& device, int32_t device_index, const DelegateLoad& load,
                      const Payload& payload) {
  method_ = payload.method;
  DeviceOptions options;
  AOTIP_RETURN_IF_FAILED(take_state_option(load, payload, &options, &state_));
  const TargetArtifact* target = nullptr;
  AOTIP_RETURN_IF_FAILED(device.choose_target(payload, device_index, &target));
  session_ = device.open(payload, device_index, LoadOptions(options.data(), options.size()));
  if (session_ == nullptr) {
    return Status::kFailed;
  }
  const SessionScope scope(*session_);
  AOTIP_RETURN_IF_FAILED(scope.status());
  session_->expect(target->symbols);
  model_ = Model::load(payload, *target, *session_, load.map, state_.get());
  if (model_ == nullptr) {
    return Status::kFailed;
  }
  add_ports("input", payload.inputs, model_->num_inputs(), &inputs_);
  add_ports("output", payload.outputs, model_->num_outputs(), &outputs_);
  input_handles_.resize(inputs_.size());
  output_handles_.resize(outputs_.size());
  return Status::kOk;
}

/// A call with the arguments of the program. Handles that are left go with it.
class Delegate::Call final : public ModelCall {
 public:
  Call(Delegate& delegate, Span<EValue*> args) : delegate_(delegate), args_(args) {}

  ~Call() override {
    drop(delegate_.input_handles_);
    drop(delegate_.output_handles_);
  }

  std::vector<AtenTensorHandle>& inputs() noexcept override { return delegate_.input_handles_; }

  Status import_inputs() noexcept {
    for (size_t i = 0; i < inputs().size(); ++i) {
      Tensor* tensor = nullptr;
      AOTIP_RETURN_IF_FAILED(
          delegate_.inputs_[i].to_model(*args_[i], *delegate_.session_, &tensor));
      inputs()[i] = wrap(tensor);
    }
    return delegate_.session_->inputs_done();
  }

  Status run_model() noexcept override {
    const Status status =
        delegate_.model_->run(inputs().data(), inputs().size(), results().data(), results().size());
    std::fill(inputs().begin(), inputs().end(), nullptr);
    AOTIP_RETURN_IF_FAILED(status);
    for (size_t i = 0; i < results().size(); ++i) {
      AOTIP_CHECK(results()[i] != nullptr, "the model returns no handle for output %zu", i);
    }
    return Status::kOk;
  }

  std::vector<AtenTensorHandle>& results() noexcept override { return delegate_.output_handles_; }

  Status place(size_t index, int64_t ndim, const int64_t* sizes,
               void** ret_data) noexcept override {
    return delegate_.outputs_[index].place(ndim, sizes, args_[inputs().size() + index], ret_data);
  }

  bool has_layout(size_t index, const Tensor& result) const noexcept override {
    return delegate_.outputs_[index].has_layout(result, *args_[delegate_.inputs_.size() + index]);
  }

  Status give(size_t index, const Tensor& result) noexcept override {
    return delegate_.outputs_[index].from_model(result, *delegate_.session_,
                                                args_[inputs().size() + index]);
  }

 private:
  static void drop(std::vector<AtenTensorHandle>& handles) {
    for (AtenTensorHandle& handle : handles) {
      Tensor::destroy(unwrap(handle));
      handle = nullptr;
    }
  }

  Delegate& delegate_;
  Span<EValue*> args_;
};

Status Delegate::run(Span<EValue*> args, bool outputs_later) noexcept {
  AOTIP_RETURN_IF_FAILED(session_->begin_call());
  if (outputs_later) {
    AOTIP_RETURN_IF_FAILED(session_->outputs_later());
  }
  {
    Call call(*this, args);
    AOTIP_RETURN_IF_FAILED(call.import_inputs());
    AOTIP_RETURN_IF_FAILED(model_->turns().follow_others(*session_));
    AOTIP_RETURN_IF_FAILED(session_->perform(call));
  }
  return session_->end_call();
}

Status Delegate::execute(Span<EValue*> args, EventTracer* tracer) noexcept {
  AOTIP_CHECK(args.size() == inputs_.size() + outputs_.size(),
              "%zu arguments, expected %zu inputs and %zu outputs", args.size(), inputs_.size(),
              outputs_.size());
  AOTIP_CHECK(std::find(args.begin(), args.end(), nullptr) == args.end(), "an argument is null");
  const std::lock_guard<std::mutex> lock(mutex_);
  if (call_part() == CallPart::kFinish) {
    const SessionScope scope(*session_);
    AOTIP_RETURN_IF_FAILED(scope.status());
    return session_->finish_call();
  }
  const std::lock_guard<Turns> turns(model_->turns());
  const SessionScope scope(*session_);
  AOTIP_RETURN_IF_FAILED(scope.status());
  const KernelWatch watch(tracer, *session_);
  const Status status = run(args, call_part() == CallPart::kBegin);
  if (status != Status::kOk) {
    session_->wait();
  }
  return status;
}

}  // namespace aoti_plugins
