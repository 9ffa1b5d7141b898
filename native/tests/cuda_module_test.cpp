// Programs of ExecuTorch's own CUDA backend whose inputs and outputs stay on the GPU, in
// ExecuTorch's own `Module`, with our library alone. The host faults where it touches the stand-in
// GPU's memory, as it does with a real one.

#include <aoti_plugins/delegate.h>
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor_ptr_maker.h>

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "cuda_delegate_fixture.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using ::executorch::extension::from_blob;
using ::executorch::extension::make_tensor_ptr;
using ::executorch::extension::Module;
using ::executorch::extension::TensorPtr;

namespace {

const std::string kFolder = AOTIP_UPSTREAM_FOLDER;

struct StandIn {
  StandIn() { BOOST_TEST_REQUIRE(aotip_delegate_stand_in("CudaBackend") == AOTIP_STAND_IN_OURS); }
};

struct OnGpu {
  explicit OnGpu(float value) {
    const std::vector<float> values(6, value);
    BOOST_TEST(
        (memory.allocator->copy_host_to_device(memory.data, values.data(), 24, 0) == Error::Ok));
  }
  std::vector<float> read() const {
    std::vector<float> found(6);
    BOOST_TEST(
        (memory.allocator->copy_device_to_host(found.data(), memory.data, 24, 0) == Error::Ok));
    return found;
  }
  DeviceMemory memory{24};
  TensorPtr tensor = from_blob(memory.data, {2, 3});
};

}  // namespace

/// Runs a program in a `Module`; the output's memory is given if `to` is not null.
Error run(Module& module, const TensorPtr& x, const TensorPtr& to) {
  if (to != nullptr && module.set_output(to) != Error::Ok) {
    return Error::InvalidArgument;
  }
  return module.forward(x).error();
}

BOOST_FIXTURE_TEST_SUITE(cuda_module, StandIn)

BOOST_AUTO_TEST_CASE(memory_that_the_caller_gives_is_used) {
  Module module(kFolder + "/stays_00.pte");
  OnGpu x(1.0f);
  OnGpu y(0.0f);
  for (float calls = 0; calls < 2; ++calls) {
    BOOST_TEST_REQUIRE((run(module, x.tensor, y.tensor) == Error::Ok), reason());
    const float a = 1 + calls;
    BOOST_TEST(y.read() == (std::vector<float>{a, a + 1, a + 2, a, a + 1, a + 2}),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(an_output_without_memory_is_an_error) {
  Module module(kFolder + "/stays_00.pte");
  BOOST_TEST((run(module, OnGpu(1.0f).tensor, nullptr) != Error::Ok));
  check_reason("output 0 has no memory");
}

BOOST_AUTO_TEST_CASE(memory_of_the_host_is_an_error) {
  Module module(kFolder + "/stays_00.pte");
  OnGpu y(0.0f);
  const TensorPtr x = make_tensor_ptr({2, 3}, std::vector<float>(6, 1.0f));
  BOOST_TEST((run(module, x, y.tensor) != Error::Ok));
  check_reason("expected cuda:0");
}

BOOST_AUTO_TEST_CASE(no_way_to_plan_crashes) {
  const TensorPtr on_host = make_tensor_ptr({2, 3}, std::vector<float>(6, 1.0f));
  for (const std::string& name : {"00", "01", "10", "11"}) {
    BOOST_TEST_CONTEXT(name) {
      OnGpu x(1.0f);
      OnGpu y(0.0f);
      for (const TensorPtr& input : {x.tensor, on_host}) {
        for (const TensorPtr& to : {y.tensor, TensorPtr()}) {
          Module module(kFolder + "/stays_" + name + ".pte");
          const Error error = run(module, input, to);
          BOOST_TEST_MESSAGE(name << ": " << to_string(error));
          // Where the program or the caller is wrong, ExecuTorch or the delegate says so.
          BOOST_TEST((error != Error::Ok || input == x.tensor));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
