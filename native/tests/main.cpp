// Entry point of every test program.

#define BOOST_TEST_MODULE aoti_plugins
#include <executorch/runtime/platform/runtime.h>

#include <boost/test/unit_test.hpp>

namespace {

struct Runtime {
  Runtime() { ::executorch::runtime::runtime_init(); }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(Runtime);
