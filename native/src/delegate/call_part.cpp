#include "delegate/call_part.h"

namespace aoti_plugins {
namespace {

thread_local CallPart wanted = CallPart::kWhole;

}  // namespace

CallPart call_part() noexcept {
  return wanted;
}

CallPartScope::CallPartScope(CallPart part) noexcept : outer_(wanted) {
  wanted = part;
}

CallPartScope::~CallPartScope() {
  wanted = outer_;
}

}  // namespace aoti_plugins
