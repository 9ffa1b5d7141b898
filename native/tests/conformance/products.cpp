// Products and convolutions. The same cases on every device: see device.h.

#include "conformance/tensors.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

BOOST_FIXTURE_TEST_SUITE(products, DeviceFixture)

namespace {

struct Product {
  int64_t batch, m, n, k;
};

Numbers multiplied(const Product& p, const Numbers& a, const Numbers& b) {
  Numbers out(static_cast<size_t>(p.batch * p.m * p.n), 0);
  for (int64_t i = 0; i < p.batch * p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      for (int64_t x = 0; x < p.k; ++x) {
        out[static_cast<size_t>(i * p.n + j)] +=
            a[static_cast<size_t>(i * p.k + x)] *
            b[static_cast<size_t>((i / p.m * p.k + x) * p.n + j)];
      }
    }
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(multiplies_matrices) {
  std::vector<int32_t> dtypes = kReals;
  if (kMultipliesIntegers) {
    dtypes.push_back(kInt64);
  }
  const std::vector<Product> products = {{1, 3, 5, 4}, {1, 1, 1, 1}, {1, 2, 3, 0},
                                         {1, 0, 3, 2}, {2, 3, 2, 4}, {0, 2, 2, 2}};
  for (const int32_t dtype : dtypes) {
    for (const Product& p : products) {
      const bool batched = p.batch != 1;
      const auto sizes = [&](int64_t rows, int64_t cols) {
        return batched ? Ints{p.batch, rows, cols} : Ints{rows, cols};
      };
      const Ints a_sizes = sizes(p.m, p.k);
      const Ints b_sizes = sizes(p.k, p.n);
      const Ints out_sizes = sizes(p.m, p.n);
      const Numbers a = some(a_sizes, dtype);
      const Numbers b = some(b_sizes, dtype, 3);
      const Numbers plain = multiplied(p, a, b);
      for (size_t way = 0; way < 3; ++way) {
        const Handle x = tensor(a_sizes, layouts(a_sizes)[way], dtype, a);
        const Handle y = tensor(b_sizes, layouts(b_sizes)[(way + 1) % 3], dtype, b);
        const Handle out = empty(out_sizes, layouts(out_sizes)[(way + 2) % 3], dtype);
        const std::string what = title("product", dtype, out_sizes, p.k);
        BOOST_TEST_REQUIRE(
            (batched ? AOTIP_ON(bmm_out) : AOTIP_ON(mm_out))(out.get(), x.get(), y.get()) == 0,
            reason());
        check_equal(out, plain, what);
        const Numbers row = some({p.n}, dtype, 11);
        const Handle self = tensor({p.n}, dtype, row);
        BOOST_TEST_REQUIRE((batched ? AOTIP_ON(baddbmm_out) : AOTIP_ON(addmm_out))(
                               out.get(), self.get(), x.get(), y.get(), 2.0, 3.0) == 0,
                           reason());
        Numbers added = plain;
        for (size_t i = 0; i < added.size(); ++i) {
          added[i] = 3 * added[i] + 2 * row[i % static_cast<size_t>(p.n)];
        }
        check_equal(out, added, what + ", added");
        if (is_real(dtype)) {
          const Handle nans = tensor({p.n}, dtype, Numbers(static_cast<size_t>(p.n), kNan));
          BOOST_TEST_REQUIRE((batched ? AOTIP_ON(baddbmm_out) : AOTIP_ON(addmm_out))(
                                 out.get(), nans.get(), x.get(), y.get(), 0.0, 1.0) == 0,
                             reason());
          check_equal(out, plain, what + ", beta 0");
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_products_refuse) {
  const Handle a = tensor({2, 3}, kFloat32, Numbers(6, 1));
  const Handle b = tensor({3, 4}, kFloat32, Numbers(12, 1));
  const Handle out = tensor({2, 4}, kFloat32, Numbers(8, 9));
  const auto call = [](const Handle& to, const Handle& x, const Handle& y) {
    return AOTIP_ON(mm_out)(to.get(), x.get(), y.get());
  };
  refused(call(Handle(), a, b), "out is null");
  refused(call(out, Handle(), b), "the first matrix is null");
  refused(call(out, a, Handle()), "the second matrix is null");
  refused(call(out, a, a), "inner sizes differ: the first matrix has 3 columns, the second 2 rows");
  refused(call(a, a, b), "the result is [2, 3], expected [2, 4]");
  refused(call(out, tensor({3}, kFloat32, {1, 2, 3}), b),
          "the first matrix has 1 dims, expected 2");
  refused(call(out, a, tensor({3, 4}, kInt64, Numbers(12, 1))), "int64, expected float32");
  refused(call(empty({2, 4}, {1, 0}, kFloat32), a, b),
          "out has 4 elements at each address along dim 1, expected one");
  refused(AOTIP_ON(addmm_out)(out.get(), nullptr, a.get(), b.get(), 1, 1), "self is null");
  refused(AOTIP_ON(addmm_out)(out.get(), tensor({3}, kFloat32, {1, 2, 3}).get(), a.get(), b.get(),
                              1, 1),
          "size 3 of dim 0 of self does not broadcast to 4");
  const Handle complex = empty({2, 2}, kComplex64);
  refused(call(complex, complex, complex),
          std::string("no matrix product for complex64 on ") + kName);
  check_equal(out, Numbers(8, 9), "untouched");
}

BOOST_AUTO_TEST_CASE(convolves) {
  // Two images of two channels of [4, 5], and four kernels of [2, 3] over both.
  const Ints input_sizes = {2, 2, 4, 5};
  const Ints weight_sizes = {4, 2, 2, 3};
  const int64_t stride[] = {1, 2};
  const int64_t padding[] = {1, 0};
  const int64_t dilation[] = {2, 1};
  const int64_t none[] = {0, 0};
  for (const int32_t dtype : kReals) {
    const Numbers x = some(input_sizes, dtype);
    const Numbers w = some(weight_sizes, dtype, 3);
    const Numbers b = some({4}, dtype, 5);
    Numbers expected;
    for (int64_t at = 0; at < 2 * 4 * 4 * 2; ++at) {
      const int64_t n = at / 32, o = at / 8 % 4, i = at / 2 % 4, j = at % 2;
      double sum = b[static_cast<size_t>(o)];
      for (int64_t t = 0; t < 12; ++t) {
        const int64_t c = t / 6, u = t / 3 % 2, v = t % 3;
        const int64_t row = i - 1 + 2 * u, col = 2 * j + v;
        if (row >= 0 && row < 4) {
          sum += x[static_cast<size_t>(((n * 2 + c) * 4 + row) * 5 + col)] *
                 w[static_cast<size_t>(o * 12 + t)];
        }
      }
      expected.push_back(sum);
    }
    for (size_t way = 0; way < 3; ++way) {
      const Handle input = tensor(input_sizes, layouts(input_sizes)[way], dtype, x);
      const Handle weight = tensor(weight_sizes, layouts(weight_sizes)[(way + 1) % 3], dtype, w);
      const Handle bias = tensor({4}, dtype, b);
      AtenTensorHandle bias_handle = bias.get();
      const Handle found = result_of([&](auto* ret) {
        return AOTIP_ON(convolution)(input.get(), weight.get(), &bias_handle, stride, 2, padding, 2,
                                     dilation, 2, 0, none, 2, 1, ret);
      });
      check_equal(found, expected, title("convolution", dtype, input_sizes, 0));
    }
  }
  const Handle input = tensor(input_sizes, kFloat32, some(input_sizes, kFloat32));
  const Handle weight = tensor({4, 3, 2, 3}, kFloat32, some({4, 3, 2, 3}, kFloat32));
  const Handle fitting = tensor(weight_sizes, kFloat32, some(weight_sizes, kFloat32));
  AtenTensorHandle raw = nullptr;
  refused(AOTIP_ON(convolution)(input.get(), nullptr, nullptr, stride, 2, padding, 2, dilation, 2,
                                0, none, 2, 1, &raw),
          "weight is null");
  refused(AOTIP_ON(convolution)(input.get(), weight.get(), nullptr, stride, 2, padding, 2, dilation,
                                2, 0, none, 2, 1, &raw),
          "input has 2 channels, the weight expects 3");
  refused(AOTIP_ON(convolution)(input.get(), fitting.get(), nullptr, nullptr, 2, padding, 2,
                                dilation, 2, 0, none, 2, 1, &raw),
          "stride");
  BOOST_TEST(raw == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
