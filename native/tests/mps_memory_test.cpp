// Memory of the GPU: buffers by address, what is kept, host memory that is wrapped.

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "mps_fixture.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using mps::BufferIndex;
using mps::BufferPool;
using mps::BufferSlice;

namespace {

/// Pages of their own, as large as Apple's.
struct Pages {
  static constexpr size_t kPage = 16384;
  explicit Pages(size_t count) {
    void* block = nullptr;
    BOOST_TEST_REQUIRE(posix_memalign(&block, kPage, count * kPage) == 0);
    data = static_cast<char*>(block);
  }
  ~Pages() { std::free(data); }
  char* data;
};

Status find(const void* data, size_t nbytes, BufferSlice* ret) {
  return BufferIndex::instance().find(data, nbytes, ret);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mps_memory, MpsFixture)

BOOST_AUTO_TEST_CASE(size_classes_waste_little_and_are_their_own_class) {
  for (size_t nbytes = 1; nbytes < (size_t{1} << 40); nbytes = nbytes * 9 / 8 + 1) {
    const size_t size = BufferPool::size_class(nbytes);
    BOOST_TEST_REQUIRE(size >= nbytes);
    BOOST_TEST_REQUIRE(size <= nbytes + std::max<size_t>(nbytes / 8, 256));
    BOOST_TEST_REQUIRE(BufferPool::size_class(size) == size);
  }
  BOOST_TEST(BufferPool::size_class(SIZE_MAX - 1) == SIZE_MAX - 1);
}

BOOST_AUTO_TEST_CASE(what_is_freed_is_used_again_up_to_a_bound) {
  void* first = pool().allocate(1000);
  BOOST_TEST_REQUIRE((first != nullptr), last_failure());
  BOOST_TEST(pool().used() == BufferPool::size_class(1000));
  pool().deallocate(first, 1000);
  BOOST_TEST(pool().kept() == BufferPool::size_class(1000));
  const long buffers = metal_stand_in_buffers();
  void* second = pool().allocate(1001);
  BOOST_TEST((second == first));
  BOOST_TEST(metal_stand_in_buffers() == buffers);
  const size_t bound = pool().bound();
  pool().set_bound(100);
  pool().deallocate(second, 1001);
  BOOST_TEST(pool().kept() == 0u);
  pool().set_bound(bound);
}

BOOST_AUTO_TEST_CASE(a_limit_and_the_end_of_memory_are_errors) {
  pool().set_limit(5000);
  void* first = pool().allocate(4000);
  BOOST_TEST_REQUIRE((first != nullptr), last_failure());
  BOOST_TEST((pool().allocate(4000) == nullptr));
  check_reason("exceed the limit of 5000 bytes");
  pool().set_limit(SIZE_MAX);
  pool().deallocate(first, 4000);
  // What is kept makes room first.
  metal_stand_in_limit_memory(10000);
  void* large = pool().allocate(9000);
  BOOST_TEST_REQUIRE((large != nullptr), last_failure());
  BOOST_TEST((pool().allocate(9000) == nullptr));
  check_reason("the GPU gives no buffer of");
  pool().deallocate(large, 9000);
  metal_stand_in_limit_memory(0);
  BOOST_TEST((pool().allocate(mps::gpu().max_buffer_nbytes + 1) == nullptr));
  check_reason("a buffer of this GPU has at most");
}

BOOST_AUTO_TEST_CASE(addresses_inside_of_a_buffer_are_found) {
  char* data = static_cast<char*>(pool().allocate(1024));
  BufferSlice slice;
  BOOST_TEST((find(data + 100, 924, &slice) == Status::kOk));
  BOOST_TEST(slice.offset == 100u);
  BOOST_TEST((find(data + 100, 925, &slice) == Status::kFailed));
  check_reason("reach beyond the end of their buffer, which has 924 bytes there");
  BOOST_TEST((find(data + 1024, 1, &slice) == Status::kFailed));
  check_reason("is in no buffer of the GPU");
  pool().deallocate(data, 1024);
}

BOOST_AUTO_TEST_CASE(pages_are_wrapped_without_a_copy) {
  Pages pages(3);
  {
    mps::WrappedMemory memory;
    BOOST_TEST_REQUIRE(memory.wrap(pages.data, Pages::kPage + 1));
    BOOST_TEST(metal_stand_in_wrapped() == 1);
    BufferSlice slice;
    BOOST_TEST((find(pages.data + 10, 10, &slice) == Status::kOk));
    mps::WrappedMemory again;
    BOOST_TEST(again.wrap(pages.data, 10));
    BOOST_TEST(metal_stand_in_wrapped() == 1);
    mps::WrappedMemory beyond;
    BOOST_TEST(!beyond.wrap(pages.data, 2 * Pages::kPage + 1));
    mps::WrappedMemory inside;
    BOOST_TEST(!inside.wrap(pages.data + Pages::kPage, 10));
    mps::WrappedMemory next;
    BOOST_TEST(next.wrap(pages.data + 2 * Pages::kPage, 10));
  }
  BufferSlice slice;
  BOOST_TEST((find(pages.data, 1, &slice) == Status::kFailed));
  mps::WrappedMemory last;
  BOOST_TEST(last.wrap(pages.data + Pages::kPage, Pages::kPage));
  mps::WrappedMemory across;
  BOOST_TEST(!across.wrap(pages.data, 2 * Pages::kPage));
  mps::WrappedMemory unaligned;
  BOOST_TEST(!unaligned.wrap(pages.data + 64, 64));
  mps::WrappedMemory empty;
  BOOST_TEST(!empty.wrap(pages.data, 0));
  metal_stand_in_fail_buffer(1);
  mps::WrappedMemory refused;
  BOOST_TEST(!refused.wrap(pages.data, 10));
}

BOOST_AUTO_TEST_CASE(a_tensors_memory_is_used_again_by_its_stream_and_then_by_others) {
  void* first = nullptr;
  {
    const Handle tensor = make_mps({100}, kFloat32);
    first = unwrap(tensor.get())->data();
  }
  BOOST_TEST(pool().kept() == 0u);  // the GPU may still use it
  {
    const Handle tensor = make_mps({100}, kFloat32);
    BOOST_TEST((unwrap(tensor.get())->data() == first));
  }
  BOOST_TEST((stream->finish() == Status::kOk));
  BOOST_TEST(pool().kept() == BufferPool::size_class(400));
}

BOOST_AUTO_TEST_CASE(a_tensor_keeps_its_stream) {
  Handle kept;
  {
    const auto other = mps::Stream::create();
    const mps::StreamScope inner(*other);
    kept = make_mps({4}, kFloat32);
  }
  set_values<float>(kept, {1, 2, 3, 4});
  BOOST_TEST(values_of<float>(kept)[3] == 4.0f);
  std::thread([&] { kept.reset(); }).join();
}

BOOST_AUTO_TEST_CASE(memory_of_generated_code_is_copied_and_freed) {
  void* buffer = nullptr;
  BOOST_TEST(aoti_torch_mps_malloc(&buffer, 64) == 0, last_failure());
  uint8_t constants[] = {1, 2, 3, 4, 5, 6, 7, 8};
  BOOST_TEST(aoti_torch_mps_memcpy(buffer, 4, 2, 6, constants) == 0);
  BOOST_TEST(static_cast<uint8_t*>(buffer)[4] == 3);
  BOOST_TEST(aoti_torch_mps_copy_buffer(buffer, buffer, 6, 4, 20) == 0);
  BOOST_TEST(static_cast<uint8_t*>(buffer)[25] == 8);
  BOOST_TEST(aoti_torch_mps_memcpy(buffer, 1000, 0, 8, constants) != 0);
  BOOST_TEST(aoti_torch_mps_copy_buffer(constants, buffer, 4, 0, 0) != 0);
  BOOST_TEST(aoti_torch_mps_memcpy(nullptr, 0, 0, 1, constants) != 0);
  BOOST_TEST(aoti_torch_mps_free(buffer) == 0);
  BOOST_TEST(aoti_torch_mps_free(buffer) != 0);
  check_reason("is not memory of aoti_torch_mps_malloc");
  BOOST_TEST(aoti_torch_mps_free(nullptr) == 0);
  metal_stand_in_fail_buffer(1);
  pool().trim(0);
  BOOST_TEST(aoti_torch_mps_malloc(&buffer, 64) != 0);
}

BOOST_AUTO_TEST_CASE(threads_allocate_at_once) {
  const auto work = [] {
    const auto own = mps::Stream::create();
    const mps::StreamScope inner(*own);
    for (int i = 0; i < 200; ++i) {
      const Handle a = make_mps({1 + i}, kFloat32);
      const Handle b = make_mps({300 - i}, kInt64);
      if (i % 10 == 0) {
        (void)own->finish();
      }
    }
  };
  std::thread thread(work);
  work();
  thread.join();
  BOOST_TEST(pool().used() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
