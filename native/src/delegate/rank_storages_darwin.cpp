#include "delegate/rank_storages.h"

namespace aoti_plugins {

Status join_ranks(const ::executorch::runtime::NamedDataMap*, Payload*, int32_t*) noexcept {
  return fail("the program is for several ranks, which this system has not: run it on Linux");
}

}  // namespace aoti_plugins
