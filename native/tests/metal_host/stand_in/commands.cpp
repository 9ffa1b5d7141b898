#include "commands.h"

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "../include/metal_host/abi.h"
#include "buffer.h"
#include "counters.h"
#include "foundation.h"
#include "library.h"

namespace stand_in {
namespace {

constexpr size_t kMaxBytes = 4096;  // of setBytes
constexpr size_t kMaxGroupMemories = 8;
constexpr size_t kGroupMemoryNbytes = 32768;
constexpr int kPollsUntilDone = 3;

struct Size {
  unsigned long x, y, z;
};

/// What is bound to an index: a buffer from an offset on, or bytes.
struct Binding {
  Reference<Buffer> buffer;
  size_t offset = 0;
  std::vector<char> bytes;
  bool set = false;
  bool stale = false;  // from before the last dispatch

  char* address() { return buffer.get() != nullptr ? buffer->data + offset : bytes.data(); }
  size_t nbytes() const { return buffer.get() != nullptr ? buffer->nbytes - offset : bytes.size(); }
};

using Bindings = std::array<Binding, METAL_HOST_MAX_BUFFERS>;
using GroupMemories = std::array<unsigned long long, kMaxGroupMemories>;

/// One dispatch as it was encoded.
struct Dispatch {
  Reference<Pipeline> pipeline;
  Bindings bindings;
  GroupMemories group_memories;
  Size grid;
  Size group;
};

struct Queue;
struct Encoder;

struct CommandBuffer : Object {
  // Values of MTLCommandBufferStatus.
  enum Status { kNotEnqueued = 0, kCommitted = 2, kScheduled = 3, kCompleted = 4, kError = 5 };

  explicit CommandBuffer(Queue* queue);
  void dealloc() override;
  void protect(bool allowed) const;
  void run();

  Reference<Queue> queue;
  std::vector<Dispatch> dispatches;
  Encoder* open = nullptr;
  Status status = kNotEnqueued;
  int polls = 0;
  std::string error;
};

struct Queue : Object {
  Queue();
  /// Runs committed work, in order, up to `last`.
  void run_until(const CommandBuffer* last);

  std::deque<Reference<CommandBuffer>> committed;
};

struct Encoder : Object {
  explicit Encoder(CommandBuffer* commands);
  void dealloc() override;
  bool usable(const char* what) const;
  void dispatch(Size grid, Size group);

  Reference<CommandBuffer> commands;
  Reference<Pipeline> pipeline;
  Bindings bindings;
  GroupMemories group_memories{};
  bool ended = false;
};

/// Whether each argument of the kernel is bound, and for this dispatch.
bool check_bindings(const MetalHostKernel& kernel, const Bindings& bindings) {
  for (unsigned int i = 0; i < kernel.argument_count; ++i) {
    const MetalHostArgument& argument = kernel.arguments[i];
    if (argument.kind == kMetalHostGroupMemory) {
      continue;
    }
    const Binding& binding = bindings[argument.index];
    if (!binding.set) {
      misuse("kernel %s: nothing is bound to buffer %u", kernel.name, argument.index);
      return false;
    }
    if (binding.stale) {
      misuse("kernel %s: buffer %u is left over from an earlier dispatch", kernel.name,
             argument.index);
      return false;
    }
    if (argument.kind == kMetalHostConstantReference && binding.nbytes() < argument.nbytes) {
      misuse("kernel %s: buffer %u has %zu bytes, the kernel reads %llu", kernel.name,
             argument.index, binding.nbytes(), argument.nbytes);
      return false;
    }
    const bool element = (argument.nbytes & (argument.nbytes - 1)) == 0 && argument.nbytes <= 8;
    if (element && argument.nbytes != 0 && binding.offset % argument.nbytes != 0) {
      misuse("kernel %s: the offset %zu of buffer %u is no multiple of %llu", kernel.name,
             binding.offset, argument.index, argument.nbytes);
      return false;
    }
  }
  return true;
}

bool check_sizes(const Pipeline& pipeline, Size grid, Size group) {
  const char* name = pipeline.kernel.name;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || group.x == 0 || group.y == 0 || group.z == 0) {
    misuse("kernel %s: a grid of %lu x %lu x %lu in threadgroups of %lu x %lu x %lu", name, grid.x,
           grid.y, grid.z, group.x, group.y, group.z);
    return false;
  }
  if (group.x * group.y * group.z > pipeline.max_threads) {
    misuse("kernel %s: %lu threads per threadgroup, of at most %zu", name,
           group.x * group.y * group.z, pipeline.max_threads);
    return false;
  }
  constexpr unsigned long kMost = 0xFFFFFFFFul;
  if (grid.x > kMost || grid.y > kMost || grid.z > kMost) {
    misuse("kernel %s: a grid of more than 2^32 - 1 threads", name);
    return false;
  }
  return true;
}

void Encoder::dispatch(Size grid, Size group) {
  if (!usable("dispatch")) {
    return;
  }
  if (pipeline.get() == nullptr) {
    misuse("dispatch without a pipeline state");
    return;
  }
  if (!check_sizes(*pipeline.get(), grid, group) || !check_bindings(pipeline->kernel, bindings)) {
    return;
  }
  commands->dispatches.push_back({pipeline, bindings, group_memories, grid, group});
  for (Binding& binding : bindings) {
    binding.stale = true;
  }
  ++counters.dispatches;
}

/// Runs one dispatch; an empty string, or why it failed.
std::string run_dispatch(Dispatch& dispatch) {
  std::array<void*, METAL_HOST_MAX_BUFFERS> addresses{};
  std::array<unsigned long long, METAL_HOST_MAX_BUFFERS> nbytes{};
  for (size_t i = 0; i < dispatch.bindings.size(); ++i) {
    if (dispatch.bindings[i].set) {
      addresses[i] = dispatch.bindings[i].address();
      nbytes[i] = dispatch.bindings[i].nbytes();
    }
  }
  std::array<char, 1024> message{};
  MetalHostDispatch call{};
  call.buffers = addresses.data();
  call.buffer_nbytes = nbytes.data();
  call.group_memory_nbytes = dispatch.group_memories.data();
  call.group_memory_count = kMaxGroupMemories;
  const unsigned long grid[3] = {dispatch.grid.x, dispatch.grid.y, dispatch.grid.z};
  const unsigned long group[3] = {dispatch.group.x, dispatch.group.y, dispatch.group.z};
  for (int i = 0; i < 3; ++i) {
    call.grid[i] = static_cast<unsigned int>(grid[i]);
    call.group[i] = static_cast<unsigned int>(group[i]);
  }
  call.message = message.data();
  call.message_nbytes = message.size();
  if (dispatch.pipeline->kernel.launch(&call) != 0) {
    return message.data();
  }
  for (const Binding& binding : dispatch.bindings) {
    if (binding.buffer.get() != nullptr && !binding.buffer->intact()) {
      return std::string("kernel ") + dispatch.pipeline->kernel.name +
             " wrote behind the end of a buffer";
    }
  }
  return "";
}

void CommandBuffer::run() {
  status = kCompleted;
  if (happens(faults.command_buffer)) {
    error = "injected fault: the command buffer was not executed";
  }
  for (size_t i = 0; i < dispatches.size() && error.empty(); ++i) {
    error = run_dispatch(dispatches[i]);
  }
  if (!error.empty()) {
    status = kError;
  }
  dispatches.clear();
}

void CommandBuffer::protect(bool allowed) const {
  for (const Dispatch& dispatch : dispatches) {
    const MetalHostKernel& kernel = dispatch.pipeline->kernel;
    for (unsigned int i = 0; i < kernel.argument_count; ++i) {
      const MetalHostArgument& argument = kernel.arguments[i];
      if (argument.kind == kMetalHostGroupMemory) {
        continue;
      }
      const Buffer* buffer = dispatch.bindings[argument.index].buffer.get();
      if (buffer != nullptr) {
        buffer->protect(allowed, allowed);
      }
    }
  }
}

void Queue::run_until(const CommandBuffer* last) {
  const std::lock_guard<std::recursive_mutex> guard(lock());
  if (protects_buffers()) {
    for (const auto& commands : committed) {
      commands->protect(true);
    }
  }
  bool more = !committed.empty();
  while (more) {
    const Reference<CommandBuffer> next = std::move(committed.front());
    committed.pop_front();
    next->run();
    more = !committed.empty() && next.get() != last;
  }
  if (protects_buffers()) {
    for (const auto& commands : committed) {
      commands->protect(false);
    }
  }
}

bool Encoder::usable(const char* what) const {
  if (ended) {
    misuse("%s on an encoder after endEncoding", what);
  }
  return !ended;
}

void Encoder::dealloc() {
  if (!ended) {
    misuse("an encoder is released before endEncoding");
    commands->open = nullptr;
  }
  commands.reset();
  pipeline.reset();
  bindings = {};
}

void CommandBuffer::dealloc() {
  queue.reset();
  dispatches.clear();
}

Object* queue_command_buffer(Object* self, Selector) {
  return autorelease(new CommandBuffer(static_cast<Queue*>(self)));
}

Object* commands_encoder(Object* self, Selector) {
  auto* commands = static_cast<CommandBuffer*>(self);
  if (commands->status != CommandBuffer::kNotEnqueued) {
    misuse("computeCommandEncoder of a command buffer that is committed");
    return nullptr;
  }
  if (commands->open != nullptr) {
    misuse("computeCommandEncoder while another encoder is open");
    return nullptr;
  }
  commands->open = new Encoder(commands);
  return autorelease(commands->open);
}

void commands_commit(Object* self, Selector) {
  auto* commands = static_cast<CommandBuffer*>(self);
  const std::lock_guard<std::recursive_mutex> guard(lock());
  if (commands->open != nullptr) {
    misuse("commit while an encoder is open");
    return;
  }
  if (commands->status != CommandBuffer::kNotEnqueued) {
    misuse("commit of a command buffer that is committed");
    return;
  }
  ++counters.commits;
  commands->status = CommandBuffer::kCommitted;
  commands->queue->committed.emplace_back(commands);
  if (protects_buffers()) {
    commands->protect(false);
  }
}

bool is_committed(const CommandBuffer& commands, const char* what) {
  if (commands.status == CommandBuffer::kNotEnqueued) {
    misuse("%s before commit: it would never return", what);
    return false;
  }
  return true;
}

void commands_wait(Object* self, Selector) {
  auto* commands = static_cast<CommandBuffer*>(self);
  if (is_committed(*commands, "waitUntilCompleted") &&
      commands->status < CommandBuffer::kCompleted) {
    commands->queue->run_until(commands);
  }
}

void commands_wait_scheduled(Object* self, Selector) {
  auto* commands = static_cast<CommandBuffer*>(self);
  if (is_committed(*commands, "waitUntilScheduled") &&
      commands->status == CommandBuffer::kCommitted) {
    commands->status = CommandBuffer::kScheduled;
  }
}

unsigned long commands_status(Object* self, Selector) {
  auto* commands = static_cast<CommandBuffer*>(self);
  const bool running = commands->status == CommandBuffer::kCommitted ||
                       commands->status == CommandBuffer::kScheduled;
  if (running && ++commands->polls > kPollsUntilDone) {
    commands->queue->run_until(commands);
  }
  return commands->status;
}

Object* commands_error(Object* self, Selector) {
  const auto* commands = static_cast<CommandBuffer*>(self);
  return commands->error.empty() ? nullptr : autorelease(new Error(commands->error));
}

void encoder_set_pipeline(Object* self, Selector, Object* state) {
  auto* encoder = static_cast<Encoder*>(self);
  auto* pipeline = expect<Pipeline>(state, "setComputePipelineState:");
  if (encoder->usable("setComputePipelineState:") && pipeline != nullptr) {
    encoder->pipeline = Reference<Pipeline>(pipeline);
  }
}

Binding* binding_at(Object* self, unsigned long index, const char* what) {
  auto* encoder = static_cast<Encoder*>(self);
  if (!encoder->usable(what)) {
    return nullptr;
  }
  if (index >= METAL_HOST_MAX_BUFFERS) {
    misuse("%s: index %lu of at most %d", what, index, METAL_HOST_MAX_BUFFERS - 1);
    return nullptr;
  }
  encoder->bindings[index] = {};
  encoder->bindings[index].set = true;
  return &encoder->bindings[index];
}

void encoder_set_buffer(Object* self, Selector, Object* object, unsigned long offset,
                        unsigned long index) {
  auto* buffer = expect<Buffer>(object, "setBuffer:offset:atIndex:");
  Binding* binding =
      buffer == nullptr ? nullptr : binding_at(self, index, "setBuffer:offset:atIndex:");
  if (binding == nullptr) {
    return;
  }
  if (offset > buffer->nbytes) {
    misuse("setBuffer: offset %lu of a buffer of %zu bytes", offset, buffer->nbytes);
    offset = 0;
  }
  binding->buffer = Reference<Buffer>(buffer);
  binding->offset = offset;
}

void encoder_set_bytes(Object* self, Selector, const void* bytes, unsigned long nbytes,
                       unsigned long index) {
  if (bytes == nullptr || nbytes == 0 || nbytes > kMaxBytes) {
    misuse("setBytes: %lu bytes, of 1 to %zu", nbytes, kMaxBytes);
    return;
  }
  Binding* binding = binding_at(self, index, "setBytes:length:atIndex:");
  if (binding != nullptr) {
    const auto* first = static_cast<const char*>(bytes);
    binding->bytes.assign(first, first + nbytes);
  }
}

void encoder_set_group_memory(Object* self, Selector, unsigned long nbytes, unsigned long index) {
  auto* encoder = static_cast<Encoder*>(self);
  if (!encoder->usable("setThreadgroupMemoryLength:atIndex:")) {
    return;
  }
  if (index >= kMaxGroupMemories || nbytes % 16 != 0 || nbytes > kGroupMemoryNbytes) {
    misuse("setThreadgroupMemoryLength:%lu atIndex:%lu, of multiples of 16 up to %zu", nbytes,
           index, kGroupMemoryNbytes);
    return;
  }
  encoder->group_memories[index] = nbytes;
}

void encoder_dispatch_threads(Object* self, Selector, Size threads, Size group) {
  static_cast<Encoder*>(self)->dispatch(threads, group);
}

void encoder_dispatch_groups(Object* self, Selector, Size groups, Size group) {
  static_cast<Encoder*>(self)->dispatch(
      {groups.x * group.x, groups.y * group.y, groups.z * group.z}, group);
}

void encoder_barrier(Object* self, Selector, unsigned long) {
  (void)static_cast<Encoder*>(self)->usable("memoryBarrierWithScope:");
}

void encoder_end(Object* self, Selector) {
  auto* encoder = static_cast<Encoder*>(self);
  if (encoder->usable("endEncoding")) {
    encoder->ended = true;
    encoder->commands->open = nullptr;
  }
}

const MethodEntry kQueueMethods[] = {{"commandBuffer", as_method(queue_command_buffer)},
                                     STAND_IN_OBJECT_METHODS};
const MethodEntry kCommandBufferMethods[] = {
    {"computeCommandEncoder", as_method(commands_encoder)},
    {"commit", as_method(commands_commit)},
    {"waitUntilCompleted", as_method(commands_wait)},
    {"waitUntilScheduled", as_method(commands_wait_scheduled)},
    {"status", as_method(commands_status)},
    {"error", as_method(commands_error)},
    STAND_IN_OBJECT_METHODS};
const MethodEntry kEncoderMethods[] = {
    {"setComputePipelineState:", as_method(encoder_set_pipeline)},
    {"setBuffer:offset:atIndex:", as_method(encoder_set_buffer)},
    {"setBytes:length:atIndex:", as_method(encoder_set_bytes)},
    {"setThreadgroupMemoryLength:atIndex:", as_method(encoder_set_group_memory)},
    {"dispatchThreads:threadsPerThreadgroup:", as_method(encoder_dispatch_threads)},
    {"dispatchThreadgroups:threadsPerThreadgroup:", as_method(encoder_dispatch_groups)},
    {"memoryBarrierWithScope:", as_method(encoder_barrier)},
    {"endEncoding", as_method(encoder_end)},
    STAND_IN_OBJECT_METHODS};
const MethodEntry kNoMethods[] = {{"class", nullptr}};
Class queue_class = make_class("MTLCommandQueue", kQueueMethods);
Class command_buffer_class = make_class("MTLCommandBuffer", kCommandBufferMethods);
Class encoder_class = make_class("MTLComputeCommandEncoder", kEncoderMethods);
Class no_class = make_class("class", kNoMethods);
const RegisteredClass registered[] = {
    {queue_class, &no_class}, {command_buffer_class, &no_class}, {encoder_class, &no_class}};

CommandBuffer::CommandBuffer(Queue* queue_) : Object(&command_buffer_class), queue(queue_) {}
Queue::Queue() : Object(&queue_class) {}
Encoder::Encoder(CommandBuffer* commands_) : Object(&encoder_class), commands(commands_) {}

}  // namespace

Object* make_queue() {
  return new Queue();
}

}  // namespace stand_in
