// A program that asks for CudaBackend where somebody else has registered it.

#include "upstream_program.h"

using namespace ::executorch::runtime;
using namespace aoti_plugins::testing;

namespace {

/// Counts what it is asked for and refuses all programs.
class OtherBackend final : public BackendInterface {
 public:
  bool is_available() const override { return true; }
  Result<DelegateHandle*> init(BackendInitContext&, FreeableBuffer*,
                               ArrayRef<CompileSpec>) const override {
    ++inits;
    return Error::NotSupported;
  }
  Error execute(BackendExecutionContext&, DelegateHandle*, Span<EValue*>) const override {
    return Error::NotSupported;
  }
  mutable int inits = 0;
};

OtherBackend other;
[[maybe_unused]] const Error registered = register_backend({"CudaBackend", &other});

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_upstream_other)

BOOST_AUTO_TEST_CASE(theirs_is_used) {
  const ProgramPtr program = load_upstream_program();
  BOOST_TEST((load_upstream_method(program, "listed") == nullptr));
  BOOST_TEST(other.inits == 1);
  check_last_error("loading method 'listed' failed (Error::NotSupported");
  BOOST_TEST(get_backend_class("CudaBackend") == &other);
  BOOST_TEST(aotip_delegate_stand_in("CudaBackend") == AOTIP_STAND_IN_OTHER);
  BOOST_TEST(aotip_delegate_stand_in("AotiCudaBackend") == AOTIP_STAND_IN_OTHER);
  BOOST_TEST(aotip_delegate_stand_in("NobodysBackend") == AOTIP_STAND_IN_NONE);
  BOOST_TEST(aotip_delegate_stand_in(nullptr) == AOTIP_STAND_IN_NONE);
}

BOOST_AUTO_TEST_SUITE_END()
