// A stand-in for NCCL between processes of one machine, that computes on the host: float32,
// float64 and bfloat16, bytes otherwise. Like the real one its work is in the order of a stream,
// can be captured, and waits for all ranks, also for those that have ended, until its communicator
// is aborted.

#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "cuda/libraries/nccl.h"
#include "fake_cuda.h"
#include "slim/half.h"

namespace {

using namespace aoti_plugins::cuda::nccl;

constexpr int kMostRanks = 8;
constexpr size_t kSlotNbytes = size_t{2} << 20;
constexpr Result kInvalidArgument = 4;

struct Shared {
  std::atomic<int> come;
  std::atomic<uint64_t> arrived[kMostRanks];
  std::atomic<uint64_t> done[kMostRanks];
  char slots[kMostRanks][kSlotNbytes];
};

}  // namespace

namespace aoti_plugins::cuda::nccl {

struct CommOpaque {
  Shared* shared;
  int count;
  int rank;
  uint64_t steps = 0;
  std::atomic<bool> aborted{false};
};

}  // namespace aoti_plugins::cuda::nccl

namespace {

void rest() {
  std::this_thread::sleep_for(std::chrono::microseconds(200));
}

/// Waits until all ranks have a number; false when the communicator is aborted.
bool wait_for_all(Comm comm, const std::atomic<uint64_t>* numbers, uint64_t wanted) {
  for (int rank = 0; rank < comm->count; ++rank) {
    while (numbers[rank].load() < wanted) {
      if (comm->aborted) {
        return false;
      }
      rest();
    }
  }
  return true;
}

using Take = std::function<void(const std::vector<const char*>&)>;

/// All ranks show bytes, then look at those of all.
void step(Comm comm, const void* in, size_t nbytes, const Take& take) {
  const uint64_t number = ++comm->steps;
  if (!wait_for_all(comm, comm->shared->done, number - 1)) {
    return;
  }
  if (nbytes > 0) {
    std::memcpy(comm->shared->slots[comm->rank], in, nbytes);
  }
  comm->shared->arrived[comm->rank] = number;
  if (!wait_for_all(comm, comm->shared->arrived, number)) {
    return;
  }
  std::vector<const char*> slots;
  for (int rank = 0; rank < comm->count; ++rank) {
    slots.push_back(comm->shared->slots[rank]);
  }
  take(slots);
  comm->shared->done[comm->rank] = number;
}

/// What is aborted, too: work that was given to streams may look at it.
std::deque<Comm>& made() {
  static auto* const all = new std::deque<Comm>();
  return *all;
}

Result submit(CUstream stream, std::function<void()> work) {
  return submit_kept(stream, std::move(work)) == CUDA_SUCCESS ? kSuccess : 1;
}

template <typename T>
T joined(RedOp op, T a, T b) {
  switch (op) {
    case kProdOp:
      return a * b;
    case kMaxOp:
      return std::max(a, b);
    case kMinOp:
      return std::min(a, b);
    default:
      return a + b;
  }
}

/// How many bytes an element of a dtype has that is reduced; 0 for others.
size_t element_nbytes(DataType type) {
  return type == kFloat32Type ? 4 : type == kFloat64Type ? 8 : type == kBFloat16Type ? 2 : 0;
}

float as_number(float value) {
  return value;
}
double as_number(double value) {
  return value;
}
float as_number(uint16_t value) {
  return aoti_plugins::bfloat16_to_float(value);
}

template <typename T>
void reduce_as(const std::vector<const char*>& slots, size_t start, size_t count, RedOp op,
               void* out) {
  for (size_t i = 0; i < count; ++i) {
    auto value = as_number(reinterpret_cast<const T*>(slots[0])[start + i]);
    for (size_t rank = 1; rank < slots.size(); ++rank) {
      value = joined(op, value, as_number(reinterpret_cast<const T*>(slots[rank])[start + i]));
    }
    value = op == kAvgOp ? value / static_cast<decltype(value)>(slots.size()) : value;
    if constexpr (std::is_same_v<T, uint16_t>) {
      static_cast<T*>(out)[i] = aoti_plugins::float_to_bfloat16(value);
    } else {
      static_cast<T*>(out)[i] = value;
    }
  }
}

/// Elements `start` to `start + count` of all ranks as one.
void reduce(const std::vector<const char*>& slots, size_t start, size_t count, DataType type,
            RedOp op, void* out) {
  if (type == kFloat64Type) {
    reduce_as<double>(slots, start, count, op, out);
  } else if (type == kBFloat16Type) {
    reduce_as<uint16_t>(slots, start, count, op, out);
  } else {
    reduce_as<float>(slots, start, count, op, out);
  }
}

/// Sends and receives of a group.
struct Pending {
  Comm comm = nullptr;
  CUstream stream = nullptr;
  std::vector<std::pair<const void*, size_t>> sent = std::vector<std::pair<const void*, size_t>>(8);
  std::vector<std::pair<void*, size_t>> received = std::vector<std::pair<void*, size_t>>(8);
};

Pending& pending() {
  static Pending* one = new Pending();
  return *one;
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

Result ncclGetVersion(int* version) {
  *version = 23203;
  return kSuccess;
}

Result ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> next{0};
  std::snprintf(id->internal, sizeof(id->internal), "/aotip-fake-nccl-%d-%d", ::getpid(), next++);
  const int fd = ::shm_open(id->internal, O_CREAT | O_EXCL | O_RDWR, 0600);
  const bool made = fd >= 0 && ::ftruncate(fd, sizeof(Shared)) == 0;
  ::close(fd);
  return made ? kSuccess : 2;
}

Result ncclCommInitRank(Comm* ret, int count, UniqueId id, int rank) {
  const int fd = ::shm_open(id.internal, O_RDWR, 0600);
  if (fd < 0 || count > kMostRanks) {
    return kInvalidArgument;
  }
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  *ret = new aoti_plugins::cuda::nccl::CommOpaque{static_cast<Shared*>(memory), count, rank};
  made().push_back(*ret);
  ++(*ret)->shared->come;
  while ((*ret)->shared->come < count) {
    rest();
  }
  ::shm_unlink(id.internal);
  return kSuccess;
}

Result ncclCommAbort(Comm comm) {
  comm->aborted = true;
  return cuCtxSynchronize() == CUDA_SUCCESS ? kSuccess : 1;  // as it frees its memory
}

Result ncclCommGetAsyncError(Comm, Result* ret) {
  *ret = kSuccess;
  return kSuccess;
}

const char* ncclGetErrorString(Result result) {
  return result == kInvalidArgument ? "invalid argument" : "unhandled system error";
}

const char* ncclGetLastError(Comm) {
  return "";
}

Result ncclAllReduce(const void* in, void* out, size_t count, DataType type, RedOp op, Comm comm,
                     CUstream stream) {
  const size_t nbytes = count * element_nbytes(type);
  if ((nbytes == 0 && count > 0) || nbytes > kSlotNbytes) {
    return kInvalidArgument;
  }
  return submit(stream, [=] {
    step(comm, in, nbytes,
         [=](const std::vector<const char*>& slots) { reduce(slots, 0, count, type, op, out); });
  });
}

Result ncclReduceScatter(const void* in, void* out, size_t count, DataType type, RedOp op,
                         Comm comm, CUstream stream) {
  const size_t ranks = static_cast<size_t>(comm->count);
  const size_t nbytes = count * element_nbytes(type) * ranks;
  if ((nbytes == 0 && count > 0) || nbytes > kSlotNbytes) {
    return kInvalidArgument;
  }
  return submit(stream, [=] {
    step(comm, in, nbytes, [=](const std::vector<const char*>& slots) {
      reduce(slots, static_cast<size_t>(comm->rank) * count, count, type, op, out);
    });
  });
}

Result ncclAllGather(const void* in, void* out, size_t count, DataType type, Comm comm,
                     CUstream stream) {
  if (type != kInt8Type || count > kSlotNbytes) {
    return kInvalidArgument;
  }
  return submit(stream, [=] {
    step(comm, in, count, [=](const std::vector<const char*>& slots) {
      for (size_t rank = 0; rank < slots.size(); ++rank) {
        std::memcpy(static_cast<char*>(out) + rank * count, slots[rank], count);
      }
    });
  });
}

Result ncclBroadcast(const void* in, void* out, size_t count, DataType type, int root, Comm comm,
                     CUstream stream) {
  if (type != kInt8Type || count > kSlotNbytes) {
    return kInvalidArgument;
  }
  return submit(stream, [=] {
    step(comm, in, comm->rank == root ? count : 0,
         [=](const std::vector<const char*>& slots) { std::memcpy(out, slots[root], count); });
  });
}

Result ncclGroupStart() {
  pending() = Pending();
  return kSuccess;
}

Result ncclSend(const void* in, size_t count, DataType, int peer, Comm comm, CUstream stream) {
  pending().comm = comm;
  pending().stream = stream;
  pending().sent[peer] = {in, count};
  return kSuccess;
}

Result ncclRecv(void* out, size_t count, DataType, int peer, Comm comm, CUstream stream) {
  pending().comm = comm;
  pending().stream = stream;
  pending().received[peer] = {out, count};
  return kSuccess;
}

Result ncclGroupEnd() {
  const Pending given = pending();
  if (given.comm == nullptr) {
    return kSuccess;
  }
  return submit(given.stream, [given] {
    // A slot has a part for each peer.
    constexpr size_t kPart = kSlotNbytes / kMostRanks;
    std::vector<char> all(kSlotNbytes);
    for (size_t peer = 0; peer < given.sent.size(); ++peer) {
      if (given.sent[peer].second > 0) {
        std::memcpy(all.data() + peer * kPart, given.sent[peer].first, given.sent[peer].second);
      }
    }
    step(given.comm, all.data(), all.size(), [&](const std::vector<const char*>& slots) {
      for (size_t peer = 0; peer < slots.size(); ++peer) {
        const auto [to, nbytes] = given.received[peer];
        if (nbytes > 0) {
          std::memcpy(to, slots[peer] + static_cast<size_t>(given.comm->rank) * kPart, nbytes);
        }
      }
    });
  });
}

}  // extern "C"

#pragma GCC visibility pop
