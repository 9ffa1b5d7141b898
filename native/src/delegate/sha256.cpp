#include "delegate/sha256.h"

#include <cstring>

namespace aoti_plugins {
namespace {

constexpr size_t kBlock = 64;
constexpr size_t kLengthAt = 56;

constexpr uint32_t rotated(uint32_t value, int by) {
  return value >> by | value << (32 - by);
}

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

/// The words of a block, and the 48 that follow from them.
void schedule(const uint8_t* block, uint32_t words[64]) {
  for (int i = 0; i < 16; ++i) {
    words[i] = big_endian(block + 4 * i);
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = words[i - 15];
    const uint32_t b = words[i - 2];
    words[i] = words[i - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) + words[i - 7] +
               (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
  }
}

/// One round. The words of the state move on by one place in each; here the arguments do.
inline void add_round(uint32_t a, uint32_t b, uint32_t c, uint32_t* d, uint32_t e, uint32_t f,
                      uint32_t g, uint32_t* h, uint32_t word) {
  const uint32_t first =
      *h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) + word;
  *d += first;
  *h = first + (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

void add_block(uint32_t state[8], const uint8_t* block) {
  uint32_t words[64];
  schedule(block, words);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 64; i += 8) {
    const uint32_t* const w = words + i;
    const uint32_t* const k = kSha256Rounds + i;
    add_round(a, b, c, &d, e, f, g, &h, w[0] + k[0]);
    add_round(h, a, b, &c, d, e, f, &g, w[1] + k[1]);
    add_round(g, h, a, &b, c, d, e, &f, w[2] + k[2]);
    add_round(f, g, h, &a, b, c, d, &e, w[3] + k[3]);
    add_round(e, f, g, &h, a, b, c, &d, w[4] + k[4]);
    add_round(d, e, f, &g, h, a, b, &c, w[5] + k[5]);
    add_round(c, d, e, &f, g, h, a, &b, w[6] + k[6]);
    add_round(b, c, d, &e, f, g, h, &a, w[7] + k[7]);
  }
  const uint32_t sums[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) {
    state[i] += sums[i];
  }
}

}  // namespace

const uint32_t kSha256Rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void sha256_blocks(uint32_t state[8], const uint8_t* data, size_t count) noexcept {
  for (; count > 0; --count, data += kBlock) {
    add_block(state, data);
  }
}

Sha256 sha256(const void* data, size_t nbytes) noexcept {
  static const Sha256Blocks accelerated = accelerated_sha256();
  const Sha256Blocks blocks = accelerated != nullptr ? accelerated : sha256_blocks;
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  blocks(state, bytes, nbytes / kBlock);
  // What is left, a bit of one, zeros, and the length in bits.
  uint8_t tail[2 * kBlock] = {};
  const size_t left = nbytes % kBlock;
  if (left > 0) {
    std::memcpy(tail, bytes + nbytes - left, left);
  }
  tail[left] = 0x80;
  const size_t tail_blocks = left < kLengthAt ? 1 : 2;
  const uint64_t nbits = uint64_t{nbytes} * 8;
  for (int i = 0; i < 8; ++i) {
    tail[tail_blocks * kBlock - 1 - i] = static_cast<uint8_t>(nbits >> 8 * i);
  }
  blocks(state, tail, tail_blocks);
  Sha256 digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

std::string hex_digits(const Sha256& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace aoti_plugins
