#include "delegate/payload.h"

#include <algorithm>
#include <boost/test/data/test_case.hpp>
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

BOOST_AUTO_TEST_CASE(sha256_is_the_standards) {
  const auto digest_of = [](const std::string& text) {
    return hex_digits(sha256(text.data(), text.size()));
  };
  BOOST_TEST(digest_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  BOOST_TEST(digest_of("abc") ==
             "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  BOOST_TEST(digest_of(std::string(1000000, 'a')) ==
             "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // Around the ends of blocks, from Python's hashlib.
  BOOST_TEST(digest_of(std::string(55, 'b')) ==
             "eb2c86e932179f4ba13fe8715a26124b77d6bad290b9b4c1cc140cf633300c19");
  BOOST_TEST(digest_of(std::string(56, 'b')) ==
             "a5fc6e203a4c2b657d0d153885932414b2ffc6a93f0f8bf8b3183315e5a7212c");
  BOOST_TEST(digest_of(std::string(64, 'b')) ==
             "a0fab1377f49a759b57f63318262ebe89fabfc990e8e93ceac2984561482b9d4");
}

BOOST_AUTO_TEST_CASE(sha256_by_instructions_is_the_portable_one) {
  const Sha256Blocks accelerated = accelerated_sha256();
  BOOST_TEST_MESSAGE((accelerated != nullptr ? "compared" : "this processor has none"));
  std::mt19937 random(1);
  std::vector<uint8_t> data(64 * 20);
  std::generate(data.begin(), data.end(), [&] { return static_cast<uint8_t>(random()); });
  for (size_t blocks = 0; accelerated != nullptr && blocks <= 20; ++blocks) {
    std::array<uint32_t, 8> state{1, 2, 3, 4, 5, 6, 7, 8};
    std::array<uint32_t, 8> other = state;
    sha256_blocks(state.data(), data.data(), blocks);
    accelerated(other.data(), data.data(), blocks);
    BOOST_TEST(state == other, boost::test_tools::per_element());
  }
}

BOOST_DATA_TEST_CASE(golden_file_reads, boost::unit_test::data::make({1u, 2u, 3u}), version) {
  const std::string path = AOTIP_GOLDEN_PAYLOAD;
  const std::string old = path.substr(0, path.rfind('.')) + "_" + std::to_string(version) + ".bin";
  std::ifstream file(version == kPayloadVersion ? path : old, std::ios::binary);
  BOOST_TEST_REQUIRE(file.good());
  const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)),
                                   std::istreambuf_iterator<char>());
  Payload p;
  BOOST_TEST_REQUIRE((read_payload(bytes.data(), bytes.size(), &p) == Status::kOk), last_failure());
  BOOST_TEST(p.device == "cpu");
  BOOST_TEST(!p.method.empty());
  BOOST_TEST(p.targets.size() >= 1u);
  // Written again, the bytes are the same: nothing was skipped or misread.
  BOOST_TEST(p.version == version);
  BOOST_TEST(PayloadBuilder().payload(p).encode(p.version, p.flags, p.signatures) == bytes,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read) {
  const Payload written = fake_payload(1234);
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
  const auto start = std::vector<uint8_t>(good.begin(), good.begin() + 20);
  check_refusal(refusal({}),
                "payload: magic at byte 0: found nothing, expected 414f5449504c5547 (AOTIPLUG).");
  check_refusal(refusal({1, 2}), "payload: magic at byte 0: found 0102, expected ");
  check_refusal(refusal(start), "payload: header at byte 0: 20 bytes, expected 32.");
  check_refusal(refusal(cut), "are there: it was cut off.");
  std::vector<uint8_t> bad = good;
  bad.push_back(0);
  check_refusal(refusal(bad), "are there: others follow.");
  bad = good;
  bad[0] = 'X';
  check_refusal(refusal(bad), "payload: magic at byte 0: found 584f5449504c5547, expected ");
  for (size_t i : {8u, 13u, 17u, 25u, 29u}) {
    bad = good;
    bad[i] ^= 1;
    check_refusal(refusal(bad), "payload: header_crc32 at byte 28: the header's checksum is ");
  }
  bad = good;
  bad[40] ^= 1;
  check_refusal(refusal(bad), "payload: body_crc32 at byte 24: the body's checksum is ");
  const PayloadBuilder body = PayloadBuilder().payload(fake_payload());
  check_refusal(
      refusal(body.encode(4)),
      "payload: version at byte 8: version 4, this runtime reads versions 1 to 3. Install ");
  check_refusal(refusal(body.encode(0)), "payload: version at byte 8: version 0, ");
  check_refusal(refusal(PayloadBuilder().encode(1)), "payload: device at byte 32: ");
  check_refusal(refusal(body.encode(3, 16)),
                "payload: flags at byte 12: flags 00000010, this runtime knows 0000000f. Install ");
}

PayloadSignature signature_by(uint8_t key) {
  PayloadSignature signature;
  signature.key.fill(key);
  signature.signature.fill(9);
  return signature;
}

BOOST_AUTO_TEST_CASE(room_for_signatures_is_checked) {
  const PayloadBuilder body = PayloadBuilder().payload(fake_payload());
  const auto with = [&](const std::vector<PayloadSignature>& signatures) {
    return body.encode(kPayloadVersion, 0, signatures);
  };
  const std::vector<uint8_t> good = with({signature_by(1), signature_by(2)});
  Payload p;
  BOOST_TEST_REQUIRE((read_payload(good.data(), good.size(), &p) == Status::kOk), last_failure());
  BOOST_TEST_REQUIRE(p.signatures.size() == 2u);
  BOOST_TEST((p.signatures[1].key == signature_by(2).key));
  // What is signed does not depend on who has signed.
  BOOST_TEST((message_to_sign(good.data(), good.size()) ==
              message_to_sign(with({}).data(), with({}).size())));
  for (size_t i = good.size() - kSignaturesNbytes; i < good.size(); ++i) {
    std::vector<uint8_t> bad = good;
    bad[i] ^= 4;
    check_refusal(refusal(bad), "payload: signatures_crc32 at byte ");
  }
  check_refusal(refusal(with({signature_by(1), {}, signature_by(2)})),
                ": an empty place lies before a used one. ");
  check_refusal(refusal(with({signature_by(1), signature_by(1)})), ": two are by one key, ");
  PayloadBuilder header;
  header.body.assign(good.begin(), good.begin() + 16);
  header.u64(32).u32(0);
  header.u32(crc32(header.body.data(), header.body.size()));
  check_refusal(refusal(header.body), "total_nbytes at byte 16: 32 bytes, expected at least 420. ");
}

BOOST_AUTO_TEST_CASE(each_malformation_has_its_own_message) {
  const auto check = [](const std::string& expected, const std::function<void(Payload&)>& change) {
    check_refusal(refusal_of(change), expected);
  };
  check("payload: targets at byte 98: the list is empty, expected at least one target. ",
        [](Payload& p) { p.targets.clear(); });
  check(": target 'here' is listed twice, expected once. ",
        [](Payload& p) { p.targets.push_back(p.targets[0]); });
  check("payload: targets[0].artifact_kind at byte 124: code 2 is not known, expected 1 to 1. ",
        [](Payload& p) { p.targets[0].kind = static_cast<ArtifactKind>(2); });
  check(": 'a' follows 'b', expected sorted names without repeats. ",
        [](Payload& p) { p.targets[0].symbols = {"b", "a"}; });
  check("payload: targets[0].symbols at byte ",
        [](Payload& p) { p.targets[0].symbols = {"b", "b"}; });
  check("payload: constants[0].storage at byte ", [](Payload& p) { p.constants[0].storage = 2; });
  check(": index 2 is out of range, 2 storages. ", [](Payload& p) { p.constants[0].storage = 2; });
  check("payload: constants[1].fqn at byte ",
        [](Payload& p) { p.constants[1].fqn = "layer.scale"; });
  check(": dtype code 77 is not known. Install ", [](Payload& p) { p.constants[0].dtype = 77; });
  check("payload: constants[0].kind at byte ",
        [](Payload& p) { p.constants[0].kind = static_cast<ConstantKind>(5); });
  check("payload: constants[0].sizes[0] at byte ", [](Payload& p) { p.constants[0].sizes = {-3}; });
  check(": -3 is negative, expected at least 0. ", [](Payload& p) { p.constants[0].sizes = {-3}; });
  check("payload: constants[0].strides[0] at byte ",
        [](Payload& p) { p.constants[0].strides = {-1}; });
  check(": 2 strides for 1 sizes, expected as many. ",
        [](Payload& p) { p.constants[0].strides = {1, 1}; });
  check("payload: constants[0].storage_offset at byte ",
        [](Payload& p) { p.constants[0].storage_offset = -1; });
  check(": 'layer.scale' reaches to byte 20 of storage 'weights', which has 16 bytes. ",
        [](Payload& p) { p.constants[0].storage_offset = 2; });
  check(": 'layer.scale' reaches to byte 20 of storage 'weights', which has 16 bytes. ",
        [](Payload& p) {
          p.constants[0].sizes = {0};
          p.constants[0].storage_offset = 5;
        });
  check(": sizes and strides of 'layer.scale' exceed 64 bits. ", [](Payload& p) {
    p.constants[0].sizes = {INT64_MAX, 4};
    p.constants[0].strides = {4, 1};
  });
  check("payload: constants[0].sizes at byte ", [](Payload& p) {
    p.constants[0].sizes.assign(65, 1);
    p.constants[0].strides.assign(65, 1);
  });
  check("payload: inputs[0].kind at byte ",
        [](Payload& p) { p.inputs[0].kind = static_cast<ValueKind>(5); });
  check(": dtype code 255 is not known. ", [](Payload& p) { p.inputs[0].dtype = 255; });
  check(": no tensor, but dtype 6 and 0 dims, expected dtype 255 and none. ",
        [](Payload& p) { p.inputs[1].dtype = 6; });
  check("payload: inputs[1] at byte ", [](Payload& p) { p.inputs[1].dims = {{1, 1}}; });
  check("payload: outputs[0].dims[0] at byte ", [](Payload& p) { p.outputs[0].dims[0] = {5, 4}; });
  check(": min 5 is above max 4. ", [](Payload& p) { p.outputs[0].dims[0] = {5, 4}; });
  check("payload: outputs[0].dims[1].min at byte ",
        [](Payload& p) { p.outputs[0].dims[1] = {-5, 4}; });
  check(": 65 dims, expected at most 64. ",
        [](Payload& p) { p.inputs[0].dims.assign(65, {1, 1}); });
  using Order = std::vector<uint32_t>;
  for (const Order& order : {Order{0, 0}, Order{0, 2}, Order{0}, Order{}}) {
    check("payload: inputs[0].dim_order at byte ",
          [&](Payload& p) { p.inputs[0].dim_order = order; });
  }
  check("payload: method at byte 44: a NUL, expected text without one. ",
        [](Payload& p) { p.method = std::string("a\0b", 3); });
  for (const char* text : {"\x80", "\xc0\x80", "\xe2\x82", "\xed\xa0\x80", "\xf8\x88\x80\x80"}) {
    check("payload: method at byte 43: byte ", [&](Payload& p) { p.method = text; });
  }
  BOOST_TEST(
      refusal_of([](Payload& p) { p.method = "\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa4"; }).empty());
}

BOOST_AUTO_TEST_CASE(counts_and_lengths_may_not_pass_the_end) {
  check_refusal(refusal(PayloadBuilder().u32(1000).encode()),
                "payload: device at byte 32: text of 1000 bytes, 0 are left. ");
  check_refusal(
      refusal(PayloadBuilder().str("cpu").str("m").u32(0xffffffff).encode()),
      "payload: built_with at byte 44: 4294967295 items of at least 8 bytes, 0 bytes are left. ");
  check_refusal(refusal(PayloadBuilder().str("cpu").encode()),
                "payload: method at byte 39: needs 4 bytes, 0 are left. ");
  PayloadBuilder trailing;
  trailing.payload(fake_payload()).u32(0);
  check_refusal(refusal(trailing.encode()), "4 bytes follow the last field, expected none. ");
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
      bad.body[random() % bad.body.size()] =
          static_cast<uint8_t>(random() % 4 == 0 ? 0xff : random());
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
    BOOST_TEST(
        !refusal(std::vector<uint8_t>(good.begin(), good.begin() + static_cast<long>(i))).empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
