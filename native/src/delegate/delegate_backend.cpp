#include "delegate/delegate_backend.h"

#include <aoti_plugins/delegate.h>
#include <executorch/runtime/platform/log.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "delegate/delegate.h"
#include "delegate/fork_gate.h"
#include "delegate/log_level.h"
#include "delegate/trust.h"

namespace aoti_plugins {
namespace {

using ::executorch::runtime::ArrayRef;
using ::executorch::runtime::BackendExecutionContext;
using ::executorch::runtime::BackendInitContext;
using ::executorch::runtime::BackendOption;
using ::executorch::runtime::BackendOptionContext;
using ::executorch::runtime::CompileSpec;
using ::executorch::runtime::DelegateHandle;
using ::executorch::runtime::Error;
using ::executorch::runtime::EValue;
using ::executorch::runtime::FreeableBuffer;
using ::executorch::runtime::Result;
using ::executorch::runtime::Span;

/// Compile spec that names the device to run on, for instance "cuda:1". ExecuTorch's own key.
constexpr const char* kTargetDeviceKey = "target_device";

thread_local char delegate_error[4352] = {};

/// The index in "cuda:1"; -1 where none is given.
Status device_index_of(ArrayRef<CompileSpec> specs, const char* device, int32_t* ret) {
  *ret = -1;
  for (const CompileSpec& spec : specs) {
    if (spec.key == nullptr || std::strcmp(spec.key, kTargetDeviceKey) != 0) {
      continue;
    }
    AOTIP_CHECK(spec.value.buffer != nullptr, "compile spec %s has no value", kTargetDeviceKey);
    std::string text(static_cast<const char*>(spec.value.buffer), spec.value.nbytes);
    text.resize(std::strlen(text.c_str()));
    const std::string prefix = device + std::string(":");
    const char* end = text.c_str() + text.size();
    const bool indexed = text.compare(0, prefix.size(), prefix) == 0;
    const auto parsed = std::from_chars(text.c_str() + prefix.size(), end, *ret);
    AOTIP_CHECK(text == device || (indexed && parsed.ec == std::errc() && parsed.ptr == end),
                "compile spec %s is '%s', expected '%s' or '%s:0', '%s:1', ...", kTargetDeviceKey,
                text.c_str(), device, device, device);
  }
  return Status::kOk;
}

/// Takes the value of `named` if it is of the kind that `*value` is.
bool take_value(const BackendOption& named, DelegateOption::Value* value) {
  return std::visit(
      [&](auto& wanted) {
        const auto* found = std::get_if<std::decay_t<decltype(wanted)>>(&named.value);
        wanted = found != nullptr ? *found : wanted;
        return found != nullptr;
      },
      *value);
}

}  // namespace

void keep_delegate_error(const char* reason) noexcept {
  std::snprintf(delegate_error, sizeof(delegate_error), "%s", reason);
}

void DelegateBackend::report(const char* stage, const char* method) const noexcept {
  std::snprintf(delegate_error, sizeof(delegate_error), "%s: %s of method '%s': %s", id_, stage,
                method != nullptr && method[0] != '\0' ? method : "?", last_failure());
  ET_LOG(Error, "%s", delegate_error);
}

bool DelegateBackend::is_available() const {
  const InsideLibrary inside;
  if (device_.is_available()) {
    return true;
  }
  // The runtime only says that the backend is not available; this says why.
  std::snprintf(delegate_error, sizeof(delegate_error), "%s is not available: %s", id_,
                last_failure());
  ET_LOG(Info, "%s", delegate_error);
  return false;
}

Status DelegateBackend::read(const BackendInitContext&, const void* bytes, size_t nbytes,
                             ArrayRef<CompileSpec>, Payload* ret) const {
  return read_payload(bytes, nbytes, ret);
}

LoadOptions DelegateBackend::load_options(const BackendInitContext& context) const {
  return context.runtime_specs();
}

Status DelegateBackend::read_trusted(const BackendInitContext& context,
                                     const FreeableBuffer& processed, ArrayRef<CompileSpec> specs,
                                     Payload* ret) const noexcept {
  if (!signatures_required()) {
    return read(context, processed.data(), processed.size(), specs, ret);
  }
  try {
    // What is checked is what is used: a file that is mapped may change in between.
    const uint8_t* const bytes = static_cast<const uint8_t*>(processed.data());
    const std::vector<uint8_t> copy(bytes, bytes + processed.size());
    AOTIP_RETURN_IF_FAILED(check_signatures(copy.data(), copy.size()));
    AOTIP_RETURN_IF_FAILED(read(context, copy.data(), copy.size(), specs, ret));
    ret->demand_digests();
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("checking the program's signatures: %s", error.what());
  }
}

Result<DelegateHandle*> DelegateBackend::init(BackendInitContext& context,
                                              FreeableBuffer* processed,
                                              ArrayRef<CompileSpec> compile_specs) const {
  const InsideLibrary inside;
  follow_log_level();
  if (processed == nullptr) {
    (void)fail("the runtime gives no payload");
    report("init", context.get_method_name());
    return Error::InvalidArgument;
  }
  int32_t index = 0;
  if (device_index_of(compile_specs, device_.name(), &index) != Status::kOk) {
    report("init", context.get_method_name());
    return Error::InvalidArgument;
  }
  Payload payload;
  std::unique_ptr<Delegate> delegate;
  if (read_trusted(context, *processed, compile_specs, &payload) == Status::kOk) {
    const char* method = context.get_method_name();
    const DelegateLoad load = {load_options(context), context.get_named_data_map(),
                               method != nullptr ? method : payload.method,
                               context.get_runtime_allocator()};
    delegate = Delegate::create(device_, index, load, payload);
  }
  if (delegate == nullptr) {
    report("init", context.get_method_name());
    return Error::DelegateInvalidCompatibility;
  }
  processed->Free();
  return static_cast<DelegateHandle*>(delegate.release());
}

Error DelegateBackend::execute(BackendExecutionContext& context, DelegateHandle* handle,
                               Span<EValue*> args) const {
  const InsideLibrary inside;
  if (handle == nullptr) {
    (void)fail("the handle is null");
    report("execute", nullptr);
    return Error::DelegateInvalidHandle;
  }
  Delegate* delegate = static_cast<Delegate*>(handle);
  if (delegate->execute(args, context.event_tracer()) != Status::kOk) {
    report("execute", delegate->method().c_str());
    return Error::InvalidArgument;
  }
  return Error::Ok;
}

void DelegateBackend::destroy(DelegateHandle* handle) const {
  const InsideLibrary inside;
  delete static_cast<Delegate*>(handle);
}

std::string DelegateBackend::describe_options() const {
  std::string text;
  for (const DelegateOption& option : device_.options()) {
    const bool is_bool = std::holds_alternative<bool>(option.get());
    text += (text.empty() ? "" : ", ") + std::string(option.name) + " (" +
            (is_bool ? "bool" : "int, " + std::string(option.range)) + ")";
  }
  return text.empty() ? "none" : text;
}

Status DelegateBackend::find_option(const BackendOption& named, const DelegateOption** ret) const {
  for (const DelegateOption& option : device_.options()) {
    if (std::strncmp(named.key, option.name, sizeof(named.key)) == 0) {
      *ret = &option;
      return Status::kOk;
    }
  }
  return fail("there is no option '%.*s', the options are: %s", static_cast<int>(sizeof(named.key)),
              named.key, describe_options().c_str());
}

Error DelegateBackend::fail_options(const char* stage) const noexcept {
  std::snprintf(delegate_error, sizeof(delegate_error), "%s: %s: %s", id_, stage, last_failure());
  ET_LOG(Error, "%s", delegate_error);
  return Error::InvalidArgument;
}

Error DelegateBackend::fail_value(const DelegateOption& option) const {
  (void)fail("option '%s' has a wrong value, the options are: %s", option.name,
             describe_options().c_str());
  return fail_options("set_option");
}

Error DelegateBackend::set_option(BackendOptionContext& context,
                                  const Span<BackendOption>& options) {
  (void)context;
  const InsideLibrary inside;
  // All names and kinds first: to set an option and to put it back is not always to do nothing.
  std::vector<std::pair<const DelegateOption*, DelegateOption::Value>> wanted;
  for (const BackendOption& named : options) {
    const DelegateOption* option = nullptr;
    if (find_option(named, &option) != Status::kOk) {
      return fail_options("set_option");
    }
    DelegateOption::Value value = option->get();
    if (!take_value(named, &value)) {
      return fail_value(*option);
    }
    wanted.emplace_back(option, value);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    auto& [option, value] = wanted[i];
    const DelegateOption::Value old = option->get();
    if (!option->set(value)) {
      while (i-- > 0) {
        (void)wanted[i].first->set(wanted[i].second);
      }
      return fail_value(*option);
    }
    value = old;
  }
  return Error::Ok;
}

Error DelegateBackend::get_option(BackendOptionContext& context, Span<BackendOption>& options) {
  (void)context;
  size_t next = 0;
  for (BackendOption& named : options) {
    const DelegateOption* option = nullptr;
    if (named.key[0] == '\0') {
      if (next == device_.options().size()) {
        continue;
      }
      option = &device_.options()[next++];
      std::snprintf(named.key, sizeof(named.key), "%s", option->name);
    } else if (find_option(named, &option) != Status::kOk) {
      return fail_options("get_option");
    }
    std::visit([&](auto value) { named.value = value; }, option->get());
  }
  return Error::Ok;
}

}  // namespace aoti_plugins

const char* aotip_delegate_last_error(void) {
  return aoti_plugins::delegate_error;
}

void aotip_record_failure(const char* reason) {
  (void)aoti_plugins::fail("%s", reason != nullptr ? reason : "");
}

void aotip_delegate_clear_error(void) {
  aoti_plugins::delegate_error[0] = '\0';
}
