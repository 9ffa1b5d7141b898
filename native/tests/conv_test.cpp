#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "handle.h"
#include "slim/element.h"
#include "slim/tensor.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

/// One convolution; spatial lists have as many numbers as the kernel has dims.
struct Case {
  Ints input;
  Ints weight;
  Ints stride;
  Ints padding;
  Ints dilation;
  Ints output_padding;
  int64_t groups = 1;
  bool transposed = false;
  bool bias = true;
};

const Case kCases[] = {
    {{2, 3, 10}, {4, 3, 3}, {1}, {1}, {1}, {0}},
    {{2, 3, 9, 8}, {5, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {{1, 3, 9, 8}, {5, 3, 3, 2}, {2, 3}, {2, 1}, {2, 1}, {0, 0}, 1, false, false},
    {{2, 8, 7, 7}, {6, 8, 1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
    {{2, 8, 7, 7}, {6, 8, 1, 1}, {2, 2}, {0, 0}, {1, 1}, {0, 0}},
    {{2, 6, 9, 9}, {6, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 6},
    {{2, 6, 9, 9}, {12, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, 6},
    {{2, 6, 9, 9}, {4, 3, 3, 3}, {1, 2}, {0, 1}, {1, 2}, {0, 0}, 2},
    {{1, 2, 5, 6, 7}, {3, 2, 2, 3, 2}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}, {0, 0, 0}},
    {{3, 9, 8}, {5, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {{2, 4, 6}, {4, 3, 4}, {2}, {1}, {1}, {1}, 1, true},
    {{2, 4, 5, 6}, {4, 3, 3, 3}, {2, 1}, {1, 0}, {1, 2}, {1, 0}, 1, true},
    {{1, 4, 5, 6}, {4, 3, 2, 3}, {2, 2}, {0, 1}, {1, 1}, {0, 1}, 2, true, false},
    {{1, 2, 3, 3, 4}, {2, 2, 2, 2, 2}, {2, 1, 2}, {0, 0, 1}, {1, 1, 1}, {1, 0, 0}, 1, true},
    {{0, 3, 9, 8}, {5, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {{2, 0, 5}, {3, 0, 3}, {1}, {1}, {1}, {0}},
    {{2, 8, 20, 20}, {16, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
};

const Tensor& tensor_of(const Handle& h) {
  return *reinterpret_cast<Tensor*>(h.get());
}

double value_at(const Tensor& t, const Ints& index) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    offset += index[d] * t.stride(static_cast<int64_t>(d));
  }
  return load_element(t.data_as<char>() + offset * static_cast<int64_t>(t.itemsize()), t.dtype())
      .real;
}

void fill(const Handle& h, unsigned seed) {
  std::mt19937 random(seed);
  const Tensor& t = tensor_of(h);
  for (size_t i = 0; i < t.storage_nbytes() / t.itemsize(); ++i) {
    Element e;
    e.kind = Element::kReal;
    e.real = static_cast<double>(random() % 9) / 4.0 - 1.0;
    store_element(static_cast<char*>(t.storage_data()) + i * t.itemsize(), t.dtype(), e);
  }
}

Handle make_layout(const Ints& sizes, bool channels_last, int32_t dtype) {
  if (!channels_last || sizes.size() < 4) {
    return make(sizes, dtype);
  }
  Ints strides(sizes.size());
  int64_t stride = std::max<int64_t>(sizes[1], 1);
  for (size_t d = sizes.size() - 1; d >= 2; --d) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  strides[0] = stride;
  strides[1] = 1;
  return make(sizes, strides, dtype);
}

/// Calls `body` with every index below `sizes`.
template <typename Body>
void for_each_index(const Ints& sizes, const Body& body) {
  int64_t numel = 1;
  for (int64_t size : sizes) {
    numel *= size;
  }
  Ints index(sizes.size());
  for (int64_t i = 0; i < numel; ++i) {
    int64_t rest = i;
    for (size_t d = sizes.size(); d-- > 0;) {
      index[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    body(index);
  }
}

/// The convolution by its definition: every product added where it belongs.
std::vector<double> reference(const Case& c, const Tensor& x, const Tensor& w, const Tensor* bias,
                              const Tensor& y) {
  const size_t first = c.input.size() - c.stride.size() - 1;  // the channel dim
  const int64_t out_channels = y.size(static_cast<int64_t>(first));
  const Ints y_sizes(y.sizes(), y.sizes() + y.ndim());
  const auto flat = [&](const Ints& index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      at = at * y_sizes[d] + index[d];
    }
    return static_cast<size_t>(at);
  };
  std::vector<double> sums(static_cast<size_t>(y.numel()));
  for_each_index(y_sizes, [&](const Ints& i) {
    sums[flat(i)] = bias != nullptr ? value_at(*bias, {i[first]}) : 0.0;
  });
  const int64_t in_group = c.input[first] / c.groups;
  const int64_t out_group = out_channels / c.groups;
  // Pairs of a "source" and a "target" spatial index tied by one kernel position.
  for_each_index(c.transposed ? c.input : y_sizes, [&](const Ints& from) {
    for_each_index(c.weight, [&](const Ints& k) {
      Ints other = from;
      for (size_t d = 0; d < c.stride.size(); ++d) {
        other[first + 1 + d] =
            from[first + 1 + d] * c.stride[d] + k[2 + d] * c.dilation[d] - c.padding[d];
        const int64_t limit = c.transposed ? y_sizes[first + 1 + d] : c.input[first + 1 + d];
        if (other[first + 1 + d] < 0 || other[first + 1 + d] >= limit) {
          return;
        }
      }
      if (c.transposed) {
        if (k[0] == from[first]) {
          other[first] = from[first] / in_group * out_group + k[1];
          sums[flat(other)] += value_at(x, from) * value_at(w, k);
        }
      } else if (k[0] == from[first]) {
        other[first] = from[first] / out_group * in_group + k[1];
        sums[flat(from)] += value_at(x, other) * value_at(w, k);
      }
    });
  });
  return sums;
}

AOTITorchError convolve(const Case& c, const Handle& x, const Handle& w, AtenTensorHandle* bias,
                        AtenTensorHandle* ret) {
  const auto n = [](const Ints& list) { return static_cast<int64_t>(list.size()); };
  return aoti_torch_cpu_convolution(x.get(), w.get(), bias, c.stride.data(), n(c.stride),
                                    c.padding.data(), n(c.padding), c.dilation.data(),
                                    n(c.dilation), c.transposed ? 1 : 0, c.output_padding.data(),
                                    n(c.output_padding), c.groups, ret);
}

void check_case(const Case& c, int32_t dtype, bool input_last, bool weight_last) {
  const size_t first = c.input.size() - c.stride.size() - 1;
  const int64_t out_channels = c.transposed ? c.weight[1] * c.groups : c.weight[0];
  const Handle x = make_layout(c.input, input_last && first == 1, dtype);
  const Handle w = make_layout(c.weight, weight_last, dtype);
  const Handle b = make({out_channels}, dtype);
  fill(x, 1);
  fill(w, 2);
  fill(b, 3);
  AtenTensorHandle bias = b.get();
  AtenTensorHandle result = nullptr;
  BOOST_TEST_REQUIRE(convolve(c, x, w, c.bias ? &bias : nullptr, &result) == 0);
  const Handle y(result);
  const Tensor& out = tensor_of(y);
  const std::vector<double> expected =
      reference(c, tensor_of(x), tensor_of(w), c.bias ? &tensor_of(b) : nullptr, out);
  double worst = 0;
  size_t i = 0;
  for_each_index(Ints(out.sizes(), out.sizes() + out.ndim()), [&](const Ints& index) {
    worst =
        std::max(worst, std::abs(value_at(out, index) - expected[i]) / (1 + std::abs(expected[i])));
    ++i;
  });
  BOOST_TEST(worst <= (dtype == kBFloat16 ? 1e-2 : dtype == kFloat16 ? 2e-3 : 1e-5));
  if (out.numel() > 0 && out.ndim() == 4 && first == 1 && out.size(1) > 1 && out.size(3) > 1) {
    BOOST_TEST((out.stride(1) == 1) == (input_last || weight_last));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(conv)

BOOST_AUTO_TEST_CASE(every_case_dtype_and_layout) {
  for (size_t i = 0; i < sizeof(kCases) / sizeof(kCases[0]); ++i) {
    for (int32_t dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      for (int layout = 0; layout < 4; ++layout) {
        if (i == 16 && (layout % 3 != 0 || dtype != kFloat32)) {
          continue;  // the large case takes long in the reference
        }
        BOOST_TEST_CONTEXT("case " << i << " dtype " << dtype << " layout " << layout) {
          check_case(kCases[i], dtype, (layout & 1) != 0, (layout & 2) != 0);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(violations_have_reasons_and_no_result) {
  const Case good = kCases[1];
  const Handle x = make(good.input, kFloat32);
  const Handle w = make(good.weight, kFloat32);
  AtenTensorHandle result = nullptr;
  const auto fails = [&](const Case& c, const Handle& input, const Handle& weight,
                         AtenTensorHandle* bias) {
    BOOST_TEST(convolve(c, input, weight, bias, &result) == 1);
    BOOST_TEST(result == nullptr);
    return reason().substr(reason().find(' ') + 1);
  };
  Case c = good;
  c.stride = {0, 1};
  BOOST_TEST(fails(c, x, w, nullptr) == "stride is 0 in dim 0, expected 1 or more");
  c = good;
  c.padding = {1, 1, 1};
  BOOST_TEST(fails(c, x, w, nullptr) == "padding has 3 numbers, expected 2");
  c = good;
  c.groups = 2;
  BOOST_TEST(fails(c, x, w, nullptr) == "input has 3 channels, the weight expects 6");
  c.groups = 0;
  BOOST_TEST(fails(c, x, w, nullptr) == "groups is 0, expected 1 or more");
  c = good;
  c.padding = {0, 0};
  BOOST_TEST(fails(c, make({2, 3, 2, 8}, kFloat32), w, nullptr) ==
             "kernel of 3 does not fit into the padded input of 2");
  BOOST_TEST(fails(good, x, make(good.weight, kFloat64), nullptr) ==
             "weight is float64, expected float32 as the input");
  BOOST_TEST(fails(good, make({3}, kFloat32), w, nullptr) ==
             "input has 1 dims, expected 4 for this weight");
  const Handle wrong = make({4}, kFloat32);
  AtenTensorHandle bias = wrong.get();
  BOOST_TEST(fails(good, x, w, &bias) == "bias has 4 elements in 1 dims, expected [5]");
  BOOST_TEST(fails(good, Handle(), w, nullptr) == "input is null");
  BOOST_TEST(fails(good, make(good.input, kInt32), make(good.weight, kInt32), nullptr) ==
             "no convolution for int32");
  BOOST_TEST(convolve(good, x, w, nullptr, nullptr) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
