// A program that asks for CudaBackend where nobody can run it.

#include "upstream_program.h"

using namespace aoti_plugins::testing;

BOOST_AUTO_TEST_SUITE(upstream_missing)

BOOST_AUTO_TEST_CASE(says_what_to_load) {
  const ProgramPtr program = load_upstream_program();
  BOOST_TEST((load_upstream_method(program, "listed") == nullptr));
  check_last_error(
      "method 'listed' needs the backend CudaBackend, which nobody has registered: load "
      "libexecutorch_backend_aoti_cuda.so");
  BOOST_TEST(aotip_delegate_stand_in("CudaBackend") == AOTIP_STAND_IN_NONE);
}

BOOST_AUTO_TEST_SUITE_END()
