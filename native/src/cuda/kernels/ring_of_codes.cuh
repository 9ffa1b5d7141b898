#pragma once

// The ring of products of one row with codes: what of the weight, its scales and its zeros is in a
// stage, and the warp that fetches it.
//
// With experts, the weight is put together of the matrices that were chosen: below each other for
// one row, or beside each other for a row of their own each. Which ones only the kernels in front
// know. Of the first of two products of the same experts nothing is fetched before these have
// ended; of the second it is: it begins only when all blocks of the first have waited.

#include "cuda/kernels/experts.cuh"
#include "cuda/kernels/streamed_block.cuh"

namespace aoti_plugins::cuda {

/// How a lane's part of a tile becomes factors of a product of 32 along k, and the order in which
/// it has the eight elements of the row that belong to them.
template <int BITS>
struct BytesOfCode;

/// A code is the upper half of a byte, which makes it a number of 16 times -8 to 7.
template <>
struct BytesOfCode<4> {
  static constexpr int kDepth = kWeightTileDepth4;
  static constexpr float kUnit = 1.0f / 16;

  __device__ static void of(const uint4& tile, int part, uint32_t& low, uint32_t& high) {
    const uint32_t word = word_of(tile, part);
    low = masked_xor<0xf0f0f0f0>(word << 4, 0x80808080);
    high = masked_xor<0xf0f0f0f0>(word, 0x80808080);
  }

  __device__ static constexpr int element(int i) { return i / 2 + i % 2 * 4; }
};

template <>
struct BytesOfCode<8> {
  static constexpr int kDepth = kWeightTileDepth8;
  static constexpr float kUnit = 1.0f;

  __device__ static void of(const uint4& tile, int part, uint32_t& low, uint32_t& high) {
    low = word_of(tile, part * 2);
    high = word_of(tile, part * 2 + 1);
  }

  __device__ static constexpr int element(int i) { return i; }
};

/// As `RingOfCodes` has its parameters.
constexpr ScaleOfRow scale_of_row(int shift, bool floats) {
  return floats ? kFloatOfRow : shift == kGroupOfRow ? kHalfOfRow : kNoneOfRow;
}

/// Groups have 2^SHIFT weights, at most a chunk; or it is kGroupOfRow. PRODUCT is a OneRowProduct,
/// or an ExpertProduct with groups. ZEROS: groups have zeros, which are added; these and scales are
/// float16. FLOATS: scales of groups have a byte, those of rows are float32.
template <int BITS, typename T, int SHIFT, typename PRODUCT, bool ZEROS, bool FLOATS = false>
class RingOfCodes : protected StreamedBlock<T, scale_of_row(SHIFT, FLOATS)> {
  using Base = StreamedBlock<T, scale_of_row(SHIFT, FLOATS)>;

 protected:
  using Base::chunks_;
  using Base::empty_;
  using Base::first_;
  using Base::full_;
  using Base::is_gated_;
  using Base::lane_;
  using Base::last_;
  using Base::p_;
  using Base::pieces_;
  using Base::shape_;
  static constexpr int kDepth = BytesOfCode<BITS>::kDepth;
  static constexpr int kPlaces = kStreamedChunk / kDepth;  ///< tiles of a chunk
  static constexpr bool kByRow = SHIFT == kGroupOfRow;
  static constexpr bool kOfExperts = std::is_same<PRODUCT, ExpertProduct>::value;
  static constexpr int kGroups = kByRow ? 0 : kStreamedChunk >> SHIFT;     ///< of a chunk
  static constexpr int kGroupNbytes = kWeightTileRows * (FLOATS ? 1 : 2);  ///< scales of a tile
  static constexpr int kNumbers = ZEROS ? 2 : 1;                           ///< of a group

  __device__ RingOfCodes(const PRODUCT& product, const StreamedShape& shape, char* memory)
      : Base(product, shape),
        product_(product),
        places_((p_.k + kDepth - 1) / kDepth),
        tiles_(p_.n / kWeightTileRows),
        groups_(kByRow ? 0 : max(p_.k >> SHIFT, 1)),
        tile_step_(shape.piece * kPlaces * kWeightTileNbytes),
        scale_step_(shape.piece * kGroups * kGroupNbytes),
        stage_step_(2 * (tile_step_ + kNumbers * scale_step_)),
        ring_(memory) {}

  /// By the warp that does nothing else.
  __device__ void fill() {
    if constexpr (kOfExperts) {
      fetch_experts();
    } else if (is_chosen_lane()) {
      fetch_all();
    }
  }

  /// Reads this warp's next chunks of the row, or of what it is multiplied with, from `chunk` on,
  /// if there are any.
  template <int LOADS>
  __device__ void fetch_row(uint4 (&eight)[LOADS], const void* from, int chunk) const {
    if (from == nullptr || chunk >= chunks_) {
      return;
    }
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      const int at = (chunk + i * kStreamedWarps) * 32 + lane_;
      eight[i] = at * 8 < p_.k ? static_cast<const uint4*>(from)[at] : make_uint4(0, 0, 0, 0);
    }
  }

  /// Has `take(elements, chunk)` take a lane's part of each of the warp's chunks of the row, times
  /// a norm's factors, of which the first ones were read before. Adds up squares for the norm.
  template <int LOADS, typename Take>
  __device__ void read_row(uint4 (&factors)[LOADS], float& square, const Take& take) const {
    // Once the row is there all of the ring is asked for: what else is loaded now comes before it.
    uint4 eight[LOADS];
    uint4 more[LOADS];
    fetch_row(eight, p_.x, this->warp_);
    fetch_row(more, p_.x, this->warp_ + LOADS * kStreamedWarps);
#pragma unroll 1
    for (int chunk = this->warp_; chunk < chunks_; chunk += LOADS * kStreamedWarps) {
      if (chunk != this->warp_) {
        fetch_row(factors, p_.norm, chunk);
      }
#pragma unroll
      for (int i = 0; i < LOADS; ++i) {
        if (chunk + i * kStreamedWarps < chunks_) {
          float x[8];
          read_eight(eight[i], factors[i], x, square);
          take(x, chunk + i * kStreamedWarps);
        }
        eight[i] = more[i];
      }
      fetch_row(more, p_.x, chunk + 2 * LOADS * kStreamedWarps);
    }
  }

  const PRODUCT& product_;
  const int places_;
  const int tiles_;
  const int groups_;
  const int tile_step_;  ///< in bytes
  const int scale_step_;
  const int stage_step_;
  char* ring_;  ///< [stages]: two tiles, then their scales

 private:
  __device__ void read_eight(const uint4& eight, const uint4& factors, float (&x)[8],
                             float& square) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = HalfPair<T>::floats(word_of(eight, i));
      x[2 * i] = pair.x;
      x[2 * i + 1] = pair.y;
      if (p_.norm != nullptr) {
        const float2 factor = HalfPair<T>::floats(word_of(factors, i));
        square += pair.x * pair.x + pair.y * pair.y;
        x[2 * i] *= factor.x;
        x[2 * i + 1] *= factor.y;
      }
    }
  }

  /// With a gate, the second of a pair is of the second half of the weight.
  __device__ int tile_of(int pair, int half) const {
    return is_gated_ ? pair + half * (tiles_ / 2) : pair * 2 + half;
  }

  /// Fills the ring, again and again; one thread.
  __device__ void fetch_all() {
    int count = 0;
    int stage = 0;
    uint32_t parity = 1;
#pragma unroll 1
    for (int pair = first_; pair < last_; ++pair) {
      const int tiles = tile_of(pair, 1) < tiles_ ? 2 : 1;
#pragma unroll 1
      for (int piece = 0; piece < pieces_; ++piece) {
        this->hold_back(count++);
        wait_for_turn(&empty_[stage], parity);
        const int place = piece * shape_.piece * kPlaces;
        const int group = piece * shape_.piece * kGroups;
        const uint32_t nbytes = min(shape_.piece * kPlaces, places_ - place) * kWeightTileNbytes;
        const uint32_t scales_nbytes = min(shape_.piece * kGroups, groups_ - group) * kGroupNbytes;
        arrive_before(&full_[stage], tiles * (nbytes + kNumbers * scales_nbytes));
        char* const to = ring_ + stage * stage_step_;
#pragma unroll 1
        for (int half = 0; half < tiles; ++half) {
          const int64_t tile = tile_of(pair, half);
          copy_to_shared(
              to + half * tile_step_,
              static_cast<const char*>(p_.weight) + (tile * places_ + place) * kWeightTileNbytes,
              nbytes, &full_[stage]);
          if (!kByRow) {
            copy_to_shared(
                to + 2 * tile_step_ + half * scale_step_,
                static_cast<const char*>(p_.scale) + (tile * groups_ + group) * kGroupNbytes,
                scales_nbytes, &full_[stage]);
          }
          if (ZEROS) {
            copy_to_shared(
                to + 2 * tile_step_ + (2 + half) * scale_step_,
                static_cast<const char*>(p_.zero) + (tile * groups_ + group) * kGroupNbytes,
                scales_nbytes, &full_[stage]);
          }
        }
        this->next(stage, parity);
      }
    }
  }

  /// The same of the experts' matrices, by a whole warp: a lane has codes or scales of one tile of
  /// a pair, of every eighth expert in a stage. A stage has chunks of one of them, or all of
  /// several.
  __device__ void fetch_experts() {
    const int half = lane_ % 2;
    const bool is_scale = lane_ % 4 >= 2;
    const int nbytes =
        is_scale ? kGroups * kGroupNbytes : kPlaces * kWeightTileNbytes;  // of a chunk
    const int row_nbytes = is_scale ? groups_ * kGroupNbytes : places_ * kWeightTileNbytes;
    const bool is_sum = product_.factors != nullptr;
    const int beside = is_sum ? product_.chosen : 1;
    const int chunks = chunks_ / beside;          // of a matrix
    const int tile_nbytes = row_nbytes / beside;  // of codes or scales
    const int pairs = product_.tiles / 2;         // of a matrix
    const char* const from = static_cast<const char*>(is_scale ? p_.scale : p_.weight);
    char* const to = ring_ + (is_scale ? 2 * tile_step_ + half * scale_step_ : half * tile_step_);
    const int begin_lane = lane_ / 4 * chunks;
    int slot = first_ / pairs;
    int own = first_ % pairs;
    int stage = 0;
    uint32_t parity = 1;
    if (product_.is_second == 0) {
      wait_for_inputs();
    }
#pragma unroll 1
    for (int pair = first_; pair < last_; ++pair) {
#pragma unroll 1
      for (int piece = 0; piece < pieces_; ++piece) {
        const int begin = piece * shape_.piece;
        const int count = min(shape_.piece, chunks_ - begin);
        if (lane_ == 0) {
          wait_for_turn(&empty_[stage], parity);
          arrive_before(&full_[stage],
                        2 * (min(count * kPlaces, places_ - begin * kPlaces) * kWeightTileNbytes +
                             min(count * kGroups, groups_ - begin * kGroups) * kGroupNbytes));
        }
        __syncwarp();
#pragma unroll 1
        for (int at = begin_lane; at < count; at += 8 * chunks) {
          const int place = is_sum ? (begin + at) / chunks : slot;
          const int chunk = begin + at - (is_sum ? place * chunks : 0);
          const int64_t expert = expert_of(product_.experts, product_.count, place);
          const int64_t tile =
              expert * product_.tiles + (is_gated_ ? own + half * pairs : own * 2 + half);
          copy_to_shared(
              to + stage * stage_step_ + at * nbytes, from + tile * tile_nbytes + chunk * nbytes,
              static_cast<uint32_t>(min(min(count, chunks) * nbytes, tile_nbytes - chunk * nbytes)),
              &full_[stage]);
        }
        this->next(stage, parity);
      }
      if (++own == pairs) {
        own = 0;
        ++slot;
      }
    }
  }
};

}  // namespace aoti_plugins::cuda
