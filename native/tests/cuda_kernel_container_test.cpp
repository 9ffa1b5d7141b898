#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/driver/kernel_container.h"

using namespace aoti_plugins;
using namespace aoti_plugins::cuda;

namespace {

struct Image {
  uint32_t kind;
  uint32_t arch;
};

/// A container whose images are 64 bytes each.
std::vector<char> make(const std::vector<Image>& images) {
  const size_t header = (12 + images.size() * 24 + 63) / 64 * 64;
  std::vector<char> bytes(header + images.size() * 64);
  const auto put = [&](size_t at, auto value) { std::memcpy(&bytes[at], &value, sizeof(value)); };
  std::memcpy(bytes.data(), "AOTIKRN1", 8);
  put(8, static_cast<uint32_t>(images.size()));
  for (size_t i = 0; i < images.size(); ++i) {
    put(12 + i * 24, images[i].kind);
    put(16 + i * 24, images[i].arch);
    put(20 + i * 24, static_cast<uint64_t>(header + i * 64));
    put(28 + i * 24, uint64_t{64});
    std::memcpy(&bytes[header + i * 64], images[i].kind == 1 ? "\177ELF" : "//PT", 4);
  }
  return bytes;
}

/// "sm_90", "compute_80", or the reason.
std::string chosen(const std::vector<char>& bytes, uint32_t arch) {
  KernelImage image;
  if (choose_kernel_image(bytes.data(), bytes.size(), arch, &image) != Status::kOk) {
    return last_failure();
  }
  return (image.kind == KernelImage::kCubin ? "sm_" : "compute_") + std::to_string(image.arch);
}

void check_refused(const std::vector<char>& bytes, const std::string& part) {
  const std::string reason = chosen(bytes, 90);
  BOOST_TEST(reason.find(part) != std::string::npos, "'" << reason << "' lacks '" << part << "'");
}

template <typename T>
std::vector<char> patched(size_t at, T value) {
  std::vector<char> bytes = make({{1, 90}, {2, 80}});
  std::memcpy(&bytes[at], &value, sizeof(value));
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kernel_container)

BOOST_AUTO_TEST_CASE(the_best_image_is_chosen) {
  const std::vector<char> bytes = make({{2, 70}, {1, 80}, {1, 86}, {1, 90}, {2, 80}, {2, 100}});
  BOOST_TEST(chosen(bytes, 80) == "sm_80");
  BOOST_TEST(chosen(bytes, 86) == "sm_86");
  BOOST_TEST(chosen(bytes, 89) == "sm_86");
  BOOST_TEST(chosen(bytes, 90) == "sm_90");
  BOOST_TEST(chosen(bytes, 75) == "compute_70");
  BOOST_TEST(chosen(bytes, 100) == "compute_100");
  BOOST_TEST(chosen(bytes, 120) == "compute_100");
}

BOOST_AUTO_TEST_CASE(what_is_there_is_named_when_nothing_fits) {
  const std::string reason = chosen(make({{1, 80}, {2, 90}}), 75);
  BOOST_TEST(reason.find("7.5") != std::string::npos);
  BOOST_TEST(reason.find("sm_80, PTX for compute_90") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(malformed_containers_are_refused) {
  check_refused({}, "does not start with AOTIKRN1");
  check_refused(patched(0, 'X'), "does not start with AOTIKRN1");
  check_refused(make({}), "0 images");
  check_refused(patched(8, uint32_t{1000}), "1000 images");
  check_refused(patched(12, uint32_t{3}), "image 0 is of kind 3");
  check_refused(patched(20, uint64_t{65}), "image 0 starts at byte 65");
  check_refused(patched(20, uint64_t{0}), "image 0 starts at byte 0");
  check_refused(patched(20, uint64_t{1} << 40), "image 0 has 64 bytes at byte");
  check_refused(patched(28, uint64_t{0}), "image 0 has 0 bytes");
  check_refused(patched(28, UINT64_MAX), "image 0 has 18446744073709551615 bytes");
  check_refused(patched(64, 'X'), "sm_90 is no ELF file");
  std::vector<char> text = make({{2, 80}});
  text.back() = 'x';
  check_refused(text, "does not end in a null byte");
}

BOOST_AUTO_TEST_CASE(other_images_are_no_containers) {
  BOOST_TEST(!is_kernel_container("\177ELF1234"));
  BOOST_TEST(!is_kernel_container(nullptr));
}

BOOST_AUTO_TEST_SUITE_END()
