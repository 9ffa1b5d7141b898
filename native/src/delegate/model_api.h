#pragma once

#include <aoti_plugins/shim.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "delegate/shared_object.h"
#include "slim/status.h"

namespace aoti_plugins {

/// The entry points of an AOTInductor model, as PyTorch's aoti_runtime/interface.h declares them.
struct ModelApi {
  struct Container;

  /// A constant by its name in the model. Layout as PyTorch's AOTInductorConstantMapEntry.
  struct ConstantPair {
    const char* name;
    AtenTensorHandle handle;
  };
  using ConstantMap = std::unordered_map<std::string, AtenTensorHandle>;

  /// Input handles are the model's from here on, those that it took are null afterwards; output
  /// handles are the caller's.
  using Run = int32_t (*)(Container*, AtenTensorHandle* inputs, size_t num_inputs,
                          AtenTensorHandle* outputs, size_t num_outputs, void* stream,
                          void* proxy_executor);

  int32_t (*create)(Container** ret, size_t num_models, const char* device, const char* cubin_dir);
  int32_t (*destroy)(Container*);
  int32_t (*num_inputs)(Container*, size_t* ret);
  int32_t (*num_outputs)(Container*, size_t* ret);
  int32_t (*num_constants)(Container*, size_t* ret);
  int32_t (*constant_name)(Container*, size_t index, const char** ret);
  int32_t (*constant_fqn)(Container*, size_t index, const char** ret);
  int32_t (*constant_dtype)(Container*, size_t index, int32_t* ret);
  int32_t (*constant_from_folded)(Container*, size_t index, bool* ret);
  Run run;

  // Both null in models of torch older than 2.9.
  int32_t (*constant_nbytes)(Container*, size_t index, size_t* ret);
  /// Copies all constants from one blob, where they follow each other without the folded ones.
  int32_t (*set_packed_constants)(Container*, const uint8_t* blob);

  // Of the next two a model has one or both; both keep the handles without owning them.
  int32_t (*set_constant_pairs)(Container*, const ConstantPair* pairs, size_t count, bool inactive,
                                bool validate);
  int32_t (*set_constant_map)(Container*, ConstantMap* map, bool inactive, bool validate);
  int32_t (*last_error)(const char** ret);  ///< null in models of older torch versions

  /// Finds the entry points; the reason of a failure names all that are missing.
  static Status find(const SharedObject& object, ModelApi* ret) noexcept;

  /// Why the last call into the model failed: what the model says, and the reason of the shim that
  /// it called.
  std::string reason() const;
};

}  // namespace aoti_plugins
