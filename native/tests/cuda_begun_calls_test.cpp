// Calls that are begun and finished apart, on AotiCudaBackend.

#include "cuda_delegate_fixture.h"
#include "delegate/call_part.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

Error begin(const Loaded& loaded, Call& call) {
  const CallPartScope part(CallPart::kBegin);
  return call.run(loaded);
}

Error finish(const Loaded& loaded, Call& call) {
  const CallPartScope part(CallPart::kFinish);
  return call.run(loaded);
}

/// Our own kernels are loaded, which stay.
struct WithKernels {
  WithKernels() {
    const Loaded loaded{Program()};
    Call call;
    BOOST_TEST_REQUIRE((begin(loaded, call) == Error::Ok), reason());
    BOOST_TEST_REQUIRE((finish(loaded, call) == Error::Ok), reason());
  }
};

struct BegunCalls : WithKernels, Clean {};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_begun_calls, BegunCalls)

BOOST_AUTO_TEST_CASE(calls_are_finished_in_the_order_in_which_they_were_begun) {
  for (const bool graphs : {false, true}) {
    BOOST_TEST_CONTEXT("graphs: " << graphs) {
      Program program;
      program.payload.flags = graphs ? kCudaGraphs : 0;
      const Loaded loaded(program);
      Call calls[2];
      BOOST_TEST_REQUIRE((begin(loaded, calls[0]) == Error::Ok), reason());
      for (size_t round = 0; round < 6; ++round) {
        Call& older = calls[round % 2];
        Call& newer = calls[(round + 1) % 2];
        BOOST_TEST_REQUIRE((begin(loaded, newer) == Error::Ok), reason());
        std::fill_n(older.y->mutable_data_ptr<float>(), 6, -1.0f);
        BOOST_TEST_REQUIRE((finish(loaded, older) == Error::Ok), reason());
        BOOST_TEST(older.result() == expected(2, static_cast<float>(round)));
      }
      Call last;  // a whole one in between takes nothing from the one that is begun
      BOOST_TEST_REQUIRE((last.run(loaded) == Error::Ok), reason());
      BOOST_TEST(last.result() == expected(2, 7));
      BOOST_TEST_REQUIRE((finish(loaded, calls[0]) == Error::Ok), reason());
      BOOST_TEST(calls[0].result() == expected(2, 6));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_work_of_a_begun_call_is_not_waited_for) {
  const Loaded loaded{Program()};
  Call call;
  BOOST_TEST_REQUIRE((begin(loaded, call) == Error::Ok), reason());
  const size_t waits = fake().calls("cuStreamSynchronize") + fake().calls("cuEventSynchronize");
  Call second;
  BOOST_TEST_REQUIRE((begin(loaded, second) == Error::Ok), reason());
  const size_t now = fake().calls("cuStreamSynchronize") + fake().calls("cuEventSynchronize");
  BOOST_TEST(now == waits + 1);  // for the copy of the inputs alone
  BOOST_TEST_REQUIRE((finish(loaded, call) == Error::Ok), reason());
  BOOST_TEST_REQUIRE((finish(loaded, second) == Error::Ok), reason());
}

BOOST_AUTO_TEST_CASE(a_little_goes_by_kernels) {
  const Loaded loaded{Program()};
  const auto copies = [] {
    return fake().calls("cuMemcpyHtoDAsync_v2") + fake().calls("cuMemcpyDtoHAsync_v2");
  };
  const size_t before = copies();
  Call call;
  BOOST_TEST_REQUIRE((begin(loaded, call) == Error::Ok), reason());
  BOOST_TEST_REQUIRE((finish(loaded, call) == Error::Ok), reason());
  BOOST_TEST(call.result() == expected(2, 0));
  BOOST_TEST(copies() == before);
}

BOOST_AUTO_TEST_CASE(outputs_of_any_size_of_element) {
  const Loaded loaded{Program()};
  Call call(1);  // 12 bytes
  BOOST_TEST_REQUIRE((begin(loaded, call) == Error::Ok), reason());
  BOOST_TEST_REQUIRE((finish(loaded, call) == Error::Ok), reason());
  BOOST_TEST(call.result() == expected(1, 0));
}

BOOST_AUTO_TEST_CASE(inputs_of_a_begun_call_are_its_own) {
  for (const bool graphs : {false, true}) {
    Program program;
    program.payload.flags = graphs ? kCudaGraphs : 0;
    const Loaded loaded(program);
    for (int round = 0; round < 3; ++round) {
      Call calls[2];
      for (size_t i = 0; i < 2; ++i) {
        const float value = static_cast<float>(1 + 4 * i);
        std::fill_n(calls[i].x->mutable_data_ptr<float>(), 6, value);
        BOOST_TEST_REQUIRE((begin(loaded, calls[i]) == Error::Ok), reason());
        std::fill_n(calls[i].x->mutable_data_ptr<float>(), 6, -1.0f);
      }
      for (size_t i = 0; i < 2; ++i) {
        BOOST_TEST_REQUIRE((finish(loaded, calls[i]) == Error::Ok), reason());
        const float added = static_cast<float>(2 * round + static_cast<int>(i));
        const float value = static_cast<float>(1 + 4 * i);
        BOOST_TEST(calls[i].result()[1] == 2 * value + added);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(no_more_than_two_calls_are_begun_and_none_is_finished_twice) {
  const Loaded loaded{Program()};
  Call calls[3];
  BOOST_TEST((finish(loaded, calls[0]) != Error::Ok));
  check_reason("no call is begun");
  BOOST_TEST_REQUIRE((begin(loaded, calls[0]) == Error::Ok), reason());
  BOOST_TEST_REQUIRE((begin(loaded, calls[1]) == Error::Ok), reason());
  BOOST_TEST((begin(loaded, calls[2]) != Error::Ok));
  check_reason("2 calls are begun already");
  BOOST_TEST((finish(loaded, calls[0]) == Error::Ok), reason());
  BOOST_TEST(calls[0].result() == expected(2, 0));
  BOOST_TEST((finish(loaded, calls[1]) == Error::Ok), reason());
  BOOST_TEST(calls[1].result() == expected(2, 1));
  BOOST_TEST((finish(loaded, calls[1]) != Error::Ok));
}

BOOST_AUTO_TEST_CASE(a_call_that_fails_to_begin_is_none) {
  const Loaded loaded{Program()};
  Call call;
  BOOST_TEST_REQUIRE((begin(loaded, call) == Error::Ok), reason());
  fake().fail("cuLaunchKernel", 3, CUDA_ERROR_UNKNOWN);  // of the inputs, the model, the output
  Call failing;
  BOOST_TEST((begin(loaded, failing) != Error::Ok));
  check_reason("cuLaunchKernel failed");
  BOOST_TEST((finish(loaded, call) == Error::Ok), reason());
  BOOST_TEST(call.result() == expected(2, 0));
  BOOST_TEST((finish(loaded, call) != Error::Ok));
}

BOOST_AUTO_TEST_CASE(a_call_that_fails_to_finish_is_over) {
  const Loaded loaded{Program()};
  Call call;
  BOOST_TEST_REQUIRE((begin(loaded, call) == Error::Ok), reason());
  fake().fail("cuEventSynchronize", 1, CUDA_ERROR_UNKNOWN);
  BOOST_TEST((finish(loaded, call) != Error::Ok));
  check_reason("waiting for a call failed");
  BOOST_TEST((finish(loaded, call) != Error::Ok));
  check_reason("no call is begun");
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
}

BOOST_AUTO_TEST_CASE(a_delegate_goes_with_a_call_that_was_begun) {
  const Loaded loaded{Program()};
  Call call;
  BOOST_TEST((begin(loaded, call) == Error::Ok), reason());
}

BOOST_AUTO_TEST_SUITE_END()
