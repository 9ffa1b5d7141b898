// Runs CUDA programs in a process without Python, and prints what it measured as one line of JSON:
//
//     cuda_process calls PROGRAM COUNT [graphs]    time of a call
//     cuda_process copy NBYTES                     time of one pinned copy
//     cuda_process load PROGRAM                    time from the file to the first result, memory
//     cuda_process cycles PROGRAM COUNT            what loading and destroying leave behind
//     cuda_process full PROGRAM SMALL              a program that does not fit, and one that does

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "gpu.h"
#include "process.h"
#include "program.h"

namespace {

int fail(const Program& program) {
  std::fprintf(stderr, "%s\n", program.error().c_str());
  return 1;
}

int calls(const char* path, int count, bool graphs) {
  Program program(path, graphs);
  for (int i = 0; i < std::min(count, 50); ++i) {
    if (!program.run()) {
      return fail(program);
    }
  }
  CHECK_CU(cuCtxSynchronize());
  std::vector<double> latency;
  std::vector<double> row;
  for (int round = 0; round < 15; ++round) {
    for (int i = 0; i < count; ++i) {
      const Clock clock;
      (void)program.run();
      CHECK_CU(cuCtxSynchronize());
      latency.push_back(clock.microseconds());
    }
    const Clock clock;
    for (int i = 0; i < count; ++i) {
      (void)program.run();
    }
    CHECK_CU(cuCtxSynchronize());
    row.push_back(clock.microseconds() / count);
  }
  if (!program.error().empty()) {
    return fail(program);
  }
  std::sort(latency.begin(), latency.end());
  std::sort(row.begin(), row.end());
  std::printf("{\"latency_us\": %.2f, \"in_a_row_us\": %.2f}\n", latency[latency.size() / 2],
              row[row.size() / 2]);
  return 0;
}

int copy(size_t nbytes) {
  std::printf("{\"copy_ms\": %.2f}\n", pinned_copy_ms(nbytes));
  return 0;
}

int load(const char* path) {
  const size_t context = status_nbytes("VmRSS");
  const size_t device = free_nbytes();
  const Clock clock;
  Program program(path, false);
  const double loaded = clock.microseconds() / 1000;
  if (!program.run()) {
    return fail(program);
  }
  CHECK_CU(cuCtxSynchronize());
  const double first = clock.microseconds() / 1000;
  std::printf(
      "{\"load_ms\": %.1f, \"first_result_ms\": %.1f, \"context_nbytes\": %zu, "
      "\"resident_nbytes\": %zu, \"most_resident_nbytes\": %zu, \"device_nbytes\": %zu}\n",
      loaded, first, context, status_nbytes("VmRSS"), status_nbytes("VmHWM"),
      device - free_nbytes());
  return 0;
}

int cycles(const char* path, int count) {
  const auto cycle = [&] {
    Program program(path, false);
    const bool ran = program.run();
    CHECK_CU(cuCtxSynchronize());
    if (!ran) {
      (void)fail(program);
    }
    return ran;
  };
  for (int i = 0; i < 10; ++i) {
    if (!cycle()) {
      return 1;
    }
  }
  const size_t device = free_nbytes();
  const size_t host = status_nbytes("VmRSS");
  const size_t files = open_files();
  for (int i = 0; i < count; ++i) {
    if (!cycle()) {
      return 1;
    }
  }
  const auto grown = [](size_t before, size_t after) {
    return static_cast<int64_t>(after) - static_cast<int64_t>(before);
  };
  std::printf("{\"cycles\": %d, \"device_grown_nbytes\": %" PRId64
              ", \"host_grown_nbytes\": %" PRId64 ", \"files_grown\": %" PRId64 "}\n",
              count, grown(free_nbytes(), device), grown(host, status_nbytes("VmRSS")),
              grown(files, open_files()));
  return 0;
}

/// A program as text: what it said, or nothing where it ran.
std::string outcome(const char* path) {
  Program program(path, false);
  if (program.run()) {
    CHECK_CU(cuCtxSynchronize());
    return "";
  }
  return program.error();
}

void print_text(const std::string& text) {
  std::putchar('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      std::putchar('\\');
    }
    std::putchar(c == '\n' ? ' ' : c);
  }
  std::putchar('"');
}

int full(const char* path, const char* small) {
  const std::string before = outcome(small);  // opens the libraries
  std::optional<std::vector<DeviceMemory>> taken(fill_device(size_t{400} << 20));
  const size_t device = free_nbytes();
  const std::string refused = outcome(path);
  const int64_t lost = static_cast<int64_t>(device) - static_cast<int64_t>(free_nbytes());
  const std::string smaller = outcome(small);
  taken.reset();
  const std::string after = outcome(path);
  std::printf("{\"small_before\": ");
  print_text(before);
  std::printf(", \"left_nbytes\": %zu, \"error\": ", device);
  print_text(refused);
  std::printf(", \"device_lost_nbytes\": %" PRId64 ", \"small_after\": ", lost);
  print_text(smaller);
  std::printf(", \"with_memory_again\": ");
  print_text(after);
  std::printf("}\n");
  return before.empty() && !refused.empty() && smaller.empty() && after.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  use_gpu();
  if (what == "calls" && (argc == 4 || (argc == 5 && std::strcmp(argv[4], "graphs") == 0))) {
    return calls(argv[2], std::atoi(argv[3]), argc == 5);
  }
  if (what == "copy" && argc == 3) {
    return copy(std::strtoull(argv[2], nullptr, 10));
  }
  if (what == "load" && argc == 3) {
    return load(argv[2]);
  }
  if (what == "cycles" && argc == 4) {
    return cycles(argv[2], std::atoi(argv[3]));
  }
  if (what == "full" && argc == 4) {
    return full(argv[2], argv[3]);
  }
  std::fprintf(stderr, "the head of main.cpp has the ways to call this\n");
  return 2;
}
