// Products and convolutions with constant weights, which XNNPACK packs, against those whose weights
// may change; and products with weights of 4 and 8 bits against sums in float64.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "cpu/libraries/xnnpack.h"
#include "cpu/memory/constant_memory.h"
#include "handle.h"
#include "slim/half.h"
#include "slim/tensor.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using cpu::ConstantMemory;

namespace {

Handle floats(const Ints& sizes, const Ints& strides, unsigned seed) {
  Handle handle = make(sizes, strides, kFloat32);
  const auto* t = reinterpret_cast<Tensor*>(handle.get());
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> numbers(-1, 1);
  for (size_t i = 0; i < t->storage_nbytes() / sizeof(float); ++i) {
    static_cast<float*>(t->storage_data())[i] = numbers(random);
  }
  return handle;
}

Ints row_major(const Ints& sizes) {
  Ints strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * sizes[i];
  }
  return strides;
}

Ints channels_last(const Ints& s) {
  return {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]};
}

/// Says of tensors' bytes that they stay.
class Kept {
 public:
  explicit Kept(std::initializer_list<const Handle*> handles) {
    for (const Handle* handle : handles) {
      const auto* t = reinterpret_cast<Tensor*>(handle->get());
      ranges_.push_back(std::make_unique<ConstantMemory>(t->storage_data(), t->storage_nbytes()));
    }
  }

 private:
  std::vector<std::unique_ptr<ConstantMemory>> ranges_;
};

std::vector<float> values(const Handle& handle) {
  const auto* t = reinterpret_cast<Tensor*>(handle.get());
  const auto* data = static_cast<const float*>(t->storage_data());
  return {data, data + t->storage_nbytes() / sizeof(float)};
}

void check_close(const std::vector<float>& found, const std::vector<float>& expected, double most) {
  BOOST_REQUIRE_EQUAL(found.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(found[i]) - expected[i]));
  }
  BOOST_TEST(worst <= most, "differs by " << worst << " of " << most);
}

Handle multiply(const Handle& a, const Handle& b, const Handle* bias, int64_t m, int64_t n) {
  Handle out = make({m, n}, kFloat32);
  const AOTITorchError error =
      bias == nullptr
          ? aoti_torch_cpu_mm_out(out.get(), a.get(), b.get())
          : aoti_torch_cpu_addmm_out(out.get(), bias->get(), a.get(), b.get(), 1.0, 1.0);
  BOOST_REQUIRE_MESSAGE(error == 0, reason());
  return out;
}

struct Convolution {
  Ints input;
  Ints weight;
  Ints stride;
  Ints padding;
  Ints dilation;
  int64_t groups;
};

Handle convolve(const Convolution& c, const Handle& input, const Handle& weight, const Handle* bias,
                double* least, double* most) {
  AtenTensorHandle out = nullptr;
  AtenTensorHandle b = bias != nullptr ? bias->get() : nullptr;
  const AOTITorchError error = aoti_torch_cpu_clamped_convolution(
      input.get(), weight.get(), bias != nullptr ? &b : nullptr, c.stride.data(), 2,
      c.padding.data(), 2, c.dilation.data(), 2, c.groups, least, most, &out);
  BOOST_REQUIRE_MESSAGE(error == 0, reason());
  return Handle(out);
}

/// A weight of few bits, and what it stands for.
struct Small {
  Handle codes;
  Handle scale;
  Handle zero;
  std::vector<double> weights;  // [n, k]
};

Small small_weight(int64_t n, int64_t k, int64_t bits, int64_t groups, int64_t zero_kind) {
  std::mt19937 random(static_cast<unsigned>(n + k + bits + groups + zero_kind));
  const int64_t size = k / groups;
  Small s;
  s.codes = make({n, bits == 4 ? k / 2 : k}, bits == 4 ? kUInt8 : kInt8);
  s.scale = make({n, groups}, kFloat32);
  if (zero_kind != 0) {
    s.zero = make({n, groups}, kFloat32);
  }
  s.weights.resize(n * k);
  auto* bytes = data_of<uint8_t>(s.codes);
  std::memset(bytes, 0, n * k * bits / 8);
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t g = 0; g < groups; ++g) {
      const float scale = 0.01F + static_cast<float>(random() % 100) * 0.001F;
      const float zero = zero_kind == 1 ? static_cast<float>(random() % 8)
                                        : static_cast<float>(random() % 8) * 0.125F;
      data_of<float>(s.scale)[row * groups + g] = scale;
      if (zero_kind != 0) {
        data_of<float>(s.zero)[row * groups + g] = zero;
      }
      for (int64_t i = 0; i < size; ++i) {
        const int64_t place = row * k + g * size + i;
        const int code =
            bits == 4 ? static_cast<int>(random() % 16) : static_cast<int>(random() % 256) - 128;
        if (bits == 8) {
          bytes[place] = static_cast<uint8_t>(code);
        } else {
          const int64_t byte = row * k / 2 + g * size / 2 + i % (size / 2);
          bytes[byte] = static_cast<uint8_t>(bytes[byte] | code << (i < size / 2 ? 0 : 4));
        }
        const double middle = bits == 4 ? 8 : 0;
        s.weights[place] = zero_kind == 1   ? (code - zero) * double(scale)
                           : zero_kind == 2 ? (code - middle) * double(scale) + zero
                                            : (code - middle) * double(scale);
      }
    }
  }
  return s;
}

AOTITorchError multiply_small(const Handle& x, const Handle* row_scale, const Handle* row_zero,
                              const Small& s, const Handle* bias, int64_t bits, int64_t zero_kind,
                              Handle* ret) {
  const auto pointer = [](const Handle* handle) {
    return handle != nullptr ? handle->get() : nullptr;
  };
  AtenTensorHandle handles[] = {pointer(row_scale), pointer(row_zero), s.zero.get(), pointer(bias)};
  AtenTensorHandle out = nullptr;
  const AOTITorchError error =
      aoti_torch_cpu_small_linear(x.get(), &handles[0], &handles[1], s.codes.get(), s.scale.get(),
                                  &handles[2], &handles[3], bits, zero_kind, &out);
  ret->reset(out);
  return error;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(packed)

BOOST_AUTO_TEST_CASE(xnnpack_is_in_the_wheel) {
  BOOST_REQUIRE((cpu::xnnpack() != nullptr));
}

BOOST_AUTO_TEST_CASE(products_with_constants_are_those_with_variables) {
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 2048, 64},
                                {1, 33, 129},
                                {3, 64, 64},
                                {17, 100, 40},
                                {65, 32, 2000},
                                {300, 96, 32},
                                {2, 700, 300},
                                {1, 3000, 3}}) {
    for (const bool transposed : {false, true}) {
      for (const bool with_bias : {false, true}) {
        const Handle a = floats({m, k}, {k, 1}, 1);
        const Handle b = floats({k, n}, transposed ? Ints{n, 1} : Ints{1, k}, 2);
        const Handle bias = floats({n}, {1}, 3);
        const Handle* added = with_bias ? &bias : nullptr;
        const auto expected = values(multiply(a, b, added, m, n));
        const Kept kept{&b, &bias};
        for (int call = 0; call < 2; ++call) {
          check_close(values(multiply(a, b, added, m, n)), expected, 1e-6 * static_cast<double>(k));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_was_packed_goes_with_its_weights) {
  const Handle a = floats({4, 64}, {64, 1}, 1);
  const Handle b = floats({64, 64}, {1, 64}, 2);
  std::vector<float> before;
  {
    const Kept kept{&b};
    before = values(multiply(a, b, nullptr, 4, 64));
  }
  for (int64_t i = 0; i < 64 * 64; ++i) {
    data_of<float>(b)[i] *= 2;
  }
  const Kept kept{&b};
  for (float& value : before) {
    value *= 2;
  }
  check_close(values(multiply(a, b, nullptr, 4, 64)), before, 1e-4);
}

/// Floats whose last one is the last of a page, behind which there is nothing.
class AtTheEdge {
 public:
  AtTheEdge(int64_t count, unsigned seed) : nbytes_(count * sizeof(float)) {
    const size_t page = sysconf(_SC_PAGESIZE);
    mapped_ = (nbytes_ + page - 1) / page * page;
    pages_ = static_cast<char*>(
        mmap(nullptr, mapped_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    BOOST_REQUIRE(pages_ != MAP_FAILED);
    BOOST_REQUIRE(mprotect(pages_ + mapped_, page, PROT_NONE) == 0);
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> numbers(-1, 1);
    for (int64_t i = 0; i < count; ++i) {
      data()[i] = numbers(random);
    }
  }
  ~AtTheEdge() { munmap(pages_, mapped_ + sysconf(_SC_PAGESIZE)); }
  AtTheEdge(const AtTheEdge&) = delete;
  AtTheEdge& operator=(const AtTheEdge&) = delete;

  float* data() const { return reinterpret_cast<float*>(pages_ + mapped_ - nbytes_); }

  Handle as_tensor(const Ints& sizes, const Ints& strides) const {
    AtenTensorHandle handle = nullptr;
    BOOST_REQUIRE(aoti_torch_create_tensor_from_blob(
                      data(), static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), 0,
                      kFloat32, aoti_torch_device_type_cpu(), 0, &handle) == 0);
    return Handle(handle);
  }

 private:
  size_t nbytes_;
  size_t mapped_ = 0;
  char* pages_ = nullptr;
};

BOOST_AUTO_TEST_CASE(nothing_is_read_behind_the_last_page) {
  for (const int64_t k : {63, 66, 129}) {
    const AtTheEdge x(3 * k, 1);
    const AtTheEdge w(70 * k, 2);
    const AtTheEdge bias(70, 3);
    const Handle a = x.as_tensor({3, k}, {k, 1});
    const Handle b = w.as_tensor({k, 70}, {1, k});
    const Handle added = bias.as_tensor({70}, {1});
    const auto expected = values(multiply(a, b, &added, 3, 70));
    const ConstantMemory weights(w.data(), 70 * k * sizeof(float));
    const ConstantMemory biases(bias.data(), 70 * sizeof(float));
    check_close(values(multiply(a, b, &added, 3, 70)), expected, 1e-4);
  }
  const Convolution c{{1, 5, 9, 7}, {6, 5, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1};
  const AtTheEdge x(5 * 9 * 7, 1);
  const AtTheEdge w(6 * 5 * 3 * 3, 2);
  const AtTheEdge bias(6, 3);
  const Handle input = x.as_tensor(c.input, channels_last(c.input));
  const Handle weight = w.as_tensor(c.weight, channels_last(c.weight));
  const Handle added = bias.as_tensor({6}, {1});
  const auto expected = values(convolve(c, input, weight, &added, nullptr, nullptr));
  const ConstantMemory weights(w.data(), 6 * 5 * 3 * 3 * sizeof(float));
  const ConstantMemory biases(bias.data(), 6 * sizeof(float));
  check_close(values(convolve(c, input, weight, &added, nullptr, nullptr)), expected, 1e-4);
}

BOOST_AUTO_TEST_CASE(not_a_number_stays_one) {
  const Handle a = floats({1, 64}, {64, 1}, 1);
  const Handle b = floats({64, 64}, {1, 64}, 2);
  data_of<float>(a)[5] = NAN;
  const Kept kept{&b};
  for (const float value : values(multiply(a, b, nullptr, 1, 64))) {
    BOOST_TEST(std::isnan(value));
  }
}

BOOST_AUTO_TEST_CASE(convolutions_with_constants_are_those_with_variables) {
  const Convolution cases[] = {
      {{1, 3, 17, 13}, {8, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1},
      {{2, 16, 56, 9}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
      {{1, 32, 40, 40}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 32},
      {{1, 32, 23, 40}, {32, 1, 5, 5}, {2, 2}, {2, 2}, {1, 1}, 32},
      {{3, 64, 14, 14}, {128, 64, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
      {{1, 64, 7, 7}, {256, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
      {{1, 64, 15, 15}, {96, 64, 1, 1}, {2, 2}, {0, 0}, {1, 1}, 1},
      {{1, 8, 33, 21}, {12, 4, 3, 2}, {2, 1}, {0, 1}, {2, 1}, 2},
      {{1, 4, 5, 5}, {4, 4, 5, 5}, {1, 1}, {4, 4}, {1, 1}, 1},
  };
  double least = -0.25;
  double most = 0.5;
  for (const Convolution& c : cases) {
    for (const bool limited : {false, true}) {
      const Handle input = floats(c.input, channels_last(c.input), 1);
      const Handle weight = floats(c.weight, channels_last(c.weight), 2);
      const Handle bias = floats({c.weight[0]}, {1}, 3);
      const auto run = [&](const Handle* b) {
        return values(
            convolve(c, input, weight, b, limited ? &least : nullptr, limited ? &most : nullptr));
      };
      for (const Handle* b : {static_cast<const Handle*>(nullptr), &bias}) {
        const auto expected = run(b);
        if (limited) {
          BOOST_TEST(*std::max_element(expected.begin(), expected.end()) == most);
        }
        const Kept kept{&weight, &bias};
        for (int call = 0; call < 2; ++call) {
          check_close(run(b), expected, 1e-3);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(convolutions_of_codes) {
  const Convolution cases[] = {
      {{1, 3, 17, 13}, {8, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1},
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

BOOST_AUTO_TEST_CASE(convolutions_that_xnnpack_is_not_asked_for) {
  const Convolution wide{{1, 2, 3, 3}, {2, 2, 1, 1}, {1, 1}, {2, 2}, {1, 1}, 1};  // rows of padding
  const Handle input = floats(wide.input, row_major(wide.input), 1);
  const Handle weight = floats(wide.weight, row_major(wide.weight), 2);
  const auto expected = values(convolve(wide, input, weight, nullptr, nullptr, nullptr));
  const Kept kept{&weight};
  check_close(values(convolve(wide, input, weight, nullptr, nullptr, nullptr)), expected, 0);
}

BOOST_AUTO_TEST_CASE(threads_share_what_is_packed) {
  const int64_t m = 8;
  const int64_t n = 512;
  const int64_t k = 256;
  const Handle a = floats({m, k}, {k, 1}, 1);
  const Handle b = floats({k, n}, {1, k}, 2);
  const auto expected = values(multiply(a, b, nullptr, m, n));
  const Kept kept{&b};
  struct Calls {
    Handle out;
    int failed = 0;
  };
  std::vector<Calls> calls(4);
  std::vector<std::thread> threads;
  for (Calls& own : calls) {
    own.out = make({m, n}, kFloat32);
    threads.emplace_back([&] {  // Boost.Test is for one thread
      for (int call = 0; call < 20; ++call) {
        own.failed += aoti_torch_cpu_mm_out(own.out.get(), a.get(), b.get());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Calls& own : calls) {
    BOOST_TEST(own.failed == 0);
    check_close(values(own.out), expected, 1e-4);
  }
}

BOOST_AUTO_TEST_CASE(weights_of_few_bits_times_floats) {
  const int64_t n = 70;
  for (const int64_t bits : {4, 8}) {
    for (const int64_t zero_kind : {0, 1, 2}) {
      for (const auto& [k, groups] : {std::pair<int64_t, int64_t>{64, 1}, {256, 8}, {256, 2}}) {
        const Small s = small_weight(n, k, bits, groups, zero_kind);
        const Kept kept{&s.codes, &s.scale};
        for (const int64_t m : {1, 3, 4, 9, 40}) {
          const Handle x = floats({m, k}, {k, 1}, 4);
          const Handle bias = floats({n}, {1}, 5);
          Handle out;
          BOOST_REQUIRE_MESSAGE(
              multiply_small(x, nullptr, nullptr, s, &bias, bits, zero_kind, &out) == 0, reason());
          std::vector<float> expected;
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              double sum = data_of<float>(bias)[j];
              for (int64_t p = 0; p < k; ++p) {
                sum += data_of<float>(x)[i * k + p] * s.weights[j * k + p];
              }
              expected.push_back(static_cast<float>(sum));
            }
          }
          check_close(values(out), expected, bits == 4 ? 1e-3 : 1e-2);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(weights_of_few_bits_times_codes) {
  const int64_t n = 70;
  for (const int64_t bits : {4, 8}) {
    for (const auto& [k, groups] : {std::pair<int64_t, int64_t>{64, 1}, {256, 8}, {96, 1}}) {
      for (const bool is_constant : {false, true}) {
        const Small s = small_weight(n, k, bits, groups, 0);
        const Handle bias = floats({n}, {1}, 5);
        const std::optional<Kept> kept =
            is_constant ? std::optional<Kept>(
                              std::in_place,
                              std::initializer_list<const Handle*>{&s.codes, &s.scale, &bias})
                        : std::nullopt;
        for (const int64_t m : {1, 5, 40}) {
          const Handle x = make({m, k}, kInt8);
          const Handle row_scale = floats({m, 1}, {1, 1}, 6);
          const Handle row_zero = make({m}, kInt8);
          std::mt19937 random(7);
          for (int64_t i = 0; i < m * k; ++i) {
            data_of<int8_t>(x)[i] = static_cast<int8_t>(random());
          }
          for (int64_t i = 0; i < m; ++i) {
            data_of<int8_t>(row_zero)[i] = static_cast<int8_t>(random());
          }
          Handle out;
          BOOST_REQUIRE_MESSAGE(
              multiply_small(x, &row_scale, &row_zero, s, &bias, bits, 0, &out) == 0, reason());
          std::vector<float> expected;
          double largest = 0;
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              double sum = 0;
              for (int64_t p = 0; p < k; ++p) {
                sum += (data_of<int8_t>(x)[i * k + p] - data_of<int8_t>(row_zero)[i]) *
                       s.weights[j * k + p];
              }
              largest = std::max(largest, std::fabs(sum));
              expected.push_back(
                  static_cast<float>(sum * data_of<float>(row_scale)[i] + data_of<float>(bias)[j]));
            }
          }
          // XNNPACK holds scales of groups in 16 bits.
          check_close(values(out), expected, largest * (groups > 1 && is_constant ? 4e-3 : 1e-5));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(sixteen_bits_are_read_as_they_are) {
  const int64_t n = 50;
  for (const int32_t dtype : {kFloat16, kBFloat16}) {
    for (const int64_t k : {7, 64, 131}) {
      for (const int64_t m : {1, 4, 6, 33}) {
        std::mt19937 random(8);
        const Handle a = make({m, k}, dtype);
        const Handle b = make({k, n}, {1, k}, dtype);
        const auto to_float = dtype == kFloat16 ? half_to_float : bfloat16_to_float;
        const auto from_float = dtype == kFloat16 ? float_to_half : float_to_bfloat16;
        for (const Handle* handle : {&a, &b}) {
          for (int64_t i = 0; i < (handle == &a ? m : n) * k; ++i) {
            data_of<uint16_t>(*handle)[i] =
                from_float(static_cast<float>(random() % 64) / 64 - 0.5F);
          }
        }
        data_of<uint16_t>(b)[0] = from_float(1e-7F);  // a subnormal float16
        Handle out = make({m, n}, dtype);
        BOOST_REQUIRE(aoti_torch_cpu_mm_out(out.get(), a.get(), b.get()) == 0);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t p = 0; p < k; ++p) {
              sum += static_cast<double>(to_float(data_of<uint16_t>(a)[i * k + p])) *
                     to_float(data_of<uint16_t>(b)[j * k + p]);
            }
            const double found = to_float(data_of<uint16_t>(out)[i * n + j]);
            BOOST_TEST(std::fabs(found - sum) <= std::fabs(sum) * 0x1p-8 + 1e-6);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(arguments_that_do_not_fit_are_refused) {
  const Small s = small_weight(8, 64, 4, 2, 0);
  const Handle x = floats({2, 64}, {64, 1}, 1);
  const auto refused = [&](const Handle& rows, const Handle* row_scale, const Handle* row_zero,
                           int64_t bits, int64_t kind, const char* part) {
    Handle out;
    BOOST_TEST(multiply_small(rows, row_scale, row_zero, s, nullptr, bits, kind, &out) != 0);
    BOOST_TEST(out.get() == nullptr);
    BOOST_TEST(reason().find(part) != std::string::npos, reason());
  };
  refused(nullptr, nullptr, nullptr, 4, 0, "x is null");
  refused(make({2, 64}, kInt64), nullptr, nullptr, 4, 0, "x is int64");
  refused(make({2, 32}, kFloat32), nullptr, nullptr, 4, 0, "rows of x have 32 elements");
  refused(make({2, 64}, kInt8), nullptr, nullptr, 4, 0, "with no row_scale");
  const Handle scales = make({3}, kFloat32);
  refused(make({2, 64}, kInt8), &scales, nullptr, 4, 0, "expected float32 of 2");
  refused(x, &scales, nullptr, 4, 0, "with row_scale");
  refused(x, nullptr, nullptr, 5, 0, "weights of 5 bits");
  refused(x, nullptr, nullptr, 8, 0, "expected contiguous int8");
  refused(x, nullptr, nullptr, 4, 1, "no zeros");
  refused(x, nullptr, nullptr, 4, 7, "zero_kind 7");
  AtenTensorHandle out = nullptr;
  const int64_t ones[] = {1, 1};
  BOOST_TEST(aoti_torch_cpu_clamped_convolution(x.get(), x.get(), nullptr, ones, 2, ones, 2, ones,
                                                2, 1, nullptr, nullptr, &out) != 0);
  BOOST_TEST(reason().find("float32 of 2 dims, expected float32 of 4") != std::string::npos,
             reason());
}

BOOST_AUTO_TEST_SUITE_END()
