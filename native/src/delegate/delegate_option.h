#pragma once

#include <variant>

namespace aoti_plugins {

/// Option of a load, for all devices: which state its delegates have (state_option.h).
inline constexpr char kSharedStateOption[] = "shared_state";

/// An option of a device's backend, for all programs of the process. What it changes are calls that
/// begin later.
struct DelegateOption {
  using Value = std::variant<bool, int>;

  const char* name;  ///< shorter than ExecuTorch's longest key
  Value (*get)();
  /// Takes a value of the kind that `get()` returns; false when it is out of range.
  bool (*set)(const Value& value);
  const char* range;  ///< for messages: what `set()` takes, for instance "0 or more"
};

}  // namespace aoti_plugins
