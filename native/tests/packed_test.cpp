// Products and convolutions with constant weights, which XNNPACK packs, against those whose weights
// may change.

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "cpu/libraries/xnnpack.h"
#include "cpu/math/activations.h"
#include "packed_numbers.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

Handle multiply(const Handle& a, const Handle& b, const Handle* bias, int64_t m, int64_t n) {
  Handle out = make({m, n}, kFloat32);
  const AOTITorchError error =
      bias == nullptr
          ? aoti_torch_cpu_mm_out(out.get(), a.get(), b.get())
          : aoti_torch_cpu_addmm_out(out.get(), bias->get(), a.get(), b.get(), 1.0, 1.0);
  BOOST_REQUIRE_MESSAGE(error == 0, reason());
  return out;
}

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

Handle activated(const Convolution& c, const Handle& input, const Handle& weight,
                 const char* activation) {
  AtenTensorHandle out = nullptr;
  const AOTITorchError error = aoti_torch_cpu_activated_convolution(
      input.get(), weight.get(), nullptr, c.stride.data(), 2, c.padding.data(), 2,
      c.dilation.data(), 2, c.groups, activation, &out);
  BOOST_REQUIRE_MESSAGE(error == 0, reason());
  return Handle(out);
}

/// What PyTorch's function of that name makes of a number.
double activation_of(const std::string& name, double x) {
  const double sigmoid = 1 / (1 + std::exp(-x));
  const double hard_sigmoid = std::min(std::max(x + 3, 0.0), 6.0) / 6;
  if (name == "sigmoid" || name == "silu") {
    return name == "sigmoid" ? sigmoid : x * sigmoid;
  }
  return name == "hardsigmoid" ? hard_sigmoid : x * hard_sigmoid;
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

BOOST_AUTO_TEST_CASE(convolutions_that_xnnpack_is_not_asked_for) {
  const Convolution wide{{1, 2, 3, 3}, {2, 2, 1, 1}, {1, 1}, {2, 2}, {1, 1}, 1};  // rows of padding
  const Handle input = floats(wide.input, row_major(wide.input), 1);
  const Handle weight = floats(wide.weight, row_major(wide.weight), 2);
  const auto expected = values(convolve(wide, input, weight, nullptr, nullptr, nullptr));
  const Kept kept{&weight};
  check_close(values(convolve(wide, input, weight, nullptr, nullptr, nullptr)), expected, 0);
}

// In one part and in several of the rows, in parts of the channels, which leave gaps, and where
// XNNPACK is not asked.
BOOST_AUTO_TEST_CASE(what_is_convolved_is_activated) {
  const Convolution cases[] = {
      {{1, 3, 5, 7}, {5, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
      {{2, 16, 56, 9}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
      {{1, 32, 40, 40}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 32},
      {{3, 256, 7, 7}, {520, 256, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
      {{1, 2, 3, 3}, {2, 2, 1, 1}, {1, 1}, {2, 2}, {1, 1}, 1},
  };
  for (const Convolution& c : cases) {
    const Handle input = floats(c.input, channels_last(c.input), 1);
    for (size_t i = 0; i < values(input).size(); ++i) {
      data_of<float>(input)[i] *= 5;  // beyond all limits
    }
    const Handle weight = floats(c.weight, channels_last(c.weight), 2);
    const auto plain = values(convolve(c, input, weight, nullptr, nullptr, nullptr));
    for (const char* name : {"hardsigmoid", "hardswish", "sigmoid", "silu"}) {
      std::vector<float> expected;
      for (const float value : plain) {
        expected.push_back(static_cast<float>(activation_of(name, value)));
      }
      check_close(values(activated(c, input, weight, name)), expected, 1e-3);
      const Kept kept{&weight};
      check_close(values(activated(c, input, weight, name)), expected, 1e-3);
    }
  }
}

BOOST_AUTO_TEST_CASE(activations_of_any_number) {
  const float numbers[] = {0,    -0.0F, 1e-40F,   -1e-40F,   3,       -3,     3e38F,
                           88.7, -88.7, INFINITY, -INFINITY, -103.9F, -120.F, NAN};
  std::vector<float> given(200);
  for (size_t i = 0; i < given.size(); ++i) {
    given[i] = numbers[i % std::size(numbers)];
  }
  for (const char* name : {"hardsigmoid", "hardswish", "sigmoid", "silu"}) {
    std::vector<float> found = given;
    cpu::activation_named(name)(found.data(), static_cast<int64_t>(found.size()));
    for (size_t i = 0; i < given.size(); ++i) {
      const auto expected = static_cast<float>(activation_of(name, given[i]));
      const bool is_none = std::isnan(given[i]) || std::isnan(expected);
      const bool is_equal = found[i] == expected ||
                            std::fabs(found[i] - expected) <= 3e-7F * std::fabs(expected) + 1e-36F;
      BOOST_TEST((is_none ? std::isnan(found[i]) : is_equal),
                 name << " of " << given[i] << " is " << found[i] << ", expected " << expected);
    }
  }
  BOOST_TEST((cpu::activation_named("gelu") == nullptr));
}

BOOST_AUTO_TEST_CASE(activations_that_there_are_not) {
  const Handle x = floats({1, 4, 5, 5}, channels_last({1, 4, 5, 5}), 1);
  const int64_t ones[] = {1, 1};
  AtenTensorHandle out = nullptr;
  const auto failed = [&](const char* activation) {
    return aoti_torch_cpu_activated_convolution(x.get(), x.get(), nullptr, ones, 2, ones, 2, ones,
                                                2, 1, activation, &out) != 0;
  };
  BOOST_TEST(failed("gelu"));
  BOOST_TEST(reason().find("activation is 'gelu', expected hardsigmoid") != std::string::npos,
             reason());
  BOOST_TEST(failed(nullptr));
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

BOOST_AUTO_TEST_CASE(matrices_are_no_images) {
  const Handle x = floats({2, 64}, {64, 1}, 1);
  AtenTensorHandle out = nullptr;
  const int64_t ones[] = {1, 1};
  BOOST_TEST(aoti_torch_cpu_clamped_convolution(x.get(), x.get(), nullptr, ones, 2, ones, 2, ones,
                                                2, 1, nullptr, nullptr, &out) != 0);
  BOOST_TEST(reason().find("float32 of 2 dims, expected float32 of 4") != std::string::npos,
             reason());
}

BOOST_AUTO_TEST_SUITE_END()
