// A whole program through the runner's C interface: loaded, each method loaded, run on zeros, its
// results read.

#include <aoti_plugins/runner.h>

#include <algorithm>
#include <cstring>

#include "mutate.h"
#include "run_program.h"
#include "target.h"

namespace {

/// How many bytes stand before the segments, as the header of the program says.
size_t flatbuffer_nbytes(const uint8_t* data, size_t nbytes) {
  uint64_t program_nbytes = nbytes;
  if (nbytes >= 24 && std::memcmp(data + 8, "eh00", 4) == 0) {
    std::memcpy(&program_nbytes, data + 16, sizeof(program_nbytes));
  }
  return static_cast<size_t>(std::min<uint64_t>(program_nbytes, nbytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t nbytes) {
  aotip_program* program = nullptr;
  if (succeeded(aotip_program_load_buffer(data, nbytes, &program))) {
    run_program(ProgramPtr(program));
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t nbytes, size_t max_nbytes,
                                          unsigned int seed) {
  (void)max_nbytes;
  // Most of a program is code and weights, which a change cannot make more than wrong.
  const bool all = seed % 16 == 0;
  Mutator mutator(seed);
  mutator.mutate(data, all ? nbytes : flatbuffer_nbytes(data, nbytes));
  return all ? mutator.cut(nbytes) : nbytes;
}
