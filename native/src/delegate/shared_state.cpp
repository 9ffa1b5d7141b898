#include "delegate/shared_state.h"

#include <aoti_plugins/delegate.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "delegate/fork_gate.h"
#include "slim/dtype.h"

namespace aoti_plugins {
namespace {

struct States {
  std::mutex mutex;
  std::map<int32_t, std::weak_ptr<SharedState>> by_id;
  /// In the order in which they began. A program that has gone has none that is alive, so that
  /// another one at its address begins anew.
  std::map<const void*, std::vector<std::weak_ptr<SharedState>>> by_program;
};

States& states() {
  static States* instance = new States();
  return *instance;
}

/// Forgets the states of a program that have gone.
void drop_expired(const void* program) {
  auto& by_program = states().by_program;
  const auto found = by_program.find(program);
  if (found == by_program.end()) {
    return;
  }
  auto& all = found->second;
  all.erase(std::remove_if(all.begin(), all.end(), [](const auto& one) { return one.expired(); }),
            all.end());
  if (all.empty()) {
    by_program.erase(found);
  }
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

/// A delegate's place in a state; what `join()` returns keeps it.
class SharedState::Membership {
 public:
  Membership(const void* program, std::shared_ptr<SharedState> state, Member member)
      : program_(program), state_(std::move(state)), member_(std::move(member)) {
    state_->members_.push_back(&member_);
  }

  ~Membership() {
    const std::lock_guard<std::mutex> lock(states().mutex);
    auto& members = state_->members_;
    members.erase(std::remove(members.begin(), members.end(), &member_), members.end());
    state_.reset();
    drop_expired(program_);
  }

  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  SharedState* state() const { return state_.get(); }

 private:
  const void* program_;
  std::shared_ptr<SharedState> state_;
  const Member member_;
};

/// Whether it has another load of the method.
bool SharedState::has_loaded(const std::string& method, const void* loader) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member* member) {
    return member->method == method && (loader == nullptr || member->loader != loader);
  });
}

bool SharedState::is_loaded_by(const void* loader) const {
  return loader != nullptr &&
         std::any_of(members_.begin(), members_.end(),
                     [&](const Member* member) { return member->loader == loader; });
}

std::shared_ptr<SharedState> SharedState::join(const void* program, const std::string& method,
                                               const void* loader) {
  const std::lock_guard<std::mutex> lock(states().mutex);
  std::shared_ptr<SharedState> chosen;
  bool is_loaders = false;
  for (const std::weak_ptr<SharedState>& known : states().by_program[program]) {
    const std::shared_ptr<SharedState> state = known.lock();
    if (state != nullptr && !is_loaders && !state->has_loaded(method, loader)) {
      chosen = state;
      is_loaders = state->is_loaded_by(loader);
    }
  }
  if (chosen == nullptr) {
    chosen = std::make_shared<SharedState>();
    states().by_program[program].push_back(chosen);
  }
  auto membership = std::make_shared<Membership>(program, chosen, Member{method, loader});
  return {membership, membership->state()};
}

Status SharedState::find(const std::vector<const ConstantRef*>& constants, Device device,
                         std::shared_ptr<ConstantStorage>* ret, std::shared_ptr<Turn>* ret_turn) {
  std::shared_ptr<ConstantStorage> storage;
  std::shared_ptr<Turn> turn;
  for (const ConstantRef* constant : constants) {
    const auto found = buffers_.find(constant->fqn);
    if (found == buffers_.end()) {
      continue;
    }
    Buffer& buffer = found->second;
    const std::shared_ptr<ConstantStorage> known = buffer.storage.lock();
    if (known == nullptr || known->is_lost()) {
      buffers_.erase(found);
      continue;
    }
    AOTIP_CHECK(buffer.device == device,
                "buffer '%s' is on %s:%d, and on %s:%d in a method that it shares its state with: "
                "lower the methods for one device, or with share_state=False",
                constant->fqn.c_str(), device_type_name(device.type), device.index,
                device_type_name(buffer.device.type), buffer.device.index);
    AOTIP_CHECK(has_layout(buffer.layout, *constant),
                "buffer '%s' is %s, and %s (or laid out differently) in a method that it shares "
                "its state with: give one of them another name, or lower them with "
                "share_state=False",
                constant->fqn.c_str(), layout_text(*constant).c_str(),
                layout_text(buffer.layout).c_str());
    AOTIP_CHECK(storage == nullptr || storage == known,
                "buffer '%s' is in one memory with others here, and not so in a method that it "
                "shares its state with",
                constant->fqn.c_str());
    storage = known;
    turn = buffer.turn;
    buffer.shared = true;
  }
  for (const ConstantRef* constant : constants) {
    AOTIP_CHECK(storage == nullptr || buffers_.count(constant->fqn) != 0,
                "buffer '%s' is in one memory with others, which a method that it shares its "
                "state with has without it",
                constant->fqn.c_str());
  }
  *ret = std::move(storage);
  *ret_turn = std::move(turn);
  return Status::kOk;
}

void SharedState::add(const std::vector<const ConstantRef*>& constants, Device device,
                      const std::shared_ptr<ConstantStorage>& storage,
                      const std::shared_ptr<Turn>& turn) {
  for (const ConstantRef* constant : constants) {
    buffers_[constant->fqn] = {*constant, device, storage, turn, false};
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
