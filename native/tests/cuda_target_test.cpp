#include <boost/test/unit_test.hpp>

#include "cuda/session/target.h"
#include "payload_builder.h"

using namespace aoti_plugins;
using namespace aoti_plugins::cuda;
using aoti_plugins::testing::fake_payload;

namespace {

Gpu gpu(int32_t major, int32_t minor, size_t shared = 100 << 10) {
  Gpu gpu;
  gpu.name = "Test GPU";
  gpu.major = major;
  gpu.minor = minor;
  gpu.shared_memory_nbytes = shared;
  return gpu;
}

/// A payload with one target per list of features; targets are named by their place.
Payload payload(const std::vector<std::vector<std::string>>& targets) {
  Payload p = fake_payload();
  const TargetArtifact first = p.targets[0];
  p.targets.clear();
  for (const auto& features : targets) {
    p.targets.push_back(first);
    p.targets.back().name = std::to_string(p.targets.size() - 1);
    p.targets.back().features = features;
  }
  return p;
}

/// The chosen target's name, or "none".
std::string chosen(const Payload& p, const Gpu& gpu) {
  const TargetArtifact* target = nullptr;
  return choose_gpu_target(p, gpu, {gpu}, &target) == Status::kOk ? target->name : "none";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_target)

BOOST_AUTO_TEST_CASE(the_best_code_wins) {
  const Payload p = payload({{"compute_80"}, {"sm_80"}, {"sm_86"}, {"sm_90", "compute_90"}});
  BOOST_TEST(chosen(p, gpu(8, 0)) == "1");
  BOOST_TEST(chosen(p, gpu(8, 6)) == "2");
  BOOST_TEST(chosen(p, gpu(8, 9)) == "2");
  BOOST_TEST(chosen(p, gpu(9, 0)) == "3");
  BOOST_TEST(chosen(p, gpu(10, 0)) == "0");  // PTX; the first of equals
  BOOST_TEST(chosen(p, gpu(7, 5)) == "none");
}

BOOST_AUTO_TEST_CASE(code_for_one_gpu_only_runs_there) {
  const Payload p = payload({{"sm_90a"}, {"sm_90"}});
  BOOST_TEST(chosen(p, gpu(9, 0)) == "0");
  BOOST_TEST(chosen(payload({{"sm_100a"}}), gpu(10, 3)) == "none");
  BOOST_TEST(chosen(payload({{"sm_100"}}), gpu(10, 3)) == "0");
}

BOOST_AUTO_TEST_CASE(shared_memory_must_suffice) {
  const Payload p = payload({{"sm_80", "shared_memory_163840"}, {"sm_80", "shared_memory_99328"}});
  BOOST_TEST(chosen(p, gpu(8, 0, 163840)) == "0");
  BOOST_TEST(chosen(p, gpu(8, 6, 101376)) == "1");
  BOOST_TEST(chosen(p, gpu(8, 6, 65536)) == "none");
}

BOOST_AUTO_TEST_CASE(what_is_not_known_does_not_fit) {
  BOOST_TEST(chosen(payload({{"sm_80", "warp_specialization"}}), gpu(8, 0)) == "none");
  BOOST_TEST(chosen(payload({{}}), gpu(8, 0)) == "none");
  BOOST_TEST(chosen(payload({{"shared_memory_1"}}), gpu(8, 0)) == "none");
  for (const char* feature : {"sm_", "sm_80b", "sm_x", "compute_80a", "shared_memory_1k"}) {
    BOOST_TEST(chosen(payload({{"sm_80", feature}}), gpu(8, 0)) == "none", feature);
  }
  Payload other = payload({{"sm_80"}});
  other.targets[0].machine = "riscv64";
  BOOST_TEST(chosen(other, gpu(8, 0)) == "none");
}

BOOST_AUTO_TEST_CASE(a_misfit_is_explained) {
  const Payload p = payload({{"sm_90", "shared_memory_200000"}});
  const TargetArtifact* target = nullptr;
  BOOST_TEST((choose_gpu_target(p, gpu(8, 6), {gpu(8, 6), gpu(7, 5)}, &target) == Status::kFailed));
  const std::string reason = last_failure();
  for (const char* part :
       {"sm_90 shared_memory_200000", "Test GPU (sm_86", "(sm_75", "Lower the"}) {
    BOOST_TEST(reason.find(part) != std::string::npos, reason << " lacks " << part);
  }
}

BOOST_AUTO_TEST_SUITE_END()
