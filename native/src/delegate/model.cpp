#include "delegate/model.h"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "delegate/plain_blob.h"
#include "shim/run_shim.h"

namespace aoti_plugins {
namespace {

using ::executorch::runtime::FreeableBuffer;
using ::executorch::runtime::NamedDataMap;

/// The blob of `target`: the one that is mapped already, or the bytes from the program.
std::shared_ptr<SharedObject> load_blob(const TargetArtifact& target, const DeviceSession& session,
                                        const NamedDataMap* map) {
  auto loaded = target.plain_names ? nullptr : SharedObject::find_loaded(target);
  if (loaded != nullptr) {
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
  return target.plain_names ? load_plain_blob(target, session, buffer.data(), buffer.size())
                            : SharedObject::load(target, buffer.data(), buffer.size());
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

Status Model::create(const Payload& payload, const NamedDataMap* map) {
  AOTIP_RETURN_IF_FAILED(ModelApi::find(*object_, &api_));
  clear_failure();
  const int32_t code = api_.create(&container_, 1, session_.model_device().c_str(), nullptr);
  AOTIP_CHECK(code == 0 && container_ != nullptr, "creating the model failed: %s",
              api_.reason().c_str());
  AOTIP_RETURN_IF_FAILED(read_counts(payload));
  return payload.packed_weights.empty() ? set_constants()
                                        : set_packed_constants(payload.packed_weights, map);
}

Status Model::read_counts(const Payload& payload) {
  AOTIP_CHECK(api_.num_inputs(container_, &num_inputs_) == 0 &&
                  api_.num_outputs(container_, &num_outputs_) == 0,
              "the model does not say how many inputs and outputs it has: %s",
              api_.reason().c_str());
  AOTIP_CHECK(!payload.describes_values ||
                  (num_inputs_ == payload.inputs.size() && num_outputs_ == payload.outputs.size()),
              "the model has %zu inputs and %zu outputs, the payload says %zu and %zu", num_inputs_,
              num_outputs_, payload.inputs.size(), payload.outputs.size());
  AOTIP_CHECK(api_.num_constants(container_, &num_constants_) == 0,
              "the model does not say how many constants it has: %s", api_.reason().c_str());
  return Status::kOk;
}

/// Whether the model computes a constant from the others.
bool Model::is_folded(size_t index) const {
  bool folded = false;
  if (api_.constant_from_folded != nullptr) {
    (void)api_.constant_from_folded(container_, index, &folded);
  }
  return folded;
}

Status Model::packed_nbytes(uint64_t* ret) const {
  *ret = 0;
  for (size_t i = 0; i < num_constants_; ++i) {
    size_t nbytes = 0;
    if (is_folded(i)) {
      continue;
    }
    AOTIP_CHECK(api_.constant_nbytes(container_, i, &nbytes) == 0 &&
                    !__builtin_add_overflow(*ret, nbytes, ret),
                "the model does not say how large its constant %zu is: %s", i,
                api_.reason().c_str());
  }
  return Status::kOk;
}

Status Model::set_packed_constants(const std::string& key, const NamedDataMap* map) {
  if (num_constants_ == 0) {
    return Status::kOk;
  }
  AOTIP_CHECK(map != nullptr, "the program has weights but the runtime gives no named data");
  AOTIP_CHECK(api_.constant_nbytes != nullptr && api_.set_packed_constants != nullptr,
              "the blob cannot take its weights from the program: it was made with a PyTorch older "
              "than 2.9. Lower the model again with a newer one.");
  uint64_t needed = 0;
  AOTIP_RETURN_IF_FAILED(packed_nbytes(&needed));
  const auto blob = read_storage(*map, {key, 0});
  if (!blob.has_value()) {
    return Status::kFailed;
  }
  AOTIP_CHECK(blob->size() >= needed,
              "the weights '%s' have %zu bytes, the model has constants of %llu. The program is "
              "damaged: lower the model again.",
              key.c_str(), blob->size(), static_cast<unsigned long long>(needed));
  const HandleLog::Watch watch(handles_);
  clear_failure();
  AOTIP_CHECK(api_.set_packed_constants(container_, static_cast<const uint8_t*>(blob->data())) == 0,
              "the model refuses its constants: %s", api_.reason().c_str());
  return Status::kOk;
}

Status Model::set_constants() {
  std::vector<ModelApi::ConstantPair> pairs;
  std::string missing;
  for (size_t i = 0; i < num_constants_; ++i) {
    if (is_folded(i)) {
      continue;
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
                                   DeviceSession& session, const NamedDataMap* map,
                                   SharedState* state) noexcept {
  try {
    std::unique_ptr<Model> model(new Model(session));
    model->object_ = load_blob(target, session, map);
    if (model->object_ == nullptr ||
        model->constants_.load(payload, session, map, state) != Status::kOk ||
        model->create(payload, map) != Status::kOk) {
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
