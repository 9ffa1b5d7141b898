#include "cpu/math/packed_linear.h"

#include <cmath>
#include <cstring>
#include <memory>

#include "cpu/libraries/xnnpack.h"
#include "cpu/math/packed_product.h"
#include "cpu/math/readable_behind.h"
#include "cpu/math/scratch.h"
#include "cpu/memory/constant_memory.h"

namespace aoti_plugins::cpu {
namespace {

constexpr int32_t kKind = 1;
// A smaller weight is multiplied before a lock is taken.
constexpr int64_t kLeastWeights = 2048;

/// The constants of a product, and how they lie.
struct Weights {
  int64_t n;
  int64_t k;
  const float* kernel;
  bool is_transposed;  ///< [k, n] instead of [n, k]
  const float* bias;   ///< [n], or null
};

int create(const Xnnpack& library, const Weights& w, int64_t begin, int64_t count,
           XnnWeightsCache* cache, XnnOperator** ret) noexcept {
  const float* kernel = w.is_transposed ? w.kernel : w.kernel + begin * w.k;
  Scratch columns;
  if (w.is_transposed && count < w.n) {
    float* copy = columns.get<float>(w.k * count);
    if (copy == nullptr) {
      return ~kXnnSuccess;
    }
    for (int64_t i = 0; i < w.k; ++i) {
      std::memcpy(copy + i * count, w.kernel + i * w.n + begin, count * sizeof(float));
    }
    kernel = copy;
  }
  const ReadableBehind<float> weights(kernel, count * w.k);
  const ReadableBehind<float> bias(w.bias != nullptr ? w.bias + begin : nullptr, count);
  if (weights.data() == nullptr || (w.bias != nullptr && bias.data() == nullptr)) {
    return ~kXnnSuccess;
  }
  return library.create_fully_connected_nc_f32(
      w.k, count, w.k, w.n, weights.data(), bias.data(), -INFINITY, INFINITY,
      w.is_transposed ? kXnnTransposedWeights : 0, cache, ret);
}

/// The weights of a problem that this can do, if they are constants.
std::optional<Weights> weights_of(const GemmProblem<float>& p) noexcept {
  const bool plain = p.b_row == 1 && p.b_col == p.k;
  const bool is_transposed = p.b_col == 1 && p.b_row == p.n;
  const bool rows_are_dense = (p.m == 1 || p.a_row == p.k) && (p.k == 1 || p.a_col == 1) &&
                              (p.m == 1 || p.c_row == p.n) && (p.n == 1 || p.c_col == 1);
  const bool adds = p.s != nullptr && p.beta != 0.0F;
  const bool adds_bias = adds && p.beta == 1.0F && (p.s_row == 0 || p.m == 1) && p.s_col == 1;
  if (p.m == 0 || p.n * p.k < kLeastWeights || !(plain || is_transposed) || !rows_are_dense ||
      p.alpha != 1.0F || (adds && !adds_bias)) {
    return std::nullopt;
  }
  return Weights{p.n, p.k, p.b, !plain, adds ? p.s : nullptr};
}

}  // namespace

std::optional<Status> packed_linear(const GemmProblem<float>& p) noexcept {
  const std::optional<Weights> weights = weights_of(p);
  const Xnnpack* library = weights.has_value() ? xnnpack() : nullptr;
  if (library == nullptr) {
    return std::nullopt;
  }
  const DerivedKey key{kKind,
                       {{p.b, p.n * p.k * sizeof(float)}, {weights->bias, p.n * sizeof(float)}},
                       {p.n, p.k, weights->is_transposed}};
  const auto packed = derive(key, [&]() -> std::shared_ptr<Derived> {
    return std::make_shared<PackedProduct>(
        *library, p.n, p.k,
        [library, w = *weights](int64_t begin, int64_t count, XnnWeightsCache* cache,
                                XnnOperator** ret) {
          return create(*library, w, begin, count, cache, ret);
        });
  });
  if (packed == nullptr) {
    return std::nullopt;
  }
  const ReadableBehind<float> a(p.a, p.m * p.k);
  if (a.data() == nullptr) {
    return std::nullopt;
  }
  return static_cast<PackedProduct&>(*packed).run(
      p.m, [&](XnnOperator* op, int64_t row, int64_t count, int64_t column) {
        return library->reshape_fully_connected_nc_f32(op, count, nullptr) == kXnnSuccess &&
               library->setup_fully_connected_nc_f32(op, a.data() + row * p.k,
                                                     p.c + row * p.n + column) == kXnnSuccess &&
               library->run_operator(op, nullptr) == kXnnSuccess;
      });
}

}  // namespace aoti_plugins::cpu
