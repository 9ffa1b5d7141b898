// Threads that run programs for a while: each its own program, then all of them one program. Two
// instances of a method, which may have state, always agree, and memory does not grow.
//
// AOTIP_THREAD_PROGRAM names another program whose tensors are float32 on the host, and
// AOTIP_THREAD_SECONDS how long each case runs. Under ThreadSanitizer: cmake --preset tsan.

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runner_handles.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define AOTIP_MEMORY_IS_SANITIZED 1
#endif

namespace {

constexpr int kThreads = 8;
constexpr int32_t kFloat32 = 6;

std::string from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

double seconds() {
  return std::stod(from_environment("AOTIP_THREAD_SECONDS", "1"));
}

ProgramPtr load_program() {
  aotip_program* program = nullptr;
  const std::string path = from_environment("AOTIP_THREAD_PROGRAM", AOTIP_TEST_PROGRAM);
  return aotip_program_load(path.c_str(), nullptr, 0, 0, &program) == 0 ? ProgramPtr(program)
                                                                        : nullptr;
}

/// A method with inputs of its own.
class Runner {
 public:
  explicit Runner(aotip_program* program, int number) {
    aotip_method* method = nullptr;
    size_t n_in = 0;
    size_t n_out = 0;
    if (aotip_method_load(program, "forward", &method) != 0) {
      return;
    }
    method_.reset(method);
    if (aotip_method_input_count(method, &n_in) != 0 ||
        aotip_method_output_count(method, &n_out) != 0) {
      return;
    }
    inputs_.resize(n_in);
    outputs_.resize(n_out);
    for (size_t i = 0; i < n_in; ++i) {
      if (aotip_method_input_info(method, i, &inputs_[i]) != 0 || inputs_[i].dtype != kFloat32) {
        return;
      }
      data_.emplace_back(inputs_[i].nbytes / sizeof(float));
      for (size_t k = 0; k < data_.back().size(); ++k) {
        data_.back()[k] = static_cast<float>((k * 7 + static_cast<size_t>(number)) % 11) / 11.0f;
      }
      inputs_[i].data = data_.back().data();
    }
    ready_ = true;
  }

  /// The bytes of all outputs; empty where the call failed.
  std::vector<char> run() {
    std::vector<char> bytes;
    if (ready_ && aotip_method_execute(method_.get(), inputs_.data(), inputs_.size(),
                                       outputs_.data(), outputs_.size()) == 0) {
      for (const aotip_value& out : outputs_) {
        const char* data = static_cast<const char*>(out.data);
        bytes.insert(bytes.end(), data, data + out.nbytes);
      }
    }
    return bytes;
  }

 private:
  MethodPtr method_;
  std::vector<std::vector<float>> data_;
  std::vector<aotip_value> inputs_;
  std::vector<aotip_value> outputs_;
  bool ready_ = false;
};

size_t resident_nbytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  size_t resident = 0;
  file >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

struct Outcome {
  size_t calls = 0;
  std::string error;
};

/// Runs until the time is over; programs are made here where none is given.
Outcome work(aotip_program* shared, int number, std::chrono::steady_clock::time_point end) {
  Outcome outcome;
  const ProgramPtr own = shared == nullptr ? load_program() : nullptr;
  aotip_program* program = shared != nullptr ? shared : own.get();
  if (program == nullptr) {
    outcome.error = aotip_last_error();
    return outcome;
  }
  Runner first(program, number);
  Runner second(program, number);
  while (std::chrono::steady_clock::now() < end && outcome.error.empty()) {
    const std::vector<char> found = first.run();
    ++outcome.calls;
    if (found.empty()) {
      outcome.error = aotip_last_error();
    } else if (found != second.run()) {
      outcome.error = "two instances differ in call " + std::to_string(outcome.calls);
    }
  }
  return outcome;
}

void run_threads(aotip_program* shared, double duration) {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(
                                             std::chrono::duration<double>(duration));
  std::vector<Outcome> outcomes(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { outcomes[static_cast<size_t>(i)] = work(shared, i, end); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Outcome& outcome : outcomes) {
    BOOST_TEST(outcome.error == "");
    BOOST_TEST(outcome.calls > 0);
  }
}

void run_for_a_while(aotip_program* shared) {
  run_threads(shared, seconds() / 3);
  const size_t before = resident_nbytes();
  run_threads(shared, seconds() * 2 / 3);
#ifdef AOTIP_MEMORY_IS_SANITIZED
  BOOST_TEST_MESSAGE("resident memory before and after: " << before << " " << resident_nbytes());
#else
  BOOST_TEST(resident_nbytes() <= before + (size_t{4} << 20));
#endif
}

}  // namespace

BOOST_AUTO_TEST_SUITE(thread_runs)

BOOST_AUTO_TEST_CASE(each_thread_has_a_program) {
  run_for_a_while(nullptr);
}

BOOST_AUTO_TEST_CASE(all_threads_have_one_program) {
  const ProgramPtr program = load_program();
  BOOST_TEST_REQUIRE(static_cast<bool>(program), aotip_last_error());
  run_for_a_while(program.get());
}

BOOST_AUTO_TEST_SUITE_END()
