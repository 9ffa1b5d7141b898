#include "delegate/program_identity.h"

#include <executorch/runtime/executor/merged_data_map.h>

#include <cstring>
#include <typeinfo>

namespace aoti_plugins {
namespace {

using ::executorch::runtime::NamedDataMap;
using ::executorch::runtime::internal::MergedDataMap;

/// The map of the program itself, which `MergedDataMap` has second and keeps private.
const NamedDataMap* program_part(const MergedDataMap& map);

/// Names a private member, which only an explicit instantiation may.
template <const NamedDataMap* MergedDataMap::* kPart>
struct Opened {
  friend const NamedDataMap* program_part(const MergedDataMap& map) { return map.*kPart; }
};
template struct Opened<&MergedDataMap::second_>;

/// By name: the two libraries have a type description each.
bool is_merged(const NamedDataMap& map) {
  return std::strcmp(typeid(map).name(), typeid(MergedDataMap).name()) == 0;
}

}  // namespace

const void* program_of(const NamedDataMap* map) noexcept {
  // A program's own map is a part of it. With data files each method gets a map of its own, which
  // merges the files' with the program's. A program that has no data of its own is given the
  // files', which are loaded with it.
  return map != nullptr && is_merged(*map)
             ? static_cast<const void*>(program_part(static_cast<const MergedDataMap&>(*map)))
             : map;
}

}  // namespace aoti_plugins
