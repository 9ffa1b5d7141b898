// Products of one row with weights of 16 bits as they lie, [n, k], on GPUs that copy to shared
// memory by themselves (compute capability 9.0), with what stands around them as in one_row.cu.
//
// A warp fetches 16 rows of the weight at a time, some hundred elements of each, into a ring; see
// streamed_row.cu. The other warps divide what is there along k. Tensor cores multiply 16 rows with
// 16 elements in one instruction: what they have room for, eight rows of x, is the one row eight
// times. Rows of a stage lie 64 bytes further apart than they are long, so that what eight lanes
// read at once is in different banks.

#include "cuda/kernels/streamed_block.cuh"

using namespace aoti_plugins::cuda;

namespace {

template <typename T>
class StreamedHalves : StreamedBlock<T, kNoneOfRow> {
  using Base = StreamedBlock<T, kNoneOfRow>;
  using Base::chunks_;
  using Base::empty_;
  using Base::first_;
  using Base::full_;
  using Base::is_gated_;
  using Base::lane_;
  using Base::last_;
  using Base::p_;
  using Base::pieces_;
  using Base::warp_;
  using typename Base::Around;
  static constexpr int kPiece = kHalvesPiece * kStreamedChunk;  ///< elements of a row in a stage
  static constexpr int kShare = kPiece / kStreamedWarps;        ///< of them for each warp
  static constexpr int kRuns = kShare / 32;
  static constexpr int kStep = kPiece * 2 + kHalvesGap;  ///< bytes between rows of a stage
  static constexpr int kLoads = 4;                       ///< shares of the row at once
  static constexpr int kSharesOfWarp = 256 / kShare;     ///< that a warp loads with one instruction

 public:
  __device__ StreamedHalves(const OneRowProduct& product, const StreamedShape& shape, char* memory)
      : Base(product, shape), ring_(memory) {
    memory += shape.stages * kStreamedRows * kStep;
    row_ = reinterpret_cast<uint4*>(memory);
    this->share(memory + chunks_ * kStreamedChunk * 2);
  }

  __device__ void run() {
    this->begin();
    if (this->is_fetching()) {
      fetch_all();
      return;
    }
    uint4 factors[kLoads];
    fetch(factors, p_.norm, 0);
    Around around = this->wait_for_row();
    // As in streamed_row.cu, no load of the row waits behind the weights.
    uint4 eight[kLoads];
    uint4 more[kLoads];
    fetch(eight, p_.x, 0);
    fetch(more, p_.x, kLoads * kSharesOfWarp);
    float square = 0.0f;
#pragma unroll 1
    for (int first = 0; first < pieces_; first += kLoads * kSharesOfWarp) {
      if (first != 0) {
        fetch(factors, p_.norm, first);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = place_of(first, i);
        if (at < p_.k) {
          row_[at / 8] = p_.norm != nullptr ? scaled(eight[i], factors[i], square) : eight[i];
        }
        eight[i] = more[i];
      }
      fetch(more, p_.x, first + 2 * kLoads * kSharesOfWarp);
    }
    __syncwarp();
    int stage = 0;
    uint32_t parity = 0;
    this->in_shares(around, square, [&](int begin, int end) {
#pragma unroll 1
      for (int pair = begin; pair < end; ++pair) {
        compute(pair - begin, stage, parity);
      }
    });
  }

 private:
  /// Where in the row a lane's eight elements of the `i`-th load are: a warp has its share of each
  /// piece, which is what it multiplies.
  __device__ int place_of(int first, int i) const {
    const int piece = first + i * kSharesOfWarp + lane_ * 8 / kShare;
    return piece * kPiece + warp_ * kShare + lane_ * 8 % kShare;
  }

  __device__ void fetch(uint4 (&eight)[kLoads], const void* from, int first) const {
    if (from == nullptr || first >= pieces_) {
      return;
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = place_of(first, i);
      eight[i] = at < p_.k ? static_cast<const uint4*>(from)[at / 8] : make_uint4(0, 0, 0, 0);
    }
  }

  /// Elements times the norm's factors; adds to the sum of squares.
  __device__ static uint4 scaled(const uint4& eight, const uint4& factors, float& square) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 x = HalfPair<T>::floats(word_of(eight, i));
      const float2 factor = HalfPair<T>::floats(word_of(factors, i));
      square += x.x * x.x + x.y * x.y;
      words[i] = HalfPair<T>::of(x.x * factor.x, x.y * factor.y);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  /// The `i`-th of a pair's 16 rows: with a gate, the last eight are of the second half; null
  /// behind the end.
  __device__ const char* row_of(int pair, int i) const {
    const int within = i % kWeightTileRows;
    const int column = is_gated_ ? pair * kWeightTileRows + within : pair * kStreamedRows + i;
    if (column >= this->columns()) {
      return nullptr;
    }
    const int row = is_gated_ && i >= kWeightTileRows ? column + p_.n / 2 : column;
    const void* from = p_.weight;
    int start = 0;
#pragma unroll
    for (int weight = 0; weight < kMostWeights - 1; ++weight) {
      from = row >= p_.starts[weight] ? p_.more[weight] : from;
      start = row >= p_.starts[weight] ? p_.starts[weight] : start;
    }
    return static_cast<const char*>(from) + static_cast<int64_t>(row - start) * p_.k * 2;
  }

  /// Fills the ring, again and again; a lane for each row.
  __device__ void fetch_all() {
    int count = 0;
    int stage = 0;
    uint32_t parity = 1;
#pragma unroll 1
    for (int pair = first_; pair < last_; ++pair) {
      const char* const from = lane_ < kStreamedRows ? row_of(pair, lane_) : nullptr;
      const int rows = __popc(__ballot_sync(kAllLanes, from != nullptr));
#pragma unroll 1
      for (int piece = 0; piece < pieces_; ++piece) {
        const int nbytes = min(kPiece, p_.k - piece * kPiece) * 2;
        this->hold_back(count++);
        wait_for_turn(&empty_[stage], parity);
        if (lane_ == 0) {
          arrive_before(&full_[stage], rows * nbytes);
        }
        __syncwarp();
        if (from != nullptr) {
          copy_to_shared(ring_ + (stage * kStreamedRows + lane_) * kStep, from + piece * kPiece * 2,
                         nbytes, &full_[stage]);
        }
        this->next(stage, parity);
      }
    }
  }

  /// A lane has eight elements of two rows and of x, in an order along k of its own: of 32, each
  /// lane of four has eight, and two instructions take four of them each.
  __device__ void compute(int slot, int& stage, uint32_t& parity) {
    float sums[4][4] = {};  // as one alone would wait for itself
#pragma unroll 1
    for (int piece = 0; piece < pieces_; ++piece) {
      const int first = piece * kPiece + warp_ * kShare;
      wait_for_turn(&full_[stage], parity);
      if (first < p_.k) {
        const char* const from = ring_ + (stage * kStreamedRows + lane_ / 4) * kStep +
                                 warp_ * kShare * 2 + lane_ % 4 * 16;
        const uint4* const row = row_ + first / 8 + lane_ % 4;
#pragma unroll
        for (int run = 0; run < kRuns; ++run) {
          if (first + run * 32 < p_.k) {
            const uint4 x = row[run * 4];
            const uint4 low = *reinterpret_cast<const uint4*>(from + run * 64);
            const uint4 high =
                *reinterpret_cast<const uint4*>(from + run * 64 + kWeightTileRows * kStep);
            float (&first_two)[4] = sums[run % 2 * 2];
            float (&last_two)[4] = sums[run % 2 * 2 + 1];
            multiply_tile<T>(first_two, {low.x, high.x, low.y, high.y}, x.x, x.y);
            multiply_tile<T>(last_two, {low.z, high.z, low.w, high.w}, x.z, x.w);
          }
        }
      }
      this->leave(stage);
      this->next(stage, parity);
    }
    const float rows[2] = {(sums[0][0] + sums[1][0]) + (sums[2][0] + sums[3][0]),
                           (sums[0][2] + sums[1][2]) + (sums[2][2] + sums[3][2])};
    this->keep(slot, rows);
  }

  char* ring_;  ///< [stages, rows]: a piece of each row, and a gap
  uint4* row_;  ///< [k / 8], times the norm's factors
};

}  // namespace

AOTIP_STREAMED_KERNEL(aotip_streamed_halves_bf16, OneRowProduct, StreamedHalves<__nv_bfloat16>)
AOTIP_STREAMED_KERNEL(aotip_streamed_halves_f16, OneRowProduct, StreamedHalves<__half>)
