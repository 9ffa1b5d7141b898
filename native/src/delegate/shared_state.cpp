#include "delegate/shared_state.h"

#include <aoti_plugins/delegate.h>

#include <algorithm>
#include <exception>
#include <iterator>

#include "delegate/fork_gate.h"
#include "slim/dtype.h"

namespace aoti_plugins {
namespace {

struct States {
  std::mutex mutex;
  std::map<int32_t, std::weak_ptr<SharedState>> by_id;
};

States& states() {
  static States* instance = new States();
  return *instance;
}

std::string layout_text(const ConstantRef& constant) {
  std::string text = dtype_name(static_cast<int32_t>(constant.dtype));
  text += " [";
  for (size_t d = 0; d < constant.sizes.size(); ++d) {
    text += (d > 0 ? ", " : "") + std::to_string(constant.sizes[d]);
  }
  return text + "]";
}

bool has_layout(const ConstantRef& one, const ConstantRef& other) {
  return one.dtype == other.dtype && one.sizes == other.sizes && one.strides == other.strides &&
         one.storage_offset == other.storage_offset;
}

}  // namespace

std::shared_ptr<SharedState> SharedState::get(int32_t id) {
  const std::lock_guard<std::mutex> lock(states().mutex);
  auto& by_id = states().by_id;
  for (auto it = by_id.begin(); it != by_id.end();) {
    it = it->second.expired() && it->first != id ? by_id.erase(it) : std::next(it);
  }
  std::weak_ptr<SharedState>& known = by_id[id];
  std::shared_ptr<SharedState> state = known.lock();
  if (state == nullptr) {
    state = std::make_shared<SharedState>();
    known = state;
  }
  return state;
}

Status SharedState::find(const std::vector<const ConstantRef*>& constants,
                         std::shared_ptr<ConstantStorage>* ret) {
  std::shared_ptr<ConstantStorage> storage;
  for (const ConstantRef* constant : constants) {
    const auto found = buffers_.find(constant->fqn);
    if (found == buffers_.end()) {
      continue;
    }
    if (found->second.storage->is_lost()) {
      buffers_.erase(found);
      continue;
    }
    Buffer& buffer = found->second;
    AOTIP_CHECK(has_layout(buffer.layout, *constant),
                "buffer '%s' is %s, and %s (or laid out differently) in a method that it shares "
                "its state with: give one of them another name",
                constant->fqn.c_str(), layout_text(*constant).c_str(),
                layout_text(buffer.layout).c_str());
    AOTIP_CHECK(storage == nullptr || storage == buffer.storage,
                "buffer '%s' is in one memory with others here, and not so in a method that it "
                "shares its state with",
                constant->fqn.c_str());
    storage = buffer.storage;
    buffer.shared = true;
  }
  for (const ConstantRef* constant : constants) {
    AOTIP_CHECK(storage == nullptr || buffers_.count(constant->fqn) != 0,
                "buffer '%s' is in one memory with others, which a method that it shares its "
                "state with has without it",
                constant->fqn.c_str());
  }
  *ret = std::move(storage);
  return Status::kOk;
}

void SharedState::add(const std::vector<const ConstantRef*>& constants,
                      const std::shared_ptr<ConstantStorage>& storage) {
  for (const ConstantRef* constant : constants) {
    buffers_[constant->fqn] = {*constant, storage, false};
  }
}

size_t SharedState::shared_count(int32_t id) {
  const std::shared_ptr<SharedState> state = get(id);
  const std::lock_guard<std::mutex> lock(state->mutex_);
  return static_cast<size_t>(std::count_if(state->buffers_.begin(), state->buffers_.end(),
                                           [](const auto& entry) { return entry.second.shared; }));
}

}  // namespace aoti_plugins

int32_t aotip_delegate_shared_count(int32_t state_id, size_t* ret_count) {
  const aoti_plugins::InsideLibrary inside;
  try {
    *ret_count = aoti_plugins::SharedState::shared_count(state_id);
    return 0;
  } catch (const std::exception&) {  // out of memory
    return 1;
  }
}
