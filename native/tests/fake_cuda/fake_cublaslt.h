#pragma once

/// How tests watch the stand-in for cuBLASLt. C functions of libfake_cublaslt.so, found with dlsym.

#include <cstddef>
#include <cstdint>

extern "C" {

/// The compute type of the last product that was run, of any thread; 0 before the first.
int32_t fake_cublaslt_compute_type();

/// How often a kernel was asked for, in this process.
size_t fake_cublaslt_choices();

/// How many handles were made, in this process.
size_t fake_cublaslt_handles();

/// Makes one product fail, after so many others.
void fake_cublaslt_fail_after(size_t products);
}
