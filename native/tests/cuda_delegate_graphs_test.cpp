// CUDA graphs as the runtime sees them: AotiCudaBackend with and without.

#include <memory>

#include "cuda_delegate_fixture.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

BOOST_FIXTURE_TEST_SUITE(cuda_delegate_graphs, Clean)

BOOST_AUTO_TEST_CASE(the_second_call_is_captured_and_later_ones_are_launched) {
  const GraphProgram program;
  const Loaded loaded(program);
  BOOST_TEST_REQUIRE(loaded.ok(), reason());
  for (int32_t round = 0; round < 5; ++round) {
    Call call;
    BOOST_TEST_REQUIRE((call.run(loaded) == Error::Ok), reason());
    BOOST_TEST(call.result() == expected(2, static_cast<float>(round)));
  }
  BOOST_TEST(fake().calls("cuLaunchKernel") == 2u);
  BOOST_TEST(fake().calls("cuGraphLaunch") == 4u);
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 1u);
}

BOOST_AUTO_TEST_CASE(graphs_of_methods_that_share_their_state_follow_each_other) {
  const GraphProgram program;
  const Loaded prefill(program, "", {}, "prefill");
  const Loaded decode(program, "", {}, "decode");
  for (int32_t round = 0; round < 10; ++round) {
    Call call;
    BOOST_TEST_REQUIRE((call.run(round % 3 == 0 ? prefill : decode) == Error::Ok), reason());
    BOOST_TEST(call.result() == expected(2, static_cast<float>(round)));
  }
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 2u);
}

BOOST_AUTO_TEST_CASE(graphs_for_several_shapes) {
  const GraphProgram program;
  const Loaded loaded(program);
  for (int32_t round = 0; round < 12; ++round) {
    const int32_t rows = round % 3 == 2 ? 0 : round % 3 + 2;
    Call call(rows);
    BOOST_TEST_REQUIRE((call.run(loaded) == Error::Ok), reason());
    BOOST_TEST(call.y->size(0) == rows);
    const float calls = static_cast<float>(round - round / 3);  // those with rows count
    BOOST_TEST(call.result() == expected(rows, calls));
  }
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 3u);
  BOOST_TEST(fake().calls("cuGraphLaunch") == 9u);
}

BOOST_AUTO_TEST_CASE(a_graph_reads_and_writes_the_callers_memory) {
  const GraphProgram program;
  const Loaded loaded(program);
  std::vector<std::unique_ptr<DeviceMemory>> buffers;
  const auto buffer = [&](size_t index) {
    while (buffers.size() <= index) {
      buffers.push_back(std::make_unique<DeviceMemory>(24));
    }
    return buffers[index]->data;
  };
  const auto run = [&](size_t x_index, size_t y_index, float calls) {
    return run_on_gpu(loaded, 2, buffer(x_index), buffer(y_index), calls);
  };
  float calls = 0;
  (void)run(0, 1, calls++);
  (void)run(0, 1, calls++);
  BOOST_TEST(run(0, 1, calls++) == 0u);
  (void)run(2, 3, calls++);
  BOOST_TEST(run(2, 3, calls++) == 0u);
  BOOST_TEST(run(0, 1, calls++) == 0u);
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 2u);
  // Who keeps changing buffers gets a graph with its own: a copy each for input and output.
  for (size_t i = 4; i < 12; i += 2) {
    BOOST_TEST(run(i, i + 1, calls++) == 2u);
  }
  BOOST_TEST(run(0, 3, calls++) == 2u);
  BOOST_TEST(run(0, 1, calls++) == 0u);
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 3u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_captured_runs_without_a_graph) {
  const struct {
    const char* function;
    int nth;  // of its calls from the second call of the model on
  } failures[] = {{"cuStreamBeginCapture_v2", 1},
                  {"cuLaunchKernel", 1},
                  {"cuStreamEndCapture", 1},
                  {"cuGraphInstantiateWithFlags", 1}};
  for (const auto& failure : failures) {
    BOOST_TEST_CONTEXT(failure.function) {
      const GraphProgram program;
      const Loaded loaded(program);
      const size_t launches = fake().calls("cuGraphLaunch");
      for (int32_t round = 0; round < 4; ++round) {
        if (round == 1) {
          fake().fail(failure.function, failure.nth, CUDA_ERROR_UNKNOWN);
        }
        Call call;
        BOOST_TEST_REQUIRE((call.run(loaded) == Error::Ok), reason());
        BOOST_TEST(call.result() == expected(2, static_cast<float>(round)));
      }
      BOOST_TEST(fake().calls("cuGraphLaunch") == launches);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_launch_that_fails_is_the_calls_failure) {
  const GraphProgram program;
  const Loaded loaded(program);
  Call call;
  BOOST_TEST((call.run(loaded) == Error::Ok));
  BOOST_TEST((call.run(loaded) == Error::Ok));
  fake().fail("cuGraphLaunch", 1, CUDA_ERROR_UNKNOWN);
  BOOST_TEST((call.run(loaded) != Error::Ok));
  check_reason("cuGraphLaunch failed");
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(call.result() == expected(2, 2));
}

BOOST_AUTO_TEST_CASE(graphs_are_given_up_for_a_while_where_memory_runs_out) {
  const GraphProgram program;
  const Loaded loaded(program);
  Call call;
  BOOST_TEST((call.run(loaded) == Error::Ok));
  BOOST_TEST((call.run(loaded) == Error::Ok));
  BOOST_TEST(fake().calls("cuGraphLaunch") == 1u);
  Call other(7);
  fake().set_memory(fake().device_nbytes());
  BOOST_TEST((other.run(loaded) != Error::Ok));
  check_reason("CUDA_ERROR_OUT_OF_MEMORY");
  // What the graphs had is free now.
  BOOST_TEST((other.run(loaded) == Error::Ok), reason());
  BOOST_TEST(other.result() == expected(7, 2));
  fake().set_memory(size_t{1} << 30);
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(call.result() == expected(2, 3));
  BOOST_TEST(fake().calls("cuGraphLaunch") == 1u);
  for (int round = 4; round < 24; round += 2) {
    BOOST_TEST((call.run(loaded) == Error::Ok), reason());
    BOOST_TEST(call.result() == expected(2, static_cast<float>(round)));
    BOOST_TEST((other.run(loaded) == Error::Ok), reason());
    BOOST_TEST(other.result() == expected(7, static_cast<float>(round + 1)));
  }
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 3u);  // for both again
}

BOOST_AUTO_TEST_CASE(sizes_that_failed_without_graphs_too_get_one_when_there_is_memory) {
  const GraphProgram program;
  const Loaded loaded(program);
  Call call;
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  }
  Call other(7);
  for (int i = 0; i < 2; ++i) {
    fake().set_memory(fake().device_nbytes());
    BOOST_TEST((other.run(loaded) != Error::Ok));
  }
  fake().set_memory(size_t{1} << 30);
  const size_t before = fake().calls("cuGraphLaunch");
  for (int i = 0; i < 20; ++i) {
    BOOST_TEST((other.run(loaded) == Error::Ok), reason());
  }
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 2u);
  BOOST_TEST(fake().calls("cuGraphLaunch") > before);
}

BOOST_AUTO_TEST_CASE(graphs_by_option) {
  const auto graphs_of = [](const Program& program, Span<BackendOption> options) {
    const Loaded loaded(program, "", options);
    BOOST_TEST_REQUIRE(loaded.ok(), reason());
    const size_t before = fake().calls("cuGraphLaunch");
    for (int i = 0; i < 3; ++i) {
      Call call;
      BOOST_TEST((call.run(loaded) == Error::Ok), reason());
    }
    return fake().calls("cuGraphLaunch") - before;
  };
  const auto set_mode = [](int mode) {
    BackendOptions<1> options;
    BOOST_TEST((options.set_option("cuda_graphs", mode) == Error::Ok));
    return set_option("AotiCudaBackend", options.view());
  };
  const Program plain;
  const GraphProgram graphs;
  BackendOptions<1> on;
  BackendOptions<1> off;
  BackendOptions<1> wrong;
  BOOST_TEST((on.set_option("cuda_graphs", true) == Error::Ok));
  BOOST_TEST((off.set_option("cuda_graphs", false) == Error::Ok));
  BOOST_TEST((wrong.set_option("graphs", true) == Error::Ok));
  BOOST_TEST(graphs_of(plain, {}) == 0u);
  BOOST_TEST(graphs_of(plain, on.view()) == 2u);
  BOOST_TEST(graphs_of(graphs, {}) == 2u);
  BOOST_TEST(graphs_of(graphs, off.view()) == 0u);
  BOOST_TEST((set_mode(0) == Error::Ok));
  BOOST_TEST(graphs_of(graphs, {}) == 0u);
  BOOST_TEST(graphs_of(graphs, on.view()) == 2u);
  BOOST_TEST((set_mode(2) == Error::Ok));
  BOOST_TEST(graphs_of(plain, {}) == 2u);
  BOOST_TEST((set_mode(3) == Error::InvalidArgument));
  BOOST_TEST((set_mode(1) == Error::Ok));
  BOOST_TEST(!Loaded(plain, "", wrong.view()).ok());
  check_reason("option 'graphs'");
  check_reason("cuda_graphs (bool)");
}

BOOST_AUTO_TEST_SUITE_END()
