// MTLCommandQueue, MTLCommandBuffer and MTLComputeCommandEncoder.
//
// Committed work runs when something waits for it, in the order of the queue: what reads results
// too early, or changes arguments too early, always gets it wrong.
#pragma once

#include "object.h"

namespace stand_in {

Object* make_queue();

}  // namespace stand_in
