#include "ranks/world.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <new>
#include <thread>

#include "cpu/threads/futex.h"
#include "delegate/fork_gate.h"
#include "slim/dtype.h"

namespace aoti_plugins::ranks {

using Clock = std::chrono::steady_clock;

/// Where the world's end is written, once.
enum EndState : uint32_t { kGoesOn = 0, kIsWritten = 1, kIsOver = 2 };

struct alignas(64) Bell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> is_slept_at;
  std::atomic<uint64_t> calls;
};

struct alignas(64) Counter {
  std::atomic<uint64_t> value;
};

/// The start of the memory that all ranks have. All zeros is right to begin with. Behind it are the
/// counters, [2, forms of groups, ranks], then the slots, [ranks, 2].
struct Segment {
  std::atomic<uint32_t> end_state;
  char reason[1020];
  Bell bells[kMaxRanks];
};

struct alignas(64) Slot {
  Step step;
  alignas(64) uint8_t data[World::kPieceNbytes];
};

namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(Counter) == 64);
static_assert(sizeof(Step) == 104, "steps are compared as bytes, without gaps");

constexpr int kArrived = 0;
constexpr int kDone = 1;
constexpr std::chrono::microseconds kSpin(20);
/// How often a rank that waits looks whether the other one is still there.
constexpr long kSleepNanoseconds = 10'000'000;

size_t counters_nbytes(int32_t world_size) {
  return sizeof(Counter) * 2 * static_cast<size_t>(Group::count(world_size)) *
         static_cast<size_t>(world_size);
}

size_t segment_nbytes(int32_t world_size) {
  return sizeof(Segment) + counters_nbytes(world_size) +
         sizeof(Slot) * 2 * static_cast<size_t>(world_size);
}

void sleep_at(std::atomic<uint32_t>& word, uint32_t value) noexcept {
  const timespec limit{0, kSleepNanoseconds};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

std::string described(const Step& step) {
  std::string text(step.what, strnlen(step.what, sizeof(step.what)));
  if (step.dtype >= 0) {
    text += std::string(" of ") + dtype_name(static_cast<int32_t>(step.dtype));
  }
  for (const int64_t number : step.numbers) {
    text += number != 0 ? " " + std::to_string(number) : "";
  }
  return text;
}

}  // namespace

Step Step::named(const char* what) noexcept {
  Step step;
  std::snprintf(step.what, sizeof(step.what), "%s", what);
  return step;
}

std::unique_ptr<World> World::open(const Place& place) noexcept {
  try {
    std::unique_ptr<World> world(new World(place));
    Met met;
    if (meet(place, segment_nbytes(place.world_size), &met) != Status::kOk ||
        world->map(std::move(met)) != Status::kOk) {
      return nullptr;
    }
    return world;
  } catch (const std::exception& error) {
    (void)fail("rank %d of %d: %s", place.rank, place.world_size, error.what());
    return nullptr;
  }
}

Status World::map(Met met) {
  nbytes_ = segment_nbytes(place_.world_size);
  void* memory = ::mmap(nullptr, nbytes_, PROT_READ | PROT_WRITE, MAP_SHARED, met.memory.get(), 0);
  AOTIP_CHECK(memory != MAP_FAILED, "%zu bytes of memory for all ranks: %s", nbytes_,
              std::strerror(errno));
  segment_ = static_cast<Segment*>(memory);
  lives_ = std::move(met.lives);
  process_ids_ = std::move(met.process_ids);
  own_life_ = std::move(met.own_life);
  return Status::kOk;
}

World::~World() {
  if (segment_ != nullptr) {
    ::munmap(segment_, nbytes_);
  }
}

std::atomic<uint64_t>& World::counter(int which, const Group& group, int32_t rank) const noexcept {
  auto* counters = reinterpret_cast<Counter*>(segment_ + 1);
  const int64_t form = which * Group::count(place_.world_size) + group.index();
  return counters[form * place_.world_size + rank].value;
}

Slot& World::slot(int32_t rank, int buffer) const noexcept {
  uint8_t* start = reinterpret_cast<uint8_t*>(segment_ + 1) + counters_nbytes(place_.world_size);
  return reinterpret_cast<Slot*>(start)[rank * 2 + buffer];
}

Status World::check_over() noexcept {
  if (segment_->end_state.load(std::memory_order_acquire) != kIsOver) {
    return Status::kOk;
  }
  return fail("%.*s", static_cast<int>(sizeof(segment_->reason)), segment_->reason);
}

Status World::end_with_last_failure() noexcept {
  uint32_t expected = kGoesOn;
  if (segment_->end_state.compare_exchange_strong(expected, kIsWritten)) {
    std::snprintf(segment_->reason, sizeof(segment_->reason), "%s", last_failure());
    segment_->end_state.store(kIsOver, std::memory_order_release);
    for (int32_t rank = 0; rank < place_.world_size; ++rank) {
      ring(rank);
    }
  }
  while (segment_->end_state.load(std::memory_order_acquire) != kIsOver) {
    std::this_thread::yield();  // another rank is writing why
  }
  return check_over();
}

Status World::end(const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  (void)fail_v(format, args);
  va_end(args);
  return end_with_last_failure();
}

bool World::has_ended(int32_t rank) const noexcept {
  pollfd polled{lives_[rank].get(), 0, 0};
  return rank != place_.rank && ::poll(&polled, 1, 0) == 1 && (polled.revents & POLLHUP) != 0;
}

bool World::is_over() noexcept {
  if (check_over() != Status::kOk) {
    return true;
  }
  for (int32_t rank = 0; rank < place_.world_size; ++rank) {
    if (has_ended(rank)) {
      return end("rank %d of %d (process %d) has ended", rank, place_.world_size,
                 process_ids_[rank]) != Status::kOk;
    }
  }
  return false;
}

void World::count_call() noexcept {
  segment_->bells[place_.rank].calls.fetch_add(1, std::memory_order_relaxed);
}

uint64_t World::own_calls() const noexcept {
  return segment_->bells[place_.rank].calls.load(std::memory_order_relaxed);
}

int32_t World::rank_behind(int32_t* ret_process, uint64_t* ret_calls) const noexcept {
  int32_t found = 0;
  for (int32_t rank = 0; rank < place_.world_size; ++rank) {
    const uint64_t calls = segment_->bells[rank].calls.load(std::memory_order_relaxed);
    if (rank == 0 || calls < *ret_calls) {
      found = rank;
      *ret_calls = calls;
    }
  }
  *ret_process = process_ids_[found];
  return found;
}

void World::ring(int32_t rank) noexcept {
  Bell& bell = segment_->bells[rank];
  bell.rings.fetch_add(1, std::memory_order_seq_cst);
  if (bell.is_slept_at.load(std::memory_order_seq_cst) != 0) {
    syscall(SYS_futex, &bell.rings, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

void World::ring(const Group& group) noexcept {
  for (int32_t at = 0; at < group.size; ++at) {
    const int32_t rank = group.member(place_.rank, at);
    if (rank != place_.rank) {
      ring(rank);
    }
  }
}

Status World::wait_for(const Group& group, int32_t member, int which, uint64_t count,
                       const char* what, bool patient) noexcept {
  const std::atomic<uint64_t>& counted = counter(which, group, member);
  const auto there = [&] { return counted.load(std::memory_order_acquire) >= count; };
  if (cpu::spin_until(there, kSpin)) {
    return Status::kOk;
  }
  Bell& bell = segment_->bells[place_.rank];
  const auto end_of_time =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(place_.timeout);
  for (;;) {
    const uint32_t rings = bell.rings.load(std::memory_order_seq_cst);
    bell.is_slept_at.store(1, std::memory_order_seq_cst);
    if (there()) {
      break;
    }
    if (check_over() != Status::kOk) {
      bell.is_slept_at.store(0, std::memory_order_relaxed);
      return Status::kFailed;
    }
    const bool ended = has_ended(member);
    if (ended && !there()) {
      (void)fail("rank %d of %d (process %d) has ended, and rank %d waited for it in %s", member,
                 place_.world_size, process_ids_[member], place_.rank, what);
      return end_with_last_failure();
    }
    if (!patient && Clock::now() >= end_of_time) {
      (void)fail("rank %d of %d (process %d) did not come to %s within %g s", member,
                 place_.world_size, process_ids_[member], what, place_.timeout.count());
      return end_with_last_failure();
    }
    sleep_at(bell.rings, rings);
  }
  bell.is_slept_at.store(0, std::memory_order_relaxed);
  return Status::kOk;
}

Status World::check_steps(const Group& group, int buffer) noexcept {
  const Step& own = slot(place_.rank, buffer).step;
  for (int32_t at = 0; at < group.size; ++at) {
    const int32_t rank = group.member(place_.rank, at);
    const Step& other = slot(rank, buffer).step;
    if (std::memcmp(&own, &other, sizeof(Step)) != 0) {
      (void)fail("rank %d of %d is in %s, rank %d is in %s%s", rank, place_.world_size,
                 described(other).c_str(), place_.rank, described(own).c_str(),
                 described(own) == described(other) ? " of another program" : "");
      return Status::kFailed;
    }
  }
  return Status::kOk;
}

Status World::step_of_group(const Group& group, const Step& step, const Fill& fill,
                            const Take& take, bool patient) {
  AOTIP_RETURN_IF_FAILED(check_over());
  const int buffer = next_buffer_;
  next_buffer_ = 1 - next_buffer_;
  LastUse& last = last_use_[buffer];
  if (last.count > 0) {
    for (int32_t at = 0; at < last.group.size; ++at) {
      AOTIP_RETURN_IF_FAILED(
          wait_for(last.group, last.group.member(place_.rank, at), kDone, last.count, step.what));
    }
  }
  Slot& own = slot(place_.rank, buffer);
  own.step = step;
  fill(own.data);
  std::atomic<uint64_t>& arrived = counter(kArrived, group, place_.rank);
  const uint64_t count = arrived.load(std::memory_order_relaxed) + 1;
  last = {group, count};
  arrived.store(count, std::memory_order_seq_cst);
  ring(group);
  std::vector<const uint8_t*> pieces;
  for (int32_t at = 0; at < group.size; ++at) {
    const int32_t rank = group.member(place_.rank, at);
    AOTIP_RETURN_IF_FAILED(wait_for(group, rank, kArrived, count, step.what, patient));
    pieces.push_back(slot(rank, buffer).data);
  }
  if (check_steps(group, buffer) != Status::kOk) {
    return end_with_last_failure();
  }
  const Status taken = take(pieces);
  counter(kDone, group, place_.rank).store(count, std::memory_order_seq_cst);
  ring(group);
  return taken;
}

Status World::exchange(const Group& group, const Step& step, const Fill& fill, const Take& take,
                       bool patient) noexcept {
  try {
    return step_of_group(group, step, fill, take, patient);
  } catch (const std::exception& error) {
    return end("rank %d of %d: %s: %s", place_.rank, place_.world_size, step.what, error.what());
  }
}

Status World::agree(const Step& step, const std::string& problem) noexcept {
  struct Said {
    Step step;
    char problem[1024];
  };
  const auto fill = [&](uint8_t* own) {
    Said* said = new (own) Said();
    said->step = step;
    std::snprintf(said->problem, sizeof(said->problem), "%s", problem.c_str());
  };
  const auto take = [&](const std::vector<const uint8_t*>& pieces) {
    const Said& first = *reinterpret_cast<const Said*>(pieces[0]);
    for (size_t rank = 0; rank < pieces.size(); ++rank) {
      const Said& said = *reinterpret_cast<const Said*>(pieces[rank]);
      AOTIP_CHECK(said.problem[0] == '\0', "rank %zu of %zu: %.*s", rank, pieces.size(),
                  static_cast<int>(sizeof(said.problem)), said.problem);
      AOTIP_CHECK(std::memcmp(&said.step, &first.step, sizeof(Step)) == 0,
                  "rank %zu of %zu has another program than rank 0: it loads %s, rank 0 loads %s%s",
                  rank, pieces.size(), described(said.step).c_str(), described(first.step).c_str(),
                  described(said.step) == described(first.step) ? " of other content" : "");
    }
    return Status::kOk;
  };
  const auto turn = lock();
  return exchange(everyone(), Step::named("loading a program"), fill, take);
}

World* world() noexcept {
  static auto* mutex = new std::mutex();
  static World* opened = nullptr;
  static uint32_t generation = 0;
  try {
    const std::lock_guard<std::mutex> lock(*mutex);
    if (opened != nullptr && generation != fork_generation()) {
      (void)fail("this process was forked from rank %d, and is no rank itself", opened->rank());
      return nullptr;
    }
    if (opened == nullptr) {
      Place place;
      if (find_place(&place) != Status::kOk) {
        return nullptr;
      }
      opened = World::open(place).release();
      generation = fork_generation();
    }
    return opened;
  } catch (const std::exception& error) {
    (void)fail("opening the world of ranks: %s", error.what());
    return nullptr;
  }
}

World* world_of(int64_t world_size) noexcept {
  World* found = world();
  if (found != nullptr && found->place().world_size != world_size) {
    (void)fail("the program is for %" PRId64 " ranks, and %d were started", world_size,
               found->place().world_size);
    return nullptr;
  }
  return found;
}

}  // namespace aoti_plugins::ranks
