#include "delegate/state_option.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <variant>

#include "delegate/program_identity.h"

namespace aoti_plugins {
namespace {

bool has_state(const Payload& payload) {
  return std::any_of(payload.constants.begin(), payload.constants.end(), [](const auto& constant) {
    return constant.kind == ConstantKind::kMutableBuffer;
  });
}

std::shared_ptr<SharedState> choose_state(const DelegateLoad& load, std::optional<int> id) {
  if (!id.has_value()) {
    return SharedState::join(program_of(load.map), load.method, load.loader);
  }
  return *id == 0 ? std::make_shared<SharedState>() : SharedState::get(*id);
}

}  // namespace

Status take_state_option(const DelegateLoad& load, const Payload& payload, DeviceOptions* ret,
                         std::shared_ptr<SharedState>* ret_state) {
  std::optional<int> id;
  for (const auto& option : load.options) {
    if (std::strncmp(option.key, kSharedStateOption, sizeof(option.key)) != 0) {
      ret->push_back(option);
      continue;
    }
    const int* given = std::get_if<int>(&option.value);
    AOTIP_CHECK(given != nullptr && *given >= 0,
                "option '%s' of a load is an int, 0 for a state that no other method has, or the "
                "id, 1 or more, of one that methods have together",
                kSharedStateOption);
    id = *given;
  }
  if (has_state(payload)) {
    *ret_state = choose_state(load, id);
  }
  return Status::kOk;
}

}  // namespace aoti_plugins
