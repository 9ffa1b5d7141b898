// How products of one row and of many are divided among blocks and launches. Needs no GPU and no
// stand-in.

#include <boost/test/unit_test.hpp>

#include "cuda/driver/device_kernels.h"
#include "cuda/ops/many_rows_plan.h"
#include "cuda/ops/streamed_row.h"

using namespace aoti_plugins;
using namespace aoti_plugins::cuda;

namespace {

SmallWeightProduct product_of(int32_t m, int32_t n, int32_t k) {
  SmallWeightProduct product{};
  product.m = m;
  product.n = n;
  product.k = k;
  product.group_shift = 7;
  return product;
}

int64_t tiles_of(const ManyRowsLaunch& launch) {
  return launch.blocks / launch.shape.splits / launch.shape.x_tiles;
}

/// Rows of x and places along k are all there, once.
void check_launch(const ManyRowsLaunch& launch, const SmallWeightProduct& product) {
  const ManyRowsShape& shape = launch.shape;
  const int64_t columns = launch.tile.columns;
  BOOST_TEST(shape.x_tiles * columns >= product.m);
  BOOST_TEST((shape.x_tiles - 1) * columns < product.m);
  const int64_t places = (product.k + kPlaceDepth - 1) / kPlaceDepth;
  BOOST_TEST(shape.splits * shape.k_tiles + shape.more_k_tiles == places);
  BOOST_TEST(shape.more_k_tiles < shape.splits);
  BOOST_TEST(shape.k_tiles >= 1);
  BOOST_TEST(shape.splits * shape.own_eights * 8 >= columns);
  const int32_t sums_nbytes = shape.splits == 1 ? 0 : launch.tile.sums_nbytes();
  BOOST_TEST(sums_nbytes + launch.tile.rounded_nbytes(shape.splits) <= launch.tile.memory_nbytes());
  BOOST_TEST(launch.blocks == tiles_of(launch) * shape.splits * shape.x_tiles);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_many_rows_plan)

BOOST_AUTO_TEST_CASE(each_tile_has_one_block_for_a_part_of_x_and_k) {
  for (const int64_t bits : {4, 8}) {
    for (const int32_t multiprocessors : {1, 4, 114, 132}) {
      for (const int32_t m : {17, 64, 65, 200, 512, 2048}) {
        for (const int32_t n : {8, 2048, 2056, 16384, 28672}) {
          for (const int32_t k : {8, 136, 2048, 14336}) {
            for (const bool has_clusters : {false, true}) {
              BOOST_TEST_INFO_SCOPE(bits << " bits, [" << m << ", " << k << "] x " << n << ", "
                                         << multiprocessors << " multiprocessors");
              const SmallWeightProduct product = product_of(m, n, k);
              const ManyRowsPlan plan =
                  plan_many_rows(product, bits, multiprocessors, has_clusters);
              check_launch(plan.first, product);
              BOOST_TEST(plan.first.shape.first_tile == 0);
              int64_t tiles = tiles_of(plan.first);
              if (plan.second.blocks > 0) {
                check_launch(plan.second, product);
                BOOST_TEST(plan.second.shape.first_tile == tiles);
                tiles += tiles_of(plan.second);
              }
              BOOST_TEST(tiles == (n + kManyRowsOfWeight - 1) / kManyRowsOfWeight);
              BOOST_TEST((has_clusters || plan.first.shape.splits == 1));
            }
          }
        }
      }
    }
  }
}

// Of an H100's 132 multiprocessors: 448 blocks would leave most of them idle in the fourth round.
BOOST_AUTO_TEST_CASE(what_is_left_over_is_a_launch_of_smaller_blocks) {
  const SmallWeightProduct product = product_of(512, 28672, 4096);
  const ManyRowsPlan plan = plan_many_rows(product, 4, 132, true);
  BOOST_TEST(plan.first.blocks == 396);
  BOOST_TEST(plan.first.tile.columns == 256);
  BOOST_TEST(plan.second.blocks == 104);
  BOOST_TEST(plan.second.shape.splits == 2);
}

BOOST_AUTO_TEST_CASE(small_products_are_one_launch) {
  for (const int64_t bits : {4, 8}) {
    for (const auto& [n, k] :
         {std::pair<int32_t, int32_t>{2048, 2048}, {4096, 4096}, {2048, 8192}, {16384, 2048}}) {
      for (const int32_t m : {64, 512}) {
        BOOST_TEST(plan_many_rows(product_of(m, n, k), bits, 132, true).second.blocks == 0);
      }
    }
  }
}

// Groups of 32 and 64 have factors of their own within a place, a row without zeros has none.
BOOST_AUTO_TEST_CASE(says_where_factors_change) {
  SmallWeightProduct product = product_of(64, 128, 256);
  const auto parts = [&] { return plan_many_rows(product, 4, 132, true).first.shape.scaled_parts; };
  BOOST_TEST(parts() == 1);
  product.group_shift = 6;
  BOOST_TEST(parts() == 5);
  product.group_shift = 5;
  BOOST_TEST(parts() == 15);
  product.group_shift = kGroupOfRow;
  BOOST_TEST(parts() == 0);
  product.zero_kind = kAddedZero;
  BOOST_TEST(parts() == 1);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(cuda_streamed_shape)

namespace {

std::optional<StreamedShape> streamed(uint32_t kernels_arch, int64_t bits, int32_t n, int32_t k,
                                      int32_t shift = kGroupOfRow, int32_t zero_kind = kNoZero,
                                      int32_t scale_dtype = kBFloat16, int32_t gate = kNoGate) {
  Gpu gpu;
  gpu.major = 9;
  gpu.kernels_arch = kernels_arch;
  gpu.multiprocessors = 132;
  gpu.shared_memory_nbytes = 227 << 10;
  OneRowProduct product{};
  product.n = n;
  product.k = k;
  product.gate = gate;
  product.group_shift = bits == 4 && shift == kGroupOfRow ? 7 : shift;
  product.zero_kind = zero_kind;
  product.has_float_scale = scale_dtype == kFloat32 ? 1 : 0;
  product.has_half_scale = scale_dtype == kFloat16 ? 1 : 0;
  return streamed_shape(gpu, {bits, "bf16", 4, true}, product);
}

}  // namespace

// As parts of a token of Llama's two sizes, on an H200.
BOOST_AUTO_TEST_CASE(few_stages_are_on_their_way_before_the_row) {
  const auto shape_of = [](int64_t bits, int32_t n, int32_t k, int32_t gate = kNoGate) {
    const std::optional<StreamedShape> shape =
        streamed(90, bits, n, k, kGroupOfRow, kNoZero, kBFloat16, gate);
    BOOST_TEST_REQUIRE(shape.has_value());
    return *shape;
  };
  BOOST_TEST(shape_of(4, 16384, 2048, kSiluGate).stages == 8);
  BOOST_TEST(shape_of(4, 16384, 2048, kSiluGate).early == 2);
  BOOST_TEST(shape_of(4, 2048, 2048).early == 1);  // it has one stage
  BOOST_TEST(shape_of(4, 4096, 14336).early == 1);
  BOOST_TEST(shape_of(8, 16384, 2048, kSiluGate).early == 1);
}

// A gated product leaves room for small blocks of those in front of it and behind it, others have
// all.
BOOST_AUTO_TEST_CASE(rings_are_as_large_as_what_is_beside_them_lets_them_be) {
  const auto stages_of = [](int64_t bits, int32_t n, int32_t k, int32_t gate) {
    const std::optional<StreamedShape> shape =
        streamed(90, bits, n, k, kGroupOfRow, kNoZero, kBFloat16, gate);
    BOOST_TEST_REQUIRE(shape.has_value());
    return shape->stages;
  };
  BOOST_TEST(stages_of(4, 28672, 4096, kSiluGate) == 4);
  BOOST_TEST(stages_of(4, 4096, 14336, kNoGate) == 5);
  BOOST_TEST(stages_of(8, 16384, 2048, kSiluGate) == 5);
  BOOST_TEST(stages_of(8, 16384, 2048, kNoGate) == 6);
  BOOST_TEST(stages_of(8, 2048, 2048, kNoGate) == 1);  // it has no more
}

BOOST_AUTO_TEST_CASE(zeros_stream_where_they_are_added_and_float16) {
  const auto streams = [](int32_t shift, int32_t zero_kind, int32_t scale_dtype) {
    return streamed(90, 4, 2048, 2048, shift, zero_kind, scale_dtype).has_value();
  };
  BOOST_TEST(streams(5, kAddedZero, kFloat16));
  BOOST_TEST(!streams(6, kAddedZero, kFloat16));
  BOOST_TEST(!streams(5, kZeroPoint, kFloat16));
  BOOST_TEST(!streams(5, kNoZero, kFloat16));
  BOOST_TEST(!streams(5, kAddedZero, kBFloat16));
  BOOST_TEST(!streams(5, kAddedZero, kFloat32));
  BOOST_TEST(!streamed(90, 8, 2048, 2048, kGroupOfRow, kAddedZero, kFloat16).has_value());
  // A ring has fewer stages: a group has twice as many numbers.
  BOOST_TEST(streamed(90, 4, 16384, 2048, 5, kAddedZero, kFloat16, kSiluGate)->stages <
             streamed(90, 4, 16384, 2048, 7, kNoZero, kBFloat16, kSiluGate)->stages);
}

// What a GPU could do does not matter where its kernels are the PTX's: they would do nothing.
BOOST_AUTO_TEST_CASE(kernels_for_older_gpus_do_not_stream) {
  BOOST_TEST(arch_of_kernels(90) == 90U);
  BOOST_TEST(arch_of_kernels(89) == 80U);
  BOOST_TEST(arch_of_kernels(110) == 80U);
  BOOST_TEST(streamed(90, 4, 2048, 2048).has_value());
  BOOST_TEST(!streamed(80, 4, 2048, 2048).has_value());
  // Of groups of 64 the image has none for others.
  BOOST_TEST(streamed(90, 4, 2048, 2048, 6).has_value());
  BOOST_TEST(!streamed(100, 4, 2048, 2048, 6).has_value());
  BOOST_TEST(streamed(100, 4, 2048, 2048, 7).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
