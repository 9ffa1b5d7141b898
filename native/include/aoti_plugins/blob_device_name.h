#pragma once

/// Names of devices, as blobs are given them. See blob_model_base.h.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace aotip {

/// What a group of the expression matched.
struct DeviceNamePart {
  std::string text;
  bool matched = false;

  std::string str() const { return text; }
};

/// Matches a whole name with `(cpu|cuda|xpu|mps)(:([0-9]+))?`.
///
/// @param parts set to the name and its three groups; untouched if it does not match.
/// @return whether it matches.
inline bool match_device_name(const std::string& name, std::vector<DeviceNamePart>& parts) {
  const std::size_t colon = name.find(':');
  const std::string type = name.substr(0, colon);
  if (type != "cpu" && type != "cuda" && type != "xpu" && type != "mps") {
    return false;
  }
  std::vector<DeviceNamePart> found = {{name, true}, {type, true}, {}, {}};
  if (colon != std::string::npos) {
    const std::string index = name.substr(colon + 1);
    if (index.empty() || index.find_first_not_of("0123456789") != std::string::npos) {
      return false;
    }
    found[2] = {name.substr(colon), true};
    found[3] = {index, true};
  }
  parts = std::move(found);
  return true;
}

}  // namespace aotip
