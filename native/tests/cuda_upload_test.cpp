// How weights get to the GPU, over a stand-in for the driver.

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "cuda/driver/driver.h"
#include "cuda/memory/upload.h"
#include "cuda/session/session.h"
#include "cuda_fixture.h"
#include "delegate/constants.h"
#include "delegate/shared_state.h"
#include "named_data.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using namespace aoti_plugins::cuda;

namespace {

using Words = std::vector<uint32_t>;

/// 1 MiB of words: as much as a thread copies at a time.
constexpr size_t kChunk = size_t{1} << 18;

Words counted(size_t count, uint32_t first) {
  Words words(count);
  std::iota(words.begin(), words.end(), first);
  return words;
}

Words read(const void* data, size_t count) {
  Words found(count);
  BOOST_TEST((driver().cuMemcpy(reinterpret_cast<CUdeviceptr>(found.data()),
                                reinterpret_cast<CUdeviceptr>(data),
                                count * sizeof(uint32_t)) == CUDA_SUCCESS));
  return found;
}

/// Words on the first GPU.
class Target {
 public:
  explicit Target(size_t count) : count_(count) {
    BOOST_TEST_REQUIRE((driver().cuMemAlloc(&ptr_, count * sizeof(uint32_t)) == CUDA_SUCCESS));
  }
  ~Target() { (void)driver().cuMemFree(ptr_); }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  /// Gives the uploader words of its own.
  Status add(Uploader& uploader, const Words& words) const {
    const auto free = [](void* owned, void*, size_t) { delete static_cast<Words*>(owned); };
    auto* owned = new Words(words);
    const size_t nbytes = words.size() * sizeof(uint32_t);
    return uploader.add(nullptr, data(), {owned->data(), nbytes, free, owned}, nbytes);
  }
  bool has(const Words& words) const { return read(data(), count_) == words; }

 private:
  void* data() const { return reinterpret_cast<void*>(ptr_); }

  CUdeviceptr ptr_ = 0;
  size_t count_;
};

/// Weights, and two delegates' sessions that load them.
struct Shared : CudaFixture {
  Shared() {
    map.set(ref.key, words.data(), ref.nbytes);
    BOOST_TEST_REQUIRE(static_cast<bool>(first), last_failure());
    BOOST_TEST_REQUIRE(static_cast<bool>(second), last_failure());
  }

  Words words = counted(48 * kChunk, 11);
  StorageRef ref{std::string(64, 'e') + "_weights_blob", 48 * kChunk * sizeof(uint32_t)};
  NamedData map;
  std::unique_ptr<CudaSession> first = CudaSession::create(0, 0);
  std::unique_ptr<CudaSession> second = CudaSession::create(0, 0);
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_upload, CudaFixture)

BOOST_AUTO_TEST_CASE(bytes_of_any_size) {
  // The driver copies the first ones; from 32 MiB on there are several threads, here up to eight.
  const std::vector<size_t> counts = {1,          1000,       8 * kChunk - 1,  37 * kChunk + 5,
                                      kChunk,     kChunk - 1, 96 * kChunk + 1, 2 * kChunk - 1,
                                      2 * kChunk, 3,          3 * kChunk + 1,  17 * kChunk + 3};
  std::vector<std::unique_ptr<Target>> targets;
  Uploader uploader(0);
  for (const size_t count : counts) {
    targets.push_back(std::make_unique<Target>(count));
    BOOST_TEST((targets.back()->add(uploader, counted(count, static_cast<uint32_t>(count))) ==
                Status::kOk),
               last_failure());
  }
  BOOST_TEST(!uploader.done().is_set());
  BOOST_TEST((uploader.finish() == Status::kOk), last_failure());
  BOOST_TEST(uploader.done().is_set());
  for (size_t i = 0; i < counts.size(); ++i) {
    BOOST_TEST(targets[i]->has(counted(counts[i], static_cast<uint32_t>(counts[i]))), counts[i]);
  }
}

BOOST_AUTO_TEST_CASE(an_uploader_that_goes_is_done) {
  const Words words = counted(36 * kChunk, 1);
  const Target target(words.size());
  LaterStatus done;
  {
    Uploader uploader(0);
    done = uploader.done();
    BOOST_TEST((target.add(uploader, words) == Status::kOk), last_failure());
  }
  BOOST_TEST(done.is_set());
  BOOST_TEST((done.get() == Status::kOk));
  BOOST_TEST(target.has(words));
}

BOOST_AUTO_TEST_CASE(what_fails_is_an_error, *boost::unit_test::label(kStandIn)) {
  const Words words(40 * kChunk, 5u);
  const Target target(words.size());
  for (const auto& [function, nth] : {std::pair{"cuMemcpyHtoDAsync_v2", 4},
                                      {"cuEventSynchronize", 5},
                                      {"cuEventRecord", 1},
                                      {"cuStreamSynchronize", 1}}) {
    Uploader uploader(0);
    fake().fail(function, nth, 700);
    const Status added = target.add(uploader, words);
    const Status finished = uploader.finish();
    BOOST_TEST((added == Status::kFailed || finished == Status::kFailed), function);
    BOOST_TEST(std::string(last_failure()).find("CUDA_ERROR_FAKE") != std::string::npos);
    BOOST_TEST((uploader.done().get() == finished));
    Uploader next(0);
    BOOST_TEST((target.add(next, words) == Status::kOk), last_failure());
    BOOST_TEST((next.finish() == Status::kOk), last_failure());
    BOOST_TEST(target.has(words));
  }
}

BOOST_AUTO_TEST_CASE(without_memory_for_threads_there_are_fewer,
                     *boost::unit_test::label(kStandIn)) {
  const Words words = counted(40 * kChunk, 3);
  const Target target(words.size());
  for (const auto& [function, nth] : {std::pair{"cuMemHostAlloc", 1},
                                      {"cuMemHostAlloc", 2},
                                      {"cuStreamCreate", 1},
                                      {"cuEventCreate", 2}}) {
    Uploader uploader(0);
    fake().fail(function, nth, 2);
    BOOST_TEST((target.add(uploader, words) == Status::kOk), last_failure());
    BOOST_TEST((uploader.finish() == Status::kOk), last_failure());
    BOOST_TEST(target.has(words));
  }
}

BOOST_FIXTURE_TEST_CASE(weights_that_another_thread_loads_are_waited_for, Shared) {
  auto mine = ConstantStorage::get(*first, map, ref, false);
  auto theirs = ConstantStorage::get(*second, map, ref, false);
  BOOST_TEST_REQUIRE((mine != nullptr && mine == theirs));
  BOOST_TEST(map.gets(ref.key) == 1u);
  std::atomic<bool> there{false};
  std::thread thread([&] { there = theirs->wait() == Status::kOk; });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  BOOST_TEST(!there);
  BOOST_TEST((first->loaded() == Status::kOk), last_failure());
  thread.join();
  BOOST_TEST(there);
  BOOST_TEST(map.open_buffers() == 0u);
  BOOST_TEST((read(theirs->data(), words.size()) == words));
}

BOOST_FIXTURE_TEST_CASE(what_has_been_read_is_not_kept_while_more_is, Shared) {
  std::vector<std::shared_ptr<ConstantStorage>> storages;
  for (const char digit : {'1', '2', '3', '4'}) {
    const StorageRef next{std::string(64, digit) + "_weights_blob", ref.nbytes};
    map.set(next.key, words.data(), next.nbytes);
    storages.push_back(ConstantStorage::get(*first, map, next, false));
    BOOST_TEST((storages.back() != nullptr), last_failure());
    BOOST_TEST(map.open_buffers() <= 1u);  // 48 MiB are more than what is read ahead
  }
  BOOST_TEST((first->loaded() == Status::kOk), last_failure());
  BOOST_TEST(map.open_buffers() == 0u);
}

BOOST_FIXTURE_TEST_CASE(weights_stay_where_the_first_load_of_them_goes_wrong, Shared) {
  auto theirs = ConstantStorage::get(*first, map, ref, false);
  BOOST_TEST((ConstantStorage::get(*second, map, ref, false) == theirs));
  first.reset();  // a delegate that cannot be loaded to the end
  BOOST_TEST((theirs->wait() == Status::kOk), last_failure());
  BOOST_TEST((read(theirs->data(), words.size()) == words));
}

BOOST_FIXTURE_TEST_CASE(two_loads_may_wait_for_each_other, Shared) {
  const StorageRef other{std::string(64, 'f') + "_weights_blob", ref.nbytes};
  const Words others = counted(48 * kChunk, 5);
  map.set(other.key, others.data(), other.nbytes);
  std::atomic<int> right{0};
  const auto load = [&](CudaSession& session, const StorageRef& one, const StorageRef& two) {
    (void)use_gpu(0);
    const auto a = ConstantStorage::get(session, map, one, false);
    const auto b = ConstantStorage::get(session, map, two, false);
    right += a != nullptr && b != nullptr && session.loaded() == Status::kOk &&
                     a->wait() == Status::kOk && b->wait() == Status::kOk
                 ? 1
                 : 0;
    return std::pair(a, b);
  };
  std::thread thread([&] { (void)load(*second, other, ref); });
  const auto [a, b] = load(*first, ref, other);
  thread.join();
  BOOST_TEST(right == 2);
  BOOST_TEST((read(a->data(), words.size()) == words));
  BOOST_TEST((read(b->data(), words.size()) == others));
}

BOOST_FIXTURE_TEST_CASE(a_thread_that_fails_leaves_nothing_under_way, Shared,
                        *boost::unit_test::label(kStandIn)) {
  const size_t before = fake().device_nbytes();
  for (const int nth : {1, 4, 9, 20}) {
    fake().fail("cuMemcpyHtoDAsync_v2", nth, 700);
    const auto storage = ConstantStorage::get(*first, map, ref, false);
    BOOST_TEST((first->loaded() == Status::kFailed));
    BOOST_TEST((storage == nullptr || storage->is_lost()));
    BOOST_TEST(map.open_buffers() == 0u);
  }
  BOOST_TEST(fake().device_nbytes() == before);
}

BOOST_FIXTURE_TEST_CASE(a_load_that_shares_weights_fails_with_them, Shared,
                        *boost::unit_test::label(kStandIn)) {
  const auto lost = ConstantStorage::get(*first, map, ref, false);
  BOOST_TEST((ConstantStorage::get(*second, map, ref, false) == lost));
  ConstantRef buffer;
  buffer.fqn = "cache";
  const auto state = SharedState::get(77);
  const auto turn = std::make_shared<Turn>();
  state->add({&buffer}, {kCuda, 0}, lost, turn);
  fake().fail("cuStreamSynchronize", 1, 700);
  BOOST_TEST((first->loaded() == Status::kFailed));
  BOOST_TEST((lost->wait() == Status::kFailed));
  BOOST_TEST(std::string(last_failure()).find("which another load was copying to cuda:0") !=
             std::string::npos);
  // Who still has them keeps nobody from loading them again.
  const auto again = ConstantStorage::get(*second, map, ref, false);
  BOOST_TEST_REQUIRE((again != nullptr && again != lost));
  BOOST_TEST((second->loaded() == Status::kOk), last_failure());
  BOOST_TEST((again->wait() == Status::kOk), last_failure());
  BOOST_TEST((read(again->data(), words.size()) == words));
  std::shared_ptr<ConstantStorage> shared = again;
  std::shared_ptr<Turn> whose = turn;
  BOOST_TEST((state->find({&buffer}, {kCuda, 0}, &shared, &whose) == Status::kOk), last_failure());
  BOOST_TEST((shared == nullptr));
}

BOOST_AUTO_TEST_SUITE_END()
