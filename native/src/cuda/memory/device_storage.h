#pragma once

#include <executorch/runtime/core/named_data_map.h>

#include <cstdint>
#include <memory>

#include "cuda/memory/upload.h"
#include "delegate/constants.h"

namespace aoti_plugins::cuda {

/// A copy of a storage in memory of a GPU, whose context must be current. It is allocated outside
/// of the pool, so that the system has it back as soon as the last user is gone. The bytes are
/// there when `uploader` is done. Null, with a reason, when it fails.
std::shared_ptr<ConstantStorage> load_device_storage(const ::executorch::runtime::NamedDataMap& map,
                                                     const StorageRef& ref, int32_t gpu,
                                                     Uploader& uploader);

}  // namespace aoti_plugins::cuda
