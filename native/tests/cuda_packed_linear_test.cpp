// Products with weights in the forms of PyTorch's tiles and of ExecuTorch's own CUDA programs, over
// a stand-in for the driver that runs our kernels on the host; against sums in float64.

#include <array>

#include "cuda_numbers.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

using Numbers = std::vector<double>;

/// The same numbers each time, evenly between -1 and 1.
class Random {
 public:
  explicit Random(uint32_t seed) : state_(seed * 2654435761u + 1) {}

  double next() { return static_cast<double>(bits() % 20001) / 10000 - 1; }
  int64_t below(int64_t end) { return bits() % end; }

 private:
  int64_t bits() {
    state_ = state_ * 1664525u + 1013904223u;
    return state_ >> 8;
  }

  uint32_t state_;
};

/// A tensor of a dtype on the host, rounded, and what its elements are then.
struct Rounded {
  Handle tensor;
  Numbers values;
};

Rounded rounded(const Ints& sizes, int32_t dtype, const Numbers& values) {
  Handle wide = make(sizes, kFloat64);
  std::copy(values.begin(), values.end(), data_of<double>(wide));
  Handle tensor = make(sizes, dtype);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(tensor.get(), wide.get(), 0) == 0, reason());
  Numbers found = numbers(tensor);
  return {std::move(tensor), std::move(found)};
}

Numbers random_numbers(int64_t count, uint32_t seed, double from, double to) {
  Random random(seed);
  Numbers values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back((from + to) / 2 + random.next() * (to - from) / 2);
  }
  return values;
}

Numbers random_integers(int64_t count, uint32_t seed, int64_t from, int64_t end) {
  Random random(seed);
  Numbers values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(from + random.below(end - from)));
  }
  return values;
}

size_t place(int64_t row, int64_t columns, int64_t column) {
  return static_cast<size_t>(row * columns + column);
}

enum class Form { kInt4, kInt5, kInt6, kInt8, kTiles };

constexpr std::array<Form, 5> kForms = {Form::kInt4, Form::kInt5, Form::kInt6, Form::kInt8,
                                        Form::kTiles};

/// A weight [n, k] as the shims take it, in their order, and what its elements stand for.
struct Weight {
  Form form;
  int64_t group_size;
  std::vector<Handle> tensors;
  Numbers values;
};

/// Bytes of zero on the host, to be filled with codes.
Handle no_codes(const Ints& sizes, int32_t dtype) {
  Handle codes = make(sizes, dtype);
  std::fill_n(data_of<uint8_t>(codes), unwrap(codes.get())->nbytes(), uint8_t{0});
  return codes;
}

void set_bits(const Handle& to, size_t byte, int64_t shift, int64_t bits) {
  data_of<uint8_t>(to)[byte] |= static_cast<uint8_t>(bits << shift);
}

/// The lowest four bits: an even column is the lower half of a byte.
Handle low_bits(const Numbers& codes, int64_t n, int64_t k) {
  Handle low = no_codes({n, k / 2}, kUInt8);
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < k; ++i) {
      const auto code = static_cast<int64_t>(codes[place(row, k, i)]);
      set_bits(low, place(row, k / 2, i / 2), i % 2 * 4, code & 15);
    }
  }
  return low;
}

/// Of 5 bits: a byte has the highest bits of eight columns, the even ones first.
Handle fifth_bits(const Numbers& codes, int64_t n, int64_t k) {
  Handle high = no_codes({n, k / 8}, kUInt8);
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < k; ++i) {
      const auto code = static_cast<int64_t>(codes[place(row, k, i)]);
      set_bits(high, place(row, k / 8, i / 8), i % 8 / 2 + i % 2 * 4, code >> 4);
    }
  }
  return high;
}

/// Of 6 bits: of 32 columns four bytes have the highest bits of the even ones, four of the odd
/// ones.
Handle sixth_bits(const Numbers& codes, int64_t n, int64_t k) {
  Handle high = no_codes({n, k / 4}, kUInt8);
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < k; ++i) {
      const auto code = static_cast<int64_t>(codes[place(row, k, i)]);
      const int64_t byte = i / 32 * 8 + i % 2 * 4 + i % 32 / 8;
      set_bits(high, place(row, k / 4, byte), i % 8 / 2 * 2, code >> 4);
    }
  }
  return high;
}

/// As PyTorch packs for tensor cores: the words of a lane are of one row and 32 columns each.
Handle tiles(const Numbers& codes, int64_t n, int64_t k) {
  Handle packed = no_codes({n / 8, k / 128, 32, 4}, kInt32);
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < k; ++i) {
      const auto code = static_cast<int64_t>(codes[place(row, k, i)]);
      const int64_t tile = row / 8 * (k / 128) + i / 128;
      const int64_t word = (tile * 32 + row % 8 * 4 + i % 8 / 2) * 4 + i % 128 / 32;
      const int64_t nibble = i % 2 * 4 + i % 32 / 8;
      set_bits(packed, static_cast<size_t>(word * 4 + nibble / 2), nibble % 2 * 4, code);
    }
  }
  return packed;
}

/// Codes of 8 bits with a step for every 256 weights, and their products.
struct Stepped {
  Handle codes;
  Handle steps;
  Numbers values;  ///< [n, groups]
};

Stepped stepped(int64_t n, int64_t k, int64_t group_size, int32_t dtype, uint32_t seed,
                double step) {
  const int64_t groups = k / group_size;
  const int64_t least = dtype == kInt8 ? -128 : 0;
  Rounded codes = rounded({n, groups}, dtype,
                          random_integers(n * groups, seed, least, dtype == kInt8 ? 128 : 256));
  Rounded steps =
      rounded({n, k / 256}, kFloat16, random_numbers(n * (k / 256), seed + 1, step / 2, step));
  Numbers values;
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      values.push_back(codes.values[place(row, groups, group)] *
                       steps.values[place(row, k / 256, group * group_size / 256)]);
    }
  }
  return {to_gpu(codes.tensor), to_gpu(steps.tensor), std::move(values)};
}

/// Values of a weight of codes, scales and zeros for each group.
Numbers values_of(const Numbers& codes, const Numbers& scales, const Numbers& zeros, int64_t n,
                  int64_t k, int64_t group_size) {
  Numbers values;
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < k; ++i) {
      const size_t group = place(row, k / group_size, i / group_size);
      values.push_back((codes[place(row, k, i)] - zeros[group]) * scales[group]);
    }
  }
  return values;
}

Weight with_zeros(Form form, int64_t n, int64_t k, int64_t group_size) {
  const Numbers codes = random_integers(n * k, 3, 0, form == Form::kInt4 ? 16 : 32);
  Stepped scale = stepped(n, k, group_size, kUInt8, 5, 1e-4);
  Stepped zero = stepped(n, k, group_size, kUInt8, 7, form == Form::kInt4 ? 0.06 : 0.12);
  Weight weight{form, group_size, {}, {}};
  weight.values = values_of(codes, scale.values, zero.values, n, k, group_size);
  weight.tensors.push_back(to_gpu(low_bits(codes, n, k)));
  if (form == Form::kInt5) {
    weight.tensors.push_back(to_gpu(fifth_bits(codes, n, k)));
  }
  for (Handle* tensor : {&scale.codes, &scale.steps, &zero.codes, &zero.steps}) {
    weight.tensors.push_back(std::move(*tensor));
  }
  return weight;
}

Weight int6_weight(int64_t n, int64_t k, int64_t group_size) {
  const Numbers codes = random_integers(n * k, 3, 0, 64);
  Stepped scale = stepped(n, k, group_size, kInt8, 5, 1e-4);
  const Numbers middles(scale.values.size(), 32.0);
  Weight weight{Form::kInt6, group_size, {}, {}};
  weight.values = values_of(codes, scale.values, middles, n, k, group_size);
  weight.tensors.push_back(to_gpu(low_bits(codes, n, k)));
  weight.tensors.push_back(to_gpu(sixth_bits(codes, n, k)));
  weight.tensors.push_back(std::move(scale.codes));
  weight.tensors.push_back(std::move(scale.steps));
  return weight;
}

Weight int8_weight(int64_t n, int64_t k, int64_t group_size) {
  const int64_t groups = k / group_size;
  const Rounded codes = rounded({n, k}, kInt8, random_integers(n * k, 3, -128, 128));
  const Rounded scale = rounded({n, groups}, kBFloat16, random_numbers(n * groups, 5, -0.01, 0.01));
  const Rounded zero = rounded({n, groups}, kInt8, random_integers(n * groups, 7, -128, 128));
  Weight weight{Form::kInt8, group_size, {}, {}};
  weight.values = values_of(codes.values, scale.values, zero.values, n, k, group_size);
  for (const Rounded* part : {&codes, &scale, &zero}) {
    weight.tensors.push_back(to_gpu(part->tensor));
  }
  return weight;
}

Weight tile_weight(int64_t n, int64_t k, int64_t group_size) {
  const int64_t groups = k / group_size;
  const Numbers codes = random_integers(n * k, 3, 0, 16);
  const Rounded both =
      rounded({groups, n, 2}, kBFloat16, random_numbers(groups * n * 2, 5, -0.1, 0.1));
  Weight weight{Form::kTiles, group_size, {}, {}};
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < k; ++i) {
      const size_t group = place(i / group_size, n, row) * 2;
      weight.values.push_back((codes[place(row, k, i)] - 8) * both.values[group] +
                              both.values[group + 1]);
    }
  }
  weight.tensors.push_back(to_gpu(tiles(codes, n, k)));
  weight.tensors.push_back(to_gpu(both.tensor));
  return weight;
}

Weight weight_of(Form form, int64_t n, int64_t k, int64_t group_size) {
  return form == Form::kTiles  ? tile_weight(n, k, group_size)
         : form == Form::kInt6 ? int6_weight(n, k, group_size)
         : form == Form::kInt8 ? int8_weight(n, k, group_size)
                               : with_zeros(form, n, k, group_size);
}

AOTITorchError call(const Handle& x, const Weight& weight, AtenTensorHandle* ret) {
  const auto at = [&](size_t i) { return weight.tensors[i].get(); };
  const int64_t g = weight.group_size;
  switch (weight.form) {
    case Form::kInt4:
      return aoti_torch_cuda_int4_plain_mm(x.get(), at(0), at(1), at(2), at(3), at(4), g, ret);
    case Form::kInt5:
      return aoti_torch_cuda_int5_plain_mm(x.get(), at(0), at(1), at(2), at(3), at(4), at(5), g,
                                           ret);
    case Form::kInt6:
      return aoti_torch_cuda_int6_plain_mm(x.get(), at(0), at(1), at(2), at(3), g, ret);
    case Form::kInt8:
      return aoti_torch_cuda_int8_plain_mm(x.get(), at(0), at(1), at(2), g, ret);
    default:
      return aoti_torch_cuda__weight_int4pack_mm(x.get(), at(0), g, at(1), ret);
  }
}

/// x [m, k] times the transpose of a weight [n, k].
Numbers product(const Numbers& x, const Numbers& weight, int64_t m, int64_t n, int64_t k) {
  Numbers sums;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        sum += x[place(row, k, i)] * weight[place(column, k, i)];
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

double distance(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return std::sqrt(sum);
}

/// Errors are at most 1.2 times those of a weight that was rounded to bfloat16.
void check_product(Form form, int64_t m, int64_t n, int64_t k, int64_t group_size) {
  BOOST_TEST_INFO_SCOPE("form " << static_cast<int>(form) << ", groups of " << group_size << ", ["
                                << m << ", " << k << "] x " << n);
  const Weight weight = weight_of(form, n, k, group_size);
  const Rounded x = rounded({m, k}, kBFloat16, random_numbers(m * k, 11, -2, 2));
  const Handle found = one([&](auto* ret) { return call(to_gpu(x.tensor), weight, ret); });
  BOOST_TEST_REQUIRE(sizes_of(found) == (Ints{m, n}), boost::test_tools::per_element());
  const Numbers exact = product(x.values, weight.values, m, n, k);
  const Numbers weight_of_16_bits = rounded({n, k}, kBFloat16, weight.values).values;
  const Numbers usual =
      rounded({m, n}, kBFloat16, product(x.values, weight_of_16_bits, m, n, k)).values;
  BOOST_TEST(distance(numbers(found), exact) <= 1.2 * distance(usual, exact));
}

/// The tensors of a weight, as a program has its constants: memory that is somebody else's.
Weight borrowed(const Weight& weight) {
  Weight borrowing{weight.form, weight.group_size, {}, {}};
  for (const Handle& tensor : weight.tensors) {
    const Tensor& t = *unwrap(tensor.get());
    AtenTensorHandle handle = nullptr;
    BOOST_TEST_REQUIRE(aoti_torch_create_tensor_from_blob(t.data(), t.ndim(), t.sizes(),
                                                          t.strides(), 0, t.dtype(), kCuda, 0,
                                                          &handle) == 0);
    borrowing.tensors.emplace_back(handle);
  }
  return borrowing;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_packed_linear, CudaFixture)

BOOST_AUTO_TEST_CASE(multiplies_with_all_forms_and_groups) {
  for (const Form form : kForms) {
    for (const int64_t group_size : {32, 64, 128, 256}) {
      check_product(form, 1, 40, 512, group_size);
    }
  }
  check_product(Form::kInt6, 1, 40, 512, 16);
  check_product(Form::kInt8, 1, 40, 512, 512);
}

BOOST_AUTO_TEST_CASE(multiplies_few_and_many_rows) {
  for (const Form form : kForms) {
    for (const int64_t m : {2, 3, 8, 17}) {
      check_product(form, m, 24, 256, form == Form::kInt6 ? 16 : 32);
    }
  }
}

BOOST_AUTO_TEST_CASE(multiplies_weights_of_any_size) {
  check_product(Form::kInt4, 1, 1, 256, 32);
  check_product(Form::kInt5, 5, 17, 256, 64);
  // More rows of the weight than blocks have at once; the rows of x in several parts.
  check_product(Form::kInt4, 1, 16 * 2 * 8 + 24, 256, 32);
  check_product(Form::kInt6, 1, 8, 8192 + 256, 16);
  check_product(Form::kInt8, 3, 8, 4096 + 512, 32);
  check_product(Form::kInt4, 13, 40, 4096 + 256, 64);
  // Rows that end anywhere.
  for (const int64_t k : {32, 96, 160, 384, 2208}) {
    check_product(Form::kInt8, 2, 20, k, 32);
    check_product(Form::kInt8, 1, 20, k, k);
    check_product(Form::kInt8, 17, 20, k, k);
  }
  check_product(Form::kInt8, 1, 20, 2240, 64);
  check_product(Form::kTiles, 17, 24, 1024, 32);  // a cluster of two blocks for each tile
  check_product(Form::kTiles, 1, 8, 128, 128);
  check_product(Form::kTiles, 1, 8, 22528, 256);
  for (const int64_t group_size : {32, 64, 128}) {
    check_product(Form::kTiles, 5, 40, 384, group_size);
    check_product(Form::kTiles, 16, 40, 384, group_size);
    check_product(Form::kTiles, 20, 40, 384, group_size);
  }
}

BOOST_AUTO_TEST_CASE(takes_any_strides_and_no_rows) {
  for (const Form form : kForms) {
    const Weight weight = weight_of(form, 16, 256, 32);
    const Handle x = host_numbers({3, 256}, kBFloat16);
    const Handle plain = one([&](auto* ret) { return call(to_gpu(x), weight, ret); });
    const Handle gaps = one([&](auto* ret) { return call(to_gpu(x, {600, 2}), weight, ret); });
    check_same(gaps, plain);
    const Handle none = host_numbers({0, 256}, kBFloat16);
    const Handle empty = one([&](auto* ret) { return call(to_gpu(none), weight, ret); });
    BOOST_TEST(sizes_of(empty) == (Ints{0, 16}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(multiplies_rows_in_any_dims_by_q6_k) {
  const Weight weight = weight_of(Form::kInt6, 16, 256, 16);
  const auto at = [&](size_t i) { return weight.tensors[i].get(); };
  const auto multiplied = [&](const Handle& x) {
    return one([&](auto* ret) {
      return aoti_torch_cuda_q6_k_linear(x.get(), at(0), at(1), at(2), at(3), ret);
    });
  };
  const Handle rows = host_numbers({6, 256}, kBFloat16);
  const Handle plain = one([&](auto* ret) { return call(to_gpu(rows), weight, ret); });
  const auto* elements = unwrap(rows.get())->data_as<uint16_t>();
  for (const Ints& sizes : {Ints{6, 256}, Ints{2, 3, 256}, Ints{1, 256}, Ints{256}}) {
    const Handle x = host_numbers(sizes, kBFloat16);
    std::copy_n(elements, numbers(x).size(), unwrap(x.get())->data_as<uint16_t>());
    const Handle found = multiplied(to_gpu(x));
    Ints expected = sizes;
    expected.back() = 16;
    BOOST_TEST_REQUIRE(sizes_of(found) == expected, boost::test_tools::per_element());
    const Numbers all = numbers(plain);
    const Numbers some = numbers(found);
    BOOST_TEST(some == Numbers(all.begin(), all.begin() + static_cast<int64_t>(some.size())));
  }
  AtenTensorHandle raw = nullptr;
  check_refused(aoti_torch_cuda_q6_k_linear(to_gpu(rows).get(), at(0), at(0), at(2), at(3), &raw),
                "qh does not have the sizes [16, 64]");
  BOOST_TEST(raw == nullptr);
}

BOOST_AUTO_TEST_CASE(reads_only_constants_early, *boost::unit_test::label(kStandIn)) {
  for (const Form form : kForms) {
    for (const int64_t m : {1, 2}) {
      const Weight weight = weight_of(form, 16, 256, 32);
      const Handle x = to_gpu(host_numbers({m, 256}, kBFloat16));
      const auto early = [&](const Weight& given) {
        const auto before = fake().calls("cuLaunchKernelEx");
        const Handle found = one([&](auto* ret) { return call(x, given, ret); });
        return fake().calls("cuLaunchKernelEx") - before;
      };
      BOOST_TEST(early(weight) == 0);
      BOOST_TEST(early(borrowed(weight)) == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(refuses_other_activations) {
  for (const Form form : kForms) {
    const Weight weight = weight_of(form, 16, 256, 32);
    AtenTensorHandle raw = nullptr;
    const auto refused = [&](const Handle& x, const char* reason) {
      check_refused(call(x, weight, &raw), reason);
    };
    refused(to_gpu(host_numbers({1, 256}, kFloat16)), "self is float16, expected bfloat16");
    refused(host_numbers({1, 256}, kBFloat16), "self is on cpu, expected cuda");
    if (form == Form::kTiles) {
      refused(to_gpu(host_numbers({256}, kBFloat16)), "self is not [m, k]");
    }
    refused(to_gpu(host_numbers({}, kBFloat16)),
            form == Form::kTiles ? "self is not [m, k]" : "self has no dims");
    refused(to_gpu(host_numbers({1, 512}, kBFloat16)),
            form == Form::kTiles ? "mat2 is for rows of 256 elements, self has rows of 512"
                                 : "does not have the sizes [16, ");
    BOOST_TEST(raw == nullptr);
  }
}

BOOST_AUTO_TEST_CASE(refuses_other_planes) {
  const auto refused = [](Weight weight, size_t part, const Handle& other, const char* reason) {
    AtenTensorHandle raw = nullptr;
    const Handle x = to_gpu(host_numbers({1, 256}, kBFloat16));
    weight.tensors[part] = to_gpu(other);
    check_refused(call(x, weight, &raw), reason);
    BOOST_TEST(raw == nullptr);
  };
  const auto of = [](Form form) { return weight_of(form, 16, 256, 32); };
  refused(of(Form::kInt4), 0, make({16, 128}, kInt16), "qdata is int16, expected uint8");
  refused(of(Form::kInt4), 1, make({16, 8}, kBFloat16), "scale is bfloat16, expected uint8");
  refused(of(Form::kInt4), 1, make({8, 16}, kUInt8), "scale does not have the sizes [16, 8]");
  refused(of(Form::kInt4), 2, make({16, 2}, kFloat16), "scales' step does not have the sizes");
  refused(of(Form::kInt4), 4, make({16, 1}, kBFloat16), "the zeros' step is bfloat16, expected");
  refused(of(Form::kInt5), 1, make({16, 64}, kUInt8), "qh does not have the sizes [16, 32]");
  refused(of(Form::kInt6), 1, make({16, 32}, kUInt8), "qh does not have the sizes [16, 64]");
  refused(of(Form::kInt6), 2, make({16, 8}, kUInt8), "scale is uint8, expected int8");
  refused(of(Form::kInt8), 0, make({16, 256}, kUInt8), "qdata is uint8, expected int8");
  refused(of(Form::kInt8), 2, make({16, 8}, kBFloat16), "zero is bfloat16, expected int8");
  refused(of(Form::kTiles), 0, make({2, 2, 32, 4}, kInt64), "mat2 is not [n / 8, k / 128, 32, 4]");
  refused(of(Form::kTiles), 0, make({2, 2, 32, 2}, kInt32), "mat2 has 2 words for each lane");
  refused(of(Form::kTiles), 1, make({8, 16, 2}, kFloat32), "scales and zeros are float32, exp");
  refused(of(Form::kTiles), 1, make({8, 8, 2}, kBFloat16), "do not have the sizes [8, 16, 2]");
}

BOOST_AUTO_TEST_CASE(refuses_other_groups) {
  const Handle x = to_gpu(host_numbers({1, 256}, kBFloat16));
  const Handle short_x = to_gpu(host_numbers({1, 96}, kBFloat16));
  for (const Form form : kForms) {
    Weight weight = weight_of(form, 16, 256, 32);
    AtenTensorHandle raw = nullptr;
    for (const int64_t group_size : {-32, 0, 8, 48, 512}) {
      weight.group_size = group_size;
      check_refused(call(x, weight, &raw), "groups of " + std::to_string(group_size));
    }
    weight.group_size = 32;
    check_refused(call(short_x, weight, &raw),
                  form == Form::kTiles  ? "self has rows of 96"
                  : form == Form::kInt8 ? "does not have the sizes"
                                        : "rows of 96 elements, expected a multiple of 256");
    BOOST_TEST(raw == nullptr);
  }
}

BOOST_AUTO_TEST_SUITE_END()
