#include "cuda/ops/streamed_row.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "cuda/driver/device_kernels.h"
#include "cuda/ops/aligned_rows.h"
#include "cuda/ops/small_weights.h"

namespace aoti_plugins::cuda {
namespace {

constexpr int32_t kScaleNbytes = 2;

/// Of a block of a gated product, a layer's widest, with its ring. Measured on an H200, as parts of
/// a token: a small block of the product in front of it and of that behind it still has room. Of
/// both products of experts, too.
constexpr int64_t kGatedNbytes = 150 << 10;

/// The same with codes of 8 bits, where it is five stages in place of four.
constexpr int64_t kGatedNbytes8 = 175 << 10;

/// Of a block of another product: a ring that is so large brings more than the next one's weights.
constexpr int64_t kMostNbytes = 215 << 10;

/// What a small block takes as well, so that fewer multiprocessors have two blocks of a kernel
/// while others have none.
constexpr int64_t kLeastNbytes = 50 << 10;

/// The same with experts, as they were measured.
constexpr int64_t kLeastExpertsNbytes = 76 << 10;

/// From here on a block takes more than half of a multiprocessor: no two of a kernel are on one. It
/// is too large for a block of the widest product beside it anyway.
constexpr int64_t kManyNbytes = 96 << 10;

/// What is on its way at most while the row is not there, of each block. Measured on an H200, as
/// parts of a token: with less the weights are late, with more the row is.
constexpr int64_t kEarlyNbytes = 36 << 10;

constexpr int32_t kMostStages = 8;

/// Chunks along k of a stage: 32 KiB of two tiles.
int32_t most_piece(int64_t bits) {
  return bits == 4 ? 16 : 8;
}

/// Pairs whose parts a block keeps.
constexpr int32_t kMostKept = 32;

int32_t chunks_of(const OneRowProduct& product) {
  return (product.k + kStreamedChunk - 1) / kStreamedChunk;
}

bool is_plain(const SmallWeightProduct& product) {
  return product.zero_kind == kNoZero && product.has_float_scale == 0 &&
         product.has_half_scale == 0;
}

/// Whether scales and zeros are what kernels with zeros take.
bool has_zeros(const SmallWeightProduct& product) {
  return product.zero_kind == kAddedZero && product.has_half_scale != 0;
}

/// What a block has beside its ring and its row, as kernels/streamed_block.cuh divides it.
int64_t shared_nbytes(const StreamedShape& shape) {
  return shape.kept * kStreamedWarps * kStreamedRows * int64_t{4} + kStreamedWarps * 4 +
         shape.stages * 2 * int64_t{8} + 8;
}

/// Whether there is a kernel for a weight of floats. Of whole chunks: what lies behind a row in
/// shared memory might be no number.
bool has_floats(const OneRowKind& kind, const OneRowProduct& product) {
  const int32_t shift = product.group_shift;
  return product.zero_kind == kFloat && product.k % kStreamedChunk == 0 &&
         (kind.bits == 4 ? shift == 4 : shift == 5 || shift == kGroupOfRow);
}

/// Of a stage of a product with codes: two tiles.
int64_t stage_nbytes_of(int64_t bits, const OneRowProduct& product, int32_t piece) {
  const int64_t places = kStreamedChunk / tile_depth(bits);
  const int64_t groups =
      product.group_shift == kGroupOfRow ? 0 : kStreamedChunk >> product.group_shift;
  const int64_t numbers_nbytes = is_float(product.zero_kind) ? 1
                                 : has_zeros(product)        ? 2 * kScaleNbytes
                                                             : kScaleNbytes;
  return 2 * piece * (places * kWeightTileNbytes + groups * kWeightTileRows * numbers_nbytes);
}

/// Of a product with codes, as the kernel divides its memory.
int64_t nbytes_of(int64_t bits, const OneRowProduct& product, const StreamedShape& shape) {
  const int64_t chunks = chunks_of(product);
  const int64_t sums_nbytes = has_zeros(product) ? chunks * (kStreamedChunk / 32) * 4 : 0;
  return shape.stages * stage_nbytes_of(bits, product, shape.piece) + chunks * kStreamedChunk * 2 +
         (chunks + 3) / 4 * 16 + sums_nbytes + shared_nbytes(shape);
}

int64_t halves_stage_nbytes_of(int32_t piece) {
  return kStreamedRows * (int64_t{piece} * kStreamedChunk * 2 + kHalvesGap);
}

int64_t halves_nbytes_of(const OneRowProduct& product, const StreamedShape& shape) {
  return shape.stages * halves_stage_nbytes_of(shape.piece) +
         chunks_of(product) * kStreamedChunk * int64_t{2} + shared_nbytes(shape);
}

/// Chunks of a stage where experts lie beside each other: all of some experts, as many in each
/// stage as in others, or a part of one.
int32_t piece_of_experts(int32_t chunks, int32_t experts) {
  const int32_t own = chunks / experts;
  int32_t parts = 1;
  if (own <= most_piece(4)) {
    const int32_t together = most_piece(4) / own;
    const int32_t stages = (experts + together - 1) / together;
    return (experts + stages - 1) / stages * own;
  }
  while (own % parts != 0 || own / parts > most_piece(4)) {
    ++parts;
  }
  return own / parts;
}

/// What a block may take at most.
int64_t room_of(const OneRowProduct& product, int64_t bits) {
  if (product.gate == kNoGate) {
    return kMostNbytes;
  }
  return bits == 8 ? kGatedNbytes8 : kGatedNbytes;
}

/// Divides pairs among all blocks, which have `room` bytes at most; none where a stage does not
/// fit. `early`: stages on their way while the row is not there; `nbytes_of` a shape.
template <typename Nbytes>
std::optional<StreamedShape> divided(const Gpu& gpu, const OneRowProduct& product, int32_t pairs,
                                     int32_t piece, int64_t early, int64_t room,
                                     const Nbytes& nbytes_of) {
  StreamedShape shape{};
  shape.piece = piece;
  shape.pairs = pairs / gpu.multiprocessors;
  shape.more = pairs % gpu.multiprocessors;
  const int32_t most = shape.pairs + (shape.more > 0 ? 1 : 0);
  shape.kept = std::min(most, kMostKept);
  room = std::min(room, static_cast<int64_t>(gpu.shared_memory_nbytes));
  const int64_t items = int64_t{most} * ((chunks_of(product) + piece - 1) / piece);
  for (shape.stages = static_cast<int32_t>(std::min<int64_t>(items, kMostStages)); shape.stages > 0;
       --shape.stages) {
    if (nbytes_of(shape) <= room) {
      shape.early = static_cast<int32_t>(std::clamp<int64_t>(early, 1, shape.stages));
      return shape;
    }
  }
  return std::nullopt;
}

/// Also blocks without a share: each multiprocessor then has one block of each kernel.
template <typename Product>
Status launch(const Gpu& gpu, const char* name, int64_t nbytes, int64_t least, bool is_constant,
              StreamedShape& shape, Product& product) {
  const auto most = static_cast<int64_t>(gpu.shared_memory_nbytes);
  least = nbytes < kManyNbytes ? std::min(least, most / 3) : most / 2 + 1;
  void* arguments[] = {&product, &shape};
  return launch_wide(gpu.index, name,
                     {static_cast<unsigned int>(gpu.multiprocessors), (kStreamedWarps + 1) * 32,
                      static_cast<unsigned int>(std::max(least, nbytes))},
                     is_constant, arguments);
}

}  // namespace

std::optional<StreamedShape> streamed_shape(const Gpu& gpu, const OneRowKind& kind,
                                            const OneRowProduct& product) noexcept {
  const int32_t shift = product.group_shift;
  const bool has_groups = shift == 5 || shift == 7 || (shift == 6 && gpu.kernels_arch == 90);
  const bool has_plain = kind.bits == 4 ? has_groups : shift == kGroupOfRow;
  const bool has_kernel =
      is_float(product.zero_kind) ? has_floats(kind, product)
      : has_zeros(product)
          ? kind.bits == 4 && shift == 5 && is_aligned(product.zero) && gpu.kernels_arch == 90
          : has_plain && is_plain(product);
  if (gpu.kernels_arch < 90 || kind.kind[0] != 'b' || !has_kernel || product.is_tile_packed != 0 ||
      !is_aligned(product.scale)) {
    return std::nullopt;
  }
  const int32_t piece = std::min(chunks_of(product), most_piece(kind.bits));
  return divided(gpu, product, (product.n + kStreamedRows - 1) / kStreamedRows, piece,
                 kEarlyNbytes / stage_nbytes_of(kind.bits, product, piece),
                 room_of(product, kind.bits),
                 [&](const StreamedShape& shape) { return nbytes_of(kind.bits, product, shape); });
}

Status streamed_row(const Gpu& gpu, const OneRowKind& kind, StreamedShape shape,
                    OneRowProduct& product) noexcept {
  char name[64];
  if (is_float(product.zero_kind)) {
    (void)std::snprintf(name, sizeof(name), "aotip_streamed_floats_%d_%d",
                        static_cast<int>(kind.bits), static_cast<int>(product.group_shift));
  } else {
    (void)std::snprintf(name, sizeof(name), "aotip_streamed_%s_%d_%s_%d_%d",
                        has_zeros(product) ? "zeros" : "row", static_cast<int>(kind.bits),
                        kind.kind, static_cast<int>(product.group_shift),
                        chunks_of(product) <= kStreamedWarps ? 1 : 0);
  }
  return launch(gpu, name, nbytes_of(kind.bits, product, shape), kLeastNbytes, kind.is_constant,
                shape, product);
}

std::optional<StreamedShape> streamed_experts_shape(const Gpu& gpu,
                                                    const ExpertProduct& product) noexcept {
  const int32_t shift = product.group_shift;
  if (gpu.kernels_arch < 90 || (shift != 5 && shift != 7) || !is_plain(product) ||
      !is_aligned(product.scale)) {
    return std::nullopt;
  }
  int32_t piece = std::min(chunks_of(product), most_piece(4));
  if (product.factors != nullptr) {
    piece = piece_of_experts(chunks_of(product), product.chosen);
  }
  return divided(gpu, product, product.n / kStreamedRows, piece, kMostStages, kGatedNbytes,
                 [&](const StreamedShape& shape) { return nbytes_of(4, product, shape); });
}

Status streamed_experts(const Gpu& gpu, bool is_constant, StreamedShape shape,
                        ExpertProduct& product) noexcept {
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_streamed_experts_4_bf16_%d_%d",
                      static_cast<int>(product.group_shift),
                      chunks_of(product) <= kStreamedWarps ? 1 : 0);
  return launch(gpu, name, nbytes_of(4, product, shape), kLeastExpertsNbytes, is_constant, shape,
                product);
}

std::optional<StreamedShape> streamed_halves_shape(const Gpu& gpu,
                                                   const OneRowProduct& product) noexcept {
  if (gpu.kernels_arch < 90 || product.k % 32 != 0) {
    return std::nullopt;
  }
  const int32_t columns = product.gate != kNoGate ? product.n / 2 : product.n;
  const int32_t rows = product.gate != kNoGate ? kWeightTileRows : kStreamedRows;
  return divided(gpu, product, (columns + rows - 1) / rows, kHalvesPiece,
                 kEarlyNbytes / halves_stage_nbytes_of(kHalvesPiece), room_of(product, 16),
                 [&](const StreamedShape& shape) { return halves_nbytes_of(product, shape); });
}

Status streamed_halves(const Gpu& gpu, const char* kind, bool is_constant, StreamedShape shape,
                       OneRowProduct& product) noexcept {
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_streamed_halves_%s", kind);
  return launch(gpu, name, halves_nbytes_of(product, shape), kLeastNbytes, is_constant, shape,
                product);
}

}  // namespace aoti_plugins::cuda
