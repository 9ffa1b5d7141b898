#include "shim/handle_log.h"

#include <algorithm>

#include "shim/run_shim.h"

namespace aoti_plugins {
namespace {

thread_local HandleLog* active_log = nullptr;

}  // namespace

HandleLog::Watch::Watch(HandleLog& log) noexcept : outer_(active_log) {
  active_log = &log;
}

HandleLog::Watch::~Watch() {
  active_log = outer_;
}

void HandleLog::note_new(AtenTensorHandle handle) {
  if (active_log != nullptr) {
    active_log->handles_.push_back(handle);
  }
}

void HandleLog::note_deleted(AtenTensorHandle handle) noexcept {
  if (active_log == nullptr) {
    return;
  }
  auto& handles = active_log->handles_;
  const auto found = std::find(handles.rbegin(), handles.rend(), handle);
  if (found != handles.rend()) {
    handles.erase(std::next(found).base());
  }
}

void HandleLog::delete_rest() noexcept {
  for (AtenTensorHandle handle : handles_) {
    Tensor::destroy(unwrap(handle));
  }
  handles_.clear();
}

}  // namespace aoti_plugins
