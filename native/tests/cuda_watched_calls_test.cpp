// Calls that an event tracer watches: AotiCudaBackend tells when each kernel ran.

#include "cuda_delegate_fixture.h"
#include "runner/call_trace.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using ::executorch::runtime::EventTracerDebugLogLevel;
using runner::CallTrace;

namespace {

/// Runs a call on memory of the GPU, so that its work is on the default stream.
void run_there(const LoadedDelegate& loaded, float calls, EventTracer* tracer) {
  const DeviceMemory x(24);
  const DeviceMemory y(24);
  (void)run_on_gpu(loaded, 2, x.data, y.data, calls, tracer);
}

/// Asks for what kernels write, and keeps it.
class OutputTrace final : public CallTrace {
 public:
  struct Output {
    std::string name;
    std::vector<int32_t> sizes;
    std::vector<float> elements;
  };

  OutputTrace() { set_event_tracer_debug_level(EventTracerDebugLogLevel::kIntermediateOutputs); }

  using CallTrace::log_intermediate_output_delegate;
  Result<bool> log_intermediate_output_delegate(const char* name, DebugId,
                                                const Tensor& tensor) override {
    if (has_no_room) {
      return Error::OutOfResources;
    }
    const float* data = tensor.const_data_ptr<float>();
    outputs.push_back(
        {name, {tensor.sizes().begin(), tensor.sizes().end()}, {data, data + tensor.numel()}});
    return true;
  }

  std::vector<Output> outputs;
  bool has_no_room = false;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_watched_calls, Clean)

BOOST_AUTO_TEST_CASE(a_kernel_is_an_event_with_its_time_on_the_gpu) {
  const Program program;
  const Loaded loaded(program);
  CallTrace trace;
  for (int32_t round = 0; round < 3; ++round) {
    trace.clear();
    Call call;
    BOOST_TEST_REQUIRE((call.run(loaded, &trace) == Error::Ok), reason());
    BOOST_TEST(call.result() == expected(2, static_cast<float>(round)));
    BOOST_TEST_REQUIRE(trace.events().size() == 1u);
    const CallTrace::Event& event = trace.events().front();
    BOOST_TEST(event.name == "fake_scale_add:0");
    BOOST_TEST(event.in_delegate);
    BOOST_TEST(event.begin_ns > 0);
    BOOST_TEST(event.end_ns >= event.begin_ns);
  }
}

BOOST_AUTO_TEST_CASE(the_gpu_is_held_until_all_kernels_are_called) {
  const Program program;
  const Loaded loaded(program);
  CallTrace trace;
  const auto holds = [] { return fake().calls("cuLaunchHostFunc"); };
  Call call;
  // The first one waits for the GPU as it loads its kernels, so its hold runs over.
  for (size_t round = 1; round <= 2; ++round) {
    BOOST_TEST_REQUIRE((call.run(loaded, &trace) == Error::Ok), reason());
    BOOST_TEST(holds() == round);
  }
  // The stand-in does the default stream's work at once: holds run over, and after two there are no
  // more.
  for (int round = 2; round < 6; ++round) {
    run_there(loaded, static_cast<float>(round), &trace);
  }
  BOOST_TEST(holds() == 4u);
  BOOST_TEST(trace.events().size() == 6u);
}

BOOST_AUTO_TEST_CASE(calls_that_nobody_watches_have_no_events) {
  const Program program;
  const Loaded loaded(program);
  Call call;
  const size_t events = fake().calls("cuEventCreate");
  BOOST_TEST_REQUIRE((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST_REQUIRE((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(fake().calls("cuEventCreate") == events);
  BOOST_TEST(fake().calls("cuEventElapsedTime_v2") == 0u);
}

BOOST_AUTO_TEST_CASE(a_watched_call_is_no_graph_and_graphs_go_on_behind_it) {
  const GraphProgram program;
  const Loaded loaded(program);
  CallTrace trace;
  for (int32_t round = 0; round < 6; ++round) {
    trace.clear();
    const bool watched = round % 3 == 2;
    Call call;
    BOOST_TEST_REQUIRE((call.run(loaded, watched ? &trace : nullptr) == Error::Ok), reason());
    BOOST_TEST(call.result() == expected(2, static_cast<float>(round)));
    BOOST_TEST(trace.events().size() == (watched ? 1u : 0u));
  }
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 1u);
  BOOST_TEST(fake().calls("cuGraphLaunch") == 3u);
}

BOOST_AUTO_TEST_CASE(a_call_succeeds_without_times) {
  const Program program;
  const Loaded loaded(program);
  CallTrace trace;
  for (const char* function : {"cuEventCreate", "cuEventRecord", "cuEventElapsedTime_v2"}) {
    fake().fail(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
    Call call;
    BOOST_TEST_REQUIRE((call.run(loaded, &trace) == Error::Ok), function << ": " << reason());
    BOOST_TEST(trace.events().empty(), function);
  }
  Call call;
  BOOST_TEST_REQUIRE((call.run(loaded, &trace) == Error::Ok), reason());
  BOOST_TEST(trace.events().size() == 1u);
}

BOOST_AUTO_TEST_CASE(the_reason_of_a_watched_call_that_fails_is_its_own) {
  const Program program;
  const Loaded loaded(program);
  CallTrace trace;
  fake().fail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED);
  fake().fail("cuEventElapsedTime_v2", 1, CUDA_ERROR_UNKNOWN);
  Call call;
  BOOST_TEST((call.run(loaded, &trace) != Error::Ok));
  check_reason("cuLaunchKernel failed");
}

BOOST_AUTO_TEST_CASE(what_a_kernel_wrote_is_told_in_place_of_its_time) {
  const GraphProgram program;
  const Loaded loaded(program);
  OutputTrace trace;
  for (int32_t round = 0; round < 4; ++round) {
    trace.outputs.clear();
    Call call;
    BOOST_TEST_REQUIRE((call.run(loaded, &trace) == Error::Ok), reason());
    BOOST_TEST(call.result() == expected(2, static_cast<float>(round)));
    BOOST_TEST_REQUIRE(trace.outputs.size() == 2u);
    const OutputTrace::Output& own = trace.outputs.front();
    BOOST_TEST(own.name == "fake_scale_add:0.y");
    BOOST_TEST((own.sizes == std::vector<int32_t>{2, 3}));
    BOOST_TEST(own.elements == expected(2, static_cast<float>(round)));
    BOOST_TEST((trace.outputs.back().sizes == std::vector<int32_t>{1, 6}));  // as a view of it
    BOOST_TEST(trace.outputs.back().elements == own.elements);
  }
  BOOST_TEST(trace.events().empty());
  BOOST_TEST(fake().calls("cuGraphLaunch") == 0u);
  BOOST_TEST(fake().calls("cuLaunchHostFunc") == 0u);
}

BOOST_AUTO_TEST_CASE(a_call_succeeds_whose_outputs_cannot_be_told) {
  const Program program;
  const Loaded loaded(program);
  OutputTrace trace;
  trace.has_no_room = true;
  Call call;
  BOOST_TEST_REQUIRE((call.run(loaded, &trace) == Error::Ok), reason());
  BOOST_TEST(call.result() == expected(2, 0));
  BOOST_TEST(trace.outputs.empty());
}

BOOST_AUTO_TEST_SUITE_END()
