// A stand-in for libcuda.so.1: memory from the heap, streams whose work is put off until something
// waits for it, and strict checks. Kernels are host functions, found by name: our own, and those of
// the library that FAKE_CUDA_KERNELS names. It has two GPUs of compute capability 9.0, or of what
// FAKE_CUDA_CAPABILITY says, and, as the real driver, one address space for all memory.

#pragma GCC visibility push(default)
#include "fake_cuda.h"

#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#pragma GCC visibility pop

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "emulated_tensor_map.h"
#include "fake_kernels_table.h"

struct CUgraph_st {
  std::vector<std::function<void()>> work;
};

struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};

struct CUstream_st {
  bool blocking = true;
  std::deque<std::function<void()>> work;
  CUgraph_st* captured = nullptr;  // while work is captured, not run
  CUstream_st* origin = nullptr;   // where the capture has begun that this one came to
  bool is_unjoined = false;        // its captured work is not waited for
  bool broken = false;             // by something that cannot be captured
};

struct CUevent_st {
  CUstream_st* stream = nullptr;
  size_t recorded = 0;
  size_t reached = 0;  // of those that were recorded
  bool timed = false;
  std::chrono::steady_clock::time_point time;  // when it was reached last
  CUgraph_st* captured = nullptr;              // recorded in a capture
};

struct CUmod_st {
  const void* image = nullptr;  // as long as it is loaded
};

struct CUfunc_st {
  const fake_cuda::Kernel* kernel = nullptr;
};

struct CUmemPoolHandle_st {
  int gpu = 0;
};

namespace {

struct Block {
  size_t nbytes = 0;
  bool pinned = false;
  bool freed = false;  // in the order of a stream
  int gpu = 0;
  int shared_fd = -1;  // of memory that other processes can open
};

struct State {
  std::recursive_mutex mutex;
  std::map<uintptr_t, Block> blocks;
  std::map<uintptr_t, Block> opened;  // memory of other processes
  std::set<CUstream> streams;
  std::set<CUevent> events;
  std::set<CUmodule> modules;
  std::set<CUgraph> graphs;
  std::set<CUgraphExec> executables;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
  std::map<std::string, size_t> calls;
  std::map<std::string, std::pair<int, CUresult>> failures;
  size_t device_nbytes = 0;
  size_t memory = size_t{1} << 30;
  size_t launches = 0;
  FakeLaunch last_launch{};
  std::string misuse;
};

State& state() {
  static State* instance = new State();
  return *instance;
}

/// Memory of this size on is memory that other processes can open.
constexpr size_t kSharedNbytes = size_t{2} << 20;

thread_local CUcontext current = nullptr;

int contexts[2];

CUcontext context_of(CUdevice device) {
  return reinterpret_cast<CUcontext>(&contexts[device]);
}

void misuse(const std::string& text) {
  if (state().misuse.empty()) {
    state().misuse = text;
    std::fprintf(stderr, "fake CUDA driver: %s\n", text.c_str());
  }
}

/// Counts a call; a code when it is to fail.
CUresult enter(const char* function) {
  State& s = state();
  ++s.calls[function];
  const auto failure = s.failures.find(function);
  if (failure != s.failures.end() && --failure->second.first == 0) {
    const CUresult code = failure->second.second;
    s.failures.erase(failure);
    return code;
  }
  return CUDA_SUCCESS;
}

#define ENTER()                                                    \
  const std::lock_guard<std::recursive_mutex> lock(state().mutex); \
  if (const CUresult failure = enter(__func__)) {                  \
    return failure;                                                \
  }

/// As a test wants it for this process.
int count_of_multiprocessors() {
  const char* const wanted = std::getenv("FAKE_CUDA_MULTIPROCESSORS");
  return wanted != nullptr ? std::atoi(wanted) : 4;
}

/// 10 * major + minor of the GPUs, as a test wants it for this process.
int compute_capability() {
  const char* const wanted = std::getenv("FAKE_CUDA_CAPABILITY");
  return wanted != nullptr ? std::atoi(wanted) : 90;
}

Block* find_block_in(std::map<uintptr_t, Block>& blocks, uintptr_t address, uintptr_t* start) {
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) {
    return nullptr;
  }
  --next;
  if (address >= next->first + next->second.nbytes) {
    return nullptr;
  }
  *start = next->first;
  return &next->second;
}

Block* find_block(uintptr_t address, uintptr_t* start) {
  Block* const own = find_block_in(state().blocks, address, start);
  return own != nullptr ? own : find_block_in(state().opened, address, start);
}

/// Checks an access to registered memory; other addresses are the host's own.
void check_access(const void* ptr, size_t nbytes, const char* what, bool device) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(ptr);
  uintptr_t start = 0;
  const Block* block = find_block(address, &start);
  if (block == nullptr) {
    if (device) {
      misuse(std::string(what) + " of an address that is no device memory");
    }
    return;
  }
  if (address + nbytes > start + block->nbytes) {
    misuse(std::string(what) + " past the end of an allocation");
  }
}

bool is_pinned(const void* ptr) {
  uintptr_t start = 0;
  const Block* block = find_block(reinterpret_cast<uintptr_t>(ptr), &start);
  return block != nullptr && block->pinned;
}

bool is_device(const void* ptr) {
  uintptr_t start = 0;
  const Block* block = find_block(reinterpret_cast<uintptr_t>(ptr), &start);
  return block != nullptr && !block->pinned;
}

/// Whether the host faults where it touches device memory, as with a real driver.
bool is_guarded() {
  static const bool wanted = std::getenv("FAKE_CUDA_GUARDED") != nullptr;
  return wanted;
}

/// While one lives, the device works: its memory can be touched.
class DeviceWork {
 public:
  DeviceWork() {
    if (is_guarded() && depth_++ == 0) {
      protect(PROT_READ | PROT_WRITE);
    }
  }
  ~DeviceWork() {
    if (is_guarded() && --depth_ == 0) {
      protect(PROT_NONE);
    }
  }

 private:
  static void protect(int access) {
    for (const auto& [address, block] : state().blocks) {
      if (!block.pinned) {
        (void)mprotect(reinterpret_cast<void*>(address), block.nbytes, access);
      }
    }
  }

  static inline int depth_ = 0;
};

void run(const std::function<void()>& work) {
  const DeviceWork scope;
  work();
}

void drain(CUstream stream) {
  while (!stream->work.empty()) {
    auto work = std::move(stream->work.front());
    stream->work.pop_front();
    run(work);
  }
}

void drain_all() {
  for (CUstream stream : state().streams) {
    drain(stream);
  }
}

CUresult check_stream(CUstream stream) {
  if (stream != nullptr && state().streams.count(stream) == 0) {
    misuse("an unknown stream");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return current == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
thread_local int captures_here = 0;  // that this thread has begun

/// Fails what may not happen while this stream, or any that the default stream waits for, is being
/// captured.
CUresult break_capture(CUstream stream) {
  if (stream != nullptr && stream->captured != nullptr) {
    stream->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  for (CUstream other : state().streams) {
    if (stream == nullptr && other->blocking && other->captured != nullptr) {
      other->broken = true;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  return CUDA_SUCCESS;
}

/// Work on the default stream waits for the others and runs at once.
CUresult submit(CUstream stream, std::function<void()> work) {
  if (const CUresult code = check_stream(stream)) {
    return code;
  }
  if (stream != nullptr && stream->captured != nullptr) {
    stream->captured->work.push_back(std::move(work));
    stream->is_unjoined = stream->origin != nullptr;
    return CUDA_SUCCESS;
  }
  if (stream == nullptr) {
    if (const CUresult code = break_capture(stream)) {
      return code;
    }
    drain_all();
    run(work);
  } else {
    stream->work.push_back(std::move(work));
  }
  return CUDA_SUCCESS;
}

/// A stream waits for an event of a capture, to which it comes if it is not captured yet. The graph
/// has all work in the order in which it was given.
void join_capture(CUstream stream, const CUevent_st& event) {
  if (stream->captured == nullptr) {
    stream->captured = event.captured;
    stream->origin = event.stream->origin != nullptr ? event.stream->origin : event.stream;
  } else if (event.stream != stream) {
    event.stream->is_unjoined = false;
  }
}

/// The streams that came to a capture leave it. Whether all their work is waited for.
bool leave_capture(CUstream origin) {
  bool is_joined = true;
  for (CUstream stream : state().streams) {
    if (stream->origin == origin) {
      is_joined = is_joined && !stream->is_unjoined;
      stream->captured = nullptr;
      stream->origin = nullptr;
      stream->is_unjoined = false;
    }
  }
  for (CUevent event : state().events) {
    event->captured = nullptr;
  }
  return is_joined;
}

CUresult launch(CUfunction function, const fake_cuda::Grid& grid, unsigned int shared_nbytes,
                CUstream stream, void** parameters) {
  state().last_launch = {grid.blocks, grid.cluster, shared_nbytes};
  const fake_cuda::Kernel* kernel = function->kernel;
  auto values = std::make_shared<std::vector<std::vector<char>>>();
  for (size_t i = 0; i < kernel->argument_nbytes.size(); ++i) {
    const char* from = static_cast<const char*>(parameters[i]);
    values->emplace_back(from, from + kernel->argument_nbytes[i]);
  }
  return submit(stream, [=] {
    std::vector<void*> arguments;
    for (std::vector<char>& value : *values) {
      arguments.push_back(value.data());
    }
    kernel->run(arguments.data(), grid);
    ++state().launches;
  });
}

CUresult allocate(CUdeviceptr* ret, size_t nbytes, bool pinned, int gpu) {
  State& s = state();
  if (!pinned && s.device_nbytes + nbytes > s.memory) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (nbytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  void* ptr = nullptr;
  // As much as is worth a block of its own can be shared, as on a GPU.
  const bool shared = !pinned && !is_guarded() && nbytes >= kSharedNbytes;
  const int fd = shared ? memfd_create("fake_cuda", MFD_CLOEXEC) : -1;
  if (shared && (fd < 0 || ftruncate(fd, static_cast<off_t>(nbytes)) != 0)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (shared || (is_guarded() && !pinned)) {
    const int kind = shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    ptr = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, kind, fd, 0);
    if (ptr == MAP_FAILED) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  } else if (posix_memalign(&ptr, 512, nbytes) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::memset(ptr, 0xcd, nbytes);  // what nobody has written
  if (is_guarded() && !pinned) {
    (void)mprotect(ptr, nbytes, PROT_NONE);
  }
  s.blocks[reinterpret_cast<uintptr_t>(ptr)] = {nbytes, pinned, false, gpu, fd};
  s.device_nbytes += pinned ? 0 : nbytes;
  *ret = reinterpret_cast<CUdeviceptr>(ptr);
  return CUDA_SUCCESS;
}

CUresult release(uintptr_t address, bool pinned) {
  State& s = state();
  const auto found = s.blocks.find(address);
  if (found == s.blocks.end() || found->second.pinned != pinned) {
    misuse("free of what is not allocated");
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t nbytes = found->second.nbytes;
  const int fd = found->second.shared_fd;
  s.device_nbytes -= pinned ? 0 : nbytes;
  s.blocks.erase(found);
  if (fd >= 0 || (is_guarded() && !pinned)) {
    (void)munmap(reinterpret_cast<void*>(address), nbytes);
    if (fd >= 0) {
      (void)close(fd);
    }
  } else {
    std::free(reinterpret_cast<void*>(address));
  }
  return CUDA_SUCCESS;
}

CUresult copy(CUdeviceptr dst_address, CUdeviceptr src_address, size_t nbytes, CUstream stream) {
  void* dst = reinterpret_cast<void*>(dst_address);
  const void* src = reinterpret_cast<const void*>(src_address);
  const auto move = [=] {
    check_access(dst, nbytes, "write", false);
    check_access(src, nbytes, "read", false);
    std::memmove(dst, src, nbytes);
  };
  const bool from_pageable = !is_device(src) && !is_pinned(src);
  const bool to_pageable = !is_device(dst) && !is_pinned(dst);
  if (stream != nullptr && stream->captured != nullptr && (from_pageable || to_pageable)) {
    misuse("memory that the system may move is captured");
  }
  if (to_pageable) {  // waits
    if (const CUresult code = check_stream(stream)) {
      return code;
    }
    stream != nullptr ? drain(stream) : drain_all();
    run(move);
    return CUDA_SUCCESS;
  }
  if (from_pageable) {  // staged at once
    auto staged = std::make_shared<std::vector<char>>(static_cast<const char*>(src),
                                                      static_cast<const char*>(src) + nbytes);
    return submit(stream, [=] {
      check_access(dst, nbytes, "write", false);
      std::memcpy(dst, staged->data(), nbytes);
    });
  }
  return submit(stream, move);
}

template <typename T>
CUresult set(CUdeviceptr dst, T value, size_t count, CUstream stream) {
  return submit(stream, [=] {
    check_access(reinterpret_cast<void*>(dst), count * sizeof(T), "fill", true);
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(reinterpret_cast<char*>(dst) + i * sizeof(T), &value, sizeof(T));
    }
  });
}

bool is_image(const void* image) {
  const unsigned char fatbin[] = {0x50, 0xed, 0x55, 0xba};
  return std::memcmp(image, "\177ELF", 4) == 0 || std::memcmp(image, fatbin, 4) == 0 ||
         std::memcmp(image, ".version", 8) == 0 || std::memcmp(image, "//", 2) == 0;
}

/// Whether a cubin has code of a name.
bool has_code(const void* image, const std::string& name) {
  const auto* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) != 0) {
    return false;
  }
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof(header));
  if (header.e_shoff == 0) {
    return false;
  }
  const std::string section = ".text." + name;
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes + header.e_shoff);
  const char* names = bytes + sections[header.e_shstrndx].sh_offset;
  for (int i = 0; i < header.e_shnum; ++i) {
    if (section == names + sections[i].sh_name && sections[i].sh_size > 0) {
      return true;
    }
  }
  return false;
}

/// A kernel of a blob as a function of the library that FAKE_CUDA_KERNELS names. The library has
/// `NAME`, which gets the addresses of the arguments and the number of blocks, and `NAME_nbytes`,
/// the sizes of the arguments, with a 0 behind them.
const fake_cuda::Kernel* find_given_kernel(const std::string& name) {
  static auto* const kernels = new std::map<std::string, fake_cuda::Kernel>();
  const char* const path = std::getenv("FAKE_CUDA_KERNELS");
  void* const library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) {
    return nullptr;
  }
  const auto function =
      reinterpret_cast<void (*)(void**, unsigned int)>(dlsym(library, name.c_str()));
  const auto* nbytes = static_cast<const size_t*>(dlsym(library, (name + "_nbytes").c_str()));
  if (function == nullptr || nbytes == nullptr) {
    return nullptr;
  }
  fake_cuda::Kernel& kernel = (*kernels)[name];
  kernel.argument_nbytes.clear();
  for (; *nbytes != 0; ++nbytes) {
    kernel.argument_nbytes.push_back(*nbytes);
  }
  kernel.run = [function](void** arguments, const fake_cuda::Grid& grid) {
    function(arguments, grid.blocks);
  };
  return &kernel;
}

}  // namespace

namespace fake_cuda {

void check_device(const void* ptr, size_t nbytes) {
  check_access(ptr, nbytes, "a kernel's access", true);
}

}  // namespace fake_cuda

extern "C" {

void fake_cuda_fail(const char* function, int nth, int code) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().failures[function] = {nth, static_cast<CUresult>(code)};
}
size_t fake_cuda_calls(const char* function) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().calls[function];
}
void fake_cuda_reset() {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().calls.clear();
  state().failures.clear();
  state().misuse.clear();
  state().memory = size_t{1} << 30;
}
size_t fake_cuda_device_nbytes() {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().device_nbytes;
}
size_t fake_cuda_live_objects() {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  size_t pinned = 0;
  for (const auto& [address, block] : state().blocks) {
    pinned += block.pinned ? 1 : 0;
  }
  return pinned + state().streams.size() + state().events.size() + state().modules.size() +
         state().graphs.size() + state().executables.size();
}
void fake_cuda_set_memory(size_t nbytes) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().memory = nbytes;
}
const char* fake_cuda_misuse() {
  return state().misuse.c_str();
}
size_t fake_cuda_launches() {
  return state().launches;
}
FakeLaunch fake_cuda_last_launch() {
  return state().last_launch;
}

CUresult fake_cuda_submit(CUstream stream, void (*work)(void*), void* argument) {
  ENTER();
  return submit(stream, [=] { work(argument); });
}

CUresult cuInit(unsigned int) {
  ENTER();
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult code, const char** text) {
  *text = code == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult code, const char** text) {
  *text = code == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "as the test asked";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetCount(int* count) {
  ENTER();
  *count = 2;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int nbytes, CUdevice) {
  std::snprintf(name, static_cast<size_t>(nbytes), "Fake GPU");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = compute_capability() / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = compute_capability() % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = count_of_multiprocessors();
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 232448;
      break;
    default:
      *value = 1;
  }
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ENTER();
  *context = context_of(device);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  ENTER();
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  *device = current == context_of(1) ? 1 : 0;
  return current != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuCtxSynchronize() {
  ENTER();
  drain_all();
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(size_t* free_nbytes, size_t* total) {
  ENTER();
  *total = state().memory;
  *free_nbytes = state().memory - state().device_nbytes;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* ptr, size_t nbytes) {
  ENTER();
  return current == nullptr ? CUDA_ERROR_INVALID_CONTEXT
                            : allocate(ptr, nbytes, false, current == context_of(1) ? 1 : 0);
}
CUresult cuMemFree(CUdeviceptr ptr) {
  ENTER();
  drain_all();
  return release(ptr, false);
}
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr ptr) {
  ENTER();
  const auto found = state().blocks.find(ptr);
  if (found == state().blocks.end() || found->second.shared_fd < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::snprintf(handle->reserved, sizeof(handle->reserved), "/proc/%d/fd/%d", getpid(),
                found->second.shared_fd);
  return CUDA_SUCCESS;
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* ptr, CUipcMemHandle handle, unsigned int) {
  ENTER();
  const int fd = open(handle.reserved, O_RDWR);
  struct stat status{};
  if (fd < 0 || fstat(fd, &status) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto nbytes = static_cast<size_t>(status.st_size);
  void* const memory = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) {
    return CUDA_ERROR_MAP_FAILED;
  }
  *ptr = reinterpret_cast<CUdeviceptr>(memory);
  state().opened[*ptr].nbytes = nbytes;
  return CUDA_SUCCESS;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr) {
  ENTER();
  return CUDA_SUCCESS;  // mapped until the process ends
}
CUresult cuMemHostAlloc(void** ptr, size_t nbytes, unsigned int) {
  ENTER();
  return allocate(reinterpret_cast<CUdeviceptr*>(ptr), nbytes, true, 0);
}
CUresult cuMemFreeHost(void* ptr) {
  ENTER();
  return release(reinterpret_cast<uintptr_t>(ptr), true);
}
CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t nbytes) {
  ENTER();
  return copy(dst, src, nbytes, nullptr);
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream) {
  ENTER();
  return copy(dst, src, nbytes, stream);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void* src, size_t nbytes, CUstream stream) {
  ENTER();
  check_access(reinterpret_cast<void*>(dst), nbytes, "copy to the device", true);
  return copy(dst, reinterpret_cast<CUdeviceptr>(src), nbytes, stream);
}
CUresult cuMemcpyDtoHAsync(void* dst, CUdeviceptr src, size_t nbytes, CUstream stream) {
  ENTER();
  check_access(reinterpret_cast<void*>(src), nbytes, "copy from the device", true);
  return copy(reinterpret_cast<CUdeviceptr>(dst), src, nbytes, stream);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream) {
  ENTER();
  check_access(reinterpret_cast<void*>(dst), nbytes, "copy on the device", true);
  check_access(reinterpret_cast<void*>(src), nbytes, "copy on the device", true);
  return copy(dst, src, nbytes, stream);
}
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  ENTER();
  return set(dst, value, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream) {
  ENTER();
  return set(dst, value, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t count, CUstream stream) {
  ENTER();
  return set(dst, value, count, stream);
}
CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* props) {
  ENTER();
  static CUmemPoolHandle_st pools[2] = {{0}, {1}};
  *pool = &pools[props->location.id];
  return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool) {
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
  ENTER();
  return CUDA_SUCCESS;
}
CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
  return CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t) {
  ENTER();
  return CUDA_SUCCESS;
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* ptr, size_t nbytes, CUmemoryPool pool,
                                 CUstream stream) {
  ENTER();
  if (const CUresult code = check_stream(stream)) {
    return code;
  }
  if (stream != nullptr && stream->captured != nullptr) {
    misuse("an allocation is captured");
  }
  if (captures_here > 0 && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // as where the pool has to grow
  }
  return allocate(ptr, nbytes, false, pool->gpu);
}
CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) {
  ENTER();
  if (stream != nullptr && stream->captured != nullptr) {
    misuse("a free is captured");
  }
  const auto found = state().blocks.find(ptr);
  if (found == state().blocks.end() || found->second.freed || found->second.pinned) {
    misuse("stream-ordered free of what is not allocated");
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->second.freed = true;
  return submit(stream, [ptr] { (void)release(ptr, false); });
}
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr address) {
  ENTER();
  uintptr_t start = 0;
  const Block* block = find_block(address, &start);
  if (block != nullptr && which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
    std::memcpy(value, &block->gpu, sizeof(block->gpu));
    return CUDA_SUCCESS;
  }
  if (block == nullptr || which != CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const unsigned int type = block->pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  std::memcpy(value, &type, sizeof(type));
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  ENTER();
  *stream = new CUstream_st();
  (*stream)->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  state().streams.insert(*stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  ENTER();
  if (const CUresult code = check_stream(stream)) {
    return code;
  }
  drain(stream);
  state().streams.erase(stream);
  delete stream;
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  ENTER();
  if (const CUresult code = check_stream(stream)) {
    return code;
  }
  if (const CUresult code = break_capture(stream)) {
    return code;
  }
  stream != nullptr ? drain(stream) : drain_all();
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream stream) {
  ENTER();
  return stream == nullptr || stream->work.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
  ENTER();
  if (event->captured != nullptr && stream != nullptr) {
    join_capture(stream, *event);
    return CUDA_SUCCESS;
  }
  CUstream other = event->stream;
  const size_t last = event->recorded;
  return submit(stream, [=] {
    if (other != nullptr && event->reached < last) {
      drain(other);
    }
  });
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  ENTER();
  *status = stream != nullptr && stream->captured != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                             : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  ENTER();
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  ENTER();
  if (stream == nullptr || stream->captured != nullptr) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  ++captures_here;
  stream->captured = new CUgraph_st();
  stream->broken = false;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  const std::unique_ptr<CUgraph_st> captured(stream->captured);
  stream->captured = nullptr;  // also when it fails
  captures_here -= captured != nullptr ? 1 : 0;
  const bool is_joined = leave_capture(stream);
  *graph = nullptr;
  if (const CUresult failure = enter(__func__)) {
    return failure;
  }
  if (captured == nullptr) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  if (stream->broken) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (!is_joined) {
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  *graph = new CUgraph_st(*captured);
  state().graphs.insert(*graph);
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  ENTER();
  *executable = new CUgraphExec_st{graph->work};
  state().executables.insert(*executable);
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  ENTER();
  for (const auto& work : executable->work) {
    if (const CUresult code = submit(stream, work)) {
      return code;
    }
  }
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  ENTER();
  if (state().executables.erase(executable) == 0) {
    misuse("an unknown graph is destroyed");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  delete executable;
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  ENTER();
  if (state().graphs.erase(graph) == 0) {
    misuse("an unknown graph is destroyed");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  delete graph;
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  ENTER();
  *event = new CUevent_st();
  (*event)->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  state().events.insert(*event);
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
  ENTER();
  if (state().events.erase(event) == 0) {
    misuse("an unknown event is destroyed");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (event->reached < event->recorded && event->stream != nullptr) {
    drain(event->stream);
  }
  delete event;
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  ENTER();
  if (state().events.count(event) == 0) {
    misuse("an unknown event is recorded");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  event->stream = stream;
  event->captured = stream != nullptr ? stream->captured : nullptr;
  if (event->captured != nullptr) {
    return CUDA_SUCCESS;
  }
  ++event->recorded;
  return submit(stream, [event] {
    event->time = std::chrono::steady_clock::now();
    ++event->reached;
  });
}
CUresult cuEventQuery(CUevent event) {
  const std::unique_lock<std::recursive_mutex> free(state().mutex, std::try_to_lock);
  if (!free.owns_lock()) {
    return CUDA_ERROR_NOT_READY;  // another thread waits for the device
  }
  ENTER();
  return event->reached == event->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuEventSynchronize(CUevent event) {
  ENTER();
  while (event->reached < event->recorded) {
    auto work = std::move(event->stream->work.front());
    event->stream->work.pop_front();
    run(work);
  }
  return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  ENTER();
  if (!begin->timed || !end->timed || begin->recorded == 0 || end->recorded == 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (begin->reached < begin->recorded || end->reached < end->recorded) {
    return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return CUDA_SUCCESS;
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  ENTER();
  return submit(stream, [=] { function(argument); });
}
CUresult cuModuleLoad(CUmodule*, const char*) {
  ENTER();
  return CUDA_ERROR_FILE_NOT_FOUND;
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  ENTER();
  if (current == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!is_image(image)) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *module = new CUmod_st{image};
  state().modules.insert(*module);
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count,
                            CUjit_option* options, void** values) {
  {
    ENTER();
  }
  for (unsigned int i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER && !is_image(image)) {
      std::strcpy(static_cast<char*>(values[i]), "syntax error on the fake line 1");
    }
  }
  return is_image(image) ? cuModuleLoadData(module, image) : CUDA_ERROR_INVALID_PTX;
}
CUresult cuModuleUnload(CUmodule module) {
  ENTER();
  if (state().modules.erase(module) == 0) {
    misuse("an unknown module is unloaded");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  drain_all();
  delete module;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  ENTER();
  if (state().modules.count(module) == 0) {
    misuse("a function of an unknown module");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const fake_cuda::Kernel* kernel = fake_cuda::find_kernel(name);
  if (kernel == nullptr && has_code(module->image, name)) {
    kernel = find_given_kernel(name);
  }
  if (kernel == nullptr) {
    return CUDA_ERROR_NOT_FOUND;
  }
  state().functions.push_back(std::make_unique<CUfunc_st>());
  state().functions.back()->kernel = kernel;
  *function = state().functions.back().get();
  return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal(CUdeviceptr*, size_t*, CUmodule, const char*) {
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  ENTER();
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  *value = 0;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, size_t) {
  *blocks = 1;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned int blocks, unsigned int, unsigned int,
                        unsigned int threads, unsigned int, unsigned int,
                        unsigned int shared_nbytes, CUstream stream, void** parameters, void**) {
  ENTER();
  return launch(function, {blocks, threads, 1}, shared_nbytes, stream, parameters);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void**) {
  ENTER();
  fake_cuda::Grid grid{config->gridDimX, config->blockDimX, 1};
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      grid.cluster = attribute.value.clusterDim.x;
    } else if (attribute.id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (grid.cluster == 0 || grid.blocks % grid.cluster != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return launch(function, grid, config->sharedMemBytes, config->hStream, parameters);
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType dtype, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* steps,
                                CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  ENTER();
  const bool is_known = dtype == CU_TENSOR_MAP_DATA_TYPE_UINT16 && rank == 2 && steps[0] == 1 &&
                        steps[1] == 1 && swizzle == CU_TENSOR_MAP_SWIZZLE_128B;
  const bool is_valid = reinterpret_cast<uintptr_t>(address) % 16 == 0 && strides[0] % 16 == 0 &&
                        sizes[0] > 0 && sizes[1] > 0 && box[0] == 64 && box[1] <= 256;
  if (!is_known || !is_valid) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const fake_cuda::FakeTensorMap matrix{
      static_cast<const char*>(address), sizes[0], sizes[1], strides[0], box[0], box[1]};
  static_assert(sizeof(matrix) <= sizeof(*map));
  std::memcpy(map, &matrix, sizeof(matrix));
  return CUDA_SUCCESS;
}
CUresult cuLaunchCooperativeKernel(CUfunction, unsigned int, unsigned int, unsigned int,
                                   unsigned int, unsigned int, unsigned int, unsigned int, CUstream,
                                   void**) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
}
