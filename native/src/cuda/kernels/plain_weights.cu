// Products of a few rows with weights of 4 to 8 bits that lie row after row, bounded by the reading
// of the weights.
//
// The weight is the first factor of the tensor cores' products, 16 of its rows at a time. Each of the
// four lanes that share a row has a piece of 32 weights of its own there, which may be a group of its
// own: so the second factor has two rows of x, each in four columns, one for a piece, and zeros
// elsewhere. A product's sum in a column is that of one lane's piece, and gets a scale of its own.
// What is added to all codes, and zeros, are taken out with the sums of x. The warps of a block have
// every n-th place along k of the same rows and add up what they found; then the block goes on with
// other rows, whose bytes are on their way by then.

#include "cuda/kernels/plain_forms.cuh"
#include "cuda/kernels/warp.cuh"

using namespace aoti_plugins::cuda;

namespace {

/// Pieces of a place that a lane has.
constexpr int kPlainParts = 2;

/// A lane's part of one place along k, of rows `lane / 4` and 8 more.
template <typename Form>
struct PlainPlace {
  typename Form::Codes codes[2][kPlainParts];
  uint2 scale[2];
  uint32_t zero[2];
  __half scale_step[2];
  __half zero_step[2];
};

/// Up to 8 bytes, as many as a multiple of which `offset` is.
__device__ uint2 bytes_at(const void* from, uint32_t offset, int nbytes) {
  if (nbytes == 8) {
    return plain_at<uint2>(from, offset);
  }
  return make_uint2(nbytes == 4   ? plain_at<uint32_t>(from, offset)
                    : nbytes == 2 ? plain_at<uint16_t>(from, offset)
                                  : plain_at<uint8_t>(from, offset),
                    0);
}

/// PAIRS: of rows of x. NARROW: groups are as small as the form has them, and rows whole places.
template <typename Form, int PAIRS, bool NARROW>
struct PlainRows {
  static constexpr int kThreads = kPlainWarps * 32;
  static constexpr int kRowsOfX = PAIRS * 2;
  static constexpr int kAhead = Form::kDigits == 1 ? 2 : 1;
  static constexpr int kHalves = Form::kHalves;
  /// Elements of each row of x that are in shared memory at once: whole rounds of all warps.
  static constexpr int kSlab = 16384 / kRowsOfX;
  static constexpr int kSumDepth = kPlainPieceDepth / kHalves;

  /// Groups of a lane's 128 weights, where they are as small as the form has them.
  static constexpr int kGroups = 128 / kSumDepth;

  struct Shared {
    uint4 x[kRowsOfX][kSlab / 8];
    uint4 zeros[kPlainParts * 8];
    float sums[kRowsOfX][kSlab / kSumDepth];
    float parts[2][kPlainWarps][kPlainTileRows][kRowsOfX];
  };

  __device__ PlainRows(const PlainProduct& product, Shared& block)
      : p(product),
        shared(block),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        places((p.k + kPlainStepDepth - 1) / kPlainStepDepth),
        tiles((p.n + kPlainTileRows - 1) / kPlainTileRows),
        passes((p.m + kRowsOfX - 1) / kRowsOfX),
        first_row(static_cast<int>(blockIdx.x) % passes * kRowsOfX),
        first_tile(static_cast<int>(blockIdx.x) / passes),
        next_tile(warp < places ? first_tile : tiles),
        next_place(warp) {}

  /// Sets out to fetch rows of `next_tile`, two for each lane; the last one for none.
  __device__ void aim() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t row = min(next_tile * kPlainTileRows + half * 8 + lane / 4, p.n - 1);
      rows[half] = Form::row(p, row);
      groups[half] = row * p.groups + (NARROW ? lane % 2 * kGroups : 0);
      steps[half] = row * places;
    }
  }

  /// Where a lane's piece of a place is, by its column: lanes 0, 1 and 2, 3 have neighbours, and the
  /// two parts of a pair of lanes are neighbours, too.
  __device__ static int piece_of(int column, int part) {
    return column / 2 * 4 + part * 2 + column % 2;
  }

  /// The next place of this warp, of the next rows where these have no more, if there is one.
  __device__ void fetch(PlainPlace<Form>& held) {
    if (next_tile < tiles) {
      fetch_place(held, next_place);
      next_place += kPlainWarps;
      if (next_place >= places) {
        next_place = warp;
        next_tile += gridDim.x / passes;
        aim();
      }
    }
  }

  __device__ void fetch_place(PlainPlace<Form>& held, int place) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int part = 0; part < kPlainParts; ++part) {
        const int piece = place * 8 + piece_of(lane % 4, part);
        if (NARROW || !Form::kIsRagged || piece * kPlainPieceDepth < p.k) {
          held.codes[half][part] = Form::load(p, rows[half], piece);
        } else {
          held.codes[half][part] = {};
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      fetch_groups(held, half, place);
    }
  }

  /// Scales and zeros of the four pieces whose sums this lane gets.
  __device__ void fetch_groups(PlainPlace<Form>& held, int half, int place) const {
    const int begin = place * kPlainStepDepth + lane % 2 * 128;
    if (Form::kIsRagged && !NARROW && p.scale_nbytes == 0) {
      return fetch_single_groups(held, half, begin);
    }
    const uint32_t group =
        groups[half] + (NARROW ? place * 2 * kGroups : begin >> p.group_shift);
    held.scale[half] = bytes_at(p.scale, group * Form::kScaleNbytes,
                                NARROW ? kGroups * Form::kScaleNbytes : p.scale_nbytes);
    if constexpr (Form::kHasZero) {
      held.zero[half] = bytes_at(p.zero, group, NARROW ? kGroups : p.zero_nbytes).x;
    }
    if constexpr (Form::kHasSteps) {
      const uint32_t step = steps[half] + place;
      held.scale_step[half] = static_cast<const __half*>(p.scale_step)[step];
      if constexpr (Form::kHasZero) {
        held.zero_step[half] = static_cast<const __half*>(p.zero_step)[step];
      }
    }
  }

  /// Of a row that ends anywhere, one by one: bfloat16 and int8.
  __device__ void fetch_single_groups(PlainPlace<Form>& held, int half, int begin) const {
    uint32_t scales[4];
    uint32_t zeros[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = min(begin + i * kPlainPieceDepth, p.k - 1);
      const uint32_t group = groups[half] + (at >> p.group_shift);
      scales[i] = plain_at<uint16_t>(p.scale, group * 2);
      zeros[i] = plain_at<uint8_t>(p.zero, group);
    }
    held.scale[half] = make_uint2(scales[0] | scales[1] << 16, scales[2] | scales[3] << 16);
    held.zero[half] = zeros[0] | zeros[1] << 8 | zeros[2] << 16 | zeros[3] << 24;
  }

  /// Brings x into shared memory from element `begin` on, zeros behind it, with the sums of its groups.
  __device__ void copy_slab(int begin) {
    const int end = min(kSlab, places * kPlainStepDepth - begin);
#pragma unroll 1
    for (int row = 0; row < min(kRowsOfX, p.m - first_row); ++row) {
      const __nv_bfloat16* from =
          static_cast<const __nv_bfloat16*>(p.x) + static_cast<int64_t>(first_row + row) * p.k;
#pragma unroll 1
      for (int chunk = threadIdx.x; chunk < end / 8; chunk += kThreads) {
        const int at = begin + chunk * 8;
        const uint4 eight = at < p.k ? *reinterpret_cast<const uint4*>(from + at)
                                     : make_uint4(0, 0, 0, 0);
        shared.x[row][chunk] = Form::ordered(eight);
        float sum = pair_sum(eight.x) + pair_sum(eight.y) + (pair_sum(eight.z) + pair_sum(eight.w));
#pragma unroll
        for (int reach = kSumDepth / 16; reach > 0; reach /= 2) {
          sum += __shfl_xor_sync(kAllLanes, sum, reach);
        }
        if (chunk % (kSumDepth / 8) == 0) {
          shared.sums[row][chunk / (kSumDepth / 8)] = sum;
        }
      }
    }
  }

  __device__ static float pair_sum(uint32_t pair) {
    const float2 both = HalfPair<__nv_bfloat16>::floats(pair);
    return both.x + both.y;
  }

  /// `place` counts from the slab's beginning.
  __device__ void compute(const PlainPlace<Form>& held, int place) {
    const uint4* from[PAIRS];
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair) {
      from[pair] = x_of(place, pair);
    }
#pragma unroll
    for (int part = 0; part < kPlainParts; ++part) {
      uint4 x[PAIRS][4];
#pragma unroll
      for (int pair = 0; pair < PAIRS; ++pair) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          x[pair][i] = from[pair][part * 8 + i];
        }
      }
      float found[Form::kDigits][PAIRS][4] = {};
#pragma unroll
      for (int step = 0; step < 8; ++step) {
#pragma unroll
        for (int digit = 0; digit < Form::kDigits; ++digit) {
          multiply_step(held, x, part, step, digit, found[digit]);
        }
        if ((step + 1) % (8 / kHalves) == 0) {
          put_together(found);
          add(held, found[0], place, part, step / (8 / kHalves));
          clear(found[0]);
        }
      }
    }
  }

  /// The sums of two digits become one.
  __device__ static void put_together(float (&found)[Form::kDigits][PAIRS][4]) {
    if constexpr (Form::kDigits == 2) {
#pragma unroll
      for (int pair = 0; pair < PAIRS; ++pair) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          found[0][pair][i] += 16.0f * found[1][pair][i];
        }
      }
    }
  }

  __device__ static void clear(float (&found)[PAIRS][4]) {
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        found[pair][i] = 0.0f;
      }
    }
  }

  /// A row of x for each lane whose weights are multiplied in its column, from the column's piece of
  /// the first part on; zeros for the others.
  __device__ const uint4* x_of(int place, int pair) const {
    const int column = lane / 4 % 4;
    const int row = pair * 2 + lane / 16;
    return lane % 4 == column && first_row + row < p.m
               ? &shared.x[row][(place * 8 + piece_of(column, 0)) * 4]
               : shared.zeros;
  }

  __device__ void multiply_step(const PlainPlace<Form>& held, const uint4 (&x)[PAIRS][4], int part,
                                int step, int digit, float (&found)[PAIRS][4]) const {
    uint32_t a[4];
    Form::pairs(held.codes[0][part], step, digit, a[0], a[2]);
    Form::pairs(held.codes[1][part], step, digit, a[1], a[3]);
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair) {
      const uint4& eight = x[pair][step / 2];
      multiply_tile<__nv_bfloat16>(found[pair], a, step % 2 ? eight.z : eight.x,
                                   step % 2 ? eight.w : eight.y);
    }
  }

  /// Adds the sums of two columns, each times its scale.
  __device__ void add(const PlainPlace<Form>& held, const float (&found)[PAIRS][4], int place,
                      int part, int half_of_piece) {
    const int first = (place * 8 + lane % 2 * 4 + part * 2) * kHalves + half_of_piece;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t scales[2] = {
          NARROW ? held.scale[half].x
                 : __byte_perm(held.scale[half].x, held.scale[half].y, p.scale_order[0]),
          NARROW ? held.scale[half].y
                 : __byte_perm(held.scale[half].x, held.scale[half].y, p.scale_order[1])};
      const uint32_t zeros =
          NARROW ? held.zero[half] : __byte_perm(held.zero[half], 0, p.zero_order);
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        const int i = (part * 2 + column) * kHalves + half_of_piece;
        const float scale =
            Form::scale(scales, i, Form::kHasSteps ? __half2float(held.scale_step[half]) : 1.0f);
        float shift = Form::kOffset;
        if constexpr (Form::kHasZero) {
          shift +=
              Form::zero(zeros, i, Form::kHasSteps ? __half2float(held.zero_step[half]) : 1.0f);
        }
#pragma unroll
        for (int pair = 0; pair < PAIRS; ++pair) {
          const float sum = shared.sums[pair * 2 + lane % 4 / 2][first + column * kHalves];
          total[pair][half] += scale * (found[pair][half * 2 + column] - shift * sum);
        }
      }
    }
  }

  __device__ void run() {
    let_next_begin();
    if (threadIdx.x < kPlainParts * 8) {
      shared.zeros[threadIdx.x] = make_uint4(0, 0, 0, 0);
    }
    aim();
    PlainPlace<Form> held[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      fetch(held[ahead]);
    }
    wait_for_inputs();
    int slab = -1;
    int turn = 0;
    bool is_odd = false;
#pragma unroll 1
    for (int tile = first_tile; tile < tiles; tile += gridDim.x / passes) {
#pragma unroll 1
      for (int begin = 0; begin < p.k; begin += kSlab) {
        if (begin != slab) {
          slab = begin;
          __syncthreads();
          copy_slab(begin);
          __syncthreads();
        }
        const int first = begin / kPlainStepDepth;
        const int end = min(places, (begin + kSlab) / kPlainStepDepth);
#pragma unroll 1
        for (int place = first + warp; place < end; place += kPlainWarps) {
          PlainPlace<Form>& other = held[kAhead - 1];
          if (kAhead == 2 && is_odd) {
            compute(other, place - first);
            fetch(other);
          } else {
            compute(held[0], place - first);
            fetch(held[0]);
          }
          is_odd = !is_odd;
        }
      }
      add_up(tile, turn);
      ++turn;
    }
  }

  /// Puts the parts of all warps together and writes the result.
  __device__ void add_up(int tile, int turn) {
    float(&here)[kPlainWarps][kPlainTileRows][kRowsOfX] = shared.parts[turn % 2];
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = total[pair][half] + __shfl_xor_sync(kAllLanes, total[pair][half], 1);
        total[pair][half] = 0.0f;
        if (lane % 2 == 0) {
          here[warp][half * 8 + lane / 4][pair * 2 + lane % 4 / 2] = sum;
        }
      }
    }
    __syncthreads();
    const int row = threadIdx.x % kPlainTileRows;
    const int row_of_x = threadIdx.x / kPlainTileRows;
    const int column = tile * kPlainTileRows + row;
    if (row_of_x < kRowsOfX && first_row + row_of_x < p.m && column < p.n) {
      float sum = 0.0f;
#pragma unroll
      for (int other = 0; other < kPlainWarps; ++other) {
        sum += here[other][row][row_of_x];
      }
      static_cast<__nv_bfloat16*>(p.out)[static_cast<int64_t>(first_row + row_of_x) * p.n + column] =
          static_cast<__nv_bfloat16>(sum);
    }
  }

  const PlainProduct& p;
  Shared& shared;
  const int lane;
  const int warp;
  const int places;
  const int tiles;
  const int passes;     ///< through the weight, for all rows of x
  const int first_row;  ///< of x
  const int first_tile;
  int next_tile;
  int next_place;
  PlainRow rows[2];
  uint32_t groups[2];  ///< where those of a row begin
  uint32_t steps[2];
  float total[PAIRS][2] = {};
};

}  // namespace

#define AOTIP_PLAIN_ROWS(NAME, FORM, PAIRS, NARROW)                                        \
  extern "C" __global__ void __launch_bounds__(kPlainWarps * 32, 2)                        \
      aotip_plain_##NAME##_##PAIRS##_##NARROW(const PlainProduct p) {                      \
    using Product = PlainRows<FORM, PAIRS, NARROW != 0>;                                   \
    __shared__ Product::Shared shared;                                                     \
    Product(p, shared).run();                                                              \
  }

#define AOTIP_PLAIN(NAME, FORM)                                                            \
  AOTIP_PLAIN_ROWS(NAME, FORM, 1, 0)                                                       \
  AOTIP_PLAIN_ROWS(NAME, FORM, 1, 1)                                                       \
  AOTIP_PLAIN_ROWS(NAME, FORM, 2, 0)                                                       \
  AOTIP_PLAIN_ROWS(NAME, FORM, 2, 1)

AOTIP_PLAIN(int4, Int4)
AOTIP_PLAIN(int5, Int5)
AOTIP_PLAIN(int6, Int6)
AOTIP_PLAIN(int8, Int8)
