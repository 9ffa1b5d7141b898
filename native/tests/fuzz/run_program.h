#pragma once

#include "../runner_handles.h"

/// Whether a call gave 0; with AOTIP_FUZZ_VERBOSE in the environment, says why it did not.
bool succeeded(int32_t code);

/// Loads each method, runs it twice on zeros and reads what it gives.
void run_program(const ProgramPtr& program);
