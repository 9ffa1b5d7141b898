#pragma once

#include <executorch/runtime/backend/interface.h>

#include "slim/export.h"

namespace aoti_plugins {

/// Offers a backend of ours for the programs of another one, whose id these programs ask for. It is
/// registered by `aotip_delegate_stand_in()` only, so that the other one wins where it is loaded.
///
/// @param id a literal
/// @param backend as long as the process
/// Returns false when there are too many.
AOTIP_CORE bool offer_stand_in(const char* id,
                               ::executorch::runtime::BackendInterface* backend) noexcept;

}  // namespace aoti_plugins
