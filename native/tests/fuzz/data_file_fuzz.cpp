// A data file, given to a program whose weights it has: data_file_fuzz --program FILE CORPUS...

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fuzz_mutator.h"
#include "run_program.h"

namespace {

std::string program_path;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc < 3 || std::strcmp((*argv)[1], "--program") != 0) {
    std::fprintf(stderr, "expected --program FILE first\n");
    std::exit(2);
  }
  program_path = (*argv)[2];
  *argc -= 2;
  std::memmove(*argv + 1, *argv + 3, sizeof(char*) * static_cast<size_t>(*argc));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t nbytes) {
  const int file = memfd_create("data", 0);
  if (file < 0 || write(file, data, nbytes) != static_cast<ssize_t>(nbytes)) {
    std::perror("memfd");
    std::abort();
  }
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  const char* paths[] = {path.c_str()};
  for (const int32_t mode : {0, 1}) {
    aotip_program* program = nullptr;
    if (succeeded(aotip_program_load(program_path.c_str(), paths, 1, mode, &program))) {
      run_program(ProgramPtr(program));
    }
  }
  close(file);
  return 0;
}
