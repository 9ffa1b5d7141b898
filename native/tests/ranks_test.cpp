// Ranks as threads of one process: where they are, how they meet, what they compute, who is
// missing.

#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ranks/collectives.h"
#include "ranks/group.h"
#include "ranks/place.h"
#include "ranks/world.h"
#include "slim/dtype.h"
#include "slim/half.h"

using namespace aoti_plugins;
using namespace aoti_plugins::ranks;
using std::chrono::steady_clock;

namespace {

std::string new_meeting() {
  static std::atomic<int> next{0};
  return "ranks_test " + std::to_string(::getpid()) + " " + std::to_string(next++);
}

Place place_of(int32_t rank, int32_t world_size, const std::string& meeting, double seconds = 20) {
  Place place;
  place.rank = rank;
  place.world_size = world_size;
  place.meeting = meeting;
  place.timeout = std::chrono::duration<double>(seconds);
  return place;
}

/// What came of a rank: empty, or why it failed.
using Work = std::function<Status(World&)>;

/// Runs a thread for each rank; each opens the world and works. Boost.Test is not called from them.
std::vector<std::string> on_ranks(int32_t world_size, const Work& work, double seconds = 20,
                                  int32_t absent = -1) {
  const std::string meeting = new_meeting();
  std::vector<std::string> reasons(world_size);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < world_size; ++rank) {
    if (rank == absent) {
      continue;
    }
    threads.emplace_back([&, rank] {
      const auto world = World::open(place_of(rank, world_size, meeting, seconds));
      if (world == nullptr || work(*world) != Status::kOk) {
        reasons[rank] = last_failure();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return reasons;
}

void check_all_well(const std::vector<std::string>& reasons) {
  for (const std::string& reason : reasons) {
    BOOST_TEST(reason == "");
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Elements that differ from rank to rank and from place to place.
template <typename T>
std::vector<T> numbers(int32_t rank, int64_t count) {
  std::vector<T> found(count);
  for (int64_t i = 0; i < count; ++i) {
    found[i] = static_cast<T>((i * 7 + rank * 3) % 11 + 1);
  }
  return found;
}

template <typename T>
T reduced(Reduction reduction, const std::vector<T>& values) {
  T found = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kAverage:
        found = static_cast<T>(found + values[i]);
        break;
      case Reduction::kMinimum:
        found = std::min(found, values[i]);
        break;
      case Reduction::kMaximum:
        found = std::max(found, values[i]);
        break;
      case Reduction::kProduct:
        found = static_cast<T>(found * values[i]);
        break;
    }
  }
  return reduction == Reduction::kAverage ? static_cast<T>(found / static_cast<T>(values.size()))
                                          : found;
}

constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kAverage, Reduction::kMinimum,
                                     Reduction::kMaximum, Reduction::kProduct};

template <typename T>
Status check_all_reduce(World& world, const Group& group, int32_t dtype, int64_t numel) {
  for (const Reduction reduction : kReductions) {
    const std::vector<T> in = numbers<T>(world.rank(), numel);
    std::vector<T> out(numel);
    AOTIP_RETURN_IF_FAILED(
        all_reduce(world, group, reduction, dtype, numel, in.data(), out.data()));
    for (int64_t i = 0; i < numel; ++i) {
      std::vector<T> values;
      for (int32_t at = 0; at < group.size; ++at) {
        values.push_back(numbers<T>(group.member(world.rank(), at), i + 1)[i]);
      }
      const T expected = reduced(reduction, values);
      AOTIP_CHECK(out[i] == expected, "%s, reduction %d, element %lld: found %g, expected %g",
                  dtype_name(dtype), static_cast<int>(reduction), static_cast<long long>(i),
                  static_cast<double>(out[i]), static_cast<double>(expected));
      i += numel > 5000 ? 997 : 0;
    }
  }
  return Status::kOk;
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_are_dims_of_a_mesh) {
  const Group rows{8, 4, 1};
  const Group columns{8, 2, 4};
  BOOST_TEST(rows.place(6) == 2);
  BOOST_TEST(rows.member(6, 0) == 4);
  BOOST_TEST(columns.place(6) == 1);
  BOOST_TEST(columns.member(6, 0) == 2);
  BOOST_TEST((rows.index() != columns.index()));
  BOOST_TEST((Group{8, 8, 1}.index() < Group::count(8)));
  BOOST_TEST((rows.check() == Status::kOk));
  for (const Group& wrong : {Group{8, 3, 1}, Group{8, 4, 4}, Group{0, 1, 1}, Group{65, 65, 1},
                             Group{8, 0, 1}, Group{8, 1, 0}}) {
    BOOST_TEST((wrong.check() == Status::kFailed));
  }
}

BOOST_AUTO_TEST_CASE(the_environment_says_the_place) {
  const std::pair<const char*, const char*> set[] = {
      {"RANK", "2"},           {"WORLD_SIZE", "4"},     {"LOCAL_RANK", "1"},
      {"MASTER_ADDR", "here"}, {"MASTER_PORT", "1234"}, {"AOTI_PLUGINS_RANK_TIMEOUT", "2.5"}};
  for (const auto& [name, value] : set) {
    ::setenv(name, value, 1);
  }
  Place place;
  BOOST_TEST((find_place(&place) == Status::kOk));
  BOOST_TEST(place.rank == 2);
  BOOST_TEST(place.world_size == 4);
  BOOST_TEST(place.local_rank == 1);
  BOOST_TEST(place.timeout.count() == 2.5);
  BOOST_TEST(contains(place.meeting, "here:1234"));
  const std::pair<std::pair<const char*, const char*>, const char*> wrong[] = {
      {{"RANK", "4"}, "the rank is 4, expected 0 to 3 of 4 ranks"},
      {{"RANK", "x"}, "RANK is 'x', expected a number from 0"},
      {{"WORLD_SIZE", "65"}, "the number of ranks is 65, expected 1 to 64"},
      {{"LOCAL_WORLD_SIZE", "2"}, "2 of 4 ranks are on this machine"},
      {{"MASTER_PORT", ""}, "where the ranks meet is not known"},
      {{"AOTI_PLUGINS_RANK_TIMEOUT", "0"}, "AOTI_PLUGINS_RANK_TIMEOUT is '0', expected seconds"},
      {{"WORLD_SIZE", ""},
       "which rank this process is is not known: start the ranks with torchrun"},
  };
  for (const auto& [variable, reason] : wrong) {
    const char* before = std::getenv(variable.first);
    const std::string kept = before != nullptr ? before : "";
    ::setenv(variable.first, variable.second, 1);
    BOOST_TEST((find_place(&place) == Status::kFailed));
    BOOST_TEST(contains(last_failure(), reason), last_failure());
    ::setenv(variable.first, kept.c_str(), 1);
  }
  ::setenv("AOTI_PLUGINS_RANK_MEETING", "/some/path", 1);
  BOOST_TEST((find_place(&place) == Status::kOk));
  BOOST_TEST(contains(place.meeting, "/some/path"));
  for (const auto& [name, value] : set) {
    ::unsetenv(name);
  }
  for (const char* name : {"AOTI_PLUGINS_RANK_MEETING", "LOCAL_WORLD_SIZE"}) {
    ::unsetenv(name);
  }
}

BOOST_AUTO_TEST_CASE(a_file_says_the_place) {
  const std::string path = "rank_file_" + std::to_string(::getpid());
  const auto write = [&](const char* text) { std::ofstream(path) << text; };
  ::setenv("AOTI_PLUGINS_RANK_FILE", path.c_str(), 1);
  Place place;
  BOOST_TEST((find_place(&place) == Status::kFailed));
  BOOST_TEST(contains(last_failure(), "No such file"), last_failure());
  write(
      "# of this host\n\n RANK = 2\r\nWORLD_SIZE=4\nLOCAL_RANK=1\n"
      "AOTI_PLUGINS_RANK_MEETING=here\nAOTI_PLUGINS_RANK_TIMEOUT=2.5");
  BOOST_TEST_REQUIRE((find_place(&place) == Status::kOk), last_failure());
  BOOST_TEST(place.rank == 2);
  BOOST_TEST(place.world_size == 4);
  BOOST_TEST(place.local_rank == 1);
  BOOST_TEST(place.timeout.count() == 2.5);
  BOOST_TEST(contains(place.meeting, "here"));
  ::setenv("RANK", "3", 1);  // the environment comes first
  BOOST_TEST((find_place(&place) == Status::kOk));
  BOOST_TEST(place.rank == 3);
  ::unsetenv("RANK");
  write("RANK=2\nWORLD_SIZE");
  BOOST_TEST((find_place(&place) == Status::kFailed));
  BOOST_TEST(contains(last_failure(), "line 2 of AOTI_PLUGINS_RANK_FILE"), last_failure());
  BOOST_TEST(contains(last_failure(), "is 'WORLD_SIZE', expected NAME=VALUE"), last_failure());
  write("RANK=2\nWORLD_SIZE=\n");
  BOOST_TEST((find_place(&place) == Status::kFailed));
  BOOST_TEST(contains(last_failure(), "which rank this process is is not known"), last_failure());
  ::unsetenv("AOTI_PLUGINS_RANK_FILE");
  (void)std::remove(path.c_str());
}

BOOST_AUTO_TEST_CASE(all_reduce_of_each_dtype_and_size) {
  check_all_well(on_ranks(4, [](World& world) -> Status {
    for (const Group& group : {world.everyone(), Group{4, 2, 1}, Group{4, 2, 2}}) {
      for (const int64_t numel : {int64_t{1}, int64_t{33}, int64_t{70001}, int64_t{0}}) {
        AOTIP_RETURN_IF_FAILED(check_all_reduce<float>(world, group, kFloat32, numel));
      }
      AOTIP_RETURN_IF_FAILED(check_all_reduce<double>(world, group, kFloat64, 100));
      AOTIP_RETURN_IF_FAILED(check_all_reduce<int64_t>(world, group, kInt64, 100));
      AOTIP_RETURN_IF_FAILED(check_all_reduce<int32_t>(world, group, kInt32, 100));
      AOTIP_RETURN_IF_FAILED(check_all_reduce<uint8_t>(world, group, kUInt8, 100));
      AOTIP_RETURN_IF_FAILED(check_all_reduce<int8_t>(world, group, kInt8, 100));
    }
    return Status::kOk;
  }));
}

BOOST_AUTO_TEST_CASE(halves_are_added_in_float_in_the_order_of_ranks) {
  check_all_well(on_ranks(3, [](World& world) -> Status {
    // In bfloat16 itself 256 + 1 is 256, three times.
    const float own[] = {256.0F, 1.0F, 1.0F};
    const uint16_t in[] = {float_to_bfloat16(own[world.rank()]), float_to_half(own[world.rank()])};
    uint16_t out[2] = {};
    const Group all = world.everyone();
    AOTIP_RETURN_IF_FAILED(all_reduce(world, all, Reduction::kSum, kBFloat16, 1, in, out));
    AOTIP_RETURN_IF_FAILED(all_reduce(world, all, Reduction::kSum, kFloat16, 1, in + 1, out + 1));
    AOTIP_CHECK(bfloat16_to_float(out[0]) == 258.0F, "found %g", bfloat16_to_float(out[0]));
    AOTIP_CHECK(half_to_float(out[1]) == 258.0F, "found %g", half_to_float(out[1]));
    const float large[] = {1e8F, -1e8F, 1.0F};  // from the left: 1
    float sum = 0;
    AOTIP_RETURN_IF_FAILED(
        all_reduce(world, all, Reduction::kSum, kFloat32, 1, &large[world.rank()], &sum));
    AOTIP_CHECK(sum == 1.0F, "found %g", sum);
    const float nan[] = {1.0F, NAN, 2.0F};
    float most = 0;
    AOTIP_RETURN_IF_FAILED(
        all_reduce(world, all, Reduction::kMaximum, kFloat32, 1, &nan[world.rank()], &most));
    AOTIP_CHECK(std::isnan(most), "found %g", most);
    return Status::kOk;
  }));
}

BOOST_AUTO_TEST_CASE(gathers_scatters_and_broadcasts) {
  check_all_well(on_ranks(4, [](World& world) -> Status {
    for (const Group& group : {world.everyone(), Group{4, 2, 2}}) {
      const auto ranks = static_cast<size_t>(group.size);
      for (const size_t count : {size_t{3}, size_t{100000}}) {
        const auto in = numbers<float>(world.rank(), static_cast<int64_t>(count));
        std::vector<float> out(count * ranks);
        AOTIP_RETURN_IF_FAILED(all_gather(world, group, count * 4, in.data(), out.data()));
        for (size_t i = 0; i < ranks; ++i) {
          const int32_t other = group.member(world.rank(), static_cast<int32_t>(i));
          const auto expected = numbers<float>(other, static_cast<int64_t>(count));
          AOTIP_CHECK(std::equal(expected.begin(), expected.end(), out.begin() + i * count),
                      "all_gather: rank %d", other);
        }
        const auto all = numbers<float>(world.rank(), static_cast<int64_t>(count * ranks));
        std::vector<float> part(count);
        AOTIP_RETURN_IF_FAILED(reduce_scatter(world, group, Reduction::kSum, kFloat32,
                                              static_cast<int64_t>(count), all.data(),
                                              part.data()));
        const size_t place = static_cast<size_t>(group.place(world.rank()));
        for (const size_t i : {size_t{0}, count / 2, count - 1}) {
          float expected = 0;
          for (size_t r = 0; r < ranks; ++r) {
            const int32_t other = group.member(world.rank(), static_cast<int32_t>(r));
            expected +=
                numbers<float>(other, static_cast<int64_t>(count * ranks))[place * count + i];
          }
          AOTIP_CHECK(part[i] == expected, "reduce_scatter: found %g, expected %g", part[i],
                      expected);
        }
        std::vector<float> same = in;
        AOTIP_RETURN_IF_FAILED(broadcast(world, group, 1, count * 4, same.data(), same.data()));
        const auto source =
            numbers<float>(group.member(world.rank(), 1), static_cast<int64_t>(count));
        AOTIP_CHECK(same == source, "broadcast");
      }
    }
    return Status::kOk;
  }));
}

BOOST_AUTO_TEST_CASE(all_to_all_of_other_sizes) {
  // Rank r sends (r + 1) * (to + 1) * scale bytes to each, nothing to itself.
  for (const size_t scale : {size_t{1}, size_t{60000}}) {
    check_all_well(on_ranks(3, [scale](World& world) -> Status {
      const auto length = [scale](size_t from, size_t to) {
        return from == to ? 0 : (from + 1) * (to + 1) * scale;
      };
      const auto own = static_cast<size_t>(world.rank());
      std::vector<size_t> in_nbytes;
      std::vector<size_t> out_nbytes;
      std::vector<uint8_t> in;
      std::vector<uint8_t> expected;
      for (size_t other = 0; other < 3; ++other) {
        in_nbytes.push_back(length(own, other));
        out_nbytes.push_back(length(other, own));
        in.insert(in.end(), length(own, other), static_cast<uint8_t>(own * 3 + other));
        expected.insert(expected.end(), length(other, own), static_cast<uint8_t>(other * 3 + own));
      }
      std::vector<uint8_t> out(expected.size());
      AOTIP_RETURN_IF_FAILED(all_to_all(world, world.everyone(), in_nbytes.data(), in.data(),
                                        out_nbytes.data(), out.data()));
      AOTIP_CHECK(out == expected, "rank %d got other bytes", world.rank());
      return Status::kOk;
    }));
  }
}

BOOST_AUTO_TEST_CASE(rows_that_are_not_expected_are_an_error) {
  const auto reasons = on_ranks(2, [](World& world) {
    const size_t in_nbytes[] = {4, 4};
    const size_t out_nbytes[] = {4, world.rank() == 0 ? size_t{8} : size_t{4}};
    uint8_t in[8] = {};
    uint8_t out[12];
    return all_to_all(world, world.everyone(), in_nbytes, in, out_nbytes, out);
  });
  BOOST_TEST(contains(reasons[0], "rank 1 has 4 bytes for rank 0, which expects 8"), reasons[0]);
}

BOOST_AUTO_TEST_CASE(who_is_missing_is_named_on_every_rank) {
  for (const int32_t absent : {0, 2}) {
    const auto start = steady_clock::now();
    const auto reasons = on_ranks(3, [](World&) { return Status::kOk; }, 0.5, absent);
    BOOST_TEST((steady_clock::now() - start < std::chrono::seconds(5)));
    for (int32_t rank = 0; rank < 3; ++rank) {
      const std::string expected = "rank " + std::to_string(absent) + " of 3 did not come to the";
      BOOST_TEST((rank == absent || contains(reasons[rank], expected)), reasons[rank]);
    }
  }
}

BOOST_AUTO_TEST_CASE(two_of_one_rank_and_other_counts_are_refused) {
  const std::string meeting = new_meeting();
  std::vector<std::string> reasons(3);
  const auto come = [&](int index, int32_t rank, int32_t world_size) {
    return std::thread([&reasons, meeting, index, rank, world_size] {
      if (World::open(place_of(rank, world_size, meeting, 5)) == nullptr) {
        reasons[index] = last_failure();
      }
    });
  };
  std::thread first = come(0, 0, 3);
  std::thread second = come(1, 1, 3);
  std::thread third = come(2, 1, 3);
  for (std::thread* thread : {&first, &second, &third}) {
    thread->join();
  }
  for (const std::string& reason : reasons) {
    BOOST_TEST(contains(reason, "are both rank 1 of 3"), reason);
  }
  first = come(0, 0, 3);
  second = come(1, 1, 2);
  first.join();
  second.join();
  BOOST_TEST(contains(reasons[0], "counts 2 ranks, rank 0 counts 3"), reasons[0]);
  BOOST_TEST(contains(reasons[1], "counts 2 ranks, rank 0 counts 3"), reasons[1]);
}

BOOST_AUTO_TEST_CASE(a_rank_that_ends_is_noticed_at_once) {
  const auto start = steady_clock::now();
  const auto reasons = on_ranks(3, [](World& world) -> Status {
    float value = 1;
    AOTIP_RETURN_IF_FAILED(
        all_reduce(world, world.everyone(), Reduction::kSum, kFloat32, 1, &value, &value));
    if (world.rank() == 1) {
      return Status::kOk;  // its world is closed
    }
    return all_reduce(world, world.everyone(), Reduction::kSum, kFloat32, 1, &value, &value);
  });
  BOOST_TEST((steady_clock::now() - start < std::chrono::seconds(5)));
  BOOST_TEST(reasons[1] == "");
  for (const int rank : {0, 2}) {
    BOOST_TEST(contains(reasons[rank], "rank 1 of 3 (process "), reasons[rank]);
    BOOST_TEST(contains(reasons[rank], "has ended"), reasons[rank]);
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_is_late_is_named_and_the_world_stays_over) {
  std::atomic<int> failed{0};
  const auto reasons = on_ranks(
      3,
      [&](World& world) -> Status {
        float value = 1;
        const auto reduce = [&] {
          return all_reduce(world, world.everyone(), Reduction::kSum, kFloat32, 1, &value, &value);
        };
        if (world.rank() == 2) {
          while (failed < 2) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        } else {
          const Status status = reduce();
          ++failed;
          AOTIP_CHECK(status == Status::kFailed, "it does not wait");
        }
        return reduce();
      },
      0.3);
  for (const std::string& reason : reasons) {
    BOOST_TEST(contains(reason, "rank 2 of 3 (process "), reason);
    BOOST_TEST(contains(reason, "did not come to all_reduce within 0.3 s"), reason);
  }
}

BOOST_AUTO_TEST_CASE(ranks_that_do_something_else_are_named) {
  const auto reasons = on_ranks(2, [](World& world) {
    float values[4] = {};
    const Group all = world.everyone();
    return world.rank() == 0
               ? all_reduce(world, all, Reduction::kSum, kFloat32, 4, values, values)
               : all_reduce(world, all, Reduction::kMaximum, kInt32, 2, values, values);
  });
  const bool one_way = contains(reasons[0],
                                "rank 1 of 2 is in all_reduce of int32 2 3, rank 0 is in "
                                "all_reduce of float32 4");
  const bool other_way = contains(reasons[0],
                                  "rank 0 of 2 is in all_reduce of float32 4, rank 1 is "
                                  "in all_reduce of int32 2 3");
  BOOST_TEST((one_way || other_way), reasons[0]);
  BOOST_TEST(reasons[0] == reasons[1]);
}

BOOST_AUTO_TEST_CASE(ranks_agree_on_what_they_load) {
  const auto reasons = on_ranks(3, [](World& world) -> Status {
    Step step = Step::named("forward");
    AOTIP_RETURN_IF_FAILED(world.agree(step, ""));
    const Status lacks = world.agree(step, world.rank() == 1 ? "there are no weights" : "");
    AOTIP_CHECK(lacks == Status::kFailed &&
                    std::string(last_failure()) == "rank 1 of 3: there are no weights",
                "unexpected: %s", last_failure());
    step.digest[31] = world.rank() == 2;
    return world.agree(step, "");
  });
  for (const std::string& reason : reasons) {
    BOOST_TEST(
        reason ==
        "rank 2 of 3 has another program than rank 0: it loads forward, rank 0 loads forward "
        "of other content");
  }
}

BOOST_AUTO_TEST_CASE(who_waits_patiently_has_no_time_limit) {
  check_all_well(on_ranks(
      2,
      [](World& world) -> Status {
        if (world.rank() == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(700));
        }
        char word[8] = {};
        std::strcpy(word, world.rank() == 0 ? "hello" : "");
        AOTIP_RETURN_IF_FAILED(
            broadcast(world, world.everyone(), 0, sizeof(word), word, word, true));
        AOTIP_CHECK(std::string(word) == "hello", "found %s", word);
        return Status::kOk;
      },
      0.3));
}

BOOST_AUTO_TEST_CASE(dtypes_and_reductions_are_checked) {
  BOOST_TEST((check_reduction(0, kBFloat16) == Status::kOk));
  BOOST_TEST((check_reduction(5, kFloat32) == Status::kFailed));
  BOOST_TEST((check_reduction(-1, kFloat32) == Status::kFailed));
  BOOST_TEST((check_reduction(0, kBool) == Status::kFailed));
  BOOST_TEST(contains(last_failure(), "bool is not reduced over ranks"));
}
