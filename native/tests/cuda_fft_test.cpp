// Fourier transforms over stand-ins for the driver and for cuFFT, against their definition.

#include <cmath>
#include <complex>
#include <cstdlib>
#include <thread>

#include "cuda/libraries/cufft.h"
#include "cuda_fixture.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

using Complex = std::complex<double>;
using Complexes = std::vector<Complex>;

enum Normalization : int64_t { kNone = 0, kByRoot = 1, kByLength = 2 };

struct Transform {
  Ints dims;
  bool real = false;
  bool onesided = false;
  bool forward = true;
  int64_t normalization = kNone;
};

bool is_real_dtype(int32_t dtype) {
  return dtype == kFloat32 || dtype == kFloat64;
}

int64_t numel_of(const Ints& sizes) {
  int64_t numel = 1;
  for (const int64_t size : sizes) {
    numel *= size;
  }
  return numel;
}

/// A tensor on the GPU with the numbers that are also given; the imaginary parts of a real one are
/// zero.
Handle numbers_on_gpu(const Ints& sizes, int32_t dtype, Complexes* ret) {
  Handle wide = make(sizes, kComplex128);
  ret->clear();
  for (int64_t i = 0; i < numel_of(sizes); ++i) {
    const double imaginary = is_real_dtype(dtype) ? 0.0 : static_cast<double>(i * 5 % 11) - 4.0;
    ret->emplace_back(static_cast<double>(i * 7 % 13) - 6.0, imaginary);
    data_of<Complex>(wide)[i] = ret->back();
  }
  Handle host = make(sizes, dtype);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(host.get(), wide.get(), 0) == 0, reason());
  Handle device = make_on(kCuda, sizes, row_major(sizes), dtype);
  BOOST_TEST_REQUIRE(static_cast<bool>(device), reason());
  BOOST_TEST_REQUIRE(aoti_torch_copy_(device.get(), host.get(), 0) == 0, reason());
  return device;
}

Complexes numbers(const Handle& tensor) {
  const Tensor& t = *unwrap(tensor.get());
  const Ints sizes(t.sizes(), t.sizes() + t.ndim());
  Handle host = make(sizes, t.dtype());
  Handle wide = make(sizes, kComplex128);
  require(aoti_torch_copy_(host.get(), tensor.get(), 0) == 0);
  require(aoti_torch_copy_(wide.get(), host.get(), 0) == 0);
  return {data_of<Complex>(wide), data_of<Complex>(wide) + t.numel()};
}

AOTITorchError call(const Transform& what, const Handle& self, Handle* ret) {
  AtenTensorHandle raw = nullptr;
  const auto count = static_cast<int64_t>(what.dims.size());
  const AOTITorchError code =
      what.real ? aoti_torch_cuda__fft_r2c(self.get(), what.dims.data(), count, what.normalization,
                                           what.onesided ? 1 : 0, &raw)
                : aoti_torch_cuda__fft_c2c(self.get(), what.dims.data(), count, what.normalization,
                                           what.forward ? 1 : 0, &raw);
  ret->reset(raw);
  return code;
}

/// One dim, by the definition.
Complexes along(const Complexes& from, const Ints& sizes, size_t dim, double sign) {
  int64_t inner = 1;
  for (size_t d = dim + 1; d < sizes.size(); ++d) {
    inner *= sizes[d];
  }
  const int64_t length = sizes[dim];
  Complexes to(from.size());
  for (int64_t i = 0; i < static_cast<int64_t>(from.size()); ++i) {
    const int64_t k = i / inner % length;
    for (int64_t j = 0; j < length; ++j) {
      const double turns = static_cast<double>(k * j) / static_cast<double>(length);
      to[static_cast<size_t>(i)] += from[static_cast<size_t>(i + (j - k) * inner)] *
                                    std::polar(1.0, sign * 2.0 * std::acos(-1.0) * turns);
    }
  }
  return to;
}

void check(const Ints& sizes, int32_t dtype, const Transform& what) {
  Complexes expected;
  Handle self = numbers_on_gpu(sizes, dtype, &expected);
  double count = 1.0;
  for (const int64_t dim : what.dims) {
    const auto d = static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim);
    expected = along(expected, sizes, d, what.forward ? -1.0 : 1.0);
    count *= static_cast<double>(sizes[d]);
  }
  const double scale = what.normalization == kByLength ? 1.0 / count
                       : what.normalization == kByRoot ? 1.0 / std::sqrt(count)
                                                       : 1.0;
  Handle out;
  BOOST_TEST_REQUIRE(call(what, self, &out) == 0, reason());
  const Complexes found = numbers(out);
  const int64_t length = sizes.back();
  const int64_t kept = what.onesided ? length / 2 + 1 : length;
  BOOST_TEST_REQUIRE(static_cast<int64_t>(found.size()) == numel_of(sizes) / length * kept);
  const double tolerance = dtype == kFloat64 || dtype == kComplex128 ? 1e-10 : 1e-3;
  for (int64_t i = 0; i < static_cast<int64_t>(found.size()); ++i) {
    const auto in = static_cast<size_t>(i / kept * length + i % kept);
    BOOST_TEST(std::abs(found[static_cast<size_t>(i)] - scale * expected[in]) < tolerance);
  }
}

/// How many plans the stand-in has.
size_t plans() {
  static void* library = dlopen(std::getenv("AOTI_PLUGINS_CUFFT"), RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<size_t (*)()>(dlsym(library, "fake_cufft_plans"))();
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_fft, CudaFixture)

BOOST_AUTO_TEST_CASE(complex_both_ways) {
  for (const int32_t dtype : {kComplex64, kComplex128}) {
    for (const bool forward : {true, false}) {
      for (const int64_t normalization : {kNone, kByRoot, kByLength}) {
        check({3, 6}, dtype, {{-1}, false, false, forward, normalization});
        check({2, 3, 5}, dtype, {{1, 2}, false, false, forward, normalization});
      }
    }
    check({2, 2, 3, 2}, dtype, {{1, 2, 3}});
    check({7}, dtype, {{0}});
    check({1}, dtype, {{0}});
  }
}

BOOST_AUTO_TEST_CASE(real_whole_and_onesided) {
  for (const int32_t dtype : {kFloat32, kFloat64}) {
    for (const bool onesided : {true, false}) {
      check({3, 6}, dtype, {{1}, true, onesided});
      check({2, 5}, dtype, {{1}, true, onesided, true, kByRoot});
      check({2, 3, 4}, dtype, {{1, 2}, true, onesided, true, kByLength});
    }
  }
}

BOOST_AUTO_TEST_CASE(an_address_that_is_not_aligned) {
  Complexes unused;
  Handle base = numbers_on_gpu({9}, kFloat32, &unused);
  const int64_t sizes[] = {8};
  const int64_t strides[] = {1};
  AtenTensorHandle raw = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch__reinterpret_tensor(base.get(), 1, sizes, strides, 1, &raw) == 0,
                     reason());
  Handle view(raw);
  Handle out;
  BOOST_TEST_REQUIRE(call({{0}, true, true}, view, &out) == 0, reason());
  const Complexes expected = along(numbers(view), {8}, 0, -1.0);
  const Complexes found = numbers(out);
  BOOST_TEST_REQUIRE(found.size() == 5u);
  for (size_t i = 0; i < found.size(); ++i) {
    BOOST_TEST(std::abs(found[i] - expected[i]) < 1e-3);
  }
}

BOOST_AUTO_TEST_CASE(nothing_to_transform) {
  Complexes unused;
  Handle self = numbers_on_gpu({0, 4}, kComplex64, &unused);
  Handle out;
  BOOST_TEST(call({{1}}, self, &out) == 0, reason());
  BOOST_TEST(unwrap(out.get())->numel() == 0);
}

BOOST_AUTO_TEST_CASE(violations) {
  Complexes unused;
  Handle self = numbers_on_gpu({2, 2, 2, 2}, kComplex64, &unused);
  Handle real = numbers_on_gpu({2, 2}, kFloat32, &unused);
  Handle host = make({2, 2}, kComplex64);
  Handle out;
  const auto refused = [&](const Transform& what, const Handle& tensor, const char* word) {
    BOOST_TEST(call(what, tensor, &out) != 0);
    BOOST_TEST(reason().find(word) != std::string::npos, reason());
    BOOST_TEST(out.get() == nullptr);
  };
  refused({{0}}, self, "not the last");
  refused({{3, 3}}, self, "twice");
  refused({{4}}, self, "dim");
  refused({{}}, self, "no dim");
  refused({{0, 1, 2, 3}}, self, "at most 3");
  refused({{3}, false, false, true, 7}, self, "normalization");
  refused({{1}}, real, "no complex transform of float32");
  refused({{3}, true}, self, "no real transform of complex64");
  refused({{1}}, host, "expected cuda");
  Handle turned = make_on(kCuda, {2, 3}, {1, 2}, kComplex64);
  refused({{1}}, turned, "row-major");
}

BOOST_AUTO_TEST_CASE(threads_have_plans_of_their_own) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      require(cuda::use_gpu(0) == Status::kOk);
      const auto own = cuda::Stream::create(0);
      require(own != nullptr);
      const cuda::StreamScope on(*own);
      for (int round = 0; round < 20; ++round) {
        Complexes from;
        Handle self = numbers_on_gpu({2, 8}, kComplex64, &from);
        Handle out;
        require(call({{1}}, self, &out) == 0);
        require(std::abs(numbers(out)[9] - along(from, {2, 8}, 1, -1.0)[9]) < 1e-3);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

BOOST_AUTO_TEST_CASE(plans_are_kept_but_not_all, *boost::unit_test::label(kStandIn)) {
  Complexes unused;
  Handle out;
  for (int64_t length = 1; length <= 90; ++length) {
    Handle self = numbers_on_gpu({length}, kComplex64, &unused);
    BOOST_TEST_REQUIRE(call({{0}}, self, &out) == 0, reason());
  }
  BOOST_TEST(plans() == cuda::fft::PlanScope::kKeptPlans);
  Handle self = numbers_on_gpu({90}, kComplex64, &unused);
  BOOST_TEST(call({{0}}, self, &out) == 0, reason());
  BOOST_TEST(plans() == cuda::fft::PlanScope::kKeptPlans);
}

BOOST_AUTO_TEST_SUITE_END()
