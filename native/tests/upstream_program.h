#pragma once

/// The program of make_upstream_program.py through the runner.

#include <aoti_plugins/delegate.h>
#include <executorch/runtime/backend/interface.h>

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "runner_handles.h"

namespace aoti_plugins::testing {

inline ProgramPtr load_upstream_program() {
  aotip_program* program = nullptr;
  BOOST_TEST_REQUIRE(aotip_program_load(AOTIP_UPSTREAM_PROGRAM, nullptr, 0, 0, &program) == 0,
                     aotip_last_error());
  return ProgramPtr(program);
}

/// Null when it does not load.
inline MethodPtr load_upstream_method(const ProgramPtr& program, const char* name) {
  aotip_method* method = nullptr;
  (void)aotip_method_load(program.get(), name, &method);
  return MethodPtr(method);
}

inline bool is_registered(const char* id) {
  return ::executorch::runtime::get_backend_class(id) != nullptr;
}

inline void check_last_error(const std::string& part) {
  const std::string found = aotip_last_error();
  BOOST_TEST(found.find(part) != std::string::npos, "'" << found << "' lacks '" << part << "'");
}

}  // namespace aoti_plugins::testing
