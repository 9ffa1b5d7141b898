#include "runner/options.h"

#include <aoti_plugins/delegate.h>
#include <executorch/runtime/backend/interface.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <variant>

#include "delegate/delegate_option.h"
#include "runner/failure.h"

namespace aoti_plugins::runner {
namespace {

using ::executorch::runtime::BackendOption;
using ::executorch::runtime::Span;
using ::executorch::runtime::to_string;

// More than any delegate has; those without a name are asked for.
constexpr size_t kMostOptions = 64;

int32_t check_backend(const char* backend) {
  (void)aotip_delegate_stand_in(backend);
  if (::executorch::runtime::get_backend_class(backend) != nullptr) {
    return 0;
  }
  std::string known;
  for (size_t i = 0; i < ::executorch::runtime::get_num_registered_backends(); ++i) {
    const auto name = ::executorch::runtime::get_backend_name(i);
    known += (known.empty() ? "" : ", ") + std::string(name.ok() ? name.get() : "?");
  }
  return failed(Error::NotFound, "there is no delegate '%s', there are: %s", backend,
                known.c_str());
}

}  // namespace

int32_t Options::read(const aotip_option* options, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const aotip_option& given = options[i];
    if (given.backend == nullptr || given.name == nullptr) {
      return failed(Error::InvalidArgument, "option %zu has no %s", i,
                    given.backend == nullptr ? "backend" : "name");
    }
    if (const int32_t code = check_backend(given.backend)) {
      return code;
    }
    BackendOption option;
    if (std::strlen(given.name) >= sizeof(option.key)) {
      return failed(Error::InvalidArgument, "the name of option %zu is too long: %s", i,
                    given.name);
    }
    std::snprintf(option.key, sizeof(option.key), "%s", given.name);
    if (given.is_bool != 0) {
      option.value = given.value != 0;
    } else {
      option.value = static_cast<int>(given.value);
    }
    by_backend_[given.backend].push_back(option);
  }
  for (const auto& entry : by_backend_) {
    if (const int32_t code = set_map(entry.first)) {
      return code;
    }
  }
  return 0;
}

int32_t Options::set_map(const std::string& backend) {
  auto& all = by_backend_[backend];
  const Error error =
      map_.set_options(backend.c_str(), Span<BackendOption>(all.data(), all.size()));
  return error == Error::Ok
             ? 0
             : failed(error, "options of '%s' are refused (%s)", backend.c_str(), to_string(error));
}

int32_t Options::share_state(const char* backend, int32_t id) {
  BackendOption option;
  std::snprintf(option.key, sizeof(option.key), "%s", kSharedStateOption);
  option.value = static_cast<int>(id);
  auto& all = by_backend_[backend];
  const bool given = std::any_of(all.begin(), all.end(), [](const BackendOption& one) {
    return std::strcmp(one.key, kSharedStateOption) == 0;
  });
  if (!given) {
    all.push_back(option);
  }
  return set_map(backend);
}

int32_t Options::set() {
  for (auto& [backend, all] : by_backend_) {
    const Error error = ::executorch::runtime::set_option(
        backend.c_str(), Span<BackendOption>(all.data(), all.size()));
    if (error != Error::Ok) {
      return failed(error, "setting options of '%s' failed (%s)", backend.c_str(),
                    to_string(error));
    }
  }
  return 0;
}

int32_t get_options(const char* backend, aotip_option* options, size_t capacity,
                    size_t* ret_count) {
  if (const int32_t code = check_backend(backend)) {
    return code;
  }
  thread_local std::array<BackendOption, kMostOptions> found;
  found.fill(BackendOption{});
  const Error error =
      ::executorch::runtime::get_option(backend, Span<BackendOption>(found.data(), found.size()));
  if (error != Error::Ok) {
    return failed(error, "'%s' does not list its options (%s)", backend, to_string(error));
  }
  size_t count = 0;
  for (const BackendOption& option : found) {
    const bool* as_bool = std::get_if<bool>(&option.value);
    const int* as_int = std::get_if<int>(&option.value);
    if (option.key[0] == '\0' || (as_bool == nullptr && as_int == nullptr)) {
      continue;
    }
    if (count < capacity) {
      options[count] = {backend, option.key, as_bool != nullptr ? 1 : 0,
                        as_bool != nullptr ? static_cast<int32_t>(*as_bool) : *as_int};
    }
    ++count;
  }
  *ret_count = count;
  return 0;
}

}  // namespace aoti_plugins::runner
