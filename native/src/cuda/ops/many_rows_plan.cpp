#include "cuda/ops/many_rows_plan.h"

#include <algorithm>

#include "cuda/kernels/one_row.h"

namespace aoti_plugins::cuda {
namespace {

struct Machine {
  int32_t multiprocessors;
  bool has_clusters;
};

/// What a kernel takes, in nanoseconds of an H100; measured with [2048 to 28672, 2048 to 14336],
/// and 64 to 2048 rows. Since the loop takes less, it is what was measured then, less what places
/// take less on an H200 (decision 0070).
struct Times {
  int64_t place;   ///< along k, of a block that is alone on its multiprocessor
  int64_t more;    ///< that each other block there adds
  int32_t blocks;  ///< that a multiprocessor has room for
};

struct Columns {
  int32_t count;
  Times bits4;
  Times bits8;
};

constexpr Columns kColumns[] = {{64, {660, 530, 2}, {680, 560, 2}},
                                {128, {855, 780, 2}, {830, 1020, 1}},
                                {256, {1205, 1455, 1}, {1205, 1555, 1}}};

const Times& times_of(const Columns& columns, int64_t bits) {
  return bits == 4 ? columns.bits4 : columns.bits8;
}

/// What a second launch adds to the time, in nanoseconds.
constexpr int64_t kLaunch = 6000;

/// Blocks that divide k, and of a thousand multiprocessors those on which clusters of them fit.
struct Splits {
  int32_t count;
  int64_t per_mille;
};

constexpr Splits kSplits[] = {{1, 1000}, {2, 1000}, {3, 960}, {4, 910}, {6, 910}, {8, 850}};

int64_t quotient(int64_t of, int64_t by) {
  return (of + by - 1) / by;
}

/// Parts of 32 weights of a row, of the first four, for which there are new factors.
int32_t scaled_parts(const SmallWeightProduct& product) {
  const bool is_row = product.group_shift == kGroupOfRow &&
                      (product.zero_kind == kNoZero || is_float(product.zero_kind));
  return product.group_shift <= 5 ? 15 : product.group_shift == 6 ? 5 : is_row ? 0 : 1;
}

/// For `tiles` tiles of the weight.
ManyRowsLaunch launch_of(const Machine& machine, const SmallWeightProduct& product, int64_t bits,
                         int64_t tiles, const Columns& columns, const Splits& splits) {
  const int64_t x_tiles = quotient(product.m, columns.count);
  const int64_t blocks = tiles * x_tiles * splits.count;
  const int64_t fitting = std::max<int64_t>(machine.multiprocessors * splits.per_mille / 1000, 1);
  const int64_t others = quotient(blocks, fitting) - 1;
  const int64_t k_tiles = quotient(product.k, kPlaceDepth);
  const int64_t steps = quotient(k_tiles, splits.count);
  const Times& times = times_of(columns, bits);
  const int64_t step = times.place + others * times.more;
  // Sums of other blocks come from their memory.
  const int64_t adding =
      splits.count == 1 ? 0 : 100 + columns.count * 11 + splits.count * (200 + columns.count * 3);
  const ManyRowsTile tile{columns.count};
  return {
      tile,
      {splits.count, static_cast<int32_t>(x_tiles), static_cast<int32_t>(k_tiles / splits.count),
       static_cast<int32_t>(k_tiles % splits.count), scaled_parts(product),
       tile.own_eights(splits.count), kNoGate, nullptr, 0},
      blocks,
      adding * (others < times.blocks ? 1 : others + 1) + steps * step};
}

ManyRowsLaunch fastest(const Machine& machine, const SmallWeightProduct& product, int64_t bits,
                       int64_t tiles) {
  ManyRowsLaunch best{};
  for (const Columns& columns : kColumns) {
    for (const Splits& splits : kSplits) {
      if (splits.count > 1 && (!machine.has_clusters || splits.count * kPlaceDepth > product.k)) {
        continue;
      }
      const ManyRowsLaunch found = launch_of(machine, product, bits, tiles, columns, splits);
      if (best.blocks == 0 || found.time < best.time) {
        best = found;
      }
    }
  }
  return best;
}

}  // namespace

ManyRowsPlan plan_many_rows(const SmallWeightProduct& product, int64_t bits,
                            int32_t multiprocessors, bool has_clusters) noexcept {
  const Machine machine{multiprocessors, has_clusters};
  const int64_t tiles = quotient(product.n, kManyRowsOfWeight);
  ManyRowsPlan best{fastest(machine, product, bits, tiles), {}};
  int64_t least = best.first.time;
  for (const Columns& columns : kColumns) {
    const int64_t x_tiles = quotient(product.m, columns.count);
    const int64_t round = int64_t{machine.multiprocessors} * times_of(columns, bits).blocks;
    const int64_t whole = tiles * x_tiles / round * round / x_tiles;
    if (whole == 0 || whole == tiles) {
      continue;
    }
    const ManyRowsLaunch first = launch_of(machine, product, bits, whole, columns, kSplits[0]);
    if (first.time + kLaunch >= least) {
      continue;  // This is on the way of each call: most products need not look for a second one.
    }
    ManyRowsLaunch second = fastest(machine, product, bits, tiles - whole);
    second.shape.first_tile = static_cast<int32_t>(whole);
    const int64_t time = first.time + kLaunch + second.time;
    if (time < least) {
      least = time;
      best = {first, second};
    }
  }
  return best;
}

}  // namespace aoti_plugins::cuda
