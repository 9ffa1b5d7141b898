// Memory, copies, fills and guards of the CUDA device, over a stand-in for the driver.

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "cuda/driver/driver.h"
#include "cuda/memory/device_memory.h"
#include "cuda/memory/kernel_copy.h"
#include "cuda/memory/memory_pool.h"
#include "cuda/ops/tf32.h"
#include "cuda/session/session.h"
#include "cuda_fixture.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using namespace aoti_plugins::cuda;

namespace {

std::vector<float> counted(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_device, CudaFixture)

BOOST_AUTO_TEST_CASE(memory_is_kept_and_given_again, *boost::unit_test::label(kStandIn)) {
  void* first = stream->allocate(1000);
  BOOST_TEST_REQUIRE(first != nullptr);
  stream->deallocate(first, 1000);
  BOOST_TEST(stream->allocate(900) == first);  // of the same size class
  const size_t calls = fake().calls("cuMemAllocFromPoolAsync");
  BOOST_TEST(calls == 1u);
  stream->deallocate(first, 900);
}

BOOST_AUTO_TEST_CASE(a_tensor_keeps_its_stream_alive) {
  Handle tensor = make_on(kCuda, {4}, {1}, kFloat32);
  const std::weak_ptr<cuda::Stream> weak = stream;
  scope.reset();
  stream.reset();
  BOOST_TEST(!weak.expired());
  tensor.reset();
  BOOST_TEST(weak.expired());
}

BOOST_AUTO_TEST_CASE(memory_without_a_stream_of_ours) {
  scope.reset();
  Handle tensor = make_on(kCuda, {4}, {1}, kFloat32);
  BOOST_TEST(static_cast<bool>(tensor));
}

BOOST_AUTO_TEST_CASE(out_of_memory_is_an_error_and_the_next_smaller_one_works,
                     *boost::unit_test::label(kStandIn)) {
  fake().set_memory(1 << 20);
  Handle large = make_on(kCuda, {1 << 20}, {1}, kFloat32);
  BOOST_TEST(!large);
  BOOST_TEST(reason().find("out of memory") != std::string::npos);
  BOOST_TEST(reason().find("CUDA_ERROR_OUT_OF_MEMORY") != std::string::npos);
  Handle small = make_on(kCuda, {1 << 10}, {1}, kFloat32);
  BOOST_TEST(static_cast<bool>(small));
}

BOOST_AUTO_TEST_CASE(kept_memory_is_given_back_before_memory_runs_out,
                     *boost::unit_test::label(kStandIn)) {
  fake().set_memory(1 << 20);
  void* block = stream->allocate(700 << 10);
  stream->deallocate(block, 700 << 10);
  void* other = stream->allocate(900 << 10);
  BOOST_TEST(other != nullptr, last_failure());
  stream->deallocate(other, 900 << 10);
}

BOOST_AUTO_TEST_CASE(the_limit_holds) {
  cuda::MemoryPool::set_limit(1 << 20);
  void* block = stream->allocate(800 << 10);
  BOOST_TEST(block != nullptr);
  BOOST_TEST(stream->allocate(800 << 10) == nullptr);
  BOOST_TEST(std::string(last_failure()).find("limit of 1048576 bytes") != std::string::npos);
  stream->deallocate(block, 800 << 10);
  cuda::MemoryPool::set_limit(SIZE_MAX);
}

BOOST_AUTO_TEST_CASE(what_idle_streams_keep_is_there_for_others) {
  const std::shared_ptr<Stream> idle = Stream::create(0);
  BOOST_REQUIRE(idle != nullptr);
  cuda::MemoryPool::set_limit(1 << 20);
  idle->deallocate(idle->allocate(800 << 10), 800 << 10);
  void* block = stream->allocate(800 << 10);
  BOOST_TEST(block != nullptr, last_failure());
  stream->deallocate(block, 800 << 10);
  void* again = idle->allocate(800 << 10);
  BOOST_TEST(again != nullptr, last_failure());
  idle->deallocate(again, 800 << 10);
  cuda::MemoryPool::set_limit(SIZE_MAX);
}

BOOST_AUTO_TEST_CASE(what_idle_streams_keep_is_there_for_weights,
                     *boost::unit_test::label(kStandIn)) {
  const std::shared_ptr<Stream> idle = Stream::create(0);
  BOOST_REQUIRE(idle != nullptr);
  idle->deallocate(idle->allocate(800 << 10), 800 << 10);
  fake().set_memory(fake().device_nbytes());
  CUdeviceptr weights = 0;
  BOOST_TEST((allocate_device_memory(0, 800 << 10, &weights) == CUDA_SUCCESS));
  (void)driver().cuMemFree(weights);
  idle->deallocate(idle->allocate(800 << 10), 800 << 10);
  void* block = stream->allocate(800 << 10);
  BOOST_TEST(block != nullptr, last_failure());
  stream->deallocate(block, 800 << 10);
  fake().set_memory(size_t{1} << 30);
}

BOOST_AUTO_TEST_CASE(streams_come_and_go_while_memory_is_short) {
  MemoryPool::set_limit(1 << 20);
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      const std::shared_ptr<Stream> brief = Stream::create(0);
      void* block = brief->allocate(300 << 10);
      brief->deallocate(block, 300 << 10);
    }
  });
  for (int i = 0; i < 200; ++i) {
    void* block = stream->allocate(static_cast<size_t>(500 + i) << 10);
    stream->deallocate(block, static_cast<size_t>(500 + i) << 10);
  }
  done = true;
  other.join();
  void* block = stream->allocate(900 << 10);
  BOOST_TEST(block != nullptr, last_failure());
  stream->deallocate(block, 900 << 10);
  MemoryPool::set_limit(SIZE_MAX);
}

BOOST_AUTO_TEST_CASE(a_refused_allocation_takes_nothing_from_other_threads) {
  MemoryPool* pool = MemoryPool::of(0);
  MemoryPool::set_limit(pool->used() + (1 << 20));
  std::atomic<bool> done{false};
  std::atomic<int> given{0};
  std::thread large([&] {
    while (!done) {
      given += pool->allocate(2 << 20, nullptr) != nullptr ? 1 : 0;
    }
  });
  int missing = 0;
  for (int i = 0; i < 20000; ++i) {
    void* block = pool->allocate(512, stream->handle());
    missing += block == nullptr ? 1 : 0;
    pool->deallocate(block, 512, stream->handle());
  }
  done = true;
  large.join();
  BOOST_TEST(missing == 0);
  BOOST_TEST(given == 0);
  void* some = pool->allocate(512, stream->handle());
  BOOST_TEST(pool->allocate(SIZE_MAX - 1, nullptr) == nullptr);  // more than can be added
  BOOST_TEST(std::string(last_failure()).find("exceed the limit") != std::string::npos);
  pool->deallocate(some, 512, stream->handle());
  MemoryPool::set_limit(SIZE_MAX);
}

BOOST_AUTO_TEST_CASE(copies_between_any_strides) {
  const std::vector<float> values = counted(24);
  const Ints sizes = {2, 3, 4};
  const Ints layouts[] = {{12, 4, 1}, {1, 2, 6}, {24, 8, 2}, {4, 8, 1}};
  for (const Ints& from : layouts) {
    Handle source = on_gpu(sizes, from, kFloat32, values);
    for (const Ints& to : layouts) {
      Handle target = make_on(kCuda, sizes, to, kFloat32);
      BOOST_TEST(aoti_torch_copy_(target.get(), source.get(), 0) == 0, reason());
      BOOST_TEST((read<float>(target) == values));
    }
  }
}

BOOST_AUTO_TEST_CASE(copies_broadcast_and_convert) {
  Handle row = on_gpu<float>({3}, {1}, kFloat32, {1.5f, -2.0f, 3.25f});
  Handle target = make_on(kCuda, {2, 3}, {3, 1}, kInt32);
  BOOST_TEST(aoti_torch_copy_(target.get(), row.get(), 0) == 0, reason());
  BOOST_TEST((read<int32_t>(target) == std::vector<int32_t>{1, -2, 3, 1, -2, 3}));
  Handle half = make_on(kCuda, {3}, {1}, kFloat16);
  BOOST_TEST(aoti_torch_copy_(half.get(), row.get(), 0) == 0, reason());
  BOOST_TEST((read<uint16_t>(half) == std::vector<uint16_t>{0x3e00, 0xc000, 0x4280}));
}

BOOST_AUTO_TEST_CASE(clones_zeroes_fills_and_reads_items) {
  Handle tensor = on_gpu({2, 3}, {1, 2}, kFloat32, counted(6));
  AtenTensorHandle raw = nullptr;
  BOOST_TEST(aoti_torch_clone(tensor.get(), &raw) == 0, reason());
  Handle clone(raw);
  BOOST_TEST((read<float>(clone) == counted(6)));
  BOOST_TEST(aoti_torch_zero_(tensor.get()) == 0, reason());
  BOOST_TEST((read<float>(tensor) == std::vector<float>(6, 0.0f)));
  for (const Ints& strides : {Ints{3, 1}, Ints{8, 2}}) {
    for (const int32_t dtype : {kFloat32, kFloat64, kInt16, kInt8, kInt64}) {
      Handle filled = make_on(kCuda, {2, 3}, strides, dtype);
      BOOST_TEST(aoti_torch_cuda_fill__Scalar(filled.get(), -7.0) == 0, reason());
      Handle wide = make_on(kCuda, {2, 3}, {3, 1}, kFloat64);
      BOOST_TEST(aoti_torch_copy_(wide.get(), filled.get(), 0) == 0, reason());
      BOOST_TEST((read<double>(wide) == std::vector<double>(6, -7.0)));
    }
  }
  Handle one = on_gpu<float>({}, {}, kFloat32, {2.5f});
  double item = 0;
  BOOST_TEST(aoti_torch_item_float64(one.get(), &item) == 0, reason());
  BOOST_TEST(item == 2.5);
}

BOOST_AUTO_TEST_CASE(wrong_tensors_are_refused) {
  Handle host = make({2}, kFloat32);
  BOOST_TEST(aoti_torch_cuda_fill__Scalar(host.get(), 1.0) != 0);
  BOOST_TEST(reason().find("self is on cpu, expected cuda") != std::string::npos);
  BOOST_TEST(aoti_torch_cuda_fill__Scalar(nullptr, 1.0) != 0);
  BOOST_TEST(!make_on(kCuda, {2}, {1}, kFloat32, 7));
  BOOST_TEST(reason().find("no device cuda:7") != std::string::npos);
  Handle empty = make_on(kCuda, {0, 3}, {3, 1}, kFloat32);
  BOOST_TEST(aoti_torch_cuda_fill__Scalar(empty.get(), 1.0) == 0);
  BOOST_TEST(aoti_torch_zero_(empty.get()) == 0);
}

BOOST_AUTO_TEST_CASE(a_failing_driver_is_an_error_with_its_name,
                     *boost::unit_test::label(kStandIn)) {
  Handle tensor = make_on(kCuda, {2}, {1}, kFloat32);
  fake().fail("cuMemsetD32Async", 1, 700);
  BOOST_TEST(aoti_torch_cuda_fill__Scalar(tensor.get(), 1.0) != 0);
  BOOST_TEST(reason().find("cuMemsetD32Async failed: CUDA_ERROR_FAKE") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_guard_puts_back_the_gpu, *boost::unit_test::label(kTwoGpus)) {
  CUDAGuardHandle guard = nullptr;
  int32_t index = -1;
  BOOST_TEST(aoti_torch_create_cuda_guard(1, &guard) == 0);
  BOOST_TEST(aoti_torch_get_current_device_index(&index) == 0);
  BOOST_TEST(index == 1);
  BOOST_TEST(aoti_torch_cuda_guard_set_index(guard, 0) == 0);
  BOOST_TEST(cuda::current_gpu() == 0);
  BOOST_TEST(aoti_torch_cuda_guard_set_index(guard, 1) == 0);
  BOOST_TEST(aoti_torch_delete_cuda_guard(guard) == 0);
  BOOST_TEST(cuda::current_gpu() == 0);
  void* current = stream->handle();
  BOOST_TEST(aoti_torch_get_current_cuda_stream(1, &current) == 0);
  BOOST_TEST(current == nullptr);
}

BOOST_AUTO_TEST_CASE(a_guard_for_no_gpu_changes_nothing) {
  CUDAGuardHandle guard = nullptr;
  const int32_t count = static_cast<int32_t>(gpus().size());
  check_refused(aoti_torch_create_cuda_guard(count, &guard), "there is no GPU");
  BOOST_TEST(guard == nullptr);
  BOOST_TEST(cuda::current_gpu() == 0);
}

BOOST_AUTO_TEST_CASE(a_guard_puts_back_the_stream) {
  void* current = nullptr;
  BOOST_TEST(aoti_torch_get_current_cuda_stream(0, &current) == 0);
  BOOST_TEST(current == stream->handle());
  CUDAStreamGuardHandle streams = nullptr;
  BOOST_TEST(aoti_torch_create_cuda_stream_guard(nullptr, 0, &streams) == 0);
  BOOST_TEST(aoti_torch_get_current_cuda_stream(0, &current) == 0);
  BOOST_TEST(current == nullptr);
  Handle elsewhere = make_on(kCuda, {2}, {1}, kFloat32);
  BOOST_TEST(aoti_torch_delete_cuda_stream_guard(streams) == 0);
  BOOST_TEST(aoti_torch_get_current_cuda_stream(0, &current) == 0);
  BOOST_TEST(current == stream->handle());
  BOOST_TEST(static_cast<bool>(elsewhere));
}

BOOST_AUTO_TEST_CASE(a_program_rounds_to_tf32_where_its_exporter_did) {
  const auto inside = [](uint32_t flags) {
    const auto session = CudaSession::create(0, flags);
    BOOST_REQUIRE(session != nullptr);
    const SessionScope entered(*session);
    BOOST_REQUIRE((entered.status() == Status::kOk));
    return tf32();
  };
  BOOST_TEST((!inside(0).matmul && !inside(0).convolution));
  BOOST_TEST((inside(kTf32Matmul).matmul && !inside(kTf32Matmul).convolution));
  BOOST_TEST((!inside(kTf32Convolution).matmul && inside(kTf32Convolution).convolution));
  BOOST_TEST((!tf32().matmul && !tf32().convolution));
  allow_tf32(true);
  BOOST_TEST((inside(0).matmul && inside(0).convolution));
  allow_tf32(false);
}

/// Whether what a thread writes on a GPU, over a stream of its own, is what it reads.
bool fills_on(int32_t gpu, int first) {
  if (cuda::use_gpu(gpu) != Status::kOk) {
    return false;
  }
  const auto own = cuda::Stream::create(gpu);
  const cuda::StreamScope own_scope(*own);
  bool ok = true;
  for (int i = first; i < first + 50; ++i) {
    Handle tensor = make_on(kCuda, {16, 4}, {4, 1}, kFloat32, gpu);
    Handle host = make({16, 4}, kFloat32);
    ok = ok && aoti_torch_cuda_fill__Scalar(tensor.get(), i) == 0 &&
         aoti_torch_copy_(host.get(), tensor.get(), 0) == 0 &&
         data_of<float>(host)[63] == static_cast<float>(i);
  }
  return ok;
}

BOOST_AUTO_TEST_CASE(two_threads_have_streams_of_their_own) {
  std::atomic<bool> right{false};
  std::thread other([&] { right = fills_on(0, 1000); });
  BOOST_TEST(fills_on(0, 0));
  other.join();
  BOOST_TEST(right);
}

BOOST_AUTO_TEST_CASE(two_gpus_have_streams_of_their_own, *boost::unit_test::label(kTwoGpus)) {
  std::atomic<bool> right{false};
  std::thread other([&] { right = fills_on(1, 1000); });
  BOOST_TEST(fills_on(0, 0));
  other.join();
  BOOST_TEST(right);
}

BOOST_AUTO_TEST_CASE(kernels_copy_a_little) {
  cuda::PinnedMemory from;
  cuda::PinnedMemory to;
  const size_t room = cuda::kKernelCopyNbytes + 16;
  BOOST_TEST_REQUIRE((from.allocate(room) == Status::kOk), last_failure());
  BOOST_TEST_REQUIRE((to.allocate(room) == Status::kOk), last_failure());
  std::iota(from.data(), from.data() + room, char{1});
  const Handle device = make_on(kCuda, {static_cast<int64_t>(room)}, {1}, kUInt8);
  char* const there = static_cast<char*>(unwrap(device.get())->data());
  for (const size_t nbytes : {size_t{1}, size_t{8}, size_t{12}, size_t{256}, room - 16, room}) {
    for (const size_t offset : {0, 3}) {
      BOOST_TEST_CONTEXT(nbytes << " bytes from " << offset << " on") {
        std::fill_n(to.data(), room, char{0});
        bool done = false;
        const size_t count = std::min(nbytes, room - offset);
        BOOST_TEST(
            (cuda::copy_by_kernel(0, there, from.data() + offset, count, &done) == Status::kOk));
        BOOST_TEST(done == (count <= cuda::kKernelCopyNbytes));
        if (done) {
          BOOST_TEST((cuda::copy_by_kernel(0, to.data(), there, count, &done) == Status::kOk));
          BOOST_TEST((stream->synchronize() == Status::kOk));
          BOOST_TEST(std::equal(to.data(), to.data() + count, from.data() + offset));
          BOOST_TEST(to.data()[count] == 0);
        }
      }
    }
  }
}

/// A call of a session that gives nothing and takes nothing, begun.
void begin_empty(cuda::CudaSession& session) {
  BOOST_TEST_REQUIRE((session.begin_call() == Status::kOk), last_failure());
  BOOST_TEST_REQUIRE((session.outputs_later() == Status::kOk), last_failure());
  BOOST_TEST_REQUIRE((session.end_call() == Status::kOk), last_failure());
}

/// What a kernel of a session does that finds an index out of range.
void find_fault() {
  int32_t* word = nullptr;
  BOOST_TEST_REQUIRE((cuda::current_stream().owner->fault_word(&word) == Status::kOk));
  *word = 1;
}

BOOST_AUTO_TEST_CASE(calls_that_are_begun_fail_for_what_is_found_meanwhile) {
  scope.reset();
  const auto session = cuda::CudaSession::create(0, 0);
  BOOST_TEST_REQUIRE((session != nullptr), last_failure());
  {
    const SessionScope inside(*session);
    begin_empty(*session);
    find_fault();
    BOOST_TEST((session->begin_call() != Status::kOk));  // it sees the fault first
    BOOST_TEST((session->finish_call() != Status::kOk));
    begin_empty(*session);
    begin_empty(*session);
    find_fault();
    BOOST_TEST((session->finish_call() != Status::kOk));
    BOOST_TEST((session->finish_call() != Status::kOk));  // it may have been this one
    begin_empty(*session);
    BOOST_TEST((session->finish_call() == Status::kOk), last_failure());
  }
}

BOOST_AUTO_TEST_SUITE_END()
