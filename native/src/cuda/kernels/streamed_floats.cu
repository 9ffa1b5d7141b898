// Products of one row with weights of floats of 8 and 4 bits, on GPUs that copy to shared memory by
// themselves (compute capability 9.0): the ring of streamed_row.cu, and other arithmetic.
//
// Codes become float16 by instructions of the GPU, E2M1 by way of E4M3, and a chunk of the row
// does, times a power of two: tensor cores multiply both. The row needs one of eight columns, so
// each group has a column of its own, which is zeros but for it: sums of all groups lie beside each
// other then, and each is multiplied with its scale once.

#include "cuda/kernels/ring_of_codes.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// Groups have 2^SHIFT weights, or it is kGroupOfRow. The row has whole chunks.
template <int BITS, int SHIFT>
class StreamedFloats : RingOfCodes<BITS, __nv_bfloat16, SHIFT, OneRowProduct, false, true> {
  using T = __nv_bfloat16;
  using Base = RingOfCodes<BITS, T, SHIFT, OneRowProduct, false, true>;
  using Base::chunks_;
  using Base::full_;
  using Base::kByRow;
  using Base::kGroups;
  using Base::kPlaces;
  using Base::lane_;
  using Base::p_;
  using Base::pieces_;
  using Base::ring_;
  using Base::scale_step_;
  using Base::shape_;
  using Base::stage_step_;
  using Base::tile_step_;
  using Base::warp_;
  using typename Base::Around;
  static constexpr int kParts = kStreamedChunk / 32;        ///< of a chunk
  static constexpr int kPartsOfTile = kParts / kPlaces;     ///< of 32 weights
  static constexpr int kShares = kByRow ? 1 : kGroups / 8;  ///< of a chunk, with eight columns each
  static constexpr int kPartsOfShare = kParts / kShares;
  static constexpr int kTurns = 4 / kShares;  ///< sums of a share, so that none waits for another
  static constexpr int kLoads = 4;            ///< chunks of the row at once
  /// E2M1 is as much too small as E4M3.
  static constexpr float kUnit = BITS == 4 ? 64.0f : 1.0f;

 public:
  __device__ StreamedFloats(const OneRowProduct& product, const StreamedShape& shape, char* memory)
      : Base(product, shape, memory) {
    memory += shape.stages * stage_step_;
    row_ = reinterpret_cast<uint4*>(memory);
    memory += chunks_ * kStreamedChunk * 2;
    units_ = reinterpret_cast<float*>(memory);
    this->share(memory + (chunks_ + 3) / 4 * 16);
  }

  __device__ void run() {
    this->begin();
    if (this->is_fetching()) {
      this->fill();
      return;
    }
    uint4 factors[kLoads];
    this->fetch_row(factors, p_.norm, warp_);
    Around around = this->wait_for_row();
    float square = 0.0f;
    this->read_row(factors, square, [&](const float (&x)[8], int chunk) { scale_chunk(x, chunk); });
    __syncwarp();
    int stage = 0;
    uint32_t parity = 0;
    this->in_shares(around, square, [&](int first, int last) {
#pragma unroll 1
      for (int pair = first; pair < last; ++pair) {
        compute(pair - first, stage, parity);
      }
    });
  }

 private:
  /// Which of a lane's eight elements belongs to the `i`-th weight as products have them.
  __device__ static constexpr int element(int i) { return BITS == 4 ? i / 2 + i % 2 * 4 : i; }

  /// Puts a chunk of the row into shared memory as float16.
  __device__ void scale_chunk(const float (&x)[8], int chunk) {
    uint32_t most = 0;  // floats that are not negative are ordered as their bits are
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      most = max(most, __float_as_uint(fabsf(x[i])));
    }
    // The largest becomes 2^14 to 2^15; what is no number stays so.
    const uint32_t exponent = max(__reduce_max_sync(kAllLanes, most) >> 23, 20u);
    const float inverse = __uint_as_float((254 + 14 - min(exponent, 254u)) << 23);
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = HalfPair<__half>::of(x[element(2 * i)] * inverse, x[element(2 * i + 1)] * inverse);
    }
    row_[chunk * 32 + lane_] = make_uint4(words[0], words[1], words[2], words[3]);
    if (lane_ == 0) {
      units_[chunk] = __uint_as_float((min(exponent, 254u) - 14) << 23) * kUnit;
    }
  }

  /// The row's elements of a part of 32 in this lane's column; with groups, of the one part of a
  /// share that is not zeros there.
  __device__ uint4 fetch_part(int chunk, int part) const {
    return row_[chunk * 32 + part * 4 + lane_ % 4];
  }

  /// A share's groups lie in order along k: a part of 32 has one column, or two.
  __device__ int own_part() const { return BITS == 4 ? lane_ / 8 : lane_ / 4; }

  __device__ bool is_own_half() const { return BITS == 8 || lane_ / 4 % 2 == lane_ % 4 / 2; }

  __device__ void compute(int slot, int& stage, uint32_t& parity) {
    float sums[2] = {};
#pragma unroll 1
    for (int piece = 0; piece < pieces_; ++piece) {
      wait_for_turn(&full_[stage], parity);
      const int begin = piece * shape_.piece;
      const int count = min(shape_.piece, chunks_ - begin);
#pragma unroll 1
      for (int at = warp_; at < count; at += kStreamedWarps) {
        multiply_chunk(ring_ + stage * stage_step_, at, begin + at, sums);
      }
      this->leave(stage);
      this->next(stage, parity);
    }
    if constexpr (!kByRow) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sums[half] += __shfl_xor_sync(kAllLanes, sums[half], 1);
        sums[half] += __shfl_xor_sync(kAllLanes, sums[half], 2);
      }
    }
    this->keep(slot, sums);
  }

  __device__ void multiply_chunk(const char* from, int at, int chunk, float (&sums)[2]) const {
    const uint4* const first = reinterpret_cast<const uint4*>(from) + at * kPlaces * 32 + lane_;
    const uint4* const second =
        reinterpret_cast<const uint4*>(from + tile_step_) + at * kPlaces * 32 + lane_;
    const float unit = units_[chunk];
#pragma unroll
    for (int share = 0; share < kShares; ++share) {
      float found[kTurns][4] = {};
      uint4 own = make_uint4(0, 0, 0, 0);
      if (!kByRow && is_own_half()) {
        own = fetch_part(chunk, share * kPartsOfShare + own_part());
      }
#pragma unroll
      for (int i = 0; i < kPartsOfShare; ++i) {
        const int part = share * kPartsOfShare + i;
        const int place = part / kPartsOfTile;
        uint4 x = own;
        if (kByRow) {
          x = fetch_part(chunk, part);
        } else if (own_part() != i) {
          x = make_uint4(0, 0, 0, 0);
        }
        uint32_t a[4];
        uint32_t b[4];
        floats_of(first[place * 32], part % kPartsOfTile, a);
        floats_of(second[place * 32], part % kPartsOfTile, b);
        float (&even)[4] = found[i * 2 % kTurns];
        float (&odd)[4] = found[(i * 2 + 1) % kTurns];
        multiply_tile<__half>(even, {a[0], b[0], a[1], b[1]}, x.x, x.y);
        multiply_tile<__half>(odd, {a[2], b[2], a[3], b[3]}, x.z, x.w);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float one = 0.0f;
        float other = 0.0f;
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn) {
          one += found[turn][half * 2];
          other += found[turn][half * 2 + 1];
        }
        if constexpr (kByRow) {
          sums[half] += one * unit;
        } else {
          const uint8_t* const scales =
              reinterpret_cast<const uint8_t*>(from + 2 * tile_step_ + half * scale_step_) +
              lane_ / 4;
          const int group = at * kGroups + share * 8 + lane_ % 4 * 2;
          sums[half] += unit * (one * scale_of(scales[group * kWeightTileRows]) +
                                other * scale_of(scales[(group + 1) * kWeightTileRows]));
        }
      }
    }
  }

  /// A lane's eight weights of a part, in pairs.
  __device__ static void floats_of(const uint4& tile, int part, uint32_t (&pairs)[4]) {
    if constexpr (BITS == 8) {
      halves_of_e4m3(word_of(tile, part * 2), pairs[0], pairs[1]);
      halves_of_e4m3(word_of(tile, part * 2 + 1), pairs[2], pairs[3]);
    } else {
      // Of bytes of two E2M1 each two E4M3: sign, and then the last bits of the exponent.
      const uint32_t word = word_of(tile, part);
      halves_of_e4m3(((word << 2) & 0x1c1c1c1c) | ((word << 4) & 0x80808080), pairs[0], pairs[1]);
      halves_of_e4m3(((word >> 2) & 0x1c1c1c1c) | (word & 0x80808080), pairs[2], pairs[3]);
    }
  }

  __device__ static float scale_of(uint32_t byte) {
    if constexpr (BITS == 8) {
      return __uint_as_float(byte != 0 ? byte << 23 : 0x400000);
    } else {
      return __uint_as_float((byte & 0x7f) << 20 | (byte & 0x80) << 24) * 0x1p120f;
    }
  }

  uint4* row_;    ///< [chunks, 32]: eight float16
  float* units_;  ///< [chunks]: what a sum is multiplied with
};

}  // namespace

#define AOTIP_STREAMED_FLOATS(BITS, SHIFT)                                     \
  AOTIP_STREAMED_KERNEL(aotip_streamed_floats_##BITS##_##SHIFT, OneRowProduct, \
                        StreamedFloats<BITS, SHIFT>)

AOTIP_STREAMED_FLOATS(8, 31)
AOTIP_STREAMED_FLOATS(8, 5)
AOTIP_STREAMED_FLOATS(4, 4)
