#include "delegate/model.h"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "shim/run_shim.h"

namespace aoti_plugins {
namespace {

using ::executorch::runtime::FreeableBuffer;
using ::executorch::runtime::NamedDataMap;

/// The blob of `target`: the one that is mapped already, or the bytes from the program.
std::shared_ptr<SharedObject> load_blob(const TargetArtifact& target, const NamedDataMap* map) {
  if (auto loaded = SharedObject::find_loaded(target)) {
    return loaded;
  }
  if (map == nullptr) {
    (void)fail("the runtime gives no named data, expected blob '%s' there", target.key.c_str());
    return nullptr;
  }
  auto data = map->get_data(target.key);
  if (!data.ok()) {
    (void)fail("blob '%s' of target %s is not in the program or its data files (%s)",
               target.key.c_str(), target.name.c_str(),
               ::executorch::runtime::to_string(data.error()));
    return nullptr;
  }
  const FreeableBuffer buffer(std::move(data.get()));
  return SharedObject::load(target, buffer.data(), buffer.size());
}

void destroy_all(AtenTensorHandle* handles, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Tensor::destroy(unwrap(handles[i]));
    handles[i] = nullptr;
  }
}

/// Outputs that are one tensor come from the model as one handle; gives each a handle of its own.
Status separate(AtenTensorHandle* handles, size_t count) noexcept {
  Status status = Status::kOk;
  for (size_t i = 1; i < count; ++i) {
    if (handles[i] != nullptr && std::find(handles, handles + i, handles[i]) != handles + i) {
      handles[i] = wrap(unwrap(handles[i])->alias());
      status = handles[i] != nullptr ? status : Status::kFailed;
    }
  }
  return status;
}

}  // namespace

Model::~Model() {
  if (container_ != nullptr) {
    try {
      const HandleLog::Watch watch(handles_);
      (void)api_.destroy(container_);
    } catch (...) {
      // The model's own code; there is nothing left to do for it.
    }
  }
  handles_.delete_rest();
}

Status Model::create(const Payload& payload) {
  AOTIP_RETURN_IF_FAILED(ModelApi::find(*object_, &api_));
  clear_failure();
  const int32_t code = api_.create(&container_, 1, session_.model_device().c_str(), nullptr);
  AOTIP_CHECK(code == 0 && container_ != nullptr, "creating the model failed: %s",
              api_.reason().c_str());
  AOTIP_RETURN_IF_FAILED(check_counts(payload));
  return set_constants();
}

Status Model::check_counts(const Payload& payload) const {
  size_t inputs = 0;
  size_t outputs = 0;
  AOTIP_CHECK(
      api_.num_inputs(container_, &inputs) == 0 && api_.num_outputs(container_, &outputs) == 0,
      "the model does not say how many inputs and outputs it has: %s", api_.reason().c_str());
  AOTIP_CHECK(inputs == payload.inputs.size() && outputs == payload.outputs.size(),
              "the model has %zu inputs and %zu outputs, the payload says %zu and %zu", inputs,
              outputs, payload.inputs.size(), payload.outputs.size());
  return Status::kOk;
}

Status Model::set_constants() {
  size_t count = 0;
  AOTIP_CHECK(api_.num_constants(container_, &count) == 0,
              "the model does not say how many constants it has: %s", api_.reason().c_str());
  std::vector<ModelApi::ConstantPair> pairs;
  std::string missing;
  for (size_t i = 0; i < count; ++i) {
    bool folded = false;
    if (api_.constant_from_folded != nullptr) {
      (void)api_.constant_from_folded(container_, i, &folded);
    }
    if (folded) {
      continue;  // the model computes it from the others
    }
    const char* name = nullptr;
    const char* fqn = nullptr;
    int32_t dtype = -1;
    AOTIP_CHECK(api_.constant_name(container_, i, &name) == 0 && name != nullptr &&
                    api_.constant_fqn(container_, i, &fqn) == 0 && fqn != nullptr &&
                    api_.constant_dtype(container_, i, &dtype) == 0,
                "the model does not describe its constant %zu: %s", i, api_.reason().c_str());
    Tensor* tensor = constants_.find(fqn);
    if (tensor == nullptr) {
      missing += (missing.empty() ? "'" : ", '") + std::string(fqn) + "'";
      continue;
    }
    AOTIP_CHECK(tensor->dtype() == dtype, "constant '%s' is %s in the payload and %s in the model",
                fqn, dtype_name(tensor->dtype()), dtype_name(dtype));
    pairs.push_back({name, wrap(tensor)});
  }
  AOTIP_CHECK(missing.empty(), "the payload lacks constants of the model: %s", missing.c_str());
  if (pairs.empty()) {
    return Status::kOk;
  }
  const HandleLog::Watch watch(handles_);
  int32_t code = 0;
  if (api_.set_constant_pairs != nullptr) {
    code = api_.set_constant_pairs(container_, pairs.data(), pairs.size(), false, true);
  } else {
    ModelApi::ConstantMap map;
    for (const ModelApi::ConstantPair& pair : pairs) {
      map.emplace(pair.name, pair.handle);
    }
    code = api_.set_constant_map(container_, &map, false, true);
  }
  AOTIP_CHECK(code == 0, "the model refuses its constants: %s", api_.reason().c_str());
  return Status::kOk;
}

std::unique_ptr<Model> Model::load(const Payload& payload, const TargetArtifact& target,
                                   DeviceSession& session, const NamedDataMap* map) noexcept {
  try {
    std::unique_ptr<Model> model(new Model(session));
    model->object_ = load_blob(target, map);
    if (model->object_ == nullptr || model->constants_.load(payload, session, map) != Status::kOk ||
        model->create(payload) != Status::kOk) {
      return nullptr;
    }
    return model;
  } catch (const std::exception& error) {
    (void)fail("loading the model: %s", error.what());
  } catch (...) {
    (void)fail("loading the model: unknown exception");
  }
  return nullptr;
}

Status Model::run(AtenTensorHandle* inputs, size_t num_inputs, AtenTensorHandle* outputs,
                  size_t num_outputs) noexcept {
  std::fill(outputs, outputs + num_outputs, nullptr);
  clear_failure();
  Status status = Status::kOk;
  try {
    if (api_.run(container_, inputs, num_inputs, outputs, num_outputs, session_.stream(),
                 nullptr) != 0) {
      status = fail("running the model failed: %s", api_.reason().c_str());
    }
  } catch (const std::exception& error) {
    status = fail("running the model failed: %s", error.what());
  } catch (...) {
    status = fail("running the model failed: unknown exception");
  }
  const Status separated = separate(outputs, num_outputs);
  status = status == Status::kOk ? separated : status;
  if (status != Status::kOk) {
    destroy_all(inputs, num_inputs);  // those that the model did not take
    destroy_all(outputs, num_outputs);
  }
  return status;
}

}  // namespace aoti_plugins
