// Convolutions of 8-bit numbers: with constant weights, which XNNPACK packs, and with others.

#include "packed_numbers.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

BOOST_AUTO_TEST_SUITE(quantized_convolution)

BOOST_AUTO_TEST_CASE(convolutions_of_codes) {
  const Convolution cases[] = {
      {{1, 3, 17, 13}, {8, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1},
      {{2, 3, 224, 64}, {64, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}, 1},
      {{1, 1, 9, 31}, {5, 1, 2, 4}, {1, 3}, {1, 2}, {2, 1}, 1},
      {{1, 7, 5, 3}, {6, 7, 1, 5}, {1, 1}, {0, 4}, {1, 1}, 1},
      {{1, 3, 40, 20}, {4, 3, 3, 3}, {1, 1}, {2, 2}, {2, 2}, 1},
      {{1, 32, 23, 40}, {32, 1, 5, 5}, {2, 2}, {2, 2}, {1, 1}, 32},
      {{2, 64, 14, 14}, {128, 64, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
      {{1, 64, 7, 7}, {256, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
      {{37, 100, 1, 1}, {20, 100, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
      {{1, 8, 33, 21}, {12, 4, 3, 2}, {2, 1}, {0, 1}, {2, 1}, 2},
  };
  double least = 0;
  double most = 1.5;
  for (const Convolution& c : cases) {
    std::mt19937 random(9);
    const Handle input = make(c.input, channels_last(c.input), kInt8);
    const Handle weight = make(c.weight, channels_last(c.weight), kInt8);
    for (const Handle* handle : {&input, &weight}) {
      const auto* t = reinterpret_cast<Tensor*>(handle->get());
      for (size_t i = 0; i < t->storage_nbytes(); ++i) {
        static_cast<int8_t*>(t->storage_data())[i] = static_cast<int8_t>(random());
      }
    }
    const Handle scale = make({c.weight[0]}, kFloat32);
    for (int64_t i = 0; i < c.weight[0]; ++i) {
      data_of<float>(scale)[i] = 0.001F + static_cast<float>(random() % 100) * 0.0001F;
    }
    const Handle bias = floats({c.weight[0]}, {1}, 3);
    for (const bool limited : {false, true}) {
      const auto run = [&] {
        AtenTensorHandle out = nullptr;
        AtenTensorHandle b = bias.get();
        BOOST_REQUIRE_MESSAGE(
            aoti_torch_cpu_quantized_convolution(
                input.get(), weight.get(), scale.get(), &b, c.stride.data(), 2, c.padding.data(), 2,
                c.dilation.data(), 2, c.groups, 0.01, -3, 0.02, 5, limited ? &least : nullptr,
                limited ? &most : nullptr, &out) == 0,
            reason());
        const Handle result(out);
        const auto* t = reinterpret_cast<Tensor*>(result.get());
        const auto* data = static_cast<const int8_t*>(t->storage_data());
        return std::vector<float>(data, data + t->numel());
      };
      const auto expected = run();
      const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
      BOOST_TEST(*low < *high);
      BOOST_TEST((!limited || (*low >= 5 && *high <= 80)));
      const Kept kept{&weight, &scale, &bias};
      for (int call = 0; call < 2; ++call) {
        check_close(run(), expected, 1);  // the bias is rounded before it is added
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(codes_that_do_not_fit_are_refused) {
  const Handle input = make({1, 4, 3, 3}, kInt8);
  const Handle weight = make({2, 4, 1, 1}, kInt8);
  const Handle scale = make({2}, kFloat32);
  const int64_t ones[] = {1, 1};
  const int64_t zeros[] = {0, 0};
  const auto refused = [&](const Handle& x, const Handle& s, double x_scale, int64_t y_zero,
                           double* least, double* most, const char* part) {
    AtenTensorHandle out = nullptr;
    BOOST_TEST(aoti_torch_cpu_quantized_convolution(x.get(), weight.get(), s.get(), nullptr, ones,
                                                    2, zeros, 2, ones, 2, 1, x_scale, 0, 1.0,
                                                    y_zero, least, most, &out) != 0);
    BOOST_TEST(reason().find(part) != std::string::npos, reason());
  };
  double low = 1;
  double high = -1;
  refused(nullptr, scale, 1, 0, nullptr, nullptr, "input is null");
  refused(make({1, 4, 3, 3}, kFloat32), scale, 1, 0, nullptr, nullptr, "input is float32");
  refused(input, make({3}, kFloat32), 1, 0, nullptr, nullptr, "scale is float32 of 3 elements");
  refused(input, scale, 0, 0, nullptr, nullptr, "x: scale 0");
  refused(input, scale, 1, 200, nullptr, nullptr, "y: scale 1 and zero 200");
  refused(input, scale, 1, 0, &low, &high, "more than the most");
}

BOOST_AUTO_TEST_SUITE_END()
