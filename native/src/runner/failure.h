#pragma once

#include <executorch/runtime/core/error.h>

#include <cstdint>

namespace aoti_plugins::runner {

using ::executorch::runtime::Error;

/// Forgets what happened before; every C function starts with it.
void begin_call() noexcept;

/// Records why the call failed and returns the code to return. The delegate's reason is put in when
/// it has one.
int32_t failed(Error error, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3), cold));

}  // namespace aoti_plugins::runner
