#include "runner/state_group.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace aoti_plugins::runner {
namespace {

std::shared_ptr<StateGroup> make_group() {
  // Those of other callers of the delegate are small.
  static std::atomic<int32_t> next{1 << 30};
  auto group = std::make_shared<StateGroup>();
  group->id = next.fetch_add(1, std::memory_order_relaxed);
  return group;
}

}  // namespace

/// A method's place in a state.
class StateGroups::Membership {
 public:
  Membership(std::shared_ptr<StateGroups> groups, std::string method,
             std::shared_ptr<StateGroup> group)
      : groups_(std::move(groups)), method_(std::move(method)), group_(std::move(group)) {
    groups_->members_.push_back(this);
  }

  ~Membership() {
    const std::lock_guard<std::mutex> lock(groups_->mutex_);
    auto& members = groups_->members_;
    members.erase(std::remove(members.begin(), members.end(), this), members.end());
  }

  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  const std::string& method() const { return method_; }
  const std::shared_ptr<StateGroup>& group() const { return group_; }

 private:
  std::shared_ptr<StateGroups> groups_;
  std::string method_;
  std::shared_ptr<StateGroup> group_;
};

std::shared_ptr<StateGroup> StateGroups::add(const std::string& method,
                                             std::shared_ptr<StateGroup> group) {
  StateGroup* of = group.get();
  return {std::make_shared<Membership>(shared_from_this(), method, std::move(group)), of};
}

bool StateGroups::has(const StateGroup& group, const std::string& method) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Membership* member) {
    return member->group().get() == &group && member->method() == method;
  });
}

std::shared_ptr<StateGroup> StateGroups::join(const std::string& method) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<StateGroup> newest;
  for (const Membership* member : members_) {
    const bool newer = newest == nullptr || member->group()->id > newest->id;
    newest = newer && !has(*member->group(), method) ? member->group() : newest;
  }
  return add(method, newest != nullptr ? newest : make_group());
}

std::shared_ptr<StateGroup> StateGroups::begin(const std::string& method) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return add(method, make_group());
}

std::shared_ptr<StateGroup> StateGroups::join(const std::shared_ptr<StateGroup>& group,
                                              const std::string& method) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto member = std::find_if(members_.begin(), members_.end(), [&](const Membership* one) {
    return one->group().get() == group.get();
  });
  return member != members_.end() ? add(method, (*member)->group()) : nullptr;
}

}  // namespace aoti_plugins::runner
