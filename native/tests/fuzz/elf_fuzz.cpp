// A shared object, looked at before the loader is.

#include "delegate/elf.h"
#include "fuzz_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t nbytes) {
  (void)aoti_plugins::check_elf(data, nbytes, "so_blob");
  return 0;
}
