// The objects behind Metal's command queues: what commands.cpp and encoder.cpp share.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "../include/metal_host/abi.h"
#include "buffer.h"
#include "library.h"
#include "object.h"

namespace stand_in {

constexpr size_t kMaxGroupMemories = 8;

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
  double begin = 0;  // of its work, in seconds of the steady clock
  double end = 0;
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

}  // namespace stand_in
