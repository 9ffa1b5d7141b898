// The runner's C API on a real program that holds a stand-in for a compiled model.

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runner_handles.h"

namespace {

const char kProgram[] = AOTIP_TEST_PROGRAM;

ProgramPtr load_program(int32_t mode = 0) {
  aotip_program* program = nullptr;
  BOOST_TEST_REQUIRE(aotip_program_load(kProgram, nullptr, 0, mode, &program) == 0,
                     aotip_last_error());
  return ProgramPtr(program);
}

MethodPtr load_method(const ProgramPtr& program, const char* name = "forward") {
  aotip_method* method = nullptr;
  BOOST_TEST_REQUIRE(aotip_method_load(program.get(), name, &method) == 0, aotip_last_error());
  return MethodPtr(method);
}

std::vector<char> read_program() {
  std::ifstream file(kProgram, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// x [2, 3] float32.
struct Input {
  int64_t sizes[2] = {2, 3};
  int64_t strides[2] = {3, 1};
  float data[6] = {0, 1, 2, 3, 4, 5};
  aotip_value value() {
    aotip_value v{};
    v.tag = AOTIP_TAG_TENSOR;
    v.dtype = 6;
    v.ndim = 2;
    v.sizes = sizes;
    v.strides = strides;
    v.data = data;
    return v;
  }
};

int32_t run(const MethodPtr& method, Input& input, aotip_value* out) {
  const aotip_value value = input.value();
  return aotip_method_execute(method.get(), &value, 1, out, 1);
}

void check_error(const std::string& part) {
  const std::string found = aotip_last_error();
  BOOST_TEST(found.find(part) != std::string::npos, "'" << found << "' lacks '" << part << "'");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(runner)

BOOST_AUTO_TEST_CASE(the_delegate_comes_with_the_runner) {
  bool found = false;
  for (size_t i = 0; i < aotip_backend_count(); ++i) {
    found = found || std::string(aotip_backend_name(i)) == "AotiCpuBackend";
  }
  BOOST_TEST(found);
  BOOST_TEST(aotip_backend_name(aotip_backend_count()) == nullptr);
}

BOOST_AUTO_TEST_CASE(methods_share_their_state) {
  const ProgramPtr program = load_program();
  Input input;
  aotip_value out{};
  std::vector<float> expected;
  const MethodPtr alone = load_method(program);
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST_REQUIRE(run(alone, input, &out) == 0, aotip_last_error());
    expected.push_back(static_cast<const float*>(out.data)[0]);
  }
  BOOST_TEST(expected[0] != expected[1]);
  MethodPtr first = load_method(program);
  aotip_method* method = nullptr;
  BOOST_TEST_REQUIRE(
      aotip_method_load_sharing(program.get(), "again", nullptr, 0, first.get(), &method) == 0,
      aotip_last_error());
  const MethodPtr second(method);
  for (size_t i = 0; i < 3; ++i) {
    BOOST_TEST_REQUIRE(run(i == 1 ? second : first, input, &out) == 0, aotip_last_error());
    BOOST_TEST(static_cast<const float*>(out.data)[0] == expected[i]);
  }
  const ProgramPtr other = load_program();
  BOOST_TEST(aotip_method_load_sharing(other.get(), "again", nullptr, 0, first.get(), &method) !=
             0);
  check_error("of another program");
  BOOST_TEST(aotip_method_load_sharing(program.get(), "again", nullptr, 0, nullptr, &method) != 0);
  check_error("state_of is null");
}

BOOST_AUTO_TEST_CASE(says_what_a_program_has) {
  const ProgramPtr program = load_program();
  size_t count = 0;
  const char* name = nullptr;
  BOOST_TEST(aotip_program_method_count(program.get(), &count) == 0);
  BOOST_TEST(count == 2u);
  BOOST_TEST(aotip_program_method_name(program.get(), 0, &name) == 0);
  BOOST_TEST(std::string(name) == "again");
  const MethodPtr method = load_method(program);
  BOOST_TEST(aotip_method_input_count(method.get(), &count) == 0);
  BOOST_TEST(count == 1u);
  BOOST_TEST(aotip_method_output_count(method.get(), &count) == 0);
  BOOST_TEST(count == 1u);
  aotip_value info{};
  BOOST_TEST(aotip_method_input_info(method.get(), 0, &info) == 0);
  BOOST_TEST(info.tag == AOTIP_TAG_TENSOR);
  BOOST_TEST(info.dtype == 6);
  BOOST_TEST(info.ndim == 2);
  BOOST_TEST(info.sizes[1] == 3);
  BOOST_TEST(info.nbytes == 24u);
  BOOST_TEST(aotip_method_output_info(method.get(), 0, &info) == 0);
  BOOST_TEST(info.strides[0] == 3);
}

BOOST_AUTO_TEST_CASE(says_how_a_method_is_called) {
  const ProgramPtr program = load_program();
  const char* text = nullptr;
  size_t nbytes = 0;
  // The arguments are a tuple and a dict, the result is one tensor.
  const std::pair<int32_t, const char*> texts[] = {{AOTIP_TEXT_INPUT_SPEC, "builtins.dict"},
                                                   {AOTIP_TEXT_OUTPUT_SPEC, "[1, {\"type\": null"}};
  for (const auto& [which, part] : texts) {
    BOOST_TEST_REQUIRE(
        aotip_program_method_text(program.get(), "again", which, &text, &nbytes) == 0,
        aotip_last_error());
    BOOST_TEST(std::string(text, nbytes).find(part) != std::string::npos);
  }
  BOOST_TEST_REQUIRE(
      aotip_program_method_text(program.get(), "again", AOTIP_TEXT_INTERFACE, &text, &nbytes) == 0,
      aotip_last_error());
  BOOST_TEST(nbytes == 0u);  // the stand-in's partitioner says nothing
  BOOST_TEST(aotip_program_method_text(program.get(), "other", 0, &text, &nbytes) != 0);
  check_error("no method 'other'");
  BOOST_TEST(aotip_program_method_text(program.get(), "again", 3, &text, &nbytes) != 0);
  check_error("no text 3");
  BOOST_TEST(aotip_program_method_text(program.get(), nullptr, 0, &text, &nbytes) != 0);
  check_error("method is null");
}

BOOST_AUTO_TEST_CASE(runs_from_a_map_a_file_and_a_buffer) {
  const std::vector<char> bytes = read_program();
  aotip_program* buffered = nullptr;
  BOOST_TEST_REQUIRE(aotip_program_load_buffer(bytes.data(), bytes.size(), &buffered) == 0);
  ProgramPtr programs[] = {load_program(0), load_program(1), ProgramPtr(buffered)};
  for (ProgramPtr& program : programs) {
    const MethodPtr method = load_method(program);
    program.reset();  // the method keeps what it needs
    Input input;
    aotip_value out{};
    BOOST_TEST_REQUIRE(run(method, input, &out) == 0, aotip_last_error());
    BOOST_TEST(out.tag == AOTIP_TAG_TENSOR);
    BOOST_TEST(out.sizes[0] == 2);
    BOOST_TEST(static_cast<float*>(out.data)[5] == 15.0f);  // 5 * 3
    BOOST_TEST_REQUIRE(run(method, input, &out) == 0);
    BOOST_TEST(static_cast<float*>(out.data)[5] == 16.0f);  // one call before
  }
}

/// What a call gives: how many calls of methods with the same state there were before.
float calls_before(const MethodPtr& method) {
  Input input;
  aotip_value out{};
  BOOST_TEST_REQUIRE(run(method, input, &out) == 0, aotip_last_error());
  return static_cast<float*>(out.data)[0];
}

BOOST_AUTO_TEST_CASE(methods_of_a_program_share_their_state_untold) {
  const ProgramPtr program = load_program();
  const ProgramPtr elsewhere = load_program();
  const MethodPtr first = load_method(program);
  const MethodPtr other = load_method(elsewhere);
  const MethodPtr second = load_method(program, "again");
  BOOST_TEST(calls_before(first) == 0.0f);
  BOOST_TEST(calls_before(second) == 1.0f);
  BOOST_TEST(calls_before(other) == 0.0f);
  // Once more is another conversation, which what is loaded later belongs to.
  const MethodPtr third = load_method(program);
  const MethodPtr fourth = load_method(program, "again");
  BOOST_TEST(calls_before(third) == 0.0f);
  BOOST_TEST(calls_before(fourth) == 1.0f);
  BOOST_TEST(calls_before(first) == 2.0f);
}

BOOST_AUTO_TEST_CASE(a_method_has_a_state_of_its_own_when_told) {
  const ProgramPtr program = load_program();
  const MethodPtr first = load_method(program);
  aotip_method* method = nullptr;
  BOOST_TEST_REQUIRE(aotip_method_load_apart(program.get(), "again", nullptr, 0, &method) == 0,
                     aotip_last_error());
  const MethodPtr apart(method);
  BOOST_TEST(calls_before(first) == 0.0f);
  BOOST_TEST(calls_before(apart) == 0.0f);
  BOOST_TEST(calls_before(first) == 1.0f);
}

BOOST_AUTO_TEST_CASE(inputs_of_any_strides) {
  const ProgramPtr program = load_program();
  const MethodPtr method = load_method(program);
  Input input;
  input.strides[0] = 1;
  input.strides[1] = 2;
  aotip_value out{};
  BOOST_TEST_REQUIRE(run(method, input, &out) == 0, aotip_last_error());
  BOOST_TEST(static_cast<float*>(out.data)[1] == 4.0f);  // data[2] * 2
  aotip_value value = input.value();
  value.strides = nullptr;
  BOOST_TEST(aotip_method_execute(method.get(), &value, 1, &out, 1) == 0);
}

BOOST_AUTO_TEST_CASE(outputs_go_to_memory_of_the_caller) {
  const ProgramPtr program = load_program();
  const MethodPtr method = load_method(program);
  float result[6] = {};
  aotip_value memory{};
  memory.data = result;
  memory.nbytes = sizeof(result);
  Input input;
  aotip_value out{};
  BOOST_TEST_REQUIRE(run(method, input, &out) == 0, aotip_last_error());
  void* own = out.data;
  BOOST_TEST_REQUIRE(aotip_method_set_output(method.get(), 0, &memory) == 0, aotip_last_error());
  for (const float expected : {16.0f, 17.0f}) {
    BOOST_TEST_REQUIRE(run(method, input, &out) == 0, aotip_last_error());
    BOOST_TEST(out.data == result);
    BOOST_TEST(result[5] == expected);
  }
  BOOST_TEST_REQUIRE(aotip_method_set_output(method.get(), 0, nullptr) == 0, aotip_last_error());
  BOOST_TEST_REQUIRE(run(method, input, &out) == 0, aotip_last_error());
  BOOST_TEST(out.data == own);
  BOOST_TEST(result[5] == 17.0f);
  memory.nbytes = 20;
  BOOST_TEST(aotip_method_set_output(method.get(), 0, &memory) != 0);
  check_error("output 0 needs 24 bytes, found 20");
  memory.device_type = 1;
  BOOST_TEST(aotip_method_set_output(method.get(), 0, &memory) != 0);
  check_error("output 0 gets memory of device type 1, expected the cpu (0)");
  BOOST_TEST(aotip_method_set_output(method.get(), 1, nullptr) != 0);
  BOOST_TEST(aotip_method_set_output(nullptr, 0, nullptr) != 0);
}

BOOST_AUTO_TEST_CASE(wrong_inputs_are_named) {
  const ProgramPtr program = load_program();
  const MethodPtr method = load_method(program);
  aotip_value out{};
  Input input;
  aotip_value value = input.value();
  const auto fails = [&](const std::string& expected) {
    BOOST_TEST(aotip_method_execute(method.get(), &value, 1, &out, 1) != 0);
    check_error(expected);
    value = input.value();
  };
  value.dtype = 7;
  fails("input 0 is float64 with 2 dims, expected float32 [2, 3]");
  value.ndim = 1;
  fails("input 0 is float32 with 1 dims, expected float32 [2, 3]");
  input.sizes[1] = 4;
  fails("input 0 has sizes [2, 4], expected [2, 3] (dim 1 differs)");
  input.sizes[1] = 3;
  value.data = nullptr;
  fails("input 0 has no data");
  value.sizes = nullptr;
  fails("input 0 has no sizes");
  value.device_type = 1;
  fails("input 0 is on device type 1, expected the cpu (0)");
  value.tag = AOTIP_TAG_INT;
  fails("input 0 is an int, expected a tensor");
  BOOST_TEST(aotip_method_execute(method.get(), &value, 0, &out, 1) != 0);
  check_error("0 inputs, the method has 1");
  BOOST_TEST(aotip_method_execute(method.get(), nullptr, 1, &out, 1) != 0);
  check_error("inputs is null");
  BOOST_TEST(aotip_method_execute(method.get(), &value, 1, nullptr, 1) != 0);
  check_error("outputs is null");
  // And it still runs.
  BOOST_TEST(run(method, input, &out) == 0);
  BOOST_TEST(std::string(aotip_last_error()).empty());
}

BOOST_AUTO_TEST_CASE(calls_on_the_cpu_are_not_begun_and_finished_apart) {
  const ProgramPtr program = load_program();
  const MethodPtr method = load_method(program);
  int32_t can = 7;
  BOOST_TEST(aotip_method_can_begin(method.get(), &can) == 0);
  BOOST_TEST(can == 0);
  const aotip_value value{};
  aotip_value out{};
  BOOST_TEST(aotip_method_begin(method.get(), &value, 1) != 0);
  check_error("calls of method 'forward' cannot be begun and finished apart");
  BOOST_TEST(aotip_method_finish(method.get(), &out, 1) != 0);
  check_error("calls of method 'forward' cannot be begun and finished apart");
  BOOST_TEST(aotip_method_begin(method.get(), nullptr, 1) != 0);
  check_error("inputs is null");
  BOOST_TEST(aotip_method_finish(method.get(), &out, 2) != 0);
  check_error("2 outputs, the method has 1");
  BOOST_TEST(aotip_method_begin(nullptr, &value, 1) != 0);
  BOOST_TEST(aotip_method_finish(nullptr, &out, 1) != 0);
  BOOST_TEST(aotip_method_can_begin(nullptr, &can) != 0);
  BOOST_TEST(aotip_method_can_begin(method.get(), nullptr) != 0);
}

BOOST_AUTO_TEST_CASE(null_and_out_of_range_are_errors) {
  aotip_program* program = nullptr;
  aotip_method* method = nullptr;
  size_t count = 7;
  const char* name = nullptr;
  aotip_value info{};
  BOOST_TEST(aotip_program_load(nullptr, nullptr, 0, 0, &program) != 0);
  check_error("path is null");
  BOOST_TEST(aotip_program_load(kProgram, nullptr, 0, 0, nullptr) != 0);
  BOOST_TEST(aotip_program_load(kProgram, nullptr, 1, 0, &program) != 0);
  check_error("data_paths is null");
  BOOST_TEST(aotip_program_load(kProgram, nullptr, 0, 2, &program) != 0);
  check_error("load_mode is 2");
  BOOST_TEST(aotip_program_load_buffer(nullptr, 5, &program) != 0);
  BOOST_TEST(program == nullptr);
  BOOST_TEST(aotip_program_method_count(nullptr, &count) != 0);
  BOOST_TEST(count == 7u);
  BOOST_TEST(aotip_method_load(nullptr, "forward", &method) != 0);
  BOOST_TEST(aotip_method_input_count(nullptr, &count) != 0);
  BOOST_TEST(aotip_method_execute(nullptr, nullptr, 0, nullptr, 0) != 0);
  aotip_program_destroy(nullptr);
  aotip_method_destroy(nullptr);
  const ProgramPtr good = load_program();
  BOOST_TEST(aotip_program_method_name(good.get(), 2, &name) != 0);
  check_error("there is no method 2, there are 2");
  BOOST_TEST(aotip_method_load(good.get(), nullptr, &method) != 0);
  BOOST_TEST(aotip_method_load(good.get(), "backward", &method) != 0);
  check_error("the program has no method 'backward', it has 'again', 'forward'");
  const MethodPtr loaded = load_method(good);
  BOOST_TEST(aotip_method_input_info(loaded.get(), 1, &info) != 0);
  BOOST_TEST(aotip_method_output_info(loaded.get(), 0, nullptr) != 0);
}

BOOST_AUTO_TEST_CASE(a_traced_method_tells_what_happened) {
  const ProgramPtr program = load_program();
  aotip_method* made = nullptr;
  BOOST_TEST_REQUIRE(aotip_method_load_traced(program.get(), "forward", nullptr, 0, &made) == 0,
                     aotip_last_error());
  const MethodPtr method(made);
  Input input;
  aotip_value out{};
  BOOST_TEST_REQUIRE(run(method, input, &out) == 0, aotip_last_error());
  size_t count = 0;
  BOOST_TEST_REQUIRE(aotip_method_trace(method.get(), nullptr, 0, &count) == 0);
  BOOST_TEST_REQUIRE(count >= 2u);
  std::vector<aotip_event> events(count);
  BOOST_TEST_REQUIRE(aotip_method_trace(method.get(), events.data(), count, &count) == 0);
  bool called = false;
  for (const aotip_event& event : events) {
    BOOST_TEST(event.begin_ns <= event.end_ns);
    if (std::string(event.name) == "DELEGATE_CALL") {
      called = true;
      BOOST_TEST(event.instruction >= 0);
      BOOST_TEST(event.in_delegate == 0);
    }
  }
  BOOST_TEST(called);
  // Another call, other events.
  BOOST_TEST_REQUIRE(run(method, input, &out) == 0);
  size_t again = 0;
  BOOST_TEST(aotip_method_trace(method.get(), nullptr, 0, &again) == 0);
  BOOST_TEST(again <= count);
}

BOOST_AUTO_TEST_CASE(wrong_questions_about_events) {
  size_t count = 7;
  BOOST_TEST(aotip_method_trace(nullptr, nullptr, 0, &count) != 0);
  check_error("method is null");
  const ProgramPtr program = load_program();
  const MethodPtr method = load_method(program);
  BOOST_TEST(aotip_method_trace(method.get(), nullptr, 0, nullptr) != 0);
  check_error("ret_count is null");
  BOOST_TEST(aotip_method_trace(method.get(), nullptr, 3, &count) != 0);
  check_error("events is null");
  BOOST_TEST(aotip_method_trace(method.get(), nullptr, 0, &count) != 0);
  check_error("keeps no events");
  BOOST_TEST(count == 7u);
  aotip_method* made = nullptr;
  BOOST_TEST(aotip_method_load_traced(nullptr, "forward", nullptr, 0, &made) != 0);
  BOOST_TEST(made == nullptr);
}

BOOST_AUTO_TEST_CASE(missing_and_wrong_files) {
  aotip_program* program = nullptr;
  BOOST_TEST(aotip_program_load("/no/such/file.pte", nullptr, 0, 0, &program) != 0);
  check_error("opening '/no/such/file.pte' failed");
  BOOST_TEST(aotip_program_load("/no/such/file.pte", nullptr, 0, 1, &program) != 0);
  const char* data[] = {kProgram};
  BOOST_TEST(aotip_program_load(kProgram, data, 1, 0, &program) != 0);
  check_error("is not a data file");
  BOOST_TEST(aotip_program_load_buffer("", 0, &program) != 0);
  BOOST_TEST(program == nullptr);
}

/// A program that was cut off anywhere, or whose bytes changed, gives an error or still works; it
/// never crashes.
BOOST_AUTO_TEST_CASE(damaged_programs) {
  const std::vector<char> good = read_program();
  const auto attempt = [](const std::vector<char>& bytes) {
    aotip_program* program = nullptr;
    if (aotip_program_load_buffer(bytes.data(), bytes.size(), &program) != 0) {
      BOOST_TEST(aotip_last_error()[0] != '\0');
      return false;
    }
    const ProgramPtr owner(program);
    aotip_method* method = nullptr;
    if (aotip_method_load(program, "forward", &method) != 0) {
      BOOST_TEST(aotip_last_error()[0] != '\0');
      return false;
    }
    aotip_method_destroy(method);
    return true;
  };
  BOOST_TEST(attempt(good));
  for (size_t part = 0; part < 64; ++part) {
    const size_t length = good.size() * part / 64;
    BOOST_TEST(!attempt(std::vector<char>(good.begin(), good.begin() + static_cast<long>(length))));
  }
}

BOOST_AUTO_TEST_CASE(threads_load_methods_of_one_program) {
  const ProgramPtr program = load_program();
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        aotip_method* method = nullptr;
        failures += aotip_method_load(program.get(), "forward", &method) == 0 ? 0 : 1;
        const MethodPtr owner(method);
        Input input;
        aotip_value out{};
        failures += run(owner, input, &out) == 0 ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  BOOST_TEST(failures == 0);
}

BOOST_AUTO_TEST_SUITE_END()
