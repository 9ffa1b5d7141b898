// Which code of a program runs here.

#include <boost/test/unit_test.hpp>

#include "delegate/target.h"
#include "mps/session/target.h"
#include "payload_builder.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

Payload made_for(const std::vector<std::string>& systems, const std::string& machine) {
  Payload payload = fake_payload();
  const TargetArtifact one = payload.targets[0];
  payload.targets.clear();
  for (const std::string& system : systems) {
    payload.targets.push_back(one);
    payload.targets.back().name = "for " + system;
    payload.targets.back().machine = machine;
    payload.targets.back().features = {system};
  }
  return payload;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mps_target)

BOOST_AUTO_TEST_CASE(versions_are_read) {
  TargetArtifact target;
  BOOST_TEST(mps::minimum_macos(target) == 0);
  target.features = {"simdgroup_matrix", "macos12.3"};
  BOOST_TEST(mps::minimum_macos(target) == 1203);
  target.features = {"macos15"};
  BOOST_TEST(mps::minimum_macos(target) == 1500);
}

BOOST_AUTO_TEST_CASE(the_newest_that_runs_is_taken) {
  const Payload payload = made_for({"macos12.0", "macos14.4", "macos26.0"}, host_machine());
  const TargetArtifact* chosen = nullptr;
  BOOST_TEST((mps::choose_mps_target(payload, 1403, &chosen) == Status::kOk));
  BOOST_TEST(chosen->name == "for macos12.0");
  BOOST_TEST((mps::choose_mps_target(payload, 1404, &chosen) == Status::kOk));
  BOOST_TEST(chosen->name == "for macos14.4");
  BOOST_TEST((mps::choose_mps_target(payload, 0, &chosen) == Status::kOk));
  BOOST_TEST(chosen->name == "for macos26.0");
  BOOST_TEST((mps::choose_mps_target(payload, 1107, &chosen) == Status::kFailed));
  const std::string reason = last_failure();
  BOOST_TEST(reason.find("for macos12.0 (" + std::string(host_machine()) + " macos12.0); ") !=
             std::string::npos);
  BOOST_TEST(reason.find("with macOS 11.7") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(code_for_another_machine_is_refused) {
  const Payload payload = made_for({"macos12.0"}, "arm64-apple-ios");
  const TargetArtifact* chosen = nullptr;
  BOOST_TEST((mps::choose_mps_target(payload, 0, &chosen) == Status::kFailed));
  BOOST_TEST(std::string(last_failure()).find("arm64-apple-ios macos12.0") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
