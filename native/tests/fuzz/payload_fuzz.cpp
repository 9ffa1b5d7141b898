// What the delegate is given to run, read and checked.

#include "delegate/payload.h"
#include "fuzz_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t nbytes) {
  aoti_plugins::Payload payload;
  (void)aoti_plugins::read_payload(data, nbytes, &payload);
  return 0;
}
