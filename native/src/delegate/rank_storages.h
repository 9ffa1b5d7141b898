#pragma once

#include <executorch/runtime/core/named_data_map.h>

#include "delegate/payload.h"
#include "slim/status.h"

namespace aoti_plugins {

/// Finds this process's place among the ranks of a program, lets it meet the others, and sees that
/// all load the same program and each has its weights.
///
/// @param payload of a program for several ranks: the keys and digests of what is another storage
/// on each rank become this rank's.
/// @param ret_local_rank this process's number on this machine.
Status join_ranks(const ::executorch::runtime::NamedDataMap* map, Payload* payload,
                  int32_t* ret_local_rank) noexcept;

}  // namespace aoti_plugins
