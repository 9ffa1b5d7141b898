#include "ranks/meeting.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "delegate/sha256.h"
#include "ranks/group.h"

namespace aoti_plugins::ranks {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

constexpr uint64_t kMagic = 0x31734b6e61526f41;  // "AoRanKs1"
constexpr std::chrono::milliseconds kRetry(10);
/// What rank 0's word needs to arrive after its time limit, which began later than another's.
constexpr std::chrono::milliseconds kGrace(200);

struct Hello {
  uint64_t magic;
  int32_t rank;
  int32_t world_size;
  int32_t process_id;
};

enum class Kind : int32_t { kWaiting = 0, kMet = 1, kFailed = 2 };

/// What rank 0 says.
struct Word {
  uint64_t magic = kMagic;
  Kind kind = Kind::kWaiting;
  uint64_t arrived = 0;  ///< a bit for each rank
  int32_t process_ids[kMaxRanks] = {};
  char text[512] = {};
};

int milliseconds_until(Time end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count() + 1, 0, 1000));
}

Time limit_of(const Place& place) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(place.timeout);
}

/// A name that no file has, from the user and the meeting.
sockaddr_un address_of(const Place& place, socklen_t* ret_nbytes) {
  const std::string text = std::to_string(::geteuid()) + " " + place.meeting;
  const std::string digits = hex_digits(sha256(text.data(), text.size()));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
                                   "aoti_plugins-%.40s", digits.c_str());
  *ret_nbytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

std::string listed(uint64_t ranks, int32_t world_size) {
  std::string text;
  for (int32_t rank = 0; rank < world_size; ++rank) {
    if ((ranks >> rank & 1) != 0) {
      text += (text.empty() ? "" : ", ") + std::to_string(rank);
    }
  }
  return text;
}

uint64_t all_of(int32_t world_size) {
  return world_size == 64 ? ~uint64_t{0} : (uint64_t{1} << world_size) - 1;
}

Status fail_late(uint64_t arrived, const Place& place) {
  const uint64_t missing = all_of(place.world_size) & ~arrived;
  const bool several = (missing & (missing - 1)) != 0;
  return fail("rank%s %s of %d did not come to the meeting within %g s", several ? "s" : "",
              listed(missing, place.world_size).c_str(), place.world_size, place.timeout.count());
}

/// Sends one message with descriptors; false when nobody takes it.
bool send_message(int socket, const void* data, size_t nbytes, const std::vector<int>& fds) {
  iovec part{const_cast<void*>(data), nbytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * (kMaxRanks + 1))] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(nbytes);
}

/// Takes one message that is there; false at the end of the connection or for another length.
bool receive_message(int socket, void* data, size_t nbytes, std::vector<Descriptor>* fds) {
  iovec part{data, nbytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * (kMaxRanks + 1))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t found = 0;
  do {
    found = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (found < 0 && errno == EINTR);
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); found >= 0 && h != nullptr;
       h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
      const size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
        fds->emplace_back(fd);
      }
    }
  }
  return found == static_cast<ssize_t>(nbytes) && (message.msg_flags & MSG_CTRUNC) == 0;
}

bool is_own_user(int socket) {
  ucred other{};
  socklen_t nbytes = sizeof(other);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &nbytes) == 0 &&
         other.uid == ::geteuid();
}

Status make_pipe(Descriptor* ret_read, Descriptor* ret_write) {
  int ends[2];
  AOTIP_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "pipe: %s", std::strerror(errno));
  *ret_read = Descriptor(ends[0]);
  *ret_write = Descriptor(ends[1]);
  return Status::kOk;
}

/// Rank 0's side.
class Host {
 public:
  Host(const Place& place, size_t nbytes) : place_(place), nbytes_(nbytes), end_(limit_of(place)) {
    connections_.resize(place.world_size);
    lives_.resize(place.world_size);
    word_.process_ids[0] = ::getpid();
    word_.arrived = 1;
  }

  Status run(Descriptor life, Met* ret) {
    AOTIP_RETURN_IF_FAILED(listen());
    lives_[0] = std::move(life);
    while (word_.arrived != all_of(place_.world_size)) {
      const Status status = wait_for_more();
      if (status != Status::kOk) {
        word_.kind = Kind::kFailed;
        std::snprintf(word_.text, sizeof(word_.text), "%s", last_failure());
        tell_all({});
        return status;
      }
    }
    return give(ret);
  }

 private:
  Status listen() {
    listener_ = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    AOTIP_CHECK(listener_.is_open(), "socket: %s", std::strerror(errno));
    socklen_t nbytes = 0;
    const sockaddr_un address = address_of(place_, &nbytes);
    while (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), nbytes) != 0) {
      AOTIP_CHECK(errno == EADDRINUSE, "bind: %s", std::strerror(errno));
      AOTIP_CHECK(Clock::now() < end_,
                  "another process is rank 0 of the meeting '%s' already: give each start a name, "
                  "or a port, of its own",
                  place_.meeting.c_str());
      ::usleep(std::chrono::microseconds(kRetry).count());
    }
    AOTIP_CHECK(::listen(listener_.get(), kMaxRanks) == 0, "listen: %s", std::strerror(errno));
    return Status::kOk;
  }

  Status wait_for_more() {
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
    std::vector<int32_t> ranks = {0};
    for (int32_t rank = 1; rank < place_.world_size; ++rank) {
      if (connections_[rank].is_open()) {
        polled.push_back({connections_[rank].get(), POLLIN, 0});
        ranks.push_back(rank);
      }
    }
    for (const Descriptor& guest : guests_) {
      polled.push_back({guest.get(), POLLIN, 0});
    }
    const int count = ::poll(polled.data(), polled.size(), milliseconds_until(end_));
    AOTIP_CHECK(count >= 0 || errno == EINTR, "poll: %s", std::strerror(errno));
    if (count <= 0) {
      return Clock::now() < end_ ? Status::kOk : fail_late(word_.arrived, place_);
    }
    for (size_t i = 1; i < ranks.size(); ++i) {
      Hello again{};
      std::vector<Descriptor> none;
      const bool has_word = (polled[i].revents & POLLIN) != 0;
      if (has_word && receive_message(polled[i].fd, &again, sizeof(again), &none)) {
        return fail_late(word_.arrived, place_);  // its time is over
      }
      AOTIP_CHECK(polled[i].revents == 0, "rank %d of %d ended while others were waited for",
                  ranks[i], place_.world_size);
    }
    for (size_t i = guests_.size(); i-- > 0;) {
      if (polled[ranks.size() + i].revents != 0) {
        AOTIP_RETURN_IF_FAILED(take_hello(i));
      }
    }
    if (polled[0].revents != 0) {
      Descriptor guest(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (guest.is_open() && is_own_user(guest.get())) {
        guests_.push_back(std::move(guest));
      }
    }
    return Status::kOk;
  }

  Status take_hello(size_t index) {
    Descriptor guest = std::move(guests_[index]);
    guests_.erase(guests_.begin() + static_cast<ptrdiff_t>(index));
    Hello hello{};
    std::vector<Descriptor> fds;
    if (!receive_message(guest.get(), &hello, sizeof(hello), &fds) || hello.magic != kMagic ||
        fds.size() != 1) {
      return Status::kOk;  // nobody of ours
    }
    // It gets the failure, too.
    const bool is_known = hello.rank > 0 && hello.rank < place_.world_size;
    const bool is_twice = is_known && connections_[hello.rank].is_open();
    const int32_t before = is_twice ? word_.process_ids[hello.rank] : 0;
    unknown_ = std::move(guest);
    AOTIP_CHECK(hello.world_size == place_.world_size,
                "rank %d (process %d) counts %d ranks, rank 0 counts %d", hello.rank,
                hello.process_id, hello.world_size, place_.world_size);
    AOTIP_CHECK(is_known && !is_twice, "processes %d and %d are both rank %d of %d",
                is_twice ? before : word_.process_ids[0], hello.process_id, hello.rank,
                place_.world_size);
    connections_[hello.rank] = std::move(unknown_);
    lives_[hello.rank] = std::move(fds[0]);
    word_.process_ids[hello.rank] = hello.process_id;
    word_.arrived |= uint64_t{1} << hello.rank;
    tell_all({});
    return Status::kOk;
  }

  void tell_all(const std::vector<int>& fds) {
    for (const Descriptor& connection : connections_) {
      if (connection.is_open()) {
        (void)send_message(connection.get(), &word_, sizeof(word_), fds);
      }
    }
    if (unknown_.is_open()) {
      (void)send_message(unknown_.get(), &word_, sizeof(word_), fds);
    }
  }

  Status give(Met* ret) {
    Descriptor memory(::memfd_create("aoti_plugins-ranks", MFD_CLOEXEC));
    AOTIP_CHECK(memory.is_open(), "memfd_create: %s", std::strerror(errno));
    AOTIP_CHECK(::ftruncate(memory.get(), static_cast<off_t>(nbytes_)) == 0,
                "%zu bytes of memory for all ranks: %s", nbytes_, std::strerror(errno));
    std::vector<int> fds = {memory.get()};
    for (const Descriptor& life : lives_) {
      fds.push_back(life.get());
    }
    word_.kind = Kind::kMet;
    tell_all(fds);
    ret->memory = std::move(memory);
    ret->lives = std::move(lives_);
    ret->process_ids.assign(word_.process_ids, word_.process_ids + place_.world_size);
    return Status::kOk;
  }

  const Place& place_;
  size_t nbytes_;
  Time end_;
  Descriptor listener_;
  std::vector<Descriptor> guests_;  // that have not said who they are
  std::vector<Descriptor> connections_;
  std::vector<Descriptor> lives_;
  Descriptor unknown_;
  Word word_;
};

Status connect_to_host(const Place& place, Time end, Descriptor* ret) {
  socklen_t nbytes = 0;
  const sockaddr_un address = address_of(place, &nbytes);
  for (;;) {
    *ret = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    AOTIP_CHECK(ret->is_open(), "socket: %s", std::strerror(errno));
    if (::connect(ret->get(), reinterpret_cast<const sockaddr*>(&address), nbytes) == 0) {
      AOTIP_CHECK(is_own_user(ret->get()), "another user waits at the meeting '%s'",
                  place.meeting.c_str());
      return Status::kOk;
    }
    AOTIP_CHECK(errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR, "connect: %s",
                std::strerror(errno));
    if (Clock::now() >= end) {
      return fail_late(all_of(place.world_size) & ~uint64_t{1}, place);
    }
    ::usleep(std::chrono::microseconds(kRetry).count());
  }
}

Status wait_for_word(const Place& place, int socket, Time end, Word* word,
                     std::vector<Descriptor>* fds) {
  word->arrived = uint64_t{1} | uint64_t{1} << place.rank;
  for (;;) {
    pollfd polled{socket, POLLIN, 0};
    const int count = ::poll(&polled, 1, milliseconds_until(end + kGrace));
    AOTIP_CHECK(count >= 0 || errno == EINTR, "poll: %s", std::strerror(errno));
    if (count <= 0) {
      if (Clock::now() >= end + kGrace) {
        return fail_late(word->arrived, place);
      }
      continue;
    }
    Word next;
    AOTIP_CHECK(receive_message(socket, &next, sizeof(next), fds) && next.magic == kMagic,
                "rank 0 of %d ended while others were waited for", place.world_size);
    *word = next;
    word->text[sizeof(word->text) - 1] = '\0';
    AOTIP_CHECK(word->kind != Kind::kFailed, "%s", word->text);
    if (word->kind == Kind::kMet) {
      return Status::kOk;
    }
  }
}

Status come(const Place& place, Descriptor life, Met* ret) {
  const Time end = limit_of(place);
  Descriptor host;
  AOTIP_RETURN_IF_FAILED(connect_to_host(place, end, &host));
  const Hello hello{kMagic, place.rank, place.world_size, ::getpid()};
  AOTIP_CHECK(send_message(host.get(), &hello, sizeof(hello), {life.get()}),
              "rank 0 of %d ended while others were waited for", place.world_size);
  Word word;
  std::vector<Descriptor> fds;
  if (wait_for_word(place, host.get(), end, &word, &fds) != Status::kOk) {
    (void)send_message(host.get(), &hello, sizeof(hello), {});  // it need not wait longer
    return Status::kFailed;
  }
  AOTIP_CHECK(fds.size() == static_cast<size_t>(place.world_size) + 1,
              "rank 0 gives %zu descriptors, expected %d", fds.size(), place.world_size + 1);
  ret->memory = std::move(fds[0]);
  ret->lives.clear();
  for (size_t i = 1; i < fds.size(); ++i) {
    ret->lives.push_back(std::move(fds[i]));
  }
  ret->process_ids.assign(word.process_ids, word.process_ids + place.world_size);
  return Status::kOk;
}

}  // namespace

Status meet(const Place& place, size_t nbytes, Met* ret) noexcept {
  try {
    Descriptor life;
    AOTIP_RETURN_IF_FAILED(make_pipe(&life, &ret->own_life));
    return place.rank == 0 ? Host(place, nbytes).run(std::move(life), ret)
                           : come(place, std::move(life), ret);
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

}  // namespace aoti_plugins::ranks
