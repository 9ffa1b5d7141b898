// A program that asks for CudaBackend, through the runner, where our library for CUDA is loaded and
// nobody has registered that backend.

#include "fake_cuda/driver_control.h"
#include "upstream_program.h"

using namespace aoti_plugins::testing;

namespace {

using Row = std::vector<float>;

/// An input of ones.
struct Ones {
  int64_t sizes[2] = {2, 3};
  float data[6] = {1, 1, 1, 1, 1, 1};
  aotip_value x{};

  Ones() {
    x.tag = AOTIP_TAG_TENSOR;
    x.dtype = 6;
    x.ndim = 2;
    x.sizes = sizes;
    x.data = data;
  }
  Ones(const Ones&) = delete;
  Ones& operator=(const Ones&) = delete;
};

/// The first row of a result.
Row row(const aotip_value& y) {
  const float* data = static_cast<const float*>(y.data);
  return {data, data + 3};
}

/// Runs a method on ones and returns the first row of the result.
Row first_row(const MethodPtr& method) {
  const Ones ones;
  aotip_value y{};
  BOOST_TEST_REQUIRE(aotip_method_execute(method.get(), &ones.x, 1, &y, 1) == 0,
                     aotip_last_error());
  return row(y);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_upstream_runner)

BOOST_AUTO_TEST_CASE(the_library_alone_registers_nothing) {
  BOOST_TEST(is_registered("AotiCudaBackend"));
  BOOST_TEST(!is_registered("CudaBackend"));
  const ProgramPtr program = load_upstream_program();
  BOOST_TEST(!is_registered("CudaBackend"));
}

BOOST_AUTO_TEST_CASE(options_may_come_before_anything_else) {
  const ProgramPtr program = load_upstream_program();
  const aotip_option graphs{"CudaBackend", "cuda_graphs", 1, 1};
  aotip_method* raw = nullptr;
  BOOST_TEST(aotip_method_load_with(program.get(), "listed", &graphs, 1, &raw) == 0,
             aotip_last_error());
  const MethodPtr method(raw);
  BOOST_TEST_REQUIRE((method != nullptr));
  for (float n = 1; n < 5; ++n) {
    BOOST_TEST(first_row(method) == (Row{n, n + 1, n + 2}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(methods_of_every_generation_run) {
  const size_t nbytes = fake().device_nbytes();
  {
    const ProgramPtr program = load_upstream_program();
    for (const char* name : {"named", "keyed", "listed"}) {
      const MethodPtr method = load_upstream_method(program, name);
      BOOST_TEST_REQUIRE((method != nullptr), aotip_last_error());
      BOOST_TEST(first_row(method) == (Row{1, 2, 3}), boost::test_tools::per_element());
      BOOST_TEST(first_row(method) == (Row{2, 3, 4}), boost::test_tools::per_element());
    }
  }
  BOOST_TEST(is_registered("CudaBackend"));
  BOOST_TEST(aotip_delegate_stand_in("CudaBackend") == AOTIP_STAND_IN_OURS);
  BOOST_TEST(fake().device_nbytes() == nbytes);
  BOOST_TEST(std::string(fake().misuse()) == "");
}

BOOST_AUTO_TEST_CASE(calls_are_begun_and_finished_apart) {
  const ProgramPtr program = load_upstream_program();
  const MethodPtr method = load_upstream_method(program, "listed");
  BOOST_TEST_REQUIRE((method != nullptr), aotip_last_error());
  int32_t can = 0;
  BOOST_TEST(aotip_method_can_begin(method.get(), &can) == 0);
  BOOST_TEST(can == 1);
  const Ones ones;
  aotip_value y{};
  BOOST_TEST(aotip_method_finish(method.get(), &y, 1) != 0);
  for (int round = 0; round < 2; ++round) {
    BOOST_TEST_REQUIRE(aotip_method_begin(method.get(), &ones.x, 1) == 0, aotip_last_error());
  }
  BOOST_TEST(aotip_method_set_output(method.get(), 0, nullptr) != 0);
  BOOST_TEST(std::string(aotip_last_error()).find("are begun: finish them first") !=
             std::string::npos);
  for (float n = 1; n < 3; ++n) {
    BOOST_TEST_REQUIRE(aotip_method_finish(method.get(), &y, 1) == 0, aotip_last_error());
    BOOST_TEST(row(y) == (Row{n, n + 1, n + 2}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(methods_share_the_buffers_of_their_program) {
  const ProgramPtr program = load_upstream_program();
  const ProgramPtr other = load_upstream_program();
  const MethodPtr listed = load_upstream_method(program, "listed");
  const MethodPtr again = load_upstream_method(program, "again");
  const MethodPtr elsewhere = load_upstream_method(other, "again");
  BOOST_TEST_REQUIRE((listed != nullptr && again != nullptr && elsewhere != nullptr),
                     aotip_last_error());
  BOOST_TEST(first_row(listed) == (Row{1, 2, 3}), boost::test_tools::per_element());
  BOOST_TEST(first_row(again) == (Row{2, 3, 4}), boost::test_tools::per_element());
  BOOST_TEST(first_row(elsewhere) == (Row{1, 2, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
