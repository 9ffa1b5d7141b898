// Products with weights of 4 and 8 bits and what stands around them, over a stand-in for the
// driver that runs our kernels on the host; against sums in float64.

#include "cuda_around_products.h"
#include "cuda_packed_weight.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

AOTITorchError call(const Handle& x, const Weight& weight, const Form& form, const Around& around,
                    AtenTensorHandle* ret) {
  AtenTensorHandle handles[] = {weight.zero.get(), around.bias.get(), around.norm.get(),
                                around.residual.get()};
  AtenTensorHandle* given[4];
  for (size_t i = 0; i < 4; ++i) {
    given[i] = handles[i] != nullptr ? &handles[i] : nullptr;
  }
  return aoti_torch_cuda_fused_linear(x.get(), weight.codes.get(), weight.scale.get(), given[0],
                                      given[1], given[2], given[3], form.bits, form.group_size,
                                      form.zero_kind, kEpsilon, around.gate, ret);
}

AOTITorchError call(const Handle& x, const Weight& weight, const Form& form,
                    AtenTensorHandle* ret) {
  return call(x, weight, form, Around{}, ret);
}

void check_product(const Form& form, int64_t m, int64_t n, int64_t k, const Parts& parts = {},
                   bool has_factors = false) {
  BOOST_TEST_INFO_SCOPE(form.bits << " bits, groups of " << form.group_size << ", zeros "
                                  << form.zero_kind << ", [" << m << ", " << k << "] x " << n
                                  << ", norm " << parts.norm << ", gate " << parts.gate
                                  << ", residual " << parts.residual);
  const Weight weight =
      form.zero_kind > 2 ? float_weight_of(form, n, k, has_factors) : weight_of(form, n, k);
  const double worst = worst_error(weight.values, form.dtype, m, n, k, parts,
                                   [&](const Handle& x, const Around& around, auto* ret) {
                                     return call(x, weight, form, around, ret);
                                   });
  // For several rows what stands between kernels is rounded to 16 bits, and for one of floats that
  // no kernel takes with all of it; for many a weight as well; a norm's products are.
  const bool is_whole = form.zero_kind <= 2 || (form.zero_kind == 3 && k % 256 == 0);
  const bool is_rounded = m > 1 || parts.norm || !is_whole;
  BOOST_TEST(worst < (is_rounded ? 4e-3 : 1e-4));
}

/// As kernels/streamed_row.cu divides weights: rows of a chunk for each warp at most and longer
/// ones, whole pieces and parts of them; more pairs than stages, and than are kept; odd numbers of
/// tiles.
template <typename Check>
void for_streamed_sizes(const Check& check) {
  check(88, 2048, Parts{true, true, true});
  check(24, 2176, Parts{false, true});
  check(16, 4352, Parts{true, true, true, 1});
  check(40, 9216, Parts{false, false, true});
  check(4 * 16 * 33 + 8, 64, Parts{true, false, true});
  check(4 * 16 * 35, 128, Parts{true, true, false, 1});
}

using Codes = std::vector<uint32_t>;

/// A weight of floats which are all the same.
Weight constant_weight(const Form& form, int64_t n, int64_t k, uint32_t code, uint32_t scale) {
  Weight weight = float_weight_of(form, n, k, false);
  const Handle codes = make(sizes_of(weight.codes), kUInt8);
  const Handle scales = make(sizes_of(weight.scale), kUInt8);
  std::memset(data_of<uint8_t>(codes), static_cast<int>(form.bits == 4 ? code * 17 : code),
              static_cast<size_t>(unwrap(codes.get())->numel()));
  std::memset(data_of<uint8_t>(scales), static_cast<int>(scale),
              static_cast<size_t>(unwrap(scales.get())->numel()));
  weight.codes = to_gpu(codes);
  weight.scale = to_gpu(scales);
  return weight;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_fused_linear, CudaFixture)

BOOST_AUTO_TEST_CASE(multiplies_with_all_forms) {
  for (const int64_t bits : {4, 8}) {
    for (const int64_t group_size : {32, 64, 128, 256}) {
      for (const int64_t zero_kind : {0, 1, 2}) {
        const int32_t dtype = zero_kind == 1 ? kFloat16 : kBFloat16;
        const int32_t scale_dtype = group_size == 64 ? kFloat32 : dtype;
        check_product({bits, group_size, zero_kind, dtype, scale_dtype}, 1, 40, 256,
                      {zero_kind == 2});
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(multiplies_few_and_many_rows) {
  for (const int64_t bits : {4, 8}) {
    for (const int64_t m : {2, 8, 9, 16, 17}) {
      check_product({bits, 32, 1, kBFloat16, kBFloat16}, m, 24, 96, {true});
      check_product({bits, 200, 0, kFloat16, kFloat16}, m, 8, 200);
    }
    // More tiles than two for each multiprocessor, and more places along k than are fetched ahead.
    for (const int64_t group_size : {32, 64, 128}) {
      check_product({bits, group_size, 2, kBFloat16, kBFloat16}, 5, 72, 128);
      check_product({bits, group_size, 0, kBFloat16, kFloat32}, 8, 24, 128 * 8);
    }
  }
}

// As kernels/many_rows.cu divides them: ends of rows, of weights and of both; tiles of 64, 128 and
// 256 rows; k by clusters of blocks.
BOOST_AUTO_TEST_CASE(multiplies_many_rows_with_four_warps_tiles) {
  for (const int64_t bits : {4, 8}) {
    for (const int64_t group_size : {32, 64, 128, 256}) {
      for (const int64_t zero_kind : {0, 1, 2}) {
        check_product({bits, group_size, zero_kind, kBFloat16, kBFloat16}, 18, 136, 256, {true});
      }
    }
    check_product({bits, 72, 0, kFloat16, kFloat16}, 65, 8, 72);
    check_product({bits, 1032, 2, kBFloat16, kBFloat16}, 30, 264, 1032, {true});
    check_product({bits, 64, 0, kBFloat16, kBFloat16}, 130, 136, 320);
    check_product({bits, 136, 0, kBFloat16, kBFloat16}, 250, 264, 136);
    check_product({bits, 520, 0, kBFloat16, kBFloat16}, 20, 24, 520);
    check_product({bits, 776, 1, kBFloat16, kBFloat16}, 20, 24, 776);
  }
}

// Halves of a gate that end in the middle of a block, and k by clusters.
BOOST_AUTO_TEST_CASE(ends_many_rows_in_the_same_kernel) {
  for (const int64_t bits : {4, 8}) {
    const Form form{bits, 64, 0, kBFloat16, kBFloat16};
    check_product(form, 18, 136, 256, {true, true, true});
    check_product(form, 70, 136, 128, {false, false, true});
    for (const int64_t gate : {1, 2, 3}) {
      check_product(form, 17 + gate * 50, 272, 256, {gate == 1, gate != 2, gate == 3, gate});
      check_product(form, 20, 16, 512, {true, false, gate == 2, gate});
    }
    check_product({bits, 1536, 0, kBFloat16, kBFloat16}, 260, 48, 1536, {true, false, true, 1});
    check_product({bits, 64, 0, kFloat16, kFloat16}, 33, 144, 64, {true, false, true});
  }
}

// What many rows make of a power of two in front of the scales is exact: kernels that hold weights
// as large or small numbers on the way lose nothing.
BOOST_AUTO_TEST_CASE(many_rows_take_large_and_small_scales) {
  const auto times = [](const Handle& tensor, double factor) {
    const std::vector<double> old = numbers(tensor);
    const Handle wide = make(sizes_of(tensor), kFloat64);
    for (size_t i = 0; i < old.size(); ++i) {
      data_of<double>(wide)[i] = old[i] * factor;
    }
    const Handle narrow = make(sizes_of(tensor), kBFloat16);
    BOOST_TEST_REQUIRE(aoti_torch_copy_(narrow.get(), wide.get(), 0) == 0, reason());
    return to_gpu(narrow);
  };
  for (const int64_t bits : {4, 8}) {
    for (const int64_t group_size : {64, 256}) {
      const Form form{bits, group_size, 0, kBFloat16, kBFloat16};
      const Handle x = to_gpu(host_numbers({18, 256}, kBFloat16, 7));
      Weight weight = weight_of(form, 24, 256);
      const auto product = [&] {
        return numbers(one([&](auto* ret) { return call(x, weight, form, ret); }));
      };
      std::vector<double> expected = product();
      for (const double factor : {0x1p26, 0x1p-80}) {  // 2^26, then 2^-54
        weight.scale = times(weight.scale, factor);
        for (double& one : expected) {
          one *= factor;
        }
        BOOST_TEST(product() == expected, boost::test_tools::per_element());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(multiplies_many_rows_by_parts) {
  for (const int64_t bits : {4, 8}) {
    for (const int64_t zero_kind : {0, 1, 2}) {
      check_product({bits, 32, zero_kind, kBFloat16, kFloat32}, 17, 24, 96, {true});
      check_product({bits, 200, zero_kind, kFloat16, kFloat32}, 19, 8, 200);
    }
  }
}

BOOST_AUTO_TEST_CASE(chooses_by_gpu_and_scales, *boost::unit_test::label(kStandIn)) {
  const auto maps = [] { return fake().calls("cuTensorMapEncodeTiled"); };
  for (const int32_t scale_dtype : {kBFloat16, kFloat32, kFloat16}) {
    const auto before = maps();
    check_product({4, 32, 0, kBFloat16, scale_dtype}, 17, 24, 96);
    check_product({4, 32, 0, kBFloat16, scale_dtype}, 16, 24, 96);
    BOOST_TEST(maps() - before == (scale_dtype == kBFloat16 ? 1 : 0));
    // What is behind the product is a kernel of its own where there are parts, and has no memory.
    check_product({4, 32, 0, kBFloat16, scale_dtype}, 17, 32, 96, {false, false, true, 1});
    BOOST_TEST((fake().last_launch().shared_nbytes > 0) == (scale_dtype == kBFloat16));
  }
}

// Of four multiprocessors with 227 KiB of shared memory.
BOOST_AUTO_TEST_CASE(blocks_share_no_multiprocessor_while_others_idle,
                     *boost::unit_test::label(kStandIn)) {
  const auto launched = [](int64_t m, int64_t n, int64_t k) {
    check_product({4, 128, 0, kBFloat16, kBFloat16}, m, n, k);
    return fake().last_launch();
  };
  const unsigned int half = (227 << 10) / 2;
  BOOST_TEST(launched(17, 256, 128).blocks == 2);
  BOOST_TEST(fake().last_launch().shared_nbytes > half);
  BOOST_TEST(launched(17, 1024, 128).blocks == 8);
  BOOST_TEST(fake().last_launch().shared_nbytes < half);
  BOOST_TEST(launched(17, 128, 1536).cluster == 3);
  // One row: six stages of a block are much, and two small ones have room beside each other.
  BOOST_TEST(launched(1, 384, 2048).blocks == 4);
  BOOST_TEST(fake().last_launch().shared_nbytes > half);
  BOOST_TEST(launched(1, 64, 2048).shared_nbytes < half);
  // Few rows: half as many rows of the weight in a block.
  BOOST_TEST(launched(8, 64, 128).blocks == 4);
  BOOST_TEST(launched(8, 72, 128).blocks == 3);
}

BOOST_AUTO_TEST_CASE(multiplies_one_row_of_all_lengths) {
  for (const int64_t bits : {4, 8}) {
    // The blocks of a narrow weight, of a wide one, and of long rows; ends of rows and of weights.
    for (const auto& [n, k] :
         {std::pair<int64_t, int64_t>{8, 8}, {136, 72}, {1096, 128}, {8, 4160}}) {
      check_product({bits, k, 0, kBFloat16, kBFloat16}, 1, n, k);
    }
    check_product({bits, 72, 0, kFloat16, kFloat16}, 1, 40, 72);
  }
}

BOOST_AUTO_TEST_CASE(streams_weights_through_shared_memory) {
  for (const int64_t bits : {4, 8}) {
    const auto check = [bits](int64_t n, int64_t k, const Parts& parts) {
      for (const int64_t group_size : {32, 64, 128}) {
        if (k % group_size == 0 && (bits == 4 || group_size == 32)) {
          check_product({bits, bits == 4 ? group_size : k, 0, kBFloat16, kBFloat16}, 1, n, k,
                        parts);
        }
      }
    };
    for_streamed_sizes(check);
  }
}

// The same with zeros that are added, as weights of GGUF files have them.
BOOST_AUTO_TEST_CASE(streams_weights_with_zeros_through_shared_memory) {
  const auto check = [](int64_t n, int64_t k, const Parts& parts) {
    check_product({4, 32, 2, kBFloat16, kFloat16}, 1, n, k, parts);
  };
  for_streamed_sizes(check);
  check(24, 96, {});
}

/// Floats of 8 bits with a scale for each row, and with powers of two; E4M3 and E5M2. Of 4 bits
/// with E4M3, with and without factors of rows.
template <typename Check>
void for_floats(const Check& check) {
  for (const int64_t kind : {3, 4}) {
    for (const bool is_row : {true, false}) {
      check([=](int64_t m, int64_t n, int64_t k, const Parts& parts) {
        check_product({8, is_row ? k : 32, kind, kBFloat16, kBFloat16}, m, n, k, parts);
      });
    }
  }
  for (const bool has_factors : {true, false}) {
    check([=](int64_t m, int64_t n, int64_t k, const Parts& parts) {
      check_product({4, 16, 3, kBFloat16, kBFloat16}, m, n, k, parts, has_factors);
    });
  }
}

// Narrow weights and wide ones, k that ends in a tile, and more places along k than are fetched
// ahead.
BOOST_AUTO_TEST_CASE(multiplies_few_rows_with_floats) {
  for_floats([](const auto& check) {
    for (const int64_t m : {1, 2, 8, 9, 16}) {
      check(m, 24, 96, {true});
    }
    check(1, 48, 256, {true, true, true, 1});
    check(5, 72, 160, {false, true, true});
    check(3, 8, 128 * 40 + 32, {});
    check(4, 1096, 64, {true});
  });
}

BOOST_AUTO_TEST_CASE(multiplies_many_rows_with_floats) {
  for_floats([](const auto& check) {
    check(18, 136, 256, {true});
    check(65, 8, 96, {});
    check(30, 264, 1056, {true, true, true});
    check(130, 272, 320, {true, false, true, 1});
    check(250, 136, 160, {});
    check(20, 24, 544, {});
  });
}

// Scales of zero, and codes and scales that bfloat16 has no exponents for in the kernels' form.
BOOST_AUTO_TEST_CASE(floats_may_be_the_smallest_and_the_largest) {
  for (const auto& [m, k] : {std::pair<int64_t, int64_t>{1, 64}, {1, 256}, {18, 64}}) {
    for (const auto& [bits, kind] : {std::pair<int64_t, int64_t>{4, 3}, {8, 3}, {8, 4}}) {
      const Form form{bits, bits == 4 ? 16 : 32, kind, kBFloat16, kBFloat16};
      const int exponent = bits == 4 ? 2 : kind == 4 ? 5 : 4;
      const int fraction = static_cast<int>(bits) - 1 - exponent;
      const auto most = bits == 4 ? 7u : kind == 4 ? 123u : 126u;
      const Handle x = to_gpu(host_numbers({m, k}, kBFloat16));
      double sum = 0;
      const std::vector<double> elements = numbers(x);
      for (int64_t i = 0; i < k; ++i) {
        sum += elements[static_cast<size_t>(i)];
      }
      for (const uint32_t code : {1u, most}) {
        for (const uint32_t scale : bits == 4 ? Codes{0, 1, 126} : Codes{60, 127, 147}) {
          const Weight weight = constant_weight(form, 16, k, code, scale);
          const double all = bits == 4 ? number_of(scale, 4, 3) : std::ldexp(1.0, int(scale) - 127);
          const double expected = sum * number_of(code, exponent, fraction) * all;
          const Handle found = one([&](auto* ret) { return call(x, weight, form, ret); });
          BOOST_TEST(std::abs(numbers(found)[0] - expected) <= std::abs(expected) / 256);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(refuses_floats_that_do_not_go_together) {
  const Form form{8, 32, 3, kBFloat16, kBFloat16};
  const Weight weight = float_weight_of(form, 16, 64, false);
  const Handle x = to_gpu(host_numbers({1, 64}, kBFloat16));
  AtenTensorHandle raw = nullptr;
  const auto refused = [&](const Handle& input, const Form& other, const char* reason) {
    check_refused(call(input, weight, other, &raw), reason);
  };
  refused(to_gpu(host_numbers({1, 64}, kFloat16)), form, "x is float16, expected bfloat16 for");
  refused(to_gpu(host_numbers({1, 56}, kBFloat16)), form, "rows of 56 floats in groups of 32");
  refused(x, {8, 64, 3, 0, 0}, "scale is uint8, expected float32");
  refused(x, {8, 16, 3, 0, 0}, "rows of 64 floats in groups of 16, expected a multiple of 32 in");
  refused(x, {8, 32, 5, 0, 0}, "zeros of kind 5 do not go with the arguments");
  const Form narrow{4, 16, 4, kBFloat16, kBFloat16};
  check_refused(call(x, float_weight_of({4, 16, 3, 0, 0}, 16, 64, false), narrow, &raw),
                "weights of 4 bits are no E5M2");
  BOOST_TEST(raw == nullptr);
}

// One row, whose weight runs through shared memory where k is of whole chunks.
BOOST_AUTO_TEST_CASE(streams_floats_through_shared_memory) {
  for_floats([](const auto& check) {
    for_streamed_sizes([&](int64_t n, int64_t k, const Parts& parts) { check(1, n, k, parts); });
    check(1, 40, 256, {true, true});
    check(1, 4 * 16 * 33 + 8, 512, {false, false, true});
    check(1, 48, 2304, {true, true, true, 2});
    check(1, 24, 14336, {true, true, true});
  });
}

// Of any number of rows, on any kernel.
BOOST_AUTO_TEST_CASE(takes_scales_of_float16) {
  for (const int64_t bits : {4, 8}) {
    for (const int64_t zero_kind : {0, 1, 2}) {
      for (const int64_t m : {1, 2, 8, 16, 17}) {
        check_product({bits, 32, zero_kind, kBFloat16, kFloat16}, m, 24, 96, {true});
        check_product({bits, 64, zero_kind, kBFloat16, kFloat16}, m, 40, 256);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(says_what_is_no_number_times_floats) {
  const Handle x = host_numbers({1, 512}, kBFloat16);
  data_of<uint16_t>(x)[300] = 0x7fc0;
  for (const Form& form :
       {Form{8, 512, 3, 0, 0}, {8, 32, 3, 0, 0}, {8, 32, 4, 0, 0}, {4, 16, 3, 0, 0}}) {
    const Weight weight = float_weight_of(form, 16, 512, false);
    const Handle found = one([&](auto* ret) { return call(to_gpu(x), weight, form, ret); });
    for (const double value : numbers(found)) {
      BOOST_TEST(std::isnan(value));
    }
  }
}

BOOST_AUTO_TEST_CASE(says_what_is_no_number) {
  for (const int64_t bits : {4, 8}) {
    const Form form{bits, bits == 4 ? 32 : 512, 0, kBFloat16, kBFloat16};
    const Weight weight = weight_of(form, 16, 512);
    const Handle x = host_numbers({1, 512}, kBFloat16);
    data_of<uint16_t>(x)[300] = 0x7fc0;
    const Handle found = one([&](auto* ret) { return call(to_gpu(x), weight, form, ret); });
    for (const double value : numbers(found)) {
      BOOST_TEST(std::isnan(value));
    }
  }
}

BOOST_AUTO_TEST_CASE(computes_what_stands_around_products) {
  for (const int64_t bits : {4, 8}) {
    for (const int64_t m : {1, 3}) {
      const Form form{bits, 32, 0, kBFloat16, kBFloat16};
      check_product(form, m, 48, 256, {false, true});
      check_product(form, m, 48, 256, {true, true, true});
      for (const int64_t gate : {1, 2, 3}) {
        check_product(form, m, 48, 256, {gate == 1, gate != 2, gate == 3, gate});
      }
      check_product(form, m, 1104, 96, {false, true, true, 1});
    }
  }
}

BOOST_AUTO_TEST_CASE(takes_any_strides_and_no_rows) {
  const Form form{4, 32, 0, kBFloat16, kBFloat16};
  const Weight weight = weight_of(form, 16, 64);
  const Handle x = host_numbers({2, 3, 64}, kBFloat16);
  const Handle plain = one([&](auto* ret) { return call(to_gpu(x), weight, form, ret); });
  const Handle gaps =
      one([&](auto* ret) { return call(to_gpu(x, {64, 130, 1}), weight, form, ret); });
  BOOST_TEST(sizes_of(plain) == (Ints{2, 3, 16}), boost::test_tools::per_element());
  check_same(gaps, plain);
  const Handle none = host_numbers({0, 64}, kBFloat16);
  const Handle empty = one([&](auto* ret) { return call(to_gpu(none), weight, form, ret); });
  BOOST_TEST(sizes_of(empty) == (Ints{0, 16}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(refuses_what_does_not_go_together) {
  const Form form{4, 32, 0, kBFloat16, kBFloat16};
  const Weight weight = weight_of(form, 16, 64);
  const Handle x = to_gpu(host_numbers({1, 64}, kBFloat16));
  AtenTensorHandle raw = nullptr;
  const auto refused = [&](const Handle& input, const Form& other, const char* reason) {
    check_refused(call(input, weight, other, &raw), reason);
  };
  refused(to_gpu(host_numbers({1, 64}, kFloat32)), form, "x is float32, expected float16 or");
  refused(to_gpu(host_numbers({1, 60}, kBFloat16)), form, "rows of 60 elements, expected a mult");
  refused(to_gpu(host_numbers({1, 136}, kBFloat16)), form, "the weight is not [n / 8, 2, 512]");
  refused(host_numbers({1, 64}, kBFloat16), form, "x is on cpu, expected cuda");
  refused(x, {5, 32, 0, 0, 0}, "weights of 5 bits, expected 4 or 8");
  refused(x, {4, 48, 0, 0, 0}, "groups of 48 weights, expected k or a power of two");
  refused(x, {4, 64, 0, 0, 0}, "scale does not have the sizes [2, 1, 8]");
  refused(x, {4, 32, 1, 0, 0}, "zeros of kind 1 do not go with the arguments");
  const auto eight = [] { return to_gpu(host_numbers({8}, kBFloat16)); };
  check_refused(call(x, weight, form, {eight(), nullptr, nullptr, 0}, &raw),
                "the bias is not [16] of bfloat16");
  check_refused(call(x, weight, form, {nullptr, eight(), nullptr, 0}, &raw),
                "the norm is not [64] of bfloat16");
  check_refused(call(x, weight, form, {nullptr, nullptr, eight(), 0}, &raw),
                "the residual is not as the result");
  check_refused(call(x, weight, form, {nullptr, nullptr, nullptr, 4}, &raw),
                "no gate has number 4");
  check_refused(call(x, weight_of(form, 8, 64), form, {nullptr, nullptr, nullptr, 1}, &raw),
                "a gate of 8 columns, expected a multiple of 16");
  BOOST_TEST(raw == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
