#pragma once

#include <string>

#include "mps/driver/objc.h"
#include "slim/status.h"

namespace aoti_plugins::mps {

/// Makes the pipeline of a kernel. Where the environment variable AOTI_PLUGINS_METAL_ARCHIVES names
/// a folder, machine code is taken from there and put there, so that the next process need not
/// compile it; whatever goes wrong with the folder only costs time. An autorelease pool must be
/// open.
///
/// @param source the shader's text, which names the archive together with the GPU and the system.
Status make_pipeline(Id function, const char* name, const std::string& source, Owned* ret);

}  // namespace aoti_plugins::mps
