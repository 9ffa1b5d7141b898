// Programs for several ranks as the runtime sees them, over a stand-in for the driver.

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "cuda_delegate_fixture.h"
#include "rank_processes.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using boost::test_tools::per_element;
using std::chrono::steady_clock;

namespace {

struct RankProgram : testing::Program {
  RankProgram() { payload.flags = kRanks; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_call_that_fails_on_one_rank_ends_all) {
  const auto start = steady_clock::now();
  BOOST_TEST(run_ranks("rank_whose_call_fails", 2, "60") == (std::vector<int>{0, 0}),
             per_element());
  BOOST_TEST((steady_clock::now() - start < std::chrono::seconds(20)));
}

BOOST_AUTO_TEST_CASE(rank_whose_call_fails, *boost::unit_test::disabled()) {
  const RankProgram program;
  const Loaded loaded(program);
  BOOST_TEST_REQUIRE(loaded.ok(), reason());
  Call call;
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(call.result() == expected(2, 0), per_element());
  char both_have_called = 0;
  BOOST_TEST_REQUIRE(aotip_broadcast_from_rank_0(&both_have_called, 1) == 0, reason());
  if (own_rank() == 1) {
    fake().fail("cuLaunchKernel", 1, 1);
    BOOST_TEST((call.run(loaded) != Error::Ok));
  } else {
    // Nothing of this program needs the other rank, so the failure is seen by a later call.
    const auto start = steady_clock::now();
    while (call.run(loaded) == Error::Ok &&
           steady_clock::now() - start < std::chrono::seconds(10)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  check_reason("rank 1 of 2: ");
  check_reason("cuLaunchKernel");
  // The world is over: later calls fail for the same reason.
  BOOST_TEST((call.run(loaded) != Error::Ok));
  check_reason("rank 1 of 2: ");
  check_reason("cuLaunchKernel");
}
