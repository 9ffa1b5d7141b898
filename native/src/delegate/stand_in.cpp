#include "delegate/stand_in.h"

#include <aoti_plugins/delegate.h>

#include <cstring>
#include <mutex>

#include "delegate/fork_gate.h"
#include "slim/status.h"

namespace aoti_plugins {
namespace {

using ::executorch::runtime::BackendInterface;
using ::executorch::runtime::Error;

struct StandIn {
  const char* id = nullptr;
  BackendInterface* backend = nullptr;
};

constexpr size_t kMaxStandIns = 4;
StandIn stand_ins[kMaxStandIns];
size_t stand_in_count = 0;

std::mutex& mutex() {
  static std::mutex* instance = new std::mutex();
  return *instance;
}

StandIn find(const char* id) {
  for (size_t i = 0; i < stand_in_count; ++i) {
    if (std::strcmp(stand_ins[i].id, id) == 0) {
      return stand_ins[i];
    }
  }
  return {};
}

}  // namespace

bool offer_stand_in(const char* id, BackendInterface* backend) noexcept {
  const std::lock_guard<std::mutex> lock(mutex());
  if (stand_in_count == kMaxStandIns) {
    return false;
  }
  stand_ins[stand_in_count++] = {id, backend};
  return true;
}

}  // namespace aoti_plugins

int32_t aotip_delegate_stand_in(const char* backend_id) {
  using namespace aoti_plugins;
  if (backend_id == nullptr) {
    return AOTIP_STAND_IN_NONE;
  }
  const InsideLibrary inside;
  const std::lock_guard<std::mutex> lock(mutex());
  const StandIn ours = find(backend_id);
  BackendInterface* known = ::executorch::runtime::get_backend_class(backend_id);
  // ExecuTorch keeps the id that it is given, and that of the caller may go.
  if (known == nullptr && ours.backend != nullptr &&
      ::executorch::runtime::register_backend({ours.id, ours.backend}) == Error::Ok) {
    known = ours.backend;
  }
  if (known == nullptr) {
    return AOTIP_STAND_IN_NONE;
  }
  return known == ours.backend ? AOTIP_STAND_IN_OURS : AOTIP_STAND_IN_OTHER;
}
