#include "cpu/memory/kept_blocks.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

using namespace aoti_plugins::cpu;

namespace {

constexpr size_t kBlock = size_t{1} << 20;
constexpr size_t kAround = 2 * kBlockAlignment;  // of a block: rounding, and a red zone

/// Each case begins and ends with nothing kept.
struct NothingKept {
  NothingKept() { release_kept_blocks(); }
  ~NothingKept() {
    release_kept_blocks();
    BOOST_TEST(kept_nbytes() == 0u);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(kept_blocks, NothingKept)

BOOST_AUTO_TEST_CASE(a_block_is_found_again) {
  void* first = take_block(kBlock);
  BOOST_REQUIRE(first != nullptr);
  BOOST_TEST(reinterpret_cast<uintptr_t>(first) % kBlockAlignment == 0u);
  std::memset(first, 1, kBlock);
  give_block(first, kBlock);
  BOOST_TEST(kept_nbytes() >= kBlock);
  void* again = take_block(kBlock - 100);  // too little is left to be a block
  BOOST_TEST(again == first);
  BOOST_TEST(kept_nbytes() == 0u);
  std::memset(again, 2, kBlock - 100);
  give_block(again, kBlock - 100);
}

BOOST_AUTO_TEST_CASE(blocks_are_cut_and_joined) {
  give_block(take_block(kBlock), kBlock);
  std::vector<unsigned char*> parts;
  for (int i = 0; i < 4; ++i) {
    parts.push_back(static_cast<unsigned char*>(take_block(kBlock / 5)));
    std::memset(parts.back(), i, kBlock / 5);
  }
  for (int i = 1; i < 4; ++i) {  // all of one region
    BOOST_TEST(parts[i] - parts[0] >= static_cast<ptrdiff_t>(i * (kBlock / 5)));
    BOOST_TEST(parts[i] - parts[0] < static_cast<ptrdiff_t>(kBlock));
  }
  for (const int i : {1, 3, 0, 2}) {
    BOOST_TEST(parts[i][kBlock / 5 - 1] == i);
    give_block(parts[i], kBlock / 5);
  }
  void* whole = take_block(kBlock);
  BOOST_TEST(whole == static_cast<void*>(parts[0]));
  give_block(whole, kBlock);
}

BOOST_AUTO_TEST_CASE(a_call_that_is_made_again_needs_nothing_new) {
  const auto call = [] {  // as the layers of a model: some are in use while the next is made
    std::vector<std::pair<void*, size_t>> blocks;
    for (size_t i = 0; i < 40; ++i) {
      const size_t nbytes = (kBlock * (i * 7 % 11 + 1)) / (i + 1) + kBlock / 4;
      blocks.emplace_back(take_block(nbytes), nbytes);
      if (i >= 3) give_block(blocks[i - 3].first, blocks[i - 3].second);
    }
    for (size_t i = 37; i < 40; ++i) give_block(blocks[i].first, blocks[i].second);
  };
  for (int i = 0; i < 4; ++i) call();
  const size_t kept = kept_nbytes();
  for (int i = 0; i < 20; ++i) call();
  BOOST_TEST(kept_nbytes() == kept);
}

BOOST_AUTO_TEST_CASE(small_blocks_are_the_c_librarys) {
  for (const size_t nbytes : {0, 1, 63, 64, 65, 1000, 32767}) {
    void* block = take_block(nbytes);
    BOOST_TEST(reinterpret_cast<uintptr_t>(block) % kBlockAlignment == 0u);
    std::memset(block, 1, nbytes);
    give_block(block, nbytes);
  }
  give_block(nullptr, 0);
  give_block(nullptr, kBlock);
  BOOST_TEST(kept_nbytes() == 0u);
}

BOOST_AUTO_TEST_CASE(no_more_is_kept_than_was_in_use_at_once) {
  for (size_t i = 1; i <= 40; ++i) {  // one at a time, each of another size
    const size_t nbytes = i * kBlock;
    give_block(take_block(nbytes), nbytes);
    BOOST_TEST(kept_nbytes() <= nbytes + kAround);
    BOOST_TEST(kept_nbytes() >= nbytes);
  }
}

BOOST_AUTO_TEST_CASE(sizes_that_cannot_be_are_refused) {
  BOOST_TEST(take_block(SIZE_MAX) == nullptr);
  BOOST_TEST(take_block(SIZE_MAX / 4) == nullptr);  // asked of the system, which has no such memory
  void* after = take_block(kBlock);
  BOOST_TEST(after != nullptr);
  give_block(after, kBlock);
  BOOST_TEST(kept_nbytes() < 2 * kBlock);
}

BOOST_AUTO_TEST_CASE(threads_share_what_is_kept) {
  std::atomic<bool> is_shared{false};
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([number, &is_shared] {
      for (int i = 0; i < 200; ++i) {
        const size_t nbytes = (size_t{1} + (number + i) % 3) * kBlock / 8;
        auto* block = static_cast<unsigned char*>(take_block(nbytes));
        std::memset(block, number, nbytes);
        if (block[0] != number || block[nbytes - 1] != number) is_shared = true;
        give_block(block, nbytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(!is_shared);
  BOOST_TEST(kept_nbytes() <= 4 * (3 * kBlock / 8 + kAround));
}

BOOST_AUTO_TEST_SUITE_END()
