// SHA-256 by the processor's instructions for it: SHA-NI, and ARMv8's cryptographic extension.

#include "delegate/sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#endif

namespace aoti_plugins {

#if defined(__x86_64__)

namespace {

#define AOTIP_SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))

/// Four rounds. The state is in the instructions' order, a b e f and c d g h; `words` are the
/// block's four words for these rounds.
AOTIP_SHA_TARGET inline void four_rounds(__m128i* abef, __m128i* cdgh, __m128i words, int round) {
  const __m128i constants =
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(kSha256Rounds + round));
  const __m128i sums = _mm_add_epi32(words, constants);
  *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sums);
  *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(sums, 0x0e));
}

/// The four words that follow sixteen.
AOTIP_SHA_TARGET inline __m128i next_words(const __m128i words[4]) {
  const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(words[0], words[1]),
                                    _mm_alignr_epi8(words[3], words[2], 4));
  return _mm_sha256msg2_epu32(sum, words[3]);
}

AOTIP_SHA_TARGET void blocks_by_instructions(uint32_t state[8], const uint8_t* data,
                                             size_t count) noexcept {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i* const stored = reinterpret_cast<__m128i*>(state);
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(stored), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(stored + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
  for (; count > 0; --count, data += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i words[4];
    for (int i = 0; i < 4; ++i) {
      const __m128i* const from = reinterpret_cast<const __m128i*>(data) + i;
      words[i] = _mm_shuffle_epi8(_mm_loadu_si128(from), big_endian);
      four_rounds(&abef, &cdgh, words[i], 4 * i);
    }
    for (int round = 16; round < 64; round += 4) {
      const __m128i next = next_words(words);
      words[0] = words[1];
      words[1] = words[2];
      words[2] = words[3];
      words[3] = next;
      four_rounds(&abef, &cdgh, next, round);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(stored, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(stored + 1, _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace

Sha256Blocks accelerated_sha256() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kShaBit = 1u << 29;
  const bool has_sha = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & kShaBit) != 0;
  return has_sha && __builtin_cpu_supports("sse4.1") ? blocks_by_instructions : nullptr;
}

#elif defined(__aarch64__)

namespace {

#if defined(__clang__)
#define AOTIP_SHA_TARGET __attribute__((target("sha2")))
#else
#define AOTIP_SHA_TARGET __attribute__((target("+crypto")))
#endif

AOTIP_SHA_TARGET void blocks_by_instructions(uint32_t state[8], const uint8_t* data,
                                             size_t count) noexcept {
  uint32x4_t abcd = vld1q_u32(state);
  uint32x4_t efgh = vld1q_u32(state + 4);
  for (; count > 0; --count, data += 64) {
    const uint32x4_t abcd_before = abcd;
    const uint32x4_t efgh_before = efgh;
    uint32x4_t words[4];
    for (int i = 0; i < 4; ++i) {
      words[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16 * i)));
    }
    for (int round = 0; round < 64; round += 4) {
      const uint32x4_t sums = vaddq_u32(words[0], vld1q_u32(kSha256Rounds + round));
      const uint32x4_t before = abcd;
      abcd = vsha256hq_u32(abcd, efgh, sums);
      efgh = vsha256h2q_u32(efgh, before, sums);
      const uint32x4_t next =
          vsha256su1q_u32(vsha256su0q_u32(words[0], words[1]), words[2], words[3]);
      words[0] = words[1];
      words[1] = words[2];
      words[2] = words[3];
      words[3] = next;
    }
    abcd = vaddq_u32(abcd, abcd_before);
    efgh = vaddq_u32(efgh, efgh_before);
  }
  vst1q_u32(state, abcd);
  vst1q_u32(state + 4, efgh);
}

}  // namespace

Sha256Blocks accelerated_sha256() noexcept {
#if defined(__APPLE__)
  return blocks_by_instructions;  // every Apple processor of 64 bits has them
#elif defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_SHA2) != 0 ? blocks_by_instructions : nullptr;
#else
  return nullptr;
#endif
}

#else

Sha256Blocks accelerated_sha256() noexcept {
  return nullptr;
}

#endif

}  // namespace aoti_plugins
