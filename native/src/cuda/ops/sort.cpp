#include "cuda/kernels/sort.h"

#include <algorithm>
#include <cstdio>

#include "cuda/driver/device_kernels.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/stream.h"
#include "cuda/kernels/lines.h"
#include "cuda/ops/operators.h"
#include "ops/lines.h"

namespace aoti_plugins::cuda {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 31;

/// Up to here a block sorts a line faster than it selects from it.
constexpr int64_t kAlwaysSorted = 1024;

/// The longest lines, or parts of lines, of which few are selected from by a block each: sorting
/// spreads over all.
constexpr int64_t kFewLines = 4;
constexpr int64_t kFewLinesLength = int64_t{1} << 17;

/// The shortest parts that lines are cut into, as numbers and as multiples of what is taken.
constexpr int64_t kPartLength = 4096;
constexpr int64_t kPartOfCount = 8;

/// The most elements of a line that is made of what was taken from the parts of one.
constexpr int64_t kTakenFromParts = 16384;

/// Parts for each multiprocessor.
constexpr int64_t kPartsAtOnce = 2;

/// The bits of a real dtype's infinity.
uint64_t infinity_of(int32_t dtype) {
  switch (dtype) {
    case kFloat16:
      return 0x7c00;
    case kBFloat16:
      return 0x7f80;
    case kFloat32:
      return 0x7f800000;
    default:
      return 0x7ff0000000000000;
  }
}

SortOrder order_of(int32_t dtype, bool descending) {
  const int32_t nbytes = static_cast<int32_t>(element_nbytes(dtype));
  const uint64_t all = ~uint64_t{0} >> (64 - 8 * nbytes);
  const uint64_t sign = all ^ all >> 1;
  SortOrder order{nbytes, all, 0, 0, all, 0, descending ? all : 0};
  if (dtype == kBool) {
    order.most = 1;
  } else if (is_real(dtype)) {
    order.sign = sign;
    order.magnitude = order.zero = all ^ sign;
    order.infinity = infinity_of(dtype);
  } else if (dtype == kInt8 || dtype == kInt16 || dtype == kInt32 || dtype == kInt64) {
    order.sign = sign;
  }
  return order;
}

/// One sort: the arguments of its kernels.
struct Sort {
  int32_t gpu;
  int32_t dtype;
  SortTensors tensors;
  Lines lines;

  int32_t nbytes() const { return tensors.order.nbytes; }
  bool is_wide() const { return nbytes() == 8; }
  int32_t key_nbytes() const { return is_wide() ? 8 : 4; }
  int64_t tile() const { return is_wide() ? kTile64 : kTile32; }
};

/// The least power of two of at least `least` that `count` fits in.
uint32_t padded(int64_t count, uint32_t least) {
  uint32_t size = least;
  while (size < count) {
    size *= 2;
  }
  return size;
}

/// Launches `aotip_<name>_<suffix>`.
Status launch(const Sort& s, const char* name, int64_t suffix, int64_t blocks, unsigned int threads,
              void** arguments) {
  char full[48];
  (void)std::snprintf(full, sizeof(full), "aotip_%s_%lld", name, static_cast<long long>(suffix));
  return launch_blocks(s.gpu, full, blocks, threads, arguments);
}

Status sort_short(Sort& s) {
  const uint32_t items = s.lines.length <= 64 ? 2 : 4;  // of a lane
  uint32_t size = padded(s.lines.length, items);
  const int64_t lines_of_block = int64_t{kSortWarpThreads} * items / size;
  char name[32];
  (void)std::snprintf(name, sizeof(name), "sort_short_%d", s.key_nbytes());
  void* arguments[] = {&s.tensors, &size, &s.lines};
  return launch(s, name, items, (s.lines.count + lines_of_block - 1) / lines_of_block,
                kSortWarpThreads, arguments);
}

Status sort_block(Sort& s) {
  const int64_t items = s.lines.length <= kDigits       ? 1
                        : s.lines.length <= 4 * kDigits ? 4
                                                        : s.tile() / kDigits;
  char name[32];
  (void)std::snprintf(name, sizeof(name), "sort_block_%d", s.key_nbytes());
  void* arguments[] = {&s.tensors, &s.lines};
  return launch(s, name, items, s.lines.count, kDigits, arguments);
}

/// The memory of a radix sort: what passes leave to the next one, in turns, and what tiles tell.
class RadixMemory {
 public:
  static constexpr int32_t kBuffers = 2;

  Status allocate(const Sort& s, int64_t tiles) {
    const int64_t numel = s.lines.count * s.lines.length;
    const int32_t key_dtype = s.is_wide() ? kUInt64 : kUInt32;
    const int32_t passes = s.nbytes();
    for (int32_t i = 0; i < std::min(kBuffers, passes - 1); ++i) {
      AOTIP_RETURN_IF_FAILED(take(s, numel, key_dtype, &keys_[i]));
      AOTIP_RETURN_IF_FAILED(take(s, numel, kUInt32, &places_[i]));
    }
    state_words_ = 2 * s.lines.count * tiles * kDigits;
    total_words_ = s.lines.count * passes * kDigits;
    const int64_t words = state_words_ + total_words_ + passes;
    AOTIP_RETURN_IF_FAILED(take(s, words, kUInt32, &words_));
    AOTIP_CU(cuMemsetD8Async, reinterpret_cast<CUdeviceptr>(words_->data()), 0,
             static_cast<size_t>(words) * sizeof(uint32_t), current_stream().handle);
    return Status::kOk;
  }

  void* keys(int32_t pass) const { return data(keys_[pass % kBuffers]); }
  uint32_t* places(int32_t pass) const {
    return static_cast<uint32_t*>(data(places_[pass % kBuffers]));
  }
  uint64_t* states() const { return static_cast<uint64_t*>(words_->data()); }
  uint32_t* totals() const { return static_cast<uint32_t*>(words_->data()) + state_words_; }
  uint32_t* ticket(int32_t pass) const { return totals() + total_words_ + pass; }

 private:
  static Status take(const Sort& s, int64_t numel, int32_t dtype, OwnedTensor* ret) {
    ret->reset(Tensor::empty(1, &numel, dtype, Device{kCuda, s.gpu}));
    return *ret != nullptr ? Status::kOk : Status::kFailed;
  }

  static void* data(const OwnedTensor& tensor) {
    return tensor != nullptr ? tensor->data() : nullptr;
  }

  OwnedTensor keys_[kBuffers];
  OwnedTensor places_[kBuffers];
  OwnedTensor words_;
  int64_t state_words_ = 0;
  int64_t total_words_ = 0;
};

Status sort_long(Sort& s) {
  const int64_t tiles = (s.lines.length + s.tile() - 1) / s.tile();
  RadixMemory memory;
  AOTIP_RETURN_IF_FAILED(memory.allocate(s, tiles));
  uint32_t* totals = memory.totals();
  const int64_t pieces = (s.lines.length + kRadixCountPiece - 1) / kRadixCountPiece;
  void* count[] = {&s.tensors, &totals, &s.lines};
  AOTIP_RETURN_IF_FAILED(
      launch(s, "radix_count", s.key_nbytes(), s.lines.count * pieces, kDigits, count));
  for (int32_t i = 0; i < s.nbytes(); ++i) {
    RadixPass pass{};
    pass.keys_in = memory.keys(i + 1);
    pass.places_in = memory.places(i + 1);
    pass.keys_out = memory.keys(i);
    pass.places_out = memory.places(i);
    pass.totals = totals;
    pass.states = memory.states();
    pass.ticket = memory.ticket(i);
    pass.tiles = tiles;
    pass.pass = i;
    void* arguments[] = {&s.tensors, &pass, &s.lines};
    AOTIP_RETURN_IF_FAILED(
        launch(s, "radix_pass", s.key_nbytes(), s.lines.count * tiles, kDigits, arguments));
  }
  return Status::kOk;
}

Status sort(Sort& s) {
  if (s.lines.length <= kSortWarpLength) {
    return sort_short(s);
  }
  return s.lines.length <= s.tile() ? sort_block(s) : sort_long(s);
}

/// How many parts each line is cut into, so that every multiprocessor has some.
int64_t parts_of(const Sort& s) {
  const Gpu* gpu = find_gpu(s.gpu);
  if (gpu == nullptr) {
    return 1;
  }
  const int64_t count = s.tensors.count;
  const int64_t wanted = kPartsAtOnce * gpu->multiprocessors / s.lines.count;
  const int64_t possible = s.lines.length / std::max(kPartLength, kPartOfCount * count);
  return std::max<int64_t>(std::min({wanted, possible, kTakenFromParts / count}), 1);
}

/// Whether selecting takes less time than sorting.
bool should_select(const Sort& s, bool ordered) {
  if (s.tensors.count == s.lines.length || s.lines.length <= kSortWarpLength ||
      (s.lines.count < kFewLines && s.lines.length / parts_of(s) > kFewLinesLength)) {
    return false;
  }
  return !ordered || (s.lines.length > kAlwaysSorted && s.tensors.count <= kSelectOrdered &&
                      s.tensors.count <= s.lines.length / 4);
}

Status select(Sort& s, uint32_t size, SelectParts parts) {
  const int64_t length = s.lines.length / parts.count;
  const unsigned int threads = length <= 4096 ? 256 : length <= 16384 ? 512 : 1024;
  void* arguments[] = {&s.tensors, &size, &s.lines, &parts};
  return launch(s, "select", s.key_nbytes(), s.lines.count * parts.count, threads, arguments);
}

/// Selects from the parts of each line, then from what was taken from them.
Status select_from_parts(Sort& s, uint32_t size, int64_t parts) {
  const int64_t taken = parts * s.tensors.count;
  const int64_t numel = s.lines.count * taken;
  const Device gpu{kCuda, s.gpu};
  const OwnedTensor values(Tensor::empty(1, &numel, s.dtype, gpu));
  const OwnedTensor places(Tensor::empty(1, &numel, kInt64, gpu));
  if (values == nullptr || places == nullptr) {
    return Status::kFailed;
  }
  Sort first = s;
  first.tensors.values = values->data();
  first.tensors.places = static_cast<int64_t*>(places->data());
  Sort second = s;
  second.tensors.src = values->data();
  second.lines.length = taken;
  first.lines.steps[0] = first.lines.steps[1] = second.lines.steps[2] = 1;
  int64_t start = taken;
  for (int32_t d = 0; d < s.lines.ndim; ++d) {
    first.lines.starts[0][d] = first.lines.starts[1][d] = second.lines.starts[2][d] = start;
    start *= s.lines.sizes[d];
  }
  AOTIP_RETURN_IF_FAILED(select(first, 0, {parts, nullptr}));
  return select(second, size, {1, first.tensors.places});
}

Status select(Sort& s, bool ordered) {
  const uint32_t size = ordered ? padded(s.tensors.count, 2) : 0;
  const int64_t parts = parts_of(s);
  return parts > 1 ? select_from_parts(s, size, parts) : select(s, size, {1, nullptr});
}

Status describe(const Tensor& self, Tensor& values, Tensor& places, int64_t dim, int64_t count,
                bool descending, Sort* ret) {
  const Tensor* const tensors[] = {&values, &places, &self};
  AOTIP_RETURN_IF_FAILED(describe_lines(tensors, 3, dim, kLinesMaxDims, &ret->lines));
  AOTIP_CHECK(ret->lines.length <= kMaxLength, "lines of %lld elements, at most %lld are sorted",
              static_cast<long long>(ret->lines.length), static_cast<long long>(kMaxLength));
  ret->gpu = self.device().index;
  ret->dtype = self.dtype();
  ret->tensors = {values.data(), static_cast<int64_t*>(places.data()), self.data(), count,
                  order_of(self.dtype(), descending)};
  return Status::kOk;
}

Status run(const Tensor& self, Tensor& values, Tensor& places, int64_t dim, int64_t count,
           bool descending, bool ordered) {
  Sort s{};
  AOTIP_RETURN_IF_FAILED(describe(self, values, places, dim, count, descending, &s));
  return should_select(s, ordered) ? select(s, ordered) : sort(s);
}

}  // namespace

Status Operators::sort_lines(const Tensor& self, Tensor& values, Tensor& places, int64_t dim,
                             int64_t count, bool descending) {
  return run(self, values, places, dim, count, descending, true);
}

Status Operators::select_lines(const Tensor& self, Tensor& values, Tensor& places, int64_t dim,
                               int64_t count, bool descending) {
  return run(self, values, places, dim, count, descending, false);
}

}  // namespace aoti_plugins::cuda
