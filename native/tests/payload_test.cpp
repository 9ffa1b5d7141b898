#include "delegate/payload.h"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "delegate/crc32.h"
#include "payload_builder.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

/// The reason why bytes are refused; an empty string when they are not.
std::string refusal(const std::vector<uint8_t>& bytes) {
  Payload payload;
  clear_failure();
  return read_payload(bytes.data(), bytes.size(), &payload) == Status::kOk ? "" : last_failure();
}

std::string refusal_of(const std::function<void(Payload&)>& change) {
  Payload payload = fake_payload();
  change(payload);
  return refusal(PayloadBuilder().payload(payload).encode());
}

void check_refusal(const std::string& found, const std::string& expected) {
  BOOST_TEST(found.find(expected) != std::string::npos,
             "found '" << found << "', expected '" << expected << "'");
  BOOST_TEST((found.find("lower the model again") != std::string::npos),
             "'" << found << "' does not say what to do");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(payload)

BOOST_AUTO_TEST_CASE(crc32_is_zlibs) {
  BOOST_TEST(crc32("123456789", 9) == 0xcbf43926u);
  BOOST_TEST(crc32("", 0) == 0u);
  std::string text(1000, 'x');
  BOOST_TEST(crc32(text.data(), text.size()) == crc32(text.c_str(), 1000));
}

BOOST_AUTO_TEST_CASE(golden_file_reads) {
  std::ifstream file(AOTIP_GOLDEN_PAYLOAD, std::ios::binary);
  BOOST_TEST_REQUIRE(file.good());
  const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)),
                                   std::istreambuf_iterator<char>());
  Payload p;
  BOOST_TEST_REQUIRE((read_payload(bytes.data(), bytes.size(), &p) == Status::kOk),
                     last_failure());
  BOOST_TEST(p.device == "cpu");
  BOOST_TEST(!p.method.empty());
  BOOST_TEST(p.targets.size() >= 1u);
  // Written again, the bytes are the same: nothing was skipped or misread.
  BOOST_TEST(PayloadBuilder().payload(p).encode() == bytes, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read) {
  const Payload written = fake_payload(1234, 99);
  const std::vector<uint8_t> bytes = PayloadBuilder().payload(written).encode();
  Payload p;
  BOOST_TEST_REQUIRE((read_payload(bytes.data(), bytes.size(), &p) == Status::kOk));
  BOOST_TEST(p.targets[0].nbytes == 1234u);
  BOOST_TEST(p.constants[1].fqn == "calls");
  BOOST_TEST((p.constants[1].kind == ConstantKind::kMutableBuffer));
  BOOST_TEST(p.inputs[0].dims[0].max == 8);
}

BOOST_AUTO_TEST_CASE(headers_are_checked) {
  const std::vector<uint8_t> good = PayloadBuilder().payload(fake_payload()).encode();
  BOOST_TEST(refusal(good).empty());
  const auto cut = std::vector<uint8_t>(good.begin(), good.end() - 1);
  check_refusal(refusal({}), "no bytes at all");
  check_refusal(refusal({1, 2, 3}), "payload: 3 bytes, expected a header of 32 bytes");
  check_refusal(refusal(cut), "it was cut off");
  std::vector<uint8_t> bad = good;
  bad.push_back(0);
  check_refusal(refusal(bad), "1 bytes trail");
  bad = good;
  bad[0] = 'X';
  check_refusal(refusal(bad), "magic at byte 0 is 584f5449504c5547, expected AOTIPLUG");
  bad = good;
  bad[13] = 1;
  check_refusal(refusal(bad), "crc32 of the header is");
  bad = good;
  bad[40] ^= 1;
  check_refusal(refusal(bad), "crc32 of the body is");
  const PayloadBuilder body = PayloadBuilder().payload(fake_payload());
  check_refusal(refusal(body.encode(2)), "version at byte 8 is 2, this runtime reads version 1");
  check_refusal(refusal(body.encode(1, 4)), "flags at byte 12 are 00000004");
}

BOOST_AUTO_TEST_CASE(each_malformation_has_its_own_message) {
  check_refusal(refusal_of([](Payload& p) { p.targets.clear(); }),
                "count of targets at byte 98 is 0, expected 1 or more");
  check_refusal(refusal_of([](Payload& p) { p.targets.push_back(p.targets[0]); }),
                "target name 'here' at byte ");
  check_refusal(refusal_of([](Payload& p) { p.targets[0].kind = static_cast<ArtifactKind>(2); }),
                "is 2, this runtime runs kind 1");
  check_refusal(refusal_of([](Payload& p) { p.constants[0].storage = 2; }),
                "storage index of constant 'layer.scale' at byte ");
  check_refusal(refusal_of([](Payload& p) { p.constants[0].dtype = 77; }),
                "is 77, which is not a known dtype");
  check_refusal(refusal_of([](Payload& p) { p.constants[0].kind = static_cast<ConstantKind>(4); }),
                "kind of constant 'layer.scale' at byte ");
  check_refusal(refusal_of([](Payload& p) { p.constants[0].sizes = {-3}; }),
                "constant size at byte ");
  check_refusal(refusal_of([](Payload& p) { p.constants[0].strides = {-1}; }),
                "constant stride at byte ");
  check_refusal(refusal_of([](Payload& p) { p.constants[0].strides = {1, 1}; }),
                "has 2 strides at byte ");
  check_refusal(refusal_of([](Payload& p) { p.constants[0].storage_offset = -1; }),
                "storage_offset of constant 'layer.scale' at byte ");
  check_refusal(refusal_of([](Payload& p) { p.constants[0].storage_offset = 2; }),
                "ends at byte 20 of its storage 'weights', which has 16 bytes");
  check_refusal(refusal_of([](Payload& p) {
                  p.constants[0].sizes = {INT64_MAX, 4};
                  p.constants[0].strides = {4, 1};
                }),
                "exceed 64 bits");
  check_refusal(refusal_of([](Payload& p) {
                  p.constants[0].sizes.assign(65, 1);
                  p.constants[0].strides.assign(65, 1);
                }),
                "has 65 dims, expected at most 64");
  check_refusal(refusal_of([](Payload& p) { p.inputs[0].kind = static_cast<ValueKind>(5); }),
                "kind of an input at byte ");
  check_refusal(refusal_of([](Payload& p) { p.inputs[0].dtype = 255; }),
                "is 255, expected a known dtype");
  check_refusal(refusal_of([](Payload& p) { p.inputs[1].dtype = 6; }),
                "is 6, expected 255, it is no tensor");
  check_refusal(refusal_of([](Payload& p) { p.outputs[0].dims[0] = {5, 4}; }),
                "bounds of an output at byte ");
  check_refusal(refusal_of([](Payload& p) { p.inputs[0].dim_order = {0, 0}; }),
                "is 0, which makes it no permutation of 2 dims");
  check_refusal(refusal_of([](Payload& p) { p.inputs[0].dim_order = {0, 2}; }),
                "is 2, which makes it no permutation of 2 dims");
  check_refusal(refusal_of([](Payload& p) { p.inputs[0].dim_order = {0}; }),
                "has 1 dims, expected 2");
  check_refusal(refusal_of([](Payload& p) { p.inputs[1].dims = {{1, 1}}; }),
                "has 1 dims, expected none, it is no tensor");
  check_refusal(refusal_of([](Payload& p) { p.method = std::string("a\0b", 3); }),
                "method has a NUL at byte ");
  for (const char* text : {"\x80", "\xc0\x80", "\xe2\x82", "\xed\xa0\x80", "\xf8\x88\x80\x80"}) {
    check_refusal(refusal_of([&](Payload& p) { p.method = text; }), "method is not UTF-8 at byte ");
  }
  BOOST_TEST(refusal_of([](Payload& p) { p.method = "\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa4"; }).empty());
}

BOOST_AUTO_TEST_CASE(counts_and_lengths_may_not_pass_the_end) {
  check_refusal(refusal(PayloadBuilder().u32(1000).encode()),
                "length of device at byte 32 is 1000 bytes, found 0 before the end");
  check_refusal(refusal(PayloadBuilder().str("cpu").str("m").u32(0xffffffff).encode()),
                "count of built_with at byte 44 is 4294967295, at most 0 fit");
  check_refusal(refusal(PayloadBuilder().str("cpu").encode()), "method at byte 39 needs 4 bytes, found 0");
  PayloadBuilder trailing;
  trailing.payload(fake_payload()).u32(0);
  check_refusal(refusal(trailing.encode()), "4 bytes trail after the last output at byte ");
}

/// Whatever the bytes are, the reader stays inside them and answers; sanitizers watch.
BOOST_AUTO_TEST_CASE(random_damage_never_crashes) {
  std::mt19937 random(20261121);
  const PayloadBuilder good = PayloadBuilder().payload(fake_payload());
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    PayloadBuilder bad = good;
    const int flips = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < flips; ++i) {
      bad.body[random() % bad.body.size()] = static_cast<uint8_t>(random() % 4 == 0 ? 0xff : random());
    }
    if (random() % 4 == 0) {
      bad.body.resize(random() % (bad.body.size() + 1));
    }
    // An exact allocation, so that one byte too far is noticed.
    const std::vector<uint8_t> bytes = bad.encode();
    refused += refusal(bytes).empty() ? 0 : 1;
  }
  BOOST_TEST(refused > 10000);
}

BOOST_AUTO_TEST_CASE(any_changed_byte_is_noticed) {
  const std::vector<uint8_t> good = PayloadBuilder().payload(fake_payload()).encode();
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<uint8_t> bad = good;
    bad[i] ^= 0x10;
    BOOST_TEST(!refusal(bad).empty(), "byte " << i << " may change unnoticed");
    BOOST_TEST(!refusal(std::vector<uint8_t>(good.begin(), good.begin() + static_cast<long>(i))).empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
