// The convolution's shim over stand-ins for the driver and for cuDNN, against the CPU's.

#include <atomic>
#include <memory>
#include <thread>

#include "cuda/driver/driver.h"
#include "cuda/driver/shortage.h"
#include "cuda/libraries/cudnn.h"
#include "cuda/ops/conv_algorithm.h"
#include "cuda_fixture.h"
#include "ops/conv_plan.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

/// The arguments of one convolution.
struct Case {
  Ints input;
  Ints weight;
  Ints stride;
  Ints padding;
  Ints dilation;
  int64_t groups = 1;
  bool transposed = false;
  Ints output_padding;
  bool bias = true;
};

Case plain(const Ints& input, const Ints& weight) {
  const Ints ones(weight.size() - 2, 1);
  return {input, weight, ones, Ints(ones.size(), 0), ones, 1, false, Ints(ones.size(), 0), true};
}

Ints channels_last(const Ints& sizes) {
  Ints strides(sizes.size());
  conv_strides(static_cast<int64_t>(sizes.size()), sizes.data(), true, strides.data());
  return strides;
}

/// Small whole numbers, which every dtype holds exactly.
Handle host_numbers(const Ints& sizes, int32_t dtype, int64_t seed) {
  Handle wide = make(sizes, kFloat32);
  const int64_t numel = unwrap(wide.get())->numel();
  for (int64_t i = 0; i < numel; ++i) {
    data_of<float>(wide)[i] = static_cast<float>((i * 7 + seed) % 5 - 2);
  }
  Handle tensor = make(sizes, dtype);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(tensor.get(), wide.get(), 0) == 0, reason());
  return tensor;
}

Handle to_gpu(const Handle& host, const Ints& strides) {
  const Tensor& t = *unwrap(host.get());
  Handle device = make_on(kCuda, Ints(t.sizes(), t.sizes() + t.ndim()), strides, t.dtype());
  BOOST_TEST_REQUIRE(static_cast<bool>(device), reason());
  BOOST_TEST_REQUIRE(aoti_torch_copy_(device.get(), host.get(), 0) == 0, reason());
  return device;
}

template <typename Shim>
AOTITorchError call(const Shim& shim, const Case& c, const Handle& input, const Handle& weight,
                    AtenTensorHandle bias, Handle* ret) {
  AtenTensorHandle raw = nullptr;
  const auto count = [](const Ints& list) { return static_cast<int64_t>(list.size()); };
  const AOTITorchError code = shim(
      input.get(), weight.get(), bias != nullptr ? &bias : nullptr, c.stride.data(),
      count(c.stride), c.padding.data(), count(c.padding), c.dilation.data(), count(c.dilation),
      c.transposed ? 1 : 0, c.output_padding.data(), count(c.output_padding), c.groups, &raw);
  ret->reset(raw);
  return code;
}

/// The elements of a tensor of either device, as doubles in the order of their indices.
std::vector<double> numbers(const Handle& tensor) {
  const Tensor& t = *unwrap(tensor.get());
  Handle host = make(Ints(t.sizes(), t.sizes() + t.ndim()), t.dtype());
  Handle wide = make(Ints(t.sizes(), t.sizes() + t.ndim()), kFloat64);
  require(aoti_torch_copy_(host.get(), tensor.get(), 0) == 0);
  require(aoti_torch_copy_(wide.get(), host.get(), 0) == 0);
  return {data_of<double>(wide), data_of<double>(wide) + t.numel()};
}

/// Whether a thread's convolutions on a GPU, over a stream of its own, are all right.
bool convolves_on(int32_t gpu) {
  if (cuda::use_gpu(gpu) != Status::kOk) {
    return false;
  }
  const auto own = cuda::Stream::create(gpu);
  const cuda::StreamScope own_scope(*own);
  bool ok = true;
  for (int64_t i = 3; i < 12; ++i) {
    const Case c = plain({1, 2, i, 4}, {2, 2, 3, 3});
    Handle input = make_on(kCuda, c.input, row_major(c.input), kFloat32, gpu);
    Handle weight = make_on(kCuda, c.weight, row_major(c.weight), kFloat32, gpu);
    ok = ok && aoti_torch_cuda_fill__Scalar(input.get(), 2.0) == 0 &&
         aoti_torch_cuda_fill__Scalar(weight.get(), 1.0) == 0;
    Handle out;
    ok = ok && call(aoti_torch_cuda_convolution, c, input, weight, nullptr, &out) == 0 &&
         numbers(out) == std::vector<double>(static_cast<size_t>(2 * (i - 2) * 2), 36.0);
  }
  return ok;
}

/// Runs a case on both devices; the result on the GPU.
Handle check(const Case& c, int32_t dtype, const Ints& input_strides, const Ints& weight_strides) {
  Handle input = host_numbers(c.input, dtype, 1);
  Handle weight = host_numbers(c.weight, dtype, 2);
  const int64_t channels = c.transposed ? c.weight[1] * c.groups : c.weight[0];
  Handle bias = host_numbers({channels}, dtype, 3);
  Handle expected;
  BOOST_TEST_REQUIRE(call(aoti_torch_cpu_convolution, c, input, weight,
                          c.bias ? bias.get() : nullptr, &expected) == 0,
                     reason());
  Handle on_input = to_gpu(input, input_strides);
  Handle on_weight = to_gpu(weight, weight_strides);
  Handle on_bias = to_gpu(bias, {1});
  Handle out;
  BOOST_TEST_REQUIRE(call(aoti_torch_cuda_convolution, c, on_input, on_weight,
                          c.bias ? on_bias.get() : nullptr, &out) == 0,
                     reason());
  BOOST_TEST(numbers(out) == numbers(expected), boost::test_tools::per_element());
  return out;
}

Handle check(const Case& c, int32_t dtype = kFloat32) {
  return check(c, dtype, row_major(c.input), row_major(c.weight));
}

/// A capture on a stream of its own, which is current to the end of the scope.
class Capture {
 public:
  explicit Capture(cuda::Stream& launcher)
      : stream_(cuda::Stream::create(0, true)), scope_(*stream_) {
    stream_->capture_for(&launcher);
    require(cuda::driver().cuStreamBeginCapture(
                stream_->handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  }
  ~Capture() {
    CUgraph graph = nullptr;
    stream_->capture_for(nullptr);
    BOOST_TEST(cuda::driver().cuStreamEndCapture(stream_->handle(), &graph) == CUDA_SUCCESS);
    BOOST_TEST(cuda::driver().cuGraphDestroy(graph) == CUDA_SUCCESS);
  }

 private:
  std::shared_ptr<cuda::Stream> stream_;
  cuda::StreamScope scope_;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_conv, CudaFixture)

BOOST_AUTO_TEST_CASE(every_dtype_and_both_layouts) {
  const Case c = plain({2, 3, 6, 5}, {4, 3, 3, 2});
  for (const int32_t dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    BOOST_TEST(unwrap(check(c, dtype).get())->is_contiguous());
    for (const bool weight_too : {false, true}) {
      const Handle out = check(c, dtype, channels_last(c.input),
                               weight_too ? channels_last(c.weight) : row_major(c.weight));
      BOOST_TEST(is_channels_last(*unwrap(out.get())) == (dtype != kFloat64));
    }
  }
}

BOOST_AUTO_TEST_CASE(strides_groups_padding_and_dilation) {
  Case c = plain({2, 4, 9, 8}, {6, 2, 3, 3});
  c.groups = 2;
  c.stride = {2, 1};
  c.padding = {1, 2};
  c.dilation = {1, 2};
  check(c);
  check(c, kFloat32, channels_last(c.input), channels_last(c.weight));
  c.bias = false;
  check(c);
  Case depthwise = plain({1, 4, 5, 5}, {4, 1, 3, 3});
  depthwise.groups = 4;
  check(depthwise);
}

BOOST_AUTO_TEST_CASE(one_and_three_dims_and_no_batch) {
  check(plain({2, 3, 10}, {4, 3, 3}));
  check(plain({3, 10}, {4, 3, 3}));
  check(plain({3, 6, 6}, {4, 3, 3, 3}));
  Case c = plain({2, 3, 4, 5, 6}, {4, 3, 2, 3, 2});
  c.padding = {1, 0, 1};
  check(c);
  check(c, kFloat32, channels_last(c.input), channels_last(c.weight));
}

BOOST_AUTO_TEST_CASE(transposed) {
  Case c = plain({2, 4, 5, 4}, {4, 3, 3, 3});
  c.transposed = true;
  c.stride = {2, 2};
  c.padding = {1, 0};
  for (const Ints& extra : {Ints{0, 0}, Ints{1, 0}, Ints{0, 1}}) {
    c.output_padding = extra;
    check(c);
    check(c, kFloat32, channels_last(c.input), channels_last(c.weight));
  }
  c.groups = 2;
  check(c, kFloat64);
  Case line = plain({2, 4, 5}, {4, 3, 3});
  line.transposed = true;
  check(line);
}

BOOST_AUTO_TEST_CASE(other_strides_and_odd_addresses_are_copied) {
  const Case c = plain({2, 3, 6, 5}, {4, 3, 3, 2});
  check(c, kFloat32, {180, 1, 15, 3}, {36, 1, 12, 3});
  check(c, kFloat32, {120, 40, 6, 1}, row_major(c.weight));
  Handle block = to_gpu(host_numbers({181}, kFloat32, 1), {1});
  const Ints sizes = {2, 3, 6, 5};
  const Ints strides = row_major(sizes);
  AtenTensorHandle raw = nullptr;
  BOOST_TEST_REQUIRE(
      aoti_torch__reinterpret_tensor(block.get(), 4, sizes.data(), strides.data(), 1, &raw) == 0,
      reason());
  Handle odd(raw);
  Handle even = to_gpu(host_numbers(sizes, kFloat32, 8), strides);  // 7 further
  Handle weight = to_gpu(host_numbers(c.weight, kFloat32, 2), row_major(c.weight));
  BOOST_TEST(numbers(odd) == numbers(even), boost::test_tools::per_element());
  Handle first;
  Handle second;
  BOOST_TEST(call(aoti_torch_cuda_convolution, c, odd, weight, nullptr, &first) == 0, reason());
  BOOST_TEST(call(aoti_torch_cuda_convolution, c, even, weight, nullptr, &second) == 0, reason());
  BOOST_TEST(numbers(first) == numbers(second), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_has_the_layout_is_used_in_place, *boost::unit_test::label(kStandIn)) {
  const Case c = plain({2, 3, 6, 5}, {4, 3, 3, 2});
  Handle input = to_gpu(host_numbers(c.input, kFloat32, 1), row_major(c.input));
  Handle weight = to_gpu(host_numbers(c.weight, kFloat32, 1), row_major(c.weight));
  BOOST_TEST((stream->synchronize() == Status::kOk));
  const size_t launches = fake().launches();
  const size_t copies = fake().calls("cuMemcpyDtoDAsync_v2");
  Handle out;
  BOOST_TEST(call(aoti_torch_cuda_convolution, c, input, weight, nullptr, &out) == 0, reason());
  BOOST_TEST((stream->synchronize() == Status::kOk));
  BOOST_TEST(fake().launches() == launches);
  BOOST_TEST(fake().calls("cuMemcpyDtoDAsync_v2") == copies);
}

BOOST_AUTO_TEST_CASE(nothing_to_compute) {
  const Case c = plain({0, 3, 6, 5}, {4, 3, 3, 2});
  Handle input = make_on(kCuda, c.input, row_major(c.input), kFloat32);
  Handle weight = make_on(kCuda, c.weight, row_major(c.weight), kFloat32);
  Handle out;
  BOOST_TEST(call(aoti_torch_cuda_convolution, c, input, weight, nullptr, &out) == 0, reason());
  BOOST_TEST(unwrap(out.get())->size(1) == 4);
  BOOST_TEST(unwrap(out.get())->numel() == 0);
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_named) {
  const Case good = plain({2, 3, 6, 5}, {4, 3, 3, 2});
  Handle input = make_on(kCuda, good.input, row_major(good.input), kFloat32);
  Handle weight = make_on(kCuda, good.weight, row_major(good.weight), kFloat32);
  Handle out;
  const auto refuse = [&](const Case& c, const Handle& x, const Handle& w, AtenTensorHandle b,
                          const std::string& part) {
    BOOST_TEST(call(aoti_torch_cuda_convolution, c, x, w, b, &out) != 0);
    BOOST_TEST(reason().find(part) != std::string::npos, "'" << reason() << "' lacks " << part);
    BOOST_TEST(!out);
  };
  const Handle nothing;
  refuse(good, nothing, weight, nullptr, "input is null");
  refuse(good, input, nothing, nullptr, "weight is null");
  refuse(good, make(good.input, kFloat32), weight, nullptr, "input is on cpu, expected cuda");
  refuse(good, input, make(good.weight, kFloat32), nullptr, "weight is on cpu, expected cuda");
  refuse(good, input, make_on(kCuda, good.weight, row_major(good.weight), kFloat16), nullptr,
         "weight is float16, expected float32");
  refuse(good, input, weight, make_on(kCuda, {3}, {1}, kFloat32).get(), "bias has 3 elements");
  Handle whole = make_on(kCuda, good.input, row_major(good.input), kInt32);
  Handle whole_weight = make_on(kCuda, good.weight, row_major(good.weight), kInt32);
  refuse(good, whole, whole_weight, nullptr, "no convolution for int32 on cuda");
  Case c = good;
  c.groups = 2;
  refuse(c, input, weight, nullptr, "the weight expects 6");
  c = good;
  c.stride = {0, 1};
  refuse(c, input, weight, nullptr, "stride is 0");
  c = good;
  c.dilation = {4, 1};
  refuse(c, input, weight, nullptr, "does not fit");
}

BOOST_AUTO_TEST_CASE(a_weight_of_another_gpu_is_refused, *boost::unit_test::label(kTwoGpus)) {
  const Case c = plain({2, 3, 6, 5}, {4, 3, 3, 2});
  Handle input = make_on(kCuda, c.input, row_major(c.input), kFloat32);
  Handle weight = make_on(kCuda, c.weight, row_major(c.weight), kFloat32, 1);
  Handle out;
  check_refused(call(aoti_torch_cuda_convolution, c, input, weight, nullptr, &out),
                "weight is on cuda:1, expected cuda:0");
  BOOST_TEST(!out);
}

BOOST_AUTO_TEST_CASE(problems_without_an_algorithm_are_described,
                     *boost::unit_test::label(kStandIn)) {
  Case c = plain({1, 2, 4, 4}, {2, 2, 3, 3});
  c.transposed = true;
  c.output_padding = {1, 1};  // as large as the stride
  Handle input = make_on(kCuda, c.input, row_major(c.input), kFloat32);
  Handle weight = make_on(kCuda, c.weight, row_major(c.weight), kFloat32);
  Handle out;
  BOOST_TEST(call(aoti_torch_cuda_convolution, c, input, weight, nullptr, &out) != 0);
  BOOST_TEST(reason().find("cuDNN has no convolution of float32 [1, 2, 1, 4, 4] with a kernel "
                           "[1, 3, 3] to 2 channels in 1 groups") != std::string::npos,
             reason());
  BOOST_TEST(reason().find("CUDNN_STATUS_BAD_PARAM (2000)") != std::string::npos, reason());
}

BOOST_AUTO_TEST_CASE(memory_for_the_workspace_runs_out, *boost::unit_test::label(kStandIn)) {
  Case c = plain({1, 2, 4, 4}, {2, 2, 3, 3});
  Handle input = make_on(kCuda, c.input, row_major(c.input), kFloat32);
  Handle weight = make_on(kCuda, c.weight, row_major(c.weight), kFloat32);
  Handle kept = make_on(kCuda, {1, 2, 2, 2}, {8, 4, 2, 1}, kFloat32);
  kept.reset();  // memory for the result
  fake().set_memory(fake().device_nbytes());
  Handle out;
  BOOST_TEST(call(aoti_torch_cuda_convolution, c, input, weight, nullptr, &out) != 0);
  BOOST_TEST(reason().find("out of memory: a workspace of 1000 bytes") != std::string::npos,
             reason());
  fake().set_memory(1 << 30);
  BOOST_TEST(call(aoti_torch_cuda_convolution, c, input, weight, nullptr, &out) == 0, reason());
}

BOOST_AUTO_TEST_CASE(handles_and_plans_are_not_made_in_a_capture,
                     *boost::unit_test::label(kStandIn)) {
  const Case c = plain({1, 2, 23, 4}, {2, 2, 3, 3});
  Handle input = make_on(kCuda, c.input, row_major(c.input), kFloat32);
  Handle weight = make_on(kCuda, c.weight, row_major(c.weight), kFloat32);
  {
    const cuda::dnn::HandleScope one(0);
  }
  const Capture capture(*stream);
  const uint64_t before = cuda::shortages();
  Handle out;
  {
    std::vector<std::unique_ptr<cuda::dnn::HandleScope>> others;  // have all that there are
    for (int i = 0; i < 64; ++i) {
      others.push_back(std::make_unique<cuda::dnn::HandleScope>(0));
    }
    check_refused(call(aoti_torch_cuda_convolution, c, input, weight, nullptr, &out),
                  "a handle of cuDNN cannot be made while a graph is captured");
  }
  check_refused(call(aoti_torch_cuda_convolution, c, input, weight, nullptr, &out),
                "a plan for a new convolution cannot be made while a graph is captured");
  BOOST_TEST(cuda::shortages() > before);  // a later capture may find them
}

BOOST_AUTO_TEST_CASE(plans_in_graphs_are_kept, *boost::unit_test::label(kStandIn)) {
  const cuda::dnn::HandleScope handle(0);
  const auto find = [&](int64_t batch) {
    ConvPlan plan;
    plan.batch = batch;
    plan.in_channels = plan.out_channels = 1;
    return cuda::ConvAlgorithm::find(plan, kFloat32, handle.get());
  };
  const std::weak_ptr<cuda::ConvAlgorithm> plain_one = find(1);
  const std::weak_ptr<cuda::ConvAlgorithm> in_graph = find(2);
  BOOST_TEST_REQUIRE(!plain_one.expired(), last_failure());
  {
    const Capture capture(*stream);
    BOOST_TEST(find(2) == in_graph.lock());
  }
  for (size_t i = 0; i <= cuda::ConvAlgorithm::kMaxKept; ++i) {
    (void)find(static_cast<int64_t>(i) + 3);
  }
  BOOST_TEST(plain_one.expired());
  BOOST_TEST(!in_graph.expired());
}

BOOST_AUTO_TEST_CASE(threads_and_gpus_at_the_same_time, *boost::unit_test::label(kTwoGpus)) {
  std::atomic<bool> right{false};
  std::thread other([&] { right = convolves_on(1); });
  BOOST_TEST(convolves_on(0));
  other.join();
  BOOST_TEST(right);
}

BOOST_AUTO_TEST_CASE(two_threads) {
  std::atomic<bool> right{false};
  std::thread other([&] { right = convolves_on(0); });
  BOOST_TEST(convolves_on(0));
  other.join();
  BOOST_TEST(right);
}

BOOST_AUTO_TEST_SUITE_END()
