#include "delegate/target.h"

#include <elf.h>

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstring>

#include "delegate/elf.h"
#include "payload_builder.h"

using namespace aoti_plugins;
using aoti_plugins::testing::fake_payload;

namespace {

/// The smallest shared object: a header and one segment, which holds both.
struct Elf {
  Elf64_Ehdr header{};
  Elf64_Phdr segment{};
};

Elf elf_file() {
  Elf elf;
  Elf64_Ehdr& header = elf.header;
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_type = ET_DYN;
#if defined(__aarch64__)
  header.e_machine = EM_AARCH64;
#else
  header.e_machine = EM_X86_64;
#endif
  header.e_phoff = offsetof(Elf, segment);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  elf.segment.p_type = PT_LOAD;
  elf.segment.p_filesz = sizeof(Elf);
  return elf;
}

std::string elf_refusal(const Elf& elf, size_t nbytes = sizeof(Elf)) {
  clear_failure();
  (void)check_elf(&elf, nbytes, "blob");
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
  BOOST_TEST(elf_refusal(elf_file()) == "");
  Elf elf = elf_file();
  elf.header.e_machine = EM_RISCV;
  BOOST_TEST(contains(elf_refusal(elf), "blob 'blob' is for riscv, this machine is "));
  elf.header.e_machine = 9999;
  BOOST_TEST(contains(elf_refusal(elf), "is for ELF machine 9999"));
  elf = elf_file();
  elf.header.e_ident[EI_CLASS] = ELFCLASS32;
  BOOST_TEST(contains(elf_refusal(elf), "(32 bit)"));
  elf = elf_file();
  elf.header.e_type = ET_EXEC;
  BOOST_TEST(contains(elf_refusal(elf), "is not a shared object"));
  elf.header.e_ident[0] = 'M';
  BOOST_TEST(contains(elf_refusal(elf), "is not an ELF file"));
  BOOST_TEST((check_elf("x", 1, "blob") == Status::kFailed));
}

BOOST_AUTO_TEST_CASE(truncated_and_damaged_blobs_are_named) {
  BOOST_TEST(
      contains(elf_refusal(elf_file(), sizeof(Elf64_Ehdr)), "blob 'blob' is a damaged ELF file"));
  BOOST_TEST(
      contains(elf_refusal(elf_file(), sizeof(Elf) - 1), "blob 'blob' is a damaged ELF file"));
  Elf elf = elf_file();
  elf.segment.p_offset = 1;
  BOOST_TEST(contains(elf_refusal(elf),
                      "blob 'blob' is a truncated ELF file: segment 0 ends at byte 121"));
  elf = elf_file();
  elf.header.e_phoff = UINT64_MAX - 8;
  BOOST_TEST(contains(elf_refusal(elf), "blob 'blob' is a damaged ELF file"));
}

BOOST_AUTO_TEST_SUITE_END()
