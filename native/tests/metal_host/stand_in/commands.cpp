#include "commands.h"

#include <array>
#include <chrono>
#include <string>

#include "command_objects.h"
#include "counters.h"
#include "foundation.h"

namespace stand_in {
namespace {

constexpr int kPollsUntilDone = 3;

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
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

}  // namespace

void CommandBuffer::run() {
  begin = now();
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
  end = now();
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

void CommandBuffer::dealloc() {
  queue.reset();
  dispatches.clear();
}

namespace {

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

double commands_begin_time(Object* self, Selector) {
  return static_cast<CommandBuffer*>(self)->begin;
}

double commands_end_time(Object* self, Selector) {
  return static_cast<CommandBuffer*>(self)->end;
}

Object* commands_error(Object* self, Selector) {
  const auto* commands = static_cast<CommandBuffer*>(self);
  return commands->error.empty() ? nullptr : autorelease(new Error(commands->error));
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
    {"GPUStartTime", as_method(commands_begin_time)},
    {"GPUEndTime", as_method(commands_end_time)},
    STAND_IN_OBJECT_METHODS};
const MethodEntry kNoMethods[] = {{"class", nullptr}};
Class queue_class = make_class("MTLCommandQueue", kQueueMethods);
Class command_buffer_class = make_class("MTLCommandBuffer", kCommandBufferMethods);
Class no_class = make_class("class", kNoMethods);
const RegisteredClass registered[] = {{queue_class, &no_class}, {command_buffer_class, &no_class}};

}  // namespace

CommandBuffer::CommandBuffer(Queue* queue_) : Object(&command_buffer_class), queue(queue_) {}
Queue::Queue() : Object(&queue_class) {}

Object* make_queue() {
  return new Queue();
}

}  // namespace stand_in
