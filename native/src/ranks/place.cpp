#include "ranks/place.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "ranks/group.h"

namespace aoti_plugins::ranks {
namespace {

constexpr const char* kMeetingVariable = "AOTI_PLUGINS_RANK_MEETING";
constexpr const char* kTimeoutVariable = "AOTI_PLUGINS_RANK_TIMEOUT";
constexpr const char* kFileVariable = "AOTI_PLUGINS_RANK_FILE";

/// Who starts processes, and where it says which one is which.
struct Starter {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};

constexpr Starter kStarters[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

std::mutex& mutex() {
  static auto* instance = new std::mutex();
  return *instance;
}

std::optional<Place>& given() {
  static auto* instance = new std::optional<Place>();
  return *instance;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// What the environment says, or else a file that it names.
class Variables {
 public:
  /// Reads the file: lines of NAME=VALUE, empty ones, and comments behind #.
  Status read() {
    const char* path = of_environment(kFileVariable);
    if (path == nullptr) {
      return Status::kOk;
    }
    std::ifstream file(path);
    AOTIP_CHECK(file.is_open(), "%s is '%s': %s", kFileVariable, path, std::strerror(errno));
    std::string text;
    for (int line = 1; std::getline(file, text); ++line) {
      const std::string_view content = trimmed(text);
      if (content.empty() || content[0] == '#') {
        continue;
      }
      const size_t sign = content.find('=');
      AOTIP_CHECK(sign != std::string_view::npos && sign > 0,
                  "line %d of %s '%s' is '%s', expected NAME=VALUE", line, kFileVariable, path,
                  std::string(content).c_str());
      of_file_[std::string(trimmed(content.substr(0, sign)))] = trimmed(content.substr(sign + 1));
    }
    AOTIP_CHECK(!file.bad(), "%s '%s' cannot be read", kFileVariable, path);
    return Status::kOk;
  }

  /// Null where nobody says it, or says nothing.
  const char* find(const char* name) const {
    const char* value = of_environment(name);
    if (value != nullptr) {
      return value;
    }
    const auto found = of_file_.find(name);
    return found != of_file_.end() && !found->second.empty() ? found->second.c_str() : nullptr;
  }

 private:
  static const char* of_environment(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && value[0] != '\0' ? value : nullptr;
  }

  std::map<std::string, std::string> of_file_;
};

Status read_number(const Variables& said, const char* name, int32_t otherwise, int32_t* ret) {
  const char* text = said.find(name);
  if (text == nullptr) {
    *ret = otherwise;
    return Status::kOk;
  }
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, *ret);
  AOTIP_CHECK(parsed.ec == std::errc() && parsed.ptr == end && *ret >= 0,
              "%s is '%s', expected a number from 0", name, text);
  return Status::kOk;
}

Status read_timeout(const Variables& said, std::chrono::duration<double>* ret) {
  const char* text = said.find(kTimeoutVariable);
  if (text == nullptr) {
    return Status::kOk;
  }
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  AOTIP_CHECK(*end == '\0' && std::isfinite(seconds) && seconds > 0,
              "%s is '%s', expected seconds, more than 0", kTimeoutVariable, text);
  *ret = std::chrono::duration<double>(seconds);
  return Status::kOk;
}

Status read_meeting(const Variables& said, std::string* ret) {
  if (const char* path = said.find(kMeetingVariable)) {
    *ret = std::string("path ") + path;
    return Status::kOk;
  }
  const char* address = said.find("MASTER_ADDR");
  const char* port = said.find("MASTER_PORT");
  AOTIP_CHECK(address != nullptr && port != nullptr,
              "where the ranks meet is not known: start them with torchrun, or set MASTER_ADDR and "
              "MASTER_PORT, or %s to a path, to the same on all ranks",
              kMeetingVariable);
  *ret = std::string(address) + ":" + port;
  for (const char* name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}) {
    const char* value = said.find(name);
    *ret += std::string(" ") + (value != nullptr ? value : "");
  }
  return Status::kOk;
}

Status check(const Place& place) {
  AOTIP_CHECK(place.world_size >= 1 && place.world_size <= kMaxRanks,
              "the number of ranks is %d, expected 1 to %d", place.world_size, kMaxRanks);
  AOTIP_CHECK(place.rank >= 0 && place.rank < place.world_size,
              "the rank is %d, expected 0 to %d of %d ranks", place.rank, place.world_size - 1,
              place.world_size);
  AOTIP_CHECK(place.local_rank >= 0, "the local rank is %d, expected a number from 0",
              place.local_rank);
  AOTIP_CHECK(std::isfinite(place.timeout.count()) && place.timeout.count() > 0,
              "the time limit of ranks is not more than 0 seconds");
  return Status::kOk;
}

Status from_environment(Place* ret) {
  Variables said;
  AOTIP_RETURN_IF_FAILED(said.read());
  for (const Starter& starter : kStarters) {
    if (said.find(starter.rank) == nullptr || said.find(starter.world_size) == nullptr) {
      continue;
    }
    int32_t local_size = 0;
    AOTIP_RETURN_IF_FAILED(read_number(said, starter.rank, 0, &ret->rank));
    AOTIP_RETURN_IF_FAILED(read_number(said, starter.world_size, 1, &ret->world_size));
    AOTIP_RETURN_IF_FAILED(read_number(said, starter.local_rank, ret->rank, &ret->local_rank));
    AOTIP_RETURN_IF_FAILED(
        read_number(said, starter.local_world_size, ret->world_size, &local_size));
    AOTIP_CHECK(local_size == ret->world_size,
                "%d of %d ranks are on this machine (%s); ranks meet on one machine", local_size,
                ret->world_size, starter.local_world_size);
    AOTIP_RETURN_IF_FAILED(read_timeout(said, &ret->timeout));
    return ret->world_size > 1 ? read_meeting(said, &ret->meeting) : Status::kOk;
  }
  return fail(
      "which rank this process is is not known: start the ranks with torchrun --nproc-per-node N, "
      "or set RANK and WORLD_SIZE for each, in the environment or in a file that %s names",
      kFileVariable);
}

}  // namespace

Status find_place(Place* ret) noexcept {
  try {
    const std::lock_guard<std::mutex> lock(mutex());
    *ret = {};
    if (given().has_value()) {
      *ret = *given();
      return Status::kOk;
    }
    AOTIP_RETURN_IF_FAILED(from_environment(ret));
    return check(*ret);
  } catch (const std::exception& error) {
    return fail("looking for this process's rank: %s", error.what());
  }
}

Status set_place(const Place& place) noexcept {
  try {
    AOTIP_RETURN_IF_FAILED(check(place));
    AOTIP_CHECK(place.world_size == 1 || !place.meeting.empty(), "the meeting has no name");
    const std::lock_guard<std::mutex> lock(mutex());
    given() = place;
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

}  // namespace aoti_plugins::ranks
