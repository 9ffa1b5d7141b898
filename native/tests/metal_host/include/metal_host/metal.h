// The Metal shading language on the host. The order matters: each header builds on those before it,
// and the dialect's keywords come last, so that no header sees them as macros.
#pragma once

// clang-format off
#include <metal_host/abi.h>
#include <metal_host/types.h>
#include <metal_host/traits.h>
#include <metal_host/vector.h>
#include <metal_host/math.h>

// What emulates the GPU is not itself checked by memory_check.h.
#pragma clang attribute push(__attribute__((no_sanitize("thread"))), apply_to = function)
#include <metal_host/errors.h>
#include <metal_host/fiber.h>
#include <metal_host/schedule.h>
#include <metal_host/group_memory.h>
#include <metal_host/threadgroup.h>
#include <metal_host/memory_check.h>
#include <metal_host/simdgroup.h>
#include <metal_host/atomic.h>
#include <metal_host/dispatch.h>
#pragma clang attribute pop

#include <metal_host/simdgroup_matrix.h>
#include <metal_host/keywords.h>
// clang-format on
