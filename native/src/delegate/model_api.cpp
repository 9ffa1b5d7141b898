#include "delegate/model_api.h"

#include <exception>
#include <vector>

namespace aoti_plugins {
namespace {

#define AOTIP_MODEL "AOTInductorModelContainer"

/// Looks functions up and gathers the names of those that are not there.
class Finder {
 public:
  explicit Finder(const SharedObject& object) : object_(object) {}

  template <typename Function>
  bool optional(const char* name, Function* ret) {
    *ret = reinterpret_cast<Function>(object_.symbol(name));
    return *ret != nullptr;
  }

  template <typename Function>
  void required(const char* name, Function* ret) {
    if (!optional(name, ret)) {
      missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
    }
  }

  const std::string& missing() const { return missing_; }

 private:
  const SharedObject& object_;
  std::string missing_;
};

}  // namespace

Status ModelApi::find(const SharedObject& object, ModelApi* ret) noexcept {
  try {
    Finder finder(object);
    finder.required(AOTIP_MODEL "CreateWithDevice", &ret->create);
    finder.required(AOTIP_MODEL "Delete", &ret->destroy);
    finder.required(AOTIP_MODEL "GetNumInputs", &ret->num_inputs);
    finder.required(AOTIP_MODEL "GetNumOutputs", &ret->num_outputs);
    finder.required(AOTIP_MODEL "GetNumConstants", &ret->num_constants);
    finder.required(AOTIP_MODEL "GetConstantName", &ret->constant_name);
    finder.required(AOTIP_MODEL "GetConstantOriginalFQN", &ret->constant_fqn);
    finder.required(AOTIP_MODEL "GetConstantDtype", &ret->constant_dtype);
    finder.optional(AOTIP_MODEL "GetConstantFromFolded", &ret->constant_from_folded);
    finder.optional(AOTIP_MODEL "GetConstantDataSize", &ret->constant_nbytes);
    finder.optional("AOTInductorModelUpdateConstantsFromBlob", &ret->set_packed_constants);
    if (!finder.optional(AOTIP_MODEL "RunSingleThreaded", &ret->run)) {
      finder.required(AOTIP_MODEL "Run", &ret->run);
    }
    if (!finder.optional(AOTIP_MODEL "UpdateUserManagedConstantBufferPairs",
                         &ret->set_constant_pairs)) {
      finder.required(AOTIP_MODEL "UpdateUserManagedConstantBuffer", &ret->set_constant_map);
    }
    finder.optional("AOTInductorGetLastError", &ret->last_error);
    AOTIP_CHECK(finder.missing().empty(), "the blob is no AOTInductor model: it lacks %s",
                finder.missing().c_str());
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("looking up a model: %s", error.what());
  }
}

std::string ModelApi::reason() const {
  const char* text = nullptr;
  std::string reason;
  if (last_error != nullptr && last_error(&text) == 0 && text != nullptr) {
    reason = text;
  }
  const std::string shim = last_failure();
  if (reason.empty()) {
    return shim.empty() ? "the model gives no reason" : shim;
  }
  return shim.empty() || reason.find(shim) != std::string::npos ? reason
                                                                : shim + " (" + reason + ")";
}

}  // namespace aoti_plugins
