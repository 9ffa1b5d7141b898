#include "buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "counters.h"
#include "foundation.h"

namespace stand_in {
namespace {

constexpr size_t kQuarantinedNbytes = size_t{64} << 20;

std::atomic<size_t> allocated{0};

/// Released memory that can no longer be touched, before its addresses are given out again.
struct Quarantine {
  struct Region {
    char* start;
    size_t nbytes;
  };
  std::deque<Region> regions;
  size_t nbytes = 0;
};

Quarantine& quarantine() {
  static auto* instance = new Quarantine();
  return *instance;
}

size_t whole_pages(size_t nbytes) {
  return (nbytes + kPageNbytes - 1) / kPageNbytes * kPageNbytes;
}

/// Address space of a buffer: a page before, its pages, a page behind, and what aligning takes.
size_t region_nbytes(size_t nbytes) {
  return whole_pages(nbytes) + 3 * kPageNbytes;
}

void retire(char* region, size_t nbytes) {
  // Fresh mapping in the same place: the memory is given back, the addresses are not.
  (void)::mmap(region, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
               -1, 0);
  Quarantine& q = quarantine();
  q.regions.push_back({region, nbytes});
  q.nbytes += nbytes;
  while (q.nbytes > kQuarantinedNbytes) {
    q.nbytes -= q.regions.front().nbytes;
    (void)::munmap(q.regions.front().start, q.regions.front().nbytes);
    q.regions.pop_front();
  }
}

/// Where the region of a buffer starts.
char* region_of(const Buffer& buffer) {
  char* start = nullptr;
  std::memcpy(&start, buffer.data - sizeof(start), sizeof(start));
  return start;
}

void* buffer_contents(Object* self, Selector) {
  return static_cast<Buffer*>(self)->data;
}
unsigned long buffer_length(Object* self, Selector) {
  return static_cast<Buffer*>(self)->nbytes;
}
unsigned long buffer_storage_mode(Object*, Selector) {
  return 0;
}

const MethodEntry kBufferMethods[] = {{"contents", as_method(buffer_contents)},
                                      {"length", as_method(buffer_length)},
                                      {"allocatedSize", as_method(buffer_length)},
                                      {"storageMode", as_method(buffer_storage_mode)},
                                      STAND_IN_OBJECT_METHODS};
const MethodEntry kNoMethods[] = {{"class", nullptr}};
Class buffer_class = make_class("MTLBuffer", kBufferMethods);
Class buffer_class_class = make_class("MTLBuffer class", kNoMethods);
const RegisteredClass registered{buffer_class, &buffer_class_class};

void report_fault(int, siginfo_t* info, void*) {
  char text[160];
  const int length =
      std::snprintf(text, sizeof(text),
                    "Metal stand-in: the host touches %p, which work that is not completed uses, "
                    "or memory that is not there\n",
                    info->si_addr);
  (void)!::write(STDERR_FILENO, text, static_cast<size_t>(length));
  ::signal(SIGSEGV, SIG_DFL);
  ::raise(SIGSEGV);
}

}  // namespace

size_t allocated_nbytes() {
  return allocated;
}

bool protects_buffers() {
  static const bool on = [] {
    const char* text = std::getenv("AOTI_PLUGINS_METAL_PROTECT");
    if (text == nullptr || std::strcmp(text, "1") != 0) {
      return false;
    }
    struct sigaction action{};
    action.sa_sigaction = report_fault;
    action.sa_flags = SA_SIGINFO;
    (void)::sigaction(SIGSEGV, &action, nullptr);
    return true;
  }();
  return on;
}

Buffer::Buffer(char* data_, size_t nbytes_, bool wrapped_)
    : Object(&buffer_class), data(data_), nbytes(nbytes_), wrapped(wrapped_) {}

bool Buffer::intact() const {
  if (wrapped) {
    return true;
  }
  for (size_t i = nbytes; i < whole_pages(nbytes); ++i) {
    if (static_cast<unsigned char>(data[i]) != kFreshByte) {
      return false;
    }
  }
  return true;
}

void Buffer::protect(bool readable, bool writable) const {
  if (!wrapped) {
    (void)::mprotect(data, whole_pages(nbytes),
                     (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0));
  }
}

void Buffer::dealloc() {
  if (wrapped) {
    return;
  }
  protect(true, true);
  if (!intact()) {
    misuse("something was written behind the end of a buffer of %zu bytes", nbytes);
  }
  allocated -= nbytes;
  char* page_before = data - kPageNbytes;
  (void)::mprotect(page_before, kPageNbytes, PROT_READ);
  retire(region_of(*this), region_nbytes(nbytes));
}

Buffer* make_buffer(size_t nbytes) {
  const std::lock_guard<std::recursive_mutex> guard(lock());
  if (nbytes == 0) {
    misuse("a buffer of 0 bytes");
    return nullptr;
  }
  if (happens(faults.buffer) || (memory_limit != 0 && allocated + nbytes > memory_limit)) {
    return nullptr;
  }
  const size_t total = region_nbytes(nbytes);
  void* mapped =
      ::mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    return nullptr;
  }
  auto* region = static_cast<char*>(mapped);
  const auto aligned = whole_pages(reinterpret_cast<uintptr_t>(region)) + kPageNbytes;
  auto* data = region + (aligned - reinterpret_cast<uintptr_t>(region));
  (void)::mprotect(data - kPageNbytes, kPageNbytes, PROT_READ | PROT_WRITE);
  std::memcpy(data - sizeof(region), &region, sizeof(region));
  (void)::mprotect(data - kPageNbytes, kPageNbytes, PROT_NONE);
  if (::mprotect(data, whole_pages(nbytes), PROT_READ | PROT_WRITE) != 0) {
    (void)::munmap(region, total);
    return nullptr;
  }
  std::memset(data, kFreshByte, whole_pages(nbytes));
  allocated += nbytes;
  ++counters.buffers;
  return new Buffer(data, nbytes, false);
}

Buffer* wrap_buffer(void* data, size_t nbytes) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (data == nullptr || nbytes == 0 || address % kPageNbytes != 0 || nbytes % kPageNbytes != 0 ||
      happens(faults.buffer)) {
    return nullptr;
  }
  ++counters.buffers;
  ++counters.wrapped;
  return new Buffer(static_cast<char*>(data), nbytes, true);
}

}  // namespace stand_in
