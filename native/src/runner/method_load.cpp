// What a method gets when it is loaded: memory, buffers that it shares, and what is known of its
// inputs and outputs.
#include <aoti_plugins/delegate.h>

#include <algorithm>
#include <iterator>

#include "delegate/call_part.h"
#include "runner/abort_guard.h"
#include "runner/backends.h"
#include "runner/failure.h"
#include "runner/method.h"

namespace aoti_plugins::runner {
namespace {

using ::executorch::aten::Device;
using ::executorch::aten::DeviceType;
using ::executorch::aten::TensorShapeDynamism;
using ::executorch::runtime::DeviceMemoryBuffer;
using ::executorch::runtime::EValue;
using ::executorch::runtime::HierarchicalAllocator;
using ::executorch::runtime::MethodMeta;
using ::executorch::runtime::Span;
using ::executorch::runtime::Tag;
using ::executorch::runtime::to_string;

// Smaller inputs are copied into their planned memory in less time.
constexpr size_t kFewestNbytesInPlace = size_t{1} << 14;

/// The delegates whose buffers can be shared.
constexpr const char* kStateBackends[] = {"AotiCpuBackend", "AotiCudaBackend", "AotiMpsBackend"};

/// Where ExecuTorch plans the buffers that methods share, when it is asked to; the one before it is
/// for activations.
constexpr size_t kStateArena = 1;

/// What is planned for a tensor; asking about another kind of value would log an error.
template <typename Ask>
auto tensor_info(Tag tag, Ask ask) -> decltype(ask()) {
  return tag == Tag::Tensor ? ask() : decltype(ask())(Error::InvalidArgument);
}

}  // namespace

void MethodInstance::join_state(StateChoice state) {
  StateGroups& states = file_->states();
  if (state.of != nullptr) {
    state_ = states.join(state.of->state_, name_);
  } else {
    state_ = state.own ? states.begin(name_) : states.join(name_);
  }
}

/// Where ExecuTorch keeps buffers: with the other methods of the state, if they plan as much.
std::shared_ptr<ZeroedMemory> MethodInstance::state_arena(size_t nbytes) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->arena == nullptr) {
    state_->arena = std::make_shared<ZeroedMemory>(nbytes);
  } else if (state_->arena->size() == nbytes) {
    shared_nbytes_ = nbytes;
  } else {
    return std::make_shared<ZeroedMemory>(nbytes);
  }
  return state_->arena;
}

int32_t MethodInstance::plan_memory(const MethodMeta& meta) {
  plans_state_ = meta.num_memory_planned_buffers() == kStateArena + 1;
  for (size_t i = 0; i < meta.num_memory_planned_buffers(); ++i) {
    const auto meta_device = meta.memory_planned_buffer_device(i);
    const Device device = meta_device.ok() ? meta_device.get() : Device(DeviceType::CPU);
    devices_.push_back(device);
    auto nbytes = meta.memory_planned_buffer_size(i);
    if (!nbytes.ok() || nbytes.get() < 0) {
      return failed(Error::InvalidProgram, "method '%s' does not say how large its buffer %zu is",
                    name_.c_str(), i);
    }
    if (device.type() != DeviceType::CPU) {
      auto buffer = DeviceMemoryBuffer::create(
          std::max<size_t>(static_cast<size_t>(nbytes.get()), 1), device.type(), device.index());
      if (!buffer.ok()) {
        return failed(buffer.error(),
                      "method '%s' plans %lld bytes on device type %d:%d, which cannot be had (%s)",
                      name_.c_str(), static_cast<long long>(nbytes.get()),
                      static_cast<int>(device.type()), static_cast<int>(device.index()),
                      to_string(buffer.error()));
      }
      device_buffers_.push_back(std::move(buffer.get()));
      spans_.push_back(device_buffers_.back().as_span());
      continue;
    }
    const auto size = static_cast<size_t>(nbytes.get());
    buffers_.push_back(plans_state_ && i == kStateArena ? state_arena(size)
                                                        : std::make_shared<ZeroedMemory>(size));
    spans_.emplace_back(buffers_.back()->data(), buffers_.back()->size());
  }
  const Span<Span<uint8_t>> spans(spans_.data(), spans_.size());
  planned_ = device_buffers_.empty()
                 ? std::make_unique<HierarchicalAllocator>(spans)
                 : std::make_unique<HierarchicalAllocator>(
                       spans, Span<const Device>(devices_.data(), devices_.size()));
  memory_.emplace(&method_allocator_, planned_.get(), &temp_allocator_);
  return 0;
}

int32_t MethodInstance::check_sharing(const MethodMeta& meta,
                                      const MethodInstance& state_of) const {
  if (meta.uses_backend(kUpstreamCudaId)) {
    return failed(Error::NotSupported,
                  "method '%s' cannot be told whose state to share: methods for %s share all of it "
                  "where the program lists its weights (executorch 1.5), and nothing elsewhere",
                  name_.c_str(), kUpstreamCudaId);
  }
  size_t count = 0;
  const bool may_share =
      std::any_of(std::begin(kStateBackends), std::end(kStateBackends),
                  [&](const char* backend) { return meta.uses_backend(backend); });
  if (may_share && aotip_delegate_shared_count(state_->id, &count) != 0) {
    return failed(Error::MemoryAllocationFailed, "out of memory");
  }
  if (count == 0 && shared_nbytes_ == 0) {
    return failed(
        Error::InvalidArgument,
        "methods '%s' and '%s' have no mutable buffer of one name that delegates share: it has "
        "another layout in one of them, or they were lowered with share_state=False, or ExecuTorch "
        "keeps it, which can be shared only if the program is made with "
        "MemoryPlanningPass(share_mutable_buffers=True)",
        name_.c_str(), state_of.name_.c_str());
  }
  return 0;
}

int32_t MethodInstance::describe(const MethodMeta& meta) {
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    auto tag = meta.input_tag(i);
    if (!tag.ok()) {
      return failed(tag.error(), "method '%s' does not describe its input %zu", name_.c_str(), i);
    }
    auto info = tensor_info(tag.get(), [&] { return meta.input_tensor_meta(i); });
    inputs_.push_back(info.ok() ? std::make_unique<Value>("input", i, info.get())
                                : std::make_unique<Value>("input", i, tag.get()));
  }
  for (size_t i = 0; i < meta.num_outputs(); ++i) {
    auto tag = meta.output_tag(i);
    if (!tag.ok()) {
      return failed(tag.error(), "method '%s' does not describe its output %zu", name_.c_str(), i);
    }
    auto info = tensor_info(tag.get(), [&] { return meta.output_tensor_meta(i); });
    outputs_.push_back(info.ok() ? std::make_unique<Value>("output", i, info.get())
                                 : std::make_unique<Value>("output", i, tag.get()));
  }
  return 0;
}

void MethodInstance::look_at_inputs(bool are_read_in_place) {
  // The metadata does not say which sizes may change nor where memory is planned, tensors do.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const EValue& input = method_->get_input(i);
    gpu_inputs_.push_back(is_on_gpu(input));
    in_place_inputs_.push_back(are_read_in_place && input.isTensor() &&
                               input.toTensor().const_data_ptr() != nullptr &&
                               inputs_[i]->info().nbytes >= kFewestNbytesInPlace);
    dynamic_inputs_.push_back(input.isTensor() &&
                              input.toTensor().unsafeGetTensorImpl()->shape_dynamism() !=
                                  TensorShapeDynamism::STATIC);
  }
#pragma GCC diagnostic pop
}

/// Whether each output is still there when the next call has begun: in host memory of its own, of a
/// size that does not change, and no more than a session keeps.
void MethodInstance::look_at_outputs() {
  const auto is_input = [&](const void* data) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const EValue& input = method_->get_input(i);
      if (input.isTensor() && input.toTensor().const_data_ptr() == data) {
        return true;
      }
    }
#pragma GCC diagnostic pop
    return false;
  };
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const EValue& output = method_->get_output(i);
    outputs_may_be_late_ =
        outputs_may_be_late_ && output.isTensor() && !is_on_gpu(output) &&
        output.toTensor().unsafeGetTensorImpl()->shape_dynamism() == TensorShapeDynamism::STATIC &&
        outputs_[i]->info().nbytes <= kMostLateNbytes &&
        output.toTensor().const_data_ptr() != nullptr &&
        !is_input(output.toTensor().const_data_ptr());
  }
}

int32_t MethodInstance::give_outputs_memory() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const EValue& output = method_->get_output(i);
    if (!output.isTensor() || output.toTensor().const_data_ptr() != nullptr) {
      continue;
    }
    if (is_on_gpu(output)) {
      if (const int32_t code = give_output_gpu_memory(i, output.toTensor().device())) {
        return code;
      }
      continue;
    }
    output_memory_.emplace_back(std::max<size_t>(outputs_[i]->info().nbytes, 1));
    const Error error =
        method_->set_output_data_ptr(output_memory_.back().data(), output_memory_.back().size(), i);
    if (error != Error::Ok) {
      // An input that is returned as it is: it gets its memory with the input.
      output_memory_.pop_back();
    }
  }
  return 0;
}

int32_t MethodInstance::give_output_gpu_memory(size_t index, Device device) {
  const size_t nbytes = std::max<size_t>(outputs_[index]->info().nbytes, 1);
  auto buffer = DeviceMemoryBuffer::create(nbytes, device.type(), device.index());
  if (!buffer.ok()) {
    return failed(buffer.error(), "output %zu needs %zu bytes on GPU %d, which are not there (%s)",
                  index, nbytes, static_cast<int>(device.index()), to_string(buffer.error()));
  }
  device_buffers_.push_back(std::move(buffer.get()));
  const auto span = device_buffers_.back().as_span();
  const Error error = method_->set_output_data_ptr(span.data(), span.size(), index);
  return error == Error::Ok ? 0
                            : failed(error, "method '%s' refuses memory for output %zu (%s)",
                                     name_.c_str(), index, to_string(error));
}

int32_t MethodInstance::load(std::shared_ptr<ProgramFile> file, const std::string& name,
                             Options* options, StateChoice state,
                             std::unique_ptr<MethodInstance>* ret) {
  if (state.of != nullptr && state.of->file_ != file) {
    return failed(Error::InvalidArgument,
                  "method '%s' cannot share the state of a method of another program",
                  name.c_str());
  }
  auto meta = file->program().method_meta(name.c_str());
  if (!meta.ok()) {
    std::string names;
    for (const std::string& known : file->method_names()) {
      names += (names.empty() ? "'" : ", '") + known + "'";
    }
    return failed(meta.error(), "the program has no method '%s', it has %s", name.c_str(),
                  names.c_str());
  }
  auto instance = std::make_unique<MethodInstance>();
  instance->name_ = name;
  instance->file_ = std::move(file);
  if (const int32_t code = provide_backends(meta.get(), name.c_str(), &instance->takes_cuda_)) {
    return code;
  }
  instance->join_state(state);
  if (const int32_t code = instance->plan_memory(meta.get())) {
    return code;
  }
  for (const char* backend : kStateBackends) {
    const bool used = meta.get().uses_backend(backend);
    if (const int32_t code = used ? options->share_state(backend, instance->state_->id) : 0) {
      return code;
    }
  }
  if (const int32_t code = instance->describe(meta.get())) {
    return code;
  }
  // It writes the first values of buffers that ExecuTorch keeps.
  const auto lock = instance->lock_arena();
  instance->trace_ = state.traced ? std::make_unique<CallTrace>() : nullptr;
  const AbortGuard guard;
  auto method = instance->file_->program().load_method(
      name.c_str(), &*instance->memory_, instance->trace_.get(), instance->file_->data_map(),
      options->for_load());
  if (!method.ok()) {
    std::string backends;
    for (size_t i = 0; i < meta.get().num_backends(); ++i) {
      auto backend = meta.get().get_backend_name(i);
      backends += (backends.empty() ? "" : ", ") + std::string(backend.ok() ? backend.get() : "?");
    }
    return failed(method.error(), "loading method '%s' failed (%s; it needs the backends: %s)",
                  name.c_str(), to_string(method.error()),
                  backends.empty() ? "none" : backends.c_str());
  }
  instance->method_.emplace(std::move(method.get()));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const bool is_one_delegate = meta.get().num_instructions() == 1;
  instance->all_on_cuda_ = instance->takes_cuda_ && is_one_delegate;
  // Another delegate, or an op of the runtime, might write to what is planned.
  const bool reads_in_place = is_one_delegate && meta.get().uses_backend("AotiCpuBackend");
#pragma GCC diagnostic pop
  if (state.of != nullptr) {
    if (const int32_t code = instance->check_sharing(meta.get(), *state.of)) {
      return code;
    }
  }
  instance->look_at_inputs(reads_in_place);
  instance->own_outputs_.resize(instance->outputs_.size());
  instance->marked_inputs_.resize(instance->inputs_.size());
  if (const int32_t code = instance->give_outputs_memory()) {
    return code;
  }
  instance->look_at_outputs();
  *ret = std::move(instance);
  return 0;
}

}  // namespace aoti_plugins::runner
