#pragma once

#include <cstddef>
#include <cstdint>

// What a target defines; libFuzzer's own names, so that a target runs under libFuzzer
// (-fsanitize=fuzzer) and under driver.cpp.

/// Runs one input. It has to return, whatever the input.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t nbytes);

/// Reads and takes away the target's own arguments; targets that have none leave it out.
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

/// Changes an input in place and returns how many bytes it has then.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t nbytes, size_t max_nbytes,
                                          unsigned int seed);
