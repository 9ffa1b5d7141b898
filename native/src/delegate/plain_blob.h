#pragma once

#include <cstddef>
#include <memory>

#include "delegate/delegate_device.h"
#include "delegate/payload.h"
#include "delegate/shared_object.h"

namespace aoti_plugins {

/// Loads a blob of another AOTInductor producer, which calls the C shims, cudart and the driver by
/// their own names.
///
/// libtorch and cudart may be in the process under the same names. So nothing is left to the
/// dynamic linker: before the blob is mapped, what it calls and the session's device provides
/// becomes an absolute address in its symbol table. Its unique symbols, which would keep it mapped
/// for good, become its own.
///
/// Null, with a reason, when it fails: one that names all functions that nothing here provides.
std::shared_ptr<SharedObject> load_plain_blob(const TargetArtifact& target,
                                              const DeviceSession& session, const void* data,
                                              size_t nbytes);

}  // namespace aoti_plugins
