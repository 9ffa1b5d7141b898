#pragma once

/// Stands for the header of an OpenMP runtime where the compiler brings none, such as Zig: only
/// blobs that it compiles find this folder.

#include <aoti_plugins/blob_openmp.h>
