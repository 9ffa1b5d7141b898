#pragma once

#include <memory>

#include "delegate/constants.h"

namespace aoti_plugins::mps {

/// A storage for the GPU: the program's own memory where it begins at a page, as in a mapped file,
/// and nothing writes to it; else a copy.
std::shared_ptr<ConstantStorage> load_mps_storage(const ::executorch::runtime::NamedDataMap& map,
                                                  const StorageRef& ref, bool writable);

}  // namespace aoti_plugins::mps
