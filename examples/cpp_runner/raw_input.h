#pragma once

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/core/result.h>
#include <executorch/runtime/executor/method_meta.h>

#include <string>
#include <vector>

/**
 * Makes the tensor that a method takes as one of its inputs.
 *
 * @param info The input's shape and element type, as the program gives them.
 * @param path File with the elements, row-major, in the machine's byte order; empty for ones.
 *
 * @returns A new tensor that owns its elements; InvalidArgument if the file's size is not the
 * tensor's; AccessFailed if it cannot be read.
 */
executorch::runtime::Result<executorch::extension::TensorPtr> make_input(
    const executorch::runtime::TensorInfo& info, const std::string& path);
