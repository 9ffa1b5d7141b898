#include <boost/test/unit_test.hpp>
#include <cmath>

#include "emulated_device.h"
#include "emulated_ptx.h"

// After what makes it a host program.
#include "cuda/kernels/gate.cuh"
#include "cuda_around_products.h"

namespace aoti_plugins::testing {
namespace {

BOOST_AUTO_TEST_SUITE(cuda_gate)

// What is left of x far below zero is compared with x, which such numbers are added to.
BOOST_AUTO_TEST_CASE(gates_are_what_they_are_called) {
  for (const int64_t gate : {cuda::kSiluGate, cuda::kGeluGate, cuda::kGeluTanhGate}) {
    double worst = 0;
    for (int i = -20000; i <= 20000; ++i) {
      const float x = static_cast<float>(i) / 1000;
      const double found = cuda::activated(x, static_cast<int32_t>(gate));
      const double expected = activated(x, gate);
      worst = std::max(worst, std::abs(found - expected) / (std::abs(x) + 1e-3));
    }
    BOOST_TEST(worst < 5e-7, "gate " << gate << ": " << worst);
    BOOST_TEST(cuda::activated(-200.0f, static_cast<int32_t>(gate)) == 0);
    BOOST_TEST(cuda::activated(200.0f, static_cast<int32_t>(gate)) == 200);
    BOOST_TEST(std::isnan(cuda::activated(NAN, static_cast<int32_t>(gate))));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace aoti_plugins::testing
