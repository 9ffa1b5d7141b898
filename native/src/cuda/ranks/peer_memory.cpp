#include "cuda/ranks/peer_memory.h"

#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/driver/capture.h"
#include "cuda/driver/device_kernels.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/gpu.h"
#include "cuda/memory/device_memory.h"
#include "cuda/ranks/rank_watch.h"
#include "ranks/collectives.h"
#include "ranks/world.h"

namespace aoti_plugins::cuda {
namespace {

/// Other memory may share a block with what does not fill it, and the others would get the block.
constexpr size_t kBlockNbytes = size_t{2} << 20;

/// Where ranks do not use each other's memory because their user said so to NCCL.
constexpr const char* kNoPeersVariable = "NCCL_P2P_DISABLE";

/// By the group's form and the use.
using Key = std::pair<int32_t, PeerUse>;

/// What this process has; a group whose ranks do not reach each other has null.
struct Known {
  std::mutex mutex;
  std::map<Key, std::unique_ptr<const PeerMemory>> memory;
};

Known& known() {
  static auto* instance = new Known();
  return *instance;
}

/// What a rank tells the others: its memory, or why it has none.
struct Offer {
  CUipcMemHandle memory;
  int32_t multiprocessors;
  char problem[192];

  void refuse(const char* why) noexcept { std::snprintf(problem, sizeof(problem), "%s", why); }
};

size_t nbytes_of(const ranks::Group& group, PeerUse use) {
  const int64_t nbytes = use == PeerUse::kPieces
                             ? kPieceMemoryNbytes
                             : 2 * group.size * packets_of_rank(group.size) * kSentPacketNbytes;
  return (static_cast<size_t>(nbytes) + kBlockNbytes - 1) / kBlockNbytes * kBlockNbytes;
}

size_t blocks_of(PeerUse use) {
  return use == PeerUse::kPieces ? kPieceBlocks : kPeerBlocks;
}

/// Writes a word all over memory. It does not wait for other work of this GPU.
Status fill(CUdeviceptr memory, size_t nbytes, uint32_t word) {
  CUstream stream = nullptr;
  AOTIP_CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  CUresult done = driver().cuMemsetD32Async(memory, word, nbytes / sizeof(uint32_t), stream);
  if (done == CUDA_SUCCESS) {
    done = driver().cuStreamSynchronize(stream);  // the others may write at once
  }
  AOTIP_CU_LOG(cuStreamDestroy, stream);
  AOTIP_CHECK(done == CUDA_SUCCESS, "filling memory for other ranks: %s", error_text(done));
  return Status::kOk;
}

/// Device memory that begins with these words.
Status filled(int32_t gpu, size_t nbytes, uint32_t word, CUdeviceptr* ret) {
  const CUresult code = allocate_device_memory(gpu, nbytes, ret);
  AOTIP_CHECK(code == CUDA_SUCCESS, "%zu bytes for other ranks: %s", nbytes, error_text(code));
  const Status status = fill(*ret, nbytes, word);
  if (status != Status::kOk) {
    AOTIP_CU_LOG(cuMemFree, *ret);
  }
  return status;
}

/// This rank's own part.
Status make_own(const ranks::Group& group, int32_t gpu, PeerUse use, PeerMemory* peers,
                CUipcMemHandle* handle) {
  const Gpu* const own = find_gpu(gpu);
  AOTIP_RETURN_IF_NULL(own);
  peers->multiprocessors = own->multiprocessors;
  const char* const wish = std::getenv(kNoPeersVariable);
  const bool refuses = wish != nullptr && wish[0] != '\0' && std::strcmp(wish, "0") != 0;
  AOTIP_CHECK(!refuses, "%s is set", kNoPeersVariable);
  for (const char* kernel : kPeerKernels) {
    AOTIP_RETURN_IF_NULL(device_kernel(gpu, kernel));
  }
  CUdeviceptr memory = 0;
  AOTIP_RETURN_IF_FAILED(filled(gpu, nbytes_of(group, use), 0, &memory));
  peers->memory[peers->place] = reinterpret_cast<void*>(memory);
  CUdeviceptr calls = 0;
  AOTIP_RETURN_IF_FAILED(filled(gpu, blocks_of(use) * sizeof(uint32_t), 1, &calls));
  peers->calls = reinterpret_cast<uint32_t*>(calls);
  AOTIP_CU(cuIpcGetMemHandle, handle, memory);
  return Status::kOk;
}

Status open_others(const std::vector<Offer>& offers, PeerMemory* peers) {
  for (int32_t place = 0; place < peers->size; ++place) {
    if (place == peers->place) {
      continue;
    }
    CUdeviceptr memory = 0;
    AOTIP_CU(cuIpcOpenMemHandle, &memory, offers[static_cast<size_t>(place)].memory,
             CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    peers->memory[place] = reinterpret_cast<void*>(memory);
  }
  return Status::kOk;
}

/// Gives back what others have.
void close_others(const PeerMemory& peers) {
  for (int32_t place = 0; place < peers.size; ++place) {
    if (place != peers.place && peers.memory[place] != nullptr) {
      AOTIP_CU_LOG(cuIpcCloseMemHandle, reinterpret_cast<CUdeviceptr>(peers.memory[place]));
    }
  }
}

void free_own(const PeerMemory& peers) {
  for (const void* memory : {peers.memory[peers.place], static_cast<void*>(peers.calls)}) {
    if (memory != nullptr) {
      AOTIP_CU_LOG(cuMemFree, reinterpret_cast<CUdeviceptr>(memory));
    }
  }
}

/// The ranks tell each other how it went; the place of the first that has a problem.
Status tell(ranks::World& world, const ranks::Group& group, const Offer& own,
            std::vector<Offer>* ret, std::optional<int32_t>* ret_problem) {
  ret->resize(static_cast<size_t>(group.size));
  AOTIP_RETURN_IF_FAILED(ranks::all_gather(world, group, sizeof(own), &own, ret->data()));
  for (int32_t place = 0; place < static_cast<int32_t>(group.size); ++place) {
    if ((*ret)[static_cast<size_t>(place)].problem[0] != '\0') {
      *ret_problem = place;
      return Status::kOk;
    }
  }
  return Status::kOk;
}

/// Makes such memory with the other ranks; null where one of them cannot.
Status make(ranks::World& world, const ranks::Group& group, int32_t gpu, PeerUse use,
            std::unique_ptr<const PeerMemory>* ret) {
  auto peers = std::make_unique<PeerMemory>();
  peers->size = static_cast<int32_t>(group.size);
  peers->place = group.place(world.rank());
  Offer own{};
  if (watch_rank(world, gpu, &peers->stop) != Status::kOk ||
      make_own(group, gpu, use, peers.get(), &own.memory) != Status::kOk) {
    own.refuse(last_failure());
  }
  own.multiprocessors = peers->multiprocessors;
  std::vector<Offer> offers;
  std::optional<int32_t> problem;
  AOTIP_RETURN_IF_FAILED(tell(world, group, own, &offers, &problem));
  for (const Offer& offer : offers) {
    peers->multiprocessors = std::min(peers->multiprocessors, offer.multiprocessors);
  }
  if (!problem.has_value()) {
    if (open_others(offers, peers.get()) != Status::kOk) {
      own.refuse(last_failure());
    }
    AOTIP_RETURN_IF_FAILED(tell(world, group, own, &offers, &problem));
  }
  if (!problem.has_value()) {
    *ret = std::move(peers);
    return Status::kOk;
  }
  ET_LOG(Info, "ranks do not write to each other's memory, NCCL does %s: rank %d: %s",
         use == PeerUse::kPieces ? "large sums" : "all", group.member(world.rank(), *problem),
         offers[static_cast<size_t>(*problem)].problem);
  close_others(*peers);
  AOTIP_RETURN_IF_FAILED(tell(world, group, own, &offers, &problem));  // all have
  free_own(*peers);
  ret->reset();
  return Status::kOk;
}

Status find_or_make(const ranks::Group& group, int32_t gpu, PeerUse use, const PeerMemory** ret) {
  Known& all = known();
  const Key key(group.index(), use);
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.memory.find(key);
    if (found != all.memory.end()) {
      *ret = found->second.get();
      return Status::kOk;
    }
  }
  ranks::World* const world = ranks::world_of(group.world_size);
  AOTIP_RETURN_IF_NULL(world);
  AOTIP_RETURN_IF_FAILED(world->check_over());
  AOTIP_RETURN_IF_FAILED(refuse_in_capture("memory that ranks share"));
  std::unique_ptr<const PeerMemory> made;
  if (make(*world, group, gpu, use, &made) != Status::kOk) {
    return end_for_last_failure(*world);
  }
  const std::lock_guard<std::mutex> lock(all.mutex);
  *ret = all.memory.try_emplace(key, std::move(made)).first->second.get();
  return Status::kOk;
}

}  // namespace

Status peer_memory_of(const ranks::Group& group, int32_t gpu, PeerUse use,
                      const PeerMemory** ret) noexcept {
  try {
    return find_or_make(group, gpu, use, ret);
  } catch (const std::exception& error) {
    return fail("memory that ranks share: %s", error.what());
  }
}

}  // namespace aoti_plugins::cuda
