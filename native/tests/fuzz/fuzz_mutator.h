#pragma once

#include "mutate.h"
#include "target.h"

// The mutator of targets whose inputs have no parts of their own.

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t nbytes, size_t max_nbytes,
                                          unsigned int seed) {
  (void)max_nbytes;
  Mutator mutator(seed);
  mutator.mutate(data, nbytes);
  return mutator.cut(nbytes);
}
