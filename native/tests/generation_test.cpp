// The C functions of generation on what is no language model. tests/language has programs that are.

#include <aoti_plugins/generation.h>

#include <boost/test/unit_test.hpp>
#include <string>

#include "runner_handles.h"

namespace {

void check_error(const std::string& part) {
  const std::string found = aotip_last_error();
  BOOST_TEST(found.find(part) != std::string::npos, "'" << found << "' lacks '" << part << "'");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(generation)

BOOST_AUTO_TEST_CASE(a_program_that_is_no_language_model) {
  aotip_program* program = nullptr;
  BOOST_TEST_REQUIRE(aotip_program_load(AOTIP_TEST_PROGRAM, nullptr, 0, 0, &program) == 0,
                     aotip_last_error());
  const ProgramPtr owner(program);
  aotip_language_model* model = nullptr;
  BOOST_TEST(aotip_language_model_create(program, &model) != 0);
  check_error("has no method 'get_max_seq_len', so it is no language model");
  BOOST_TEST(model == nullptr);
  BOOST_TEST(aotip_language_model_create(program, nullptr) != 0);
  check_error("ret_new is null");
}

BOOST_AUTO_TEST_CASE(null_is_an_error) {
  aotip_language_model* model = nullptr;
  aotip_session* session = nullptr;
  aotip_language_model_info info{};
  const float* logits = nullptr;
  int64_t token = 0;
  int32_t end = 0;
  size_t count = 0;
  BOOST_TEST(aotip_language_model_create(nullptr, &model) != 0);
  check_error("program is null");
  BOOST_TEST(aotip_language_model_get_info(nullptr, &info) != 0);
  BOOST_TEST(aotip_session_create(nullptr, &session) != 0);
  check_error("model is null");
  BOOST_TEST(aotip_session_begin(nullptr, &token, 1, nullptr) != 0);
  BOOST_TEST(aotip_session_cached(nullptr, &count) != 0);
  BOOST_TEST(aotip_session_next(nullptr, &token, &end) != 0);
  BOOST_TEST(aotip_session_logits(nullptr, &logits) != 0);
  BOOST_TEST(aotip_session_push(nullptr, 1) != 0);
  BOOST_TEST(aotip_session_adapt(nullptr, nullptr, 0) != 0);
  check_error("session is null");
  aotip_language_model_destroy(nullptr);
  aotip_session_destroy(nullptr);
  aotip_sampling_init(nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
