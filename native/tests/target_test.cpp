#include "delegate/target.h"

#include <elf.h>

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "payload_builder.h"

using namespace aoti_plugins;
using aoti_plugins::testing::fake_payload;

namespace {

Elf64_Ehdr elf_header() {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_type = ET_DYN;
#if defined(__aarch64__)
  header.e_machine = EM_AARCH64;
#else
  header.e_machine = EM_X86_64;
#endif
  return header;
}

std::string elf_refusal(const Elf64_Ehdr& header) {
  clear_failure();
  (void)check_elf(&header, sizeof(header), "blob");
  return last_failure();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(target)

BOOST_AUTO_TEST_CASE(the_most_demanding_target_that_runs_here_wins) {
  Payload p = fake_payload();
  TargetArtifact other = p.targets[0];
  other.name = "impossible";
  other.features = {"no_such_feature"};
  p.targets.push_back(other);
#if defined(__x86_64__)
  other.name = "better";
  other.features = {"sse2"};
  p.targets.push_back(other);
#endif
  const TargetArtifact* chosen = nullptr;
  BOOST_TEST_REQUIRE((choose_target(p, &chosen) == Status::kOk));
#if defined(__x86_64__)
  BOOST_TEST(chosen->name == "better");
#else
  BOOST_TEST(chosen->name == "here");
#endif
}

BOOST_AUTO_TEST_CASE(no_target_is_an_error_that_lists_both_sides) {
  Payload p = fake_payload();
  p.targets[0].features = {"avx9000"};
  TargetArtifact other = p.targets[0];
  other.name = "far";
  other.machine = "sparc";
  p.targets.push_back(other);
  const TargetArtifact* chosen = nullptr;
  BOOST_TEST((choose_target(p, &chosen) == Status::kFailed));
  BOOST_TEST(chosen == nullptr);
  const std::string reason = last_failure();
  BOOST_TEST(contains(reason, "avx9000 [missing here]"));
  BOOST_TEST(contains(reason, "far (sparc avx9000)"));
  BOOST_TEST(contains(reason, std::string("this machine is ") + host_machine()));
}

BOOST_AUTO_TEST_CASE(features_of_this_machine) {
  BOOST_TEST(!host_has_feature("no_such_feature"));
#if defined(__x86_64__)
  BOOST_TEST(host_has_feature("sse2"));
  BOOST_TEST(contains(host_features(), "sse2"));
#endif
}

BOOST_AUTO_TEST_CASE(blobs_for_other_machines_are_named) {
  BOOST_TEST((elf_refusal(elf_header()).empty()));
  Elf64_Ehdr header = elf_header();
  header.e_machine = EM_RISCV;
  BOOST_TEST(contains(elf_refusal(header), "blob 'blob' is for riscv, this machine is "));
  header.e_machine = 9999;
  BOOST_TEST(contains(elf_refusal(header), "is for ELF machine 9999"));
  header = elf_header();
  header.e_ident[EI_CLASS] = ELFCLASS32;
  BOOST_TEST(contains(elf_refusal(header), "(32 bit)"));
  header = elf_header();
  header.e_type = ET_EXEC;
  BOOST_TEST(contains(elf_refusal(header), "is not a shared object"));
  header.e_ident[0] = 'M';
  BOOST_TEST(contains(elf_refusal(header), "is not an ELF file"));
  BOOST_TEST((check_elf("x", 1, "blob") == Status::kFailed));
}

BOOST_AUTO_TEST_SUITE_END()
