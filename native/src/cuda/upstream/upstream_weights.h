#pragma once

#include <executorch/runtime/core/named_data_map.h>

#include <cstddef>
#include <string>

#include "delegate/payload.h"
#include "slim/status.h"

namespace aoti_plugins::cuda {

/// What all versions of the list of weights begin with.
inline constexpr char kWeightsMagic[] = "ETCUDAFQN";

/// Reads the list of weights that executorch 1.5's CUDA backend stores for a delegate: the key of
/// its blob, then for each constant its name, the key and size of its storage, dtype, device,
/// offset, sizes and strides. Written by backends/cuda/cuda_weight_collector.py there.
///
/// Whatever the bytes are, it never reads outside of them. Fills in `ret->storages` and
/// `ret->constants`.
///
/// @param map the program's named data; may be null
Status read_upstream_weights(const void* data, size_t nbytes,
                             const ::executorch::runtime::NamedDataMap* map, std::string* ret_blob,
                             Payload* ret) noexcept;

}  // namespace aoti_plugins::cuda
