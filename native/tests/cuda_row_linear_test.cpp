// Products with weights of 16 bits and what stands around them, over a stand-in for the driver that
// runs our kernels on the host; against sums in float64.

#include <cstring>

#include "cuda_around_products.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

/// Weights whose columns are one behind the other.
using Weights = std::vector<Handle>;

AOTITorchError call(const Handle& x, const Weights& weights, const Around& around,
                    AtenTensorHandle* ret) {
  AtenTensorHandle handles[] = {weights.size() > 1 ? weights[1].get() : nullptr,
                                weights.size() > 2 ? weights[2].get() : nullptr, around.bias.get(),
                                around.norm.get(), around.residual.get()};
  AtenTensorHandle* given[5];
  for (size_t i = 0; i < 5; ++i) {
    given[i] = handles[i] != nullptr ? &handles[i] : nullptr;
  }
  return aoti_torch_cuda_row_linear(x.get(), weights[0].get(), given[0], given[1], given[2],
                                    given[3], given[4], kEpsilon, around.gate, ret);
}

/// One weight.
Weights whole(Handle weight) {
  Weights weights;
  weights.push_back(std::move(weight));
  return weights;
}

/// Rows of a weight on the host, from `first` on.
Handle rows_of(const Handle& weight, int64_t first, int64_t count) {
  const int64_t k = unwrap(weight.get())->size(1);
  Handle part = make({count, k}, unwrap(weight.get())->dtype());
  std::memcpy(data_of<uint16_t>(part), data_of<uint16_t>(weight) + first * k,
              static_cast<size_t>(count * k) * 2);
  return part;
}

/// From one weight, and from two and three of any sizes.
void check_product(int32_t dtype, int64_t m, int64_t n, int64_t k, const Parts& parts = {}) {
  const Handle host = host_numbers({n, k}, dtype);
  for (const Ints& sizes : {Ints{n}, Ints{n / 2, n - n / 2}, Ints{1, n / 3, n - n / 3 - 1}}) {
    BOOST_TEST_INFO_SCOPE("[" << m << ", " << k << "] x " << n << ", norm " << parts.norm
                              << ", gate " << parts.gate << ", residual " << parts.residual
                              << ", weights " << sizes.size());
    Weights weights;
    int64_t first = 0;
    for (const int64_t size : sizes) {
      weights.push_back(to_gpu(rows_of(host, first, size)));
      first += size;
    }
    const double worst = worst_error(numbers(host), dtype, m, n, k, parts,
                                     [&](const Handle& x, const Around& around, auto* ret) {
                                       return call(x, weights, around, ret);
                                     });
    // A norm's products are rounded to 16 bits, and what stands between kernels for several rows.
    BOOST_TEST(worst < (m > 1 || parts.norm ? 4e-3 : 1e-4));
  }
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_row_linear, CudaFixture)

// As kernels/streamed_halves.cu divides them: rows of less than a piece, of whole pieces and of
// parts of them, of one more than a warp loads at once; more pairs than blocks, than stages, and
// than are kept; ends of weights.
BOOST_AUTO_TEST_CASE(streams_weights_through_shared_memory) {
  for (const int32_t dtype : {kBFloat16, kFloat16}) {
    const bool has_norm = dtype == kBFloat16;
    check_product(dtype, 1, 88, 2048, {true, has_norm, true});
    check_product(dtype, 1, 8, 32);
    check_product(dtype, 1, 23, 1056, {true, has_norm});
    check_product(dtype, 1, 40, 9216, {false, false, true});
    check_product(dtype, 1, 32, 2176,
                  {false, has_norm, true, has_norm ? 1 : 0});  // 65504 is exceeded
    check_product(dtype, 1, 16, 96, {true, false, true, 2});
    check_product(dtype, 1, 4 * 16 * 33 + 8, 64, {true, false, true});
    check_product(dtype, 1, 4 * 16 * 35, 128, {false, has_norm, false, 3});
  }
}

BOOST_AUTO_TEST_CASE(leaves_the_rest_to_cublaslt) {
  for (const int64_t m : {1, 3}) {
    const int64_t k = m == 1 ? 40 : 64;  // no kernel of ours has rows of 40
    check_product(kBFloat16, m, 48, k, {true});
    check_product(kBFloat16, m, 48, k, {true, true, true});
    check_product(kFloat16, m, 48, k, {false, true, true});
    for (const int64_t gate : {1, 2, 3}) {
      check_product(kBFloat16, m, 48, k, {gate == 1, gate != 2, gate == 3, gate});
    }
  }
}

BOOST_AUTO_TEST_CASE(says_what_is_no_number) {
  const Weights weight = whole(to_gpu(host_numbers({16, 512}, kBFloat16)));
  const Handle x = host_numbers({1, 512}, kBFloat16);
  data_of<uint16_t>(x)[300] = 0x7fc0;
  const Handle found = one([&](auto* ret) { return call(to_gpu(x), weight, {}, ret); });
  for (const double value : numbers(found)) {
    BOOST_TEST(std::isnan(value));
  }
}

BOOST_AUTO_TEST_CASE(takes_any_strides_and_no_rows) {
  const Weights weight = whole(to_gpu(host_numbers({16, 64}, kBFloat16)));
  const Handle x = host_numbers({2, 3, 64}, kBFloat16);
  const Handle plain = one([&](auto* ret) { return call(to_gpu(x), weight, {}, ret); });
  const Handle gaps =
      one([&](auto* ret) { return call(to_gpu(x, {64, 130, 1}), weight, {}, ret); });
  BOOST_TEST(sizes_of(plain) == (Ints{2, 3, 16}), boost::test_tools::per_element());
  check_same(gaps, plain);
  const Handle none = to_gpu(host_numbers({0, 64}, kBFloat16));
  const Handle empty = one([&](auto* ret) { return call(none, weight, {}, ret); });
  BOOST_TEST(sizes_of(empty) == (Ints{0, 16}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(refuses_what_does_not_go_together) {
  const auto gpu = [](const Ints& sizes, int32_t dtype = kBFloat16) {
    return to_gpu(host_numbers(sizes, dtype));
  };
  const Handle x = gpu({1, 64});
  const Weights weight = whole(gpu({16, 64}));
  AtenTensorHandle raw = nullptr;
  const auto refused = [&](const Handle& left, const Weights& right, const Around& around,
                           const char* reason) {
    check_refused(call(left, right, around, &raw), reason);
  };
  refused(gpu({1, 64}, kFloat32), weight, {}, "x is float32, expected float16 or");
  refused(gpu({1, 60}), weight, {}, "rows of 60 elements, expected a multiple of 8");
  refused(gpu({1, 72}), weight, {}, "the weight is not [n, 72] of bfloat16 without gaps");
  refused(gpu({1, 64}, kFloat16), weight, {}, "the weight is not [n, 64] of float16");
  refused(host_numbers({1, 64}, kBFloat16), weight, {}, "x is on cpu, expected cuda");
  refused(x, whole(host_numbers({16, 64}, kBFloat16)), {}, "weight");
  Weights wrong = whole(gpu({16, 64}));
  wrong.push_back(gpu({8, 32}));
  refused(x, wrong, {}, "the second weight is not [n, 64] of bfloat16");
  wrong[1] = nullptr;
  wrong.push_back(gpu({8, 64}));
  refused(x, wrong, {}, "a third weight without a second one");
  refused(x, weight, {gpu({8}), nullptr, nullptr, 0}, "the bias is not [16] of bfloat16");
  refused(x, weight, {nullptr, gpu({8}), nullptr, 0}, "the norm is not [64] of bfloat16");
  refused(x, weight, {nullptr, nullptr, gpu({8}), 0}, "the residual is not as the result");
  refused(x, weight, {nullptr, nullptr, nullptr, 4}, "no gate has number 4");
  refused(x, whole(gpu({8, 64})), {nullptr, nullptr, nullptr, 1}, "a gate of 8 columns");
  BOOST_TEST(raw == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
