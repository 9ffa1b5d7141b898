#pragma once

#include <executorch/runtime/core/named_data_map.h>

#include <memory>

#include "delegate/constants.h"
#include "delegate/delegate_device.h"
#include "delegate/model_api.h"
#include "delegate/payload.h"
#include "delegate/shared_object.h"
#include "shim/handle_log.h"
#include "slim/status.h"

namespace aoti_plugins {

/// A loaded AOTInductor model with its constants. Freed completely by its destructor: container,
/// then constants, then the mapping of the blob.
class Model {
 public:
  /// Loads a target's blob and gives the model its constants. Null, with a reason, when it fails.
  /// `session` must be entered, here and in the destructor, and live longer than the model.
  /// @param state where its mutable buffers are, or come to be; null for ones of its own.
  static std::unique_ptr<Model> load(const Payload& payload, const TargetArtifact& target,
                                     DeviceSession& session,
                                     const ::executorch::runtime::NamedDataMap* map,
                                     SharedState* state) noexcept;

  /// Runs the model. Takes all input handles, whether it succeeds or not; on success `outputs`
  /// holds new handles, on failure nulls. Not for two threads at once.
  Status run(AtenTensorHandle* inputs, size_t num_inputs, AtenTensorHandle* outputs,
             size_t num_outputs) noexcept;

  /// Whose turn it is to use the buffers that other models see, too.
  Turns& turns() noexcept { return constants_.turns(); }

  size_t num_inputs() const { return num_inputs_; }
  size_t num_outputs() const { return num_outputs_; }

  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

 private:
  explicit Model(DeviceSession& session) : session_(session) {}
  Status create(const Payload& payload, const ::executorch::runtime::NamedDataMap* map);
  Status read_counts(const Payload& payload);
  bool is_folded(size_t index) const;
  Status set_constants();
  Status packed_nbytes(uint64_t* ret) const;
  Status set_packed_constants(const std::string& key,
                              const ::executorch::runtime::NamedDataMap* map);

  DeviceSession& session_;
  std::shared_ptr<SharedObject> object_;
  Constants constants_;
  ModelApi api_{};
  ModelApi::Container* container_ = nullptr;
  size_t num_inputs_ = 0;
  size_t num_outputs_ = 0;
  size_t num_constants_ = 0;
  HandleLog handles_;
};

}  // namespace aoti_plugins
