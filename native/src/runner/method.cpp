#include "runner/method.h"

#include <algorithm>

#include "runner/failure.h"

namespace aoti_plugins::runner {
namespace {

using ::executorch::aten::TensorShapeDynamism;
using ::executorch::runtime::EValue;
using ::executorch::runtime::HierarchicalAllocator;
using ::executorch::runtime::MethodMeta;
using ::executorch::runtime::Span;
using ::executorch::runtime::Tag;
using ::executorch::runtime::to_string;

}  // namespace

int32_t MethodInstance::plan_memory(const MethodMeta& meta) {
  for (size_t i = 0; i < meta.num_memory_planned_buffers(); ++i) {
    auto device = meta.memory_planned_buffer_device(i);
    if (device.ok() && device.get().type() != ::executorch::aten::DeviceType::CPU) {
      return failed(Error::NotSupported,
                    "method '%s' plans memory on a device that this runner has not", name_.c_str());
    }
    auto nbytes = meta.memory_planned_buffer_size(i);
    if (!nbytes.ok() || nbytes.get() < 0) {
      return failed(Error::InvalidProgram, "method '%s' does not say how large its buffer %zu is",
                    name_.c_str(), i);
    }
    buffers_.emplace_back(static_cast<size_t>(nbytes.get()));
    spans_.emplace_back(buffers_.back().data(), buffers_.back().size());
  }
  planned_ =
      std::make_unique<HierarchicalAllocator>(Span<Span<uint8_t>>(spans_.data(), spans_.size()));
  memory_.emplace(&method_allocator_, planned_.get(), &temp_allocator_);
  return 0;
}

int32_t MethodInstance::describe(const MethodMeta& meta) {
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    auto tag = meta.input_tag(i);
    auto info = meta.input_tensor_meta(i);
    if (!tag.ok()) {
      return failed(tag.error(), "method '%s' does not describe its input %zu", name_.c_str(), i);
    }
    inputs_.push_back(tag.get() == Tag::Tensor && info.ok()
                          ? std::make_unique<Value>("input", i, info.get())
                          : std::make_unique<Value>("input", i, tag.get()));
  }
  for (size_t i = 0; i < meta.num_outputs(); ++i) {
    auto tag = meta.output_tag(i);
    auto info = meta.output_tensor_meta(i);
    if (!tag.ok()) {
      return failed(tag.error(), "method '%s' does not describe its output %zu", name_.c_str(), i);
    }
    outputs_.push_back(tag.get() == Tag::Tensor && info.ok()
                           ? std::make_unique<Value>("output", i, info.get())
                           : std::make_unique<Value>("output", i, tag.get()));
  }
  return 0;
}

void MethodInstance::find_dynamic_inputs() {
  // The metadata does not say which sizes may change, the tensor itself does.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const EValue& input = method_->get_input(i);
    dynamic_inputs_.push_back(input.isTensor() &&
                              input.toTensor().unsafeGetTensorImpl()->shape_dynamism() !=
                                  TensorShapeDynamism::STATIC);
  }
#pragma GCC diagnostic pop
}

int32_t MethodInstance::give_outputs_memory() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const EValue& output = method_->get_output(i);
    if (!output.isTensor() || output.toTensor().const_data_ptr() != nullptr) {
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

int32_t MethodInstance::load(std::shared_ptr<ProgramFile> file, const std::string& name,
                             std::unique_ptr<MethodInstance>* ret) {
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
  if (const int32_t code = instance->plan_memory(meta.get())) {
    return code;
  }
  if (const int32_t code = instance->describe(meta.get())) {
    return code;
  }
  auto method = instance->file_->program().load_method(name.c_str(), &*instance->memory_, nullptr,
                                                       instance->file_->data_map());
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
  instance->find_dynamic_inputs();
  if (const int32_t code = instance->give_outputs_memory()) {
    return code;
  }
  *ret = std::move(instance);
  return 0;
}

int32_t MethodInstance::execute(const aotip_value* inputs, aotip_value* outputs) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    EValue value;
    if (const int32_t code = inputs_[i]->to_evalue(inputs[i], dynamic_inputs_[i], &value)) {
      return code;
    }
    const Error error = method_->set_input(value, i);
    if (error != Error::Ok) {
      return failed(error, "method '%s' refuses input %zu (%s)", name_.c_str(), i,
                    to_string(error));
    }
  }
  const Error error = method_->execute();
  if (error != Error::Ok) {
    return failed(error, "running method '%s' failed (%s)", name_.c_str(), to_string(error));
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i]->from_evalue(method_->get_output(i), &outputs[i]);
  }
  return 0;
}

}  // namespace aoti_plugins::runner
