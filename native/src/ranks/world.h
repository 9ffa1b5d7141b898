#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ranks/descriptor.h"
#include "ranks/group.h"
#include "ranks/meeting.h"
#include "ranks/place.h"
#include "slim/export.h"
#include "slim/status.h"

namespace aoti_plugins::ranks {

struct Segment;
struct Slot;

/// What the ranks of a group are about to do together: all must say the same.
struct Step {
  char what[32] = {};  ///< for messages, for instance "all_reduce"
  int64_t dtype = -1;
  int64_t numbers[4] = {};  ///< sizes and choices
  uint8_t digest[32] = {};  ///< what else is to be equal

  AOTIP_CORE static Step named(const char* what) noexcept;
};

/// The processes of one start, over memory that all of them have.
///
/// A rank that ends is noticed by those that wait for it; one that does not come within the time
/// limit too. Either ends the world on all ranks: every later call fails for the same reason, which
/// names the rank.
class AOTIP_CORE World {
 public:
  /// What one rank can give in a step, in bytes.
  static constexpr size_t kPieceNbytes = size_t{256} << 10;

  /// Waits until all ranks of the place are there. Null, with a reason, when they do not come.
  static std::unique_ptr<World> open(const Place& place) noexcept;

  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Place& place() const noexcept { return place_; }
  int32_t rank() const noexcept { return place_.rank; }

  /// The world of all ranks is one group.
  Group everyone() const noexcept { return {place_.world_size, place_.world_size, 1}; }

  using Fill = std::function<void(uint8_t* own)>;
  /// Gets what each member of the group wrote, in order of places.
  using Take = std::function<Status(const std::vector<const uint8_t*>& pieces)>;

  /// One step of a group: each member writes up to `kPieceNbytes` bytes, then all read those of
  /// all. Fails where a member does something else, ends, or does not come.
  /// @param patient whether it may come as late as it likes.
  Status exchange(const Group& group, const Step& step, const Fill& fill, const Take& take,
                  bool patient = false) noexcept;

  /// While one lives, no other thread of this process steps in between.
  std::unique_lock<std::mutex> lock() { return std::unique_lock<std::mutex>(mutex_); }

  /// Sees that all ranks are about to load the same, and that each is ready.
  /// @param problem why this rank is not; empty where it is. All ranks fail with it then.
  Status agree(const Step& step, const std::string& problem) noexcept;

  /// Ends the world for a reason, on all ranks: what a failure of a library of this rank's does.
  Status end(const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));

  /// The same with this thread's last failure as the reason, unless there is one already.
  Status end_with_last_failure() noexcept;

  /// Whether a rank has ended or the world has; true comes with a reason.
  bool is_over() noexcept;

  /// Fails, with the reason, where the world is over. Costs one read of memory.
  Status check_over() noexcept;

  /// Calls that this rank has begun, of programs whose work goes on when a call ends.
  void count_call() noexcept;
  uint64_t own_calls() const noexcept;

  /// The rank that has begun the fewest calls, its process and their number.
  int32_t rank_behind(int32_t* ret_process, uint64_t* ret_calls) const noexcept;

 private:
  explicit World(const Place& place) : place_(place) {}
  Status map(Met met);
  Slot& slot(int32_t rank, int buffer) const noexcept;
  std::atomic<uint64_t>& counter(int which, const Group& group, int32_t rank) const noexcept;
  bool has_ended(int32_t rank) const noexcept;
  void ring(const Group& group) noexcept;
  void ring(int32_t rank) noexcept;
  Status wait_for(const Group& group, int32_t member, int which, uint64_t count, const char* what,
                  bool patient = false) noexcept;
  Status check_steps(const Group& group, int buffer) noexcept;
  Status step_of_group(const Group& group, const Step& step, const Fill& fill, const Take& take,
                       bool patient);

  struct LastUse {
    Group group;
    uint64_t count = 0;
  };

  Place place_;
  std::mutex mutex_;
  std::vector<Descriptor> lives_;
  std::vector<int32_t> process_ids_;
  Descriptor own_life_;
  Segment* segment_ = nullptr;
  size_t nbytes_ = 0;
  int next_buffer_ = 0;
  LastUse last_use_[2];
};

/// The world of this process, opened by the first call that can; null, with a reason, when the
/// ranks do not meet. A world that is over stays.
AOTIP_CORE World* world() noexcept;

/// As `world()`, and fails where a program is for another number of ranks.
AOTIP_CORE World* world_of(int64_t world_size) noexcept;

}  // namespace aoti_plugins::ranks
