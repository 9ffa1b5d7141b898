// Runs a fuzz target: every file of the corpus, then mutations of them
// for a while.
//
//   program_fuzz [--runs N] [--seconds N] [--seed N] [--first N] [--keep FOLDER] CORPUS...
//
// Mutation number i depends on i, the seed and the corpus alone. Each is run in a child process,
// which goes on from one to the next; one that ends the child, or takes forty seconds, is kept as a
// file and counted, and the next child goes on behind it. The exit status is 1 when there was one.

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "target.h"

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

/// A loop that does not end is ended by ExecuTorch after ten million instructions, which takes a
/// while.
constexpr unsigned int kSecondsPerInput = 40;
constexpr int kFailuresToStopAt = 50;

/// AOTIP_FUZZ_SECONDS of the environment, or 10.
double default_seconds() {
  const char* seconds = std::getenv("AOTIP_FUZZ_SECONDS");
  return seconds != nullptr ? std::strtod(seconds, nullptr) : 10;
}

struct Arguments {
  uint64_t runs = UINT64_MAX;
  double seconds = default_seconds();
  uint64_t seed = 1;
  uint64_t first = 0;
  fs::path keep = ".";
  std::vector<fs::path> corpus;
};

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* value = name.compare(0, 2, "--") == 0 && i + 1 < argc ? argv[++i] : nullptr;
    if (value == nullptr) {
      arguments.corpus.emplace_back(name);
    } else if (name == "--runs") {
      arguments.runs = std::strtoull(value, nullptr, 10);
      arguments.seconds = 1e9;
    } else if (name == "--seconds") {
      arguments.seconds = std::strtod(value, nullptr);
    } else if (name == "--seed") {
      arguments.seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--first") {
      arguments.first = std::strtoull(value, nullptr, 10);
    } else if (name == "--keep") {
      arguments.keep = value;
    } else {
      std::fprintf(stderr, "unknown option %s\n", name.c_str());
      std::exit(2);
    }
  }
  return arguments;
}

std::vector<Bytes> read_corpus(const std::vector<fs::path>& places) {
  std::vector<fs::path> files;
  for (const fs::path& place : places) {
    if (!fs::is_directory(place)) {
      files.push_back(place);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(place)) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const fs::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", path.c_str());
      std::exit(2);
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no corpus\n");
    std::exit(2);
  }
  return corpus;
}

/// Input number `index`: the files of the corpus as they are, then mutations of them.
Bytes make_input(const std::vector<Bytes>& corpus, uint64_t seed, uint64_t index) {
  Bytes input = corpus[index % corpus.size()];
  if (index >= corpus.size() && !input.empty()) {
    std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(index),
                           static_cast<uint32_t>(index >> 32)};
    uint32_t mixed = 0;
    sequence.generate(&mixed, &mixed + 1);
    input.resize(LLVMFuzzerCustomMutator(input.data(), input.size(), input.size(), mixed));
  }
  return input;
}

/// What the child and its parent share: the number of the input that runs, or is next.
struct Progress {
  volatile uint64_t index;
};

class Run {
 public:
  Run(const Arguments& arguments, std::vector<Bytes> corpus)
      : arguments_(arguments),
        corpus_(std::move(corpus)),
        progress_(static_cast<Progress*>(mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0))),
        end_(std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(
                                                    1e3 * std::min(arguments.seconds, 1e6)))) {
    progress_->index = arguments.first;
  }

  int run() {
    int failures = 0;
    while (more() && failures < kFailuresToStopAt) {
      const pid_t child = fork();
      if (child == 0) {
        run_inputs();
        std::exit(0);
      }
      int status = 0;
      waitpid(child, &status, 0);
      if (status != 0) {
        ++failures;
        keep(status);
        progress_->index = progress_->index + 1;
      }
    }
    std::printf("%llu inputs, %d failures\n",
                static_cast<unsigned long long>(progress_->index - arguments_.first), failures);
    fs::remove(log_path());
    return failures == 0 ? 0 : 1;
  }

 private:
  bool more() const {
    const uint64_t done = progress_->index - arguments_.first;
    return done < arguments_.runs &&
           (done < corpus_.size() || std::chrono::steady_clock::now() < end_);
  }

  fs::path log_path() const { return arguments_.keep / ("log-" + std::to_string(process_)); }

  /// What an input says goes to a file, which starts anew with each.
  void run_inputs() {
    const int log = open(log_path().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (log < 0 || dup2(log, STDERR_FILENO) < 0) {
      std::perror("the log");
      std::exit(2);
    }
    for (; more(); progress_->index = progress_->index + 1) {
      // On the heap and exactly as long as it is, for the address sanitizer.
      const Bytes made = make_input(corpus_, arguments_.seed, progress_->index);
      const std::vector<uint8_t> input(made.begin(), made.end());
      if (ftruncate(STDERR_FILENO, 0) != 0) {
        std::perror("the log");
      }
      alarm(kSecondsPerInput);
      (void)LLVMFuzzerTestOneInput(input.data(), input.size());
    }
    alarm(0);
  }

  void keep(int status) const {
    const uint64_t index = progress_->index;
    const Bytes input = make_input(corpus_, arguments_.seed, index);
    const fs::path path = arguments_.keep / ("failure-" + std::to_string(arguments_.seed) + "-" +
                                             std::to_string(index));
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
    const char* how = !WIFSIGNALED(status)          ? "exit"
                      : WTERMSIG(status) == SIGALRM ? "too slow"
                                                    : strsignal(WTERMSIG(status));
    std::printf("input %llu of seed %llu: %s, kept as %s\n", static_cast<unsigned long long>(index),
                static_cast<unsigned long long>(arguments_.seed), how, path.c_str());
    std::cout << std::ifstream(log_path()).rdbuf() << std::endl;
  }

  const Arguments& arguments_;
  const pid_t process_ = getpid();
  const std::vector<Bytes> corpus_;
  Progress* progress_;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  if (LLVMFuzzerInitialize != nullptr) {
    LLVMFuzzerInitialize(&argc, &argv);
  }
  const Arguments arguments = read_arguments(argc, argv);
  return Run(arguments, read_corpus(arguments.corpus)).run();
}
