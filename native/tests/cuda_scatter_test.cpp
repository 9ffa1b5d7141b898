// The shims that put elements where an index says, or count them where their value does, over a
// stand-in for the driver that runs our kernels on the host; against the CPU's.

#include <algorithm>
#include <limits>

#include "cuda_numbers.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_scatter, CudaFixture)

BOOST_AUTO_TEST_CASE(counts_in_equal_intervals) {
  for (const int32_t dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const bool is_narrow = dtype == kFloat16 || dtype == kBFloat16;  // cannot say larger counts
    for (const int64_t length : {0, 1, 1000, is_narrow ? 2000 : 40000}) {
      const Handle host = host_numbers({length}, dtype, 50);  // from -4 to 45
      const Handle device = to_gpu(host);
      const Handle found =
          one([&](auto* ret) { return aoti_torch_cuda_histc(device.get(), 8, -2, 38, ret); });
      std::vector<double> expected(8, 0.0);
      for (const double x : numbers(host)) {
        if (x >= -2 && x <= 38) {
          expected[std::min<size_t>(7, static_cast<size_t>((x + 2) / 5))] += 1;
        }
      }
      BOOST_TEST(unwrap(found.get())->dtype() == dtype);
      BOOST_TEST(numbers(found) == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(counts_with_gaps_nan_and_as_many_intervals_as_there_may_be) {
  Handle host = make({6}, kFloat32);
  const float values[] = {kNan, kInf, -kInf, 0.0f, 1.0f, 0.5f};
  std::copy(std::begin(values), std::end(values), data_of<float>(host));
  const Handle device = to_gpu(host, {3});
  const Handle found =
      one([&](auto* ret) { return aoti_torch_cuda_histc(device.get(), 4096, 0, 1, ret); });
  std::vector<double> expected(4096, 0.0);
  expected[0] = expected[2048] = expected[4095] = 1;
  BOOST_TEST(numbers(found) == expected, boost::test_tools::per_element());

  const Handle integers = to_gpu(host_numbers({4}, kInt32));
  AtenTensorHandle raw = nullptr;
  check_refused(aoti_torch_cuda_histc(integers.get(), 4, 0, 1, &raw), "no histogram of int32");
  check_refused(aoti_torch_cuda_histc(device.get(), 4097, 0, 1, &raw), "4097 bins, expected 1 to");
  check_refused(aoti_torch_cuda_histc(device.get(), 0, 0, 1, &raw), "0 bins, expected 1 to");
  check_refused(aoti_torch_cuda_histc(device.get(), 4, 1, 1, &raw), "the bounds are 1 and 1");
  check_refused(aoti_torch_cuda_histc(device.get(), 4, 0, kInf, &raw), "the bounds are 0 and inf");
  check_refused(aoti_torch_cuda_histc(host.get(), 4, 0, 1, &raw), "self is on cpu");
  BOOST_TEST(raw == nullptr);
}

BOOST_AUTO_TEST_CASE(scatters_every_dtype_with_every_reduction) {
  const Ints sizes = {3, 4, 5};
  const Ints index_sizes = {2, 4, 3};
  for (const int32_t dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt16, kInt8, kUInt8, kInt64, kBool}) {
    const Handle self = host_numbers(sizes, dtype);
    const Handle src = host_numbers({3, 5, 4}, dtype, 3);
    Handle index = host_numbers(index_sizes, kInt64, 3);  // -4 to -2
    for (int64_t i = 0; i < 24; ++i) {
      data_of<int64_t>(index)[i] += 4;
    }
    const Handle on_self = to_gpu(self, {1, 15, 3});
    const Handle on_src = to_gpu(src);
    const Handle on_index = to_gpu(index, {1, 2, 8});
    for (const int64_t dim : {0, 1, -1}) {
      const Handle expected = make(sizes, dtype);
      const Handle found = make_on(kCuda, sizes, {20, 5, 1}, dtype);
      for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
        for (const int32_t include_self : {0, 1}) {
          BOOST_TEST_REQUIRE(
              aoti_torch_cpu_scatter_reduce_two_out(expected.get(), self.get(), dim, index.get(),
                                                    src.get(), reduce, include_self) == 0,
              reason());
          BOOST_TEST_REQUIRE(aoti_torch_cuda_scatter_reduce_two_out(found.get(), on_self.get(), dim,
                                                                    on_index.get(), on_src.get(),
                                                                    reduce, include_self) == 0,
                             reason());
          check_same(found, expected);
        }
      }
      BOOST_TEST_REQUIRE(
          aoti_torch_cpu_scatter_value_out(expected.get(), self.get(), dim, index.get(), 3.0) == 0);
      BOOST_TEST_REQUIRE(aoti_torch_cuda_scatter_value_out(found.get(), on_self.get(), dim,
                                                           on_index.get(), 3.0) == 0,
                         reason());
      check_same(found, expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(scatters_into_itself_and_nothing) {
  const Handle self = on_gpu<float>({4}, {1}, kFloat32, {1, 2, 3, 4});
  const Handle index = on_gpu<int64_t>({2}, {1}, kInt64, {3, 0});
  const Handle src = on_gpu<float>({3}, {1}, kFloat32, {7, 8, 9});
  BOOST_TEST(
      aoti_torch_cuda_scatter_src_out(self.get(), self.get(), 0, index.get(), src.get()) == 0,
      reason());
  BOOST_TEST((read<float>(self) == std::vector<float>{8, 2, 3, 7}));
  const Handle none = make_on(kCuda, {0}, {1}, kInt64);
  BOOST_TEST(aoti_torch_cuda_scatter_reduce_two_out(self.get(), self.get(), 0, none.get(),
                                                    src.get(), "mean", 0) == 0,
             reason());
  BOOST_TEST((read<float>(self) == std::vector<float>{8, 2, 3, 7}));
  const Handle scalar = on_gpu<float>({}, {}, kFloat32, {1});
  const Handle zero = on_gpu<int64_t>({}, {}, kInt64, {0});
  BOOST_TEST(aoti_torch_cuda_scatter_value_out(scalar.get(), scalar.get(), 0, zero.get(), 5.0) == 0,
             reason());
  BOOST_TEST(read<float>(scalar)[0] == 5.0f);
}

BOOST_AUTO_TEST_CASE(an_index_out_of_range_is_told_afterwards) {
  kept_objects = 2;  // and the stream's word, with the stream
  const Handle self = on_gpu<float>({3}, {1}, kFloat32, {1, 2, 3});
  for (const int64_t bad : {int64_t{3}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    const Handle index = on_gpu<int64_t>({2}, {1}, kInt64, {bad, 1});
    const Handle out = make_on(kCuda, {3}, {1}, kFloat32);
    BOOST_TEST(aoti_torch_cuda_scatter_value_out(out.get(), self.get(), 0, index.get(), 9.0) == 0,
               reason());
    BOOST_TEST((read<float>(out) == std::vector<float>{1, 9, 3}));
    BOOST_TEST((stream->check_fault() == Status::kFailed));
    BOOST_TEST(std::string(last_failure()).find("an index is out of range") != std::string::npos);
    BOOST_TEST((stream->check_fault() == Status::kOk));
  }
}

BOOST_AUTO_TEST_CASE(wrong_scatters_leave_the_result_alone) {
  const Handle host = make({2}, kInt64);
  const Handle out = on_gpu<float>({3}, {1}, kFloat32, {1, 2, 3});
  const Handle self = make_on(kCuda, {3}, {1}, kFloat32);
  const Handle index = on_gpu<int64_t>({2}, {1}, kInt64, {0, 1});
  const Handle src = make_on(kCuda, {2}, {1}, kFloat32);
  const Handle wide = make_on(kCuda, {2}, {1}, kFloat64);
  const Handle matrix = make_on(kCuda, {1, 2}, {2, 1}, kInt64);
  const Handle longer = make_on(kCuda, {4}, {1}, kInt64);
  const auto call = [&](const Handle& o, const Handle& i, const Handle& s, int64_t dim = 0) {
    return aoti_torch_cuda_scatter_src_out(o.get(), self.get(), dim, i.get(), s.get());
  };
  const Handle nothing;
  check_refused(call(nothing, index, src), "out is null");
  check_refused(call(out, nothing, src), "index is null");
  check_refused(call(out, index, nothing), "src is null");
  check_refused(call(out, host, src), "index is on cpu, expected cuda");
  check_refused(call(out, index, wide), "src is float64, expected float32");
  check_refused(call(out, src, src), "index is float32, expected int64");
  check_refused(call(src, index, src), "the sizes of out and self differ");
  check_refused(call(wide, index, src), "out is float64, expected float32");
  check_refused(call(out, matrix, src), "index has 2 dims, expected 1");
  check_refused(call(out, longer, src), "size 4 of dim 0 of index is larger");
  check_refused(call(out, index, src, 1), "dim 1 is out of range");
  check_refused(aoti_torch_cuda_scatter_reduce_two_out(out.get(), self.get(), 0, index.get(),
                                                       src.get(), "sums", 1),
                "reduce is 'sums'");
  check_refused(aoti_torch_cuda_scatter_reduce_two_out(out.get(), self.get(), 0, index.get(),
                                                       src.get(), nullptr, 1),
                "reduce is null");
  BOOST_TEST((read<float>(out) == std::vector<float>{1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(a_source_on_another_gpu_is_refused, *boost::unit_test::label(kTwoGpus)) {
  const Handle out = on_gpu<float>({3}, {1}, kFloat32, {1, 2, 3});
  const Handle index = on_gpu<int64_t>({2}, {1}, kInt64, {0, 1});
  const Handle src = make_on(kCuda, {2}, {1}, kFloat32, 1);
  check_refused(aoti_torch_cuda_scatter_src_out(out.get(), out.get(), 0, index.get(), src.get()),
                "cuda:1, expected cuda:0");
  BOOST_TEST((read<float>(out) == std::vector<float>{1, 2, 3}));
}

BOOST_AUTO_TEST_SUITE_END()
