// Products with weights of 4 and 8 bits.

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/libraries/xnnpack.h"
#include "cpu/math/narrow_product.h"
#include "cpu/math/packed_product.h"
#include "cpu/math/readable_behind.h"
#include "cpu/math/scratch.h"
#include "cpu/memory/constant_memory.h"
#include "cpu/ops/dense.h"
#include "cpu/ops/float_product.h"
#include "cpu/ops/operators.h"
#include "slim/element.h"
#include "slim/half.h"

namespace aoti_plugins::cpu {
namespace {

constexpr int32_t kNumbersKind = 3;
constexpr int32_t kPackedKind = 4;
constexpr int32_t kMoved = 128;  // what makes a number of 8 bits one without a sign
constexpr uint8_t kMiddle = 8;   // the code of 4 bits that stands for 0

using ops::kAddedZero;
using ops::kZeroPoint;
using ops::SmallLinear;
using Sizes = ops::SmallLinearSizes;

/// Scales and zeros of a weight as the kernels take them.
struct Numbers final : Derived {
  std::vector<float> scale;
  std::vector<float> offset;
};

std::shared_ptr<Numbers> make_numbers(const SmallLinear& l) {
  OwnedTensor owners[2];
  const float* scale = as_dense<float>(*l.scale, kFloat32, &owners[0]);
  const float* zero = l.zero != nullptr ? as_dense<float>(*l.zero, kFloat32, &owners[1]) : nullptr;
  if (scale == nullptr || (l.zero != nullptr && zero == nullptr)) {
    return nullptr;
  }
  auto numbers = std::make_shared<Numbers>();
  const int64_t count = l.scale->numel();
  numbers->scale.assign(scale, scale + count);
  numbers->offset.resize(count);
  const float middle = l.bits == 4 ? kMiddle : 0;
  for (int64_t i = 0; i < count; ++i) {
    numbers->offset[i] = l.zero_kind == kZeroPoint   ? -zero[i] * scale[i]
                         : l.zero_kind == kAddedZero ? zero[i] - middle * scale[i]
                                                     : -middle * scale[i];
  }
  return numbers;
}

/// What names something that is derived from the weight, and from `other`, if any.
DerivedKey key_of(const SmallLinear& l, const Tensor* other, int32_t kind) {
  DerivedKey key{kind,
                 {{l.codes->data(), l.codes->nbytes()}, {l.scale->data(), l.scale->nbytes()}},
                 {l.bits, l.zero_kind, l.codes->size(0), l.codes->size(1), l.scale->size(1)}};
  if (other != nullptr) {
    key.sources[2] = {other->data(), other->nbytes()};
  }
  return key;
}

/// The codes of 4 bits as XNNPACK has them: a byte has two neighbours, the first in its lower bits.
void to_neighbours(const uint8_t* halves, int64_t rows, int64_t k, int64_t size, uint8_t* to) {
  for (int64_t i = 0; i < rows * k / size; ++i, halves += size / 2, to += size / 2) {
    for (int64_t j = 0; j < size / 2; ++j) {
      const int64_t first = 2 * j;
      const auto code = [&](int64_t place) -> uint8_t {
        return place < size / 2 ? halves[place] & 15 : halves[place - size / 2] >> 4;
      };
      to[j] = static_cast<uint8_t>(code(first) | code(first + 1) << 4);
    }
  }
}

/// Whether float16 holds numbers as closely as it holds any.
bool are_normal_halves(const std::vector<float>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float number) {
    return number == 0.0F || (std::fabs(number) >= 0x1p-14F && std::fabs(number) < 65000.0F);
  });
}

/// What XNNPACK's operators are made from.
struct Source {
  const void* codes;
  const float* bias;
  Sizes sizes;
  int64_t bits;
  bool unsigned_rows;  ///< whether rows are 128 more than the numbers that are given
  std::vector<float> scale;
};

int create(const Xnnpack& x, const Source& s, int64_t begin, int64_t count, XnnWeightsCache* cache,
           XnnOperator** ret) noexcept {
  const auto [m, n, k, groups] = s.sizes;
  const ReadableBehind<float> bias(s.bias != nullptr ? s.bias + begin : nullptr, count);
  const ReadableBehind<float> scale(s.scale.data() + begin * groups, count * groups);
  if (scale.data() == nullptr || (s.bias != nullptr && bias.data() == nullptr)) {
    return ~kXnnSuccess;
  }
  if (s.bits == 8) {
    const ReadableBehind<int8_t> codes(static_cast<const int8_t*>(s.codes) + begin * k, count * k);
    const auto make = s.unsigned_rows ? x.create_fully_connected_nc_qdu8_f32_qc8w
                                      : x.create_fully_connected_nc_qd8_f32_qc8w;
    return codes.data() == nullptr ? ~kXnnSuccess
                                   : make(k, count, k, n, scale.data(), codes.data(), bias.data(),
                                          -INFINITY, INFINITY, 0, cache, ret);
  }
  constexpr auto kExtra = static_cast<int64_t>(kXnnExtraNbytes);
  Scratch scratch;
  uint8_t* codes = scratch.get<uint8_t>(count * k / 2 + kExtra);
  if (codes == nullptr) {
    return ~kXnnSuccess;
  }
  to_neighbours(static_cast<const uint8_t*>(s.codes) + begin * k / 2, count, k, k / groups, codes);
  if (groups == 1) {
    const auto make = s.unsigned_rows ? x.create_fully_connected_nc_qdu8_f32_qc4w
                                      : x.create_fully_connected_nc_qd8_f32_qc4w;
    return make(k, count, k, n, kMiddle, scale.data(), codes, bias.data(), -INFINITY, INFINITY, 0,
                cache, ret);
  }
  Scratch halves;
  uint16_t* scales = halves.get<uint16_t>(count * groups + kExtra);
  if (scales == nullptr) {
    return ~kXnnSuccess;
  }
  std::transform(scale.data(), scale.data() + count * groups, scales, float_to_half);
  const auto make = s.unsigned_rows ? x.create_fully_connected_nc_qdu8_f32_qb4w_f16_scales
                                    : x.create_fully_connected_nc_qd8_f32_qb4w_f16_scales;
  return make(k, count, k, n, k / groups, kMiddle, scales, codes, bias.data(), -INFINITY, INFINITY,
              0, cache, ret);
}

/// Whether XNNPACK has kernels for rows without a sign on this processor. Where it has, they are
/// faster by half.
bool takes_unsigned_rows(const Xnnpack& x, Source s) {
  s.unsigned_rows = true;
  XnnOperator* op = nullptr;
  const bool is_made = create(x, s, 0, 1, nullptr, &op) == kXnnSuccess;
  if (is_made) {
    x.delete_operator(op);
  }
  return is_made;
}

bool run(const Xnnpack& x, const Source& s, XnnOperator* op, int64_t rows, const int8_t* input,
         const XnnQuantization* quantization, float* out) {
  const auto of = [&s](auto signed_rows, auto unsigned_rows) {
    return s.unsigned_rows ? unsigned_rows : signed_rows;
  };
  auto reshape =
      of(x.reshape_fully_connected_nc_qd8_f32_qb4w, x.reshape_fully_connected_nc_qdu8_f32_qb4w);
  auto setup =
      of(x.setup_fully_connected_nc_qd8_f32_qb4w, x.setup_fully_connected_nc_qdu8_f32_qb4w);
  if (s.bits == 8) {
    reshape =
        of(x.reshape_fully_connected_nc_qd8_f32_qc8w, x.reshape_fully_connected_nc_qdu8_f32_qc8w);
    setup = of(x.setup_fully_connected_nc_qd8_f32_qc8w, x.setup_fully_connected_nc_qdu8_f32_qc8w);
  } else if (s.sizes.groups == 1) {
    reshape =
        of(x.reshape_fully_connected_nc_qd8_f32_qc4w, x.reshape_fully_connected_nc_qdu8_f32_qc4w);
    setup = of(x.setup_fully_connected_nc_qd8_f32_qc4w, x.setup_fully_connected_nc_qdu8_f32_qc4w);
  }
  size_t nbytes = 0;
  if (reshape(op, rows, &nbytes, nullptr) != kXnnSuccess) {
    return false;
  }
  Scratch workspace;
  void* memory = nbytes > 0 ? workspace.get<char>(static_cast<int64_t>(nbytes)) : nullptr;
  return (nbytes == 0 || memory != nullptr) &&
         setup(op, input, out, memory, quantization) == kXnnSuccess &&
         x.run_operator(op, nullptr) == kXnnSuccess;
}

/// A packed weight, with what its operators were made from.
struct PackedSmall final : Derived {
  Source source;
  std::unique_ptr<PackedProduct> product;
};

std::shared_ptr<PackedSmall> pack(const Xnnpack& library, const SmallLinear& l,
                                  const Sizes& sizes) {
  auto numbers = make_numbers(l);
  if (numbers == nullptr ||
      (l.bits == 4 && sizes.groups > 1 && !are_normal_halves(numbers->scale))) {
    return nullptr;
  }
  auto packed = std::make_shared<PackedSmall>();
  packed->source = {l.codes->data(), l.bias != nullptr ? l.bias->data_as<float>() : nullptr,
                    sizes,           l.bits,
                    false,           std::move(numbers->scale)};
  packed->source.unsigned_rows = takes_unsigned_rows(library, packed->source);
  const Source& source = packed->source;
  packed->product = std::make_unique<PackedProduct>(
      library, sizes.n, sizes.k,
      [&library, &source](int64_t begin, int64_t count, XnnWeightsCache* cache, XnnOperator** ret) {
        return create(library, source, begin, count, cache, ret);
      });
  return packed;
}

/// Rows of 8-bit numbers, by XNNPACK; nothing where it does not do that.
std::optional<Status> multiply_packed(const SmallLinear& l, const Sizes& s, const int8_t* x,
                                      const float* row_scale, const int8_t* row_zero, float* out) {
  const bool is_plain_bias =
      l.bias == nullptr || (l.bias->dtype() == kFloat32 && l.bias->is_contiguous());
  if (l.zero != nullptr || (l.bits == 8 && s.groups > 1) || !is_plain_bias) {
    return std::nullopt;
  }
  const Xnnpack* library = xnnpack();
  if (library == nullptr) {
    return std::nullopt;
  }
  const auto found = derive(key_of(l, l.bias, kPackedKind),
                            [&]() -> std::shared_ptr<Derived> { return pack(*library, l, s); });
  constexpr int64_t kExtra = 15;  // XNNPACK may read as many numbers behind the last
  Scratch scratch[2];
  auto* rows = scratch[0].get<XnnQuantization>(s.m + kExtra);
  if (found == nullptr || rows == nullptr) {
    return std::nullopt;
  }
  auto& packed = static_cast<PackedSmall&>(*found);
  const bool moved = packed.source.unsigned_rows;
  for (int64_t i = 0; i < s.m + kExtra; ++i) {
    const int64_t row = std::min(i, s.m - 1);
    rows[i] = {(row_zero != nullptr ? row_zero[row] : 0) + (moved ? kMoved : 0), row_scale[row]};
  }
  int8_t* copy = nullptr;
  if (moved) {
    copy = scratch[1].get<int8_t>(s.m * s.k + static_cast<int64_t>(kXnnExtraNbytes));
    if (copy == nullptr) {
      return std::nullopt;
    }
    std::transform(x, x + s.m * s.k, copy,
                   [](int8_t number) { return static_cast<int8_t>(number ^ -kMoved); });
  }
  const ReadableBehind<int8_t> input(moved ? nullptr : x, s.m * s.k);
  const int8_t* numbers = moved ? copy : input.data();
  if (numbers == nullptr) {
    return std::nullopt;
  }
  return packed.product->run(s.m, [&](XnnOperator* op, int64_t row, int64_t count, int64_t column) {
    return run(*library, packed.source, op, count, numbers + row * s.k, rows + row,
               out + row * s.n + column);
  });
}

/// Rows of floats, or of 8-bit numbers that became floats.
Status multiply_floats(const SmallLinear& l, const Sizes& s, const float* x, float* out) {
  auto found = derive(key_of(l, l.zero, kNumbersKind),
                      [&]() -> std::shared_ptr<Derived> { return make_numbers(l); });
  if (found == nullptr) {
    found = make_numbers(l);  // of a weight that may change
  }
  AOTIP_CHECK(found != nullptr, "out of memory: the scales of a weight");
  const auto& numbers = static_cast<const Numbers&>(*found);
  NarrowWeight weight;
  weight.form = l.bits == 4 ? NarrowForm::kInt4 : NarrowForm::kInt8;
  weight.n = s.n;
  weight.k = s.k;
  weight.data = l.codes->data();
  weight.groups = s.groups;
  weight.scale = numbers.scale.data();
  weight.offset = numbers.offset.data();
  AOTIP_RETURN_IF_FAILED(narrow_product(weight, s.m, x, out));
  return add_bias(l.bias, s.m, s.n, out);
}

Status multiply_codes(const SmallLinear& l, const Sizes& s, float* out) {
  OwnedTensor owners[3];
  const auto* x = as_dense<int8_t>(*l.x, kInt8, &owners[0]);
  const auto* scale = as_dense<float>(*l.row_scale, kFloat32, &owners[1]);
  const auto* zero =
      l.row_zero != nullptr ? as_dense<int8_t>(*l.row_zero, kInt8, &owners[2]) : nullptr;
  AOTIP_CHECK(x != nullptr && scale != nullptr && (l.row_zero == nullptr || zero != nullptr),
              "out of memory: the rows of a product");
  if (const std::optional<Status> packed = multiply_packed(l, s, x, scale, zero, out)) {
    return *packed;
  }
  Scratch scratch;
  float* floats = scratch.get<float>(s.m * s.k);
  AOTIP_CHECK(floats != nullptr, "out of memory: the rows of a product as float32");
  for (int64_t i = 0; i < s.m; ++i) {
    const int32_t middle = zero != nullptr ? zero[i] : 0;
    for (int64_t j = 0; j < s.k; ++j) {
      floats[i * s.k + j] = static_cast<float>(x[i * s.k + j] - middle) * scale[i];
    }
  }
  return multiply_floats(l, s, floats, out);
}

}  // namespace

Status Operators::small_linear(const SmallLinear& linear, AtenTensorHandle* ret) {
  Sizes s{};
  AOTIP_RETURN_IF_FAILED(ops::check_small_linear(linear, &s));
  const Tensor& x = *linear.x;
  const int32_t dtype = x.dtype() == kInt8 ? static_cast<int32_t>(kFloat32) : x.dtype();
  return make_float_product(x, s.n, dtype, ret, [&](float* out) {
    if (x.dtype() == kInt8) {
      return multiply_codes(linear, s, out);
    }
    OwnedTensor owner;
    const float* rows = as_dense<float>(x, kFloat32, &owner);
    AOTIP_CHECK(rows != nullptr, "out of memory: x as float32");
    return multiply_floats(linear, s, rows, out);
  });
}

}  // namespace aoti_plugins::cpu
