// MTLComputeCommandEncoder: what is bound and dispatched, and whether that may be.

#include "command_objects.h"
#include "counters.h"
#include "foundation.h"

namespace stand_in {
namespace {

constexpr size_t kMaxBytes = 4096;  // of setBytes
constexpr size_t kGroupMemoryNbytes = 32768;

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

}  // namespace

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

namespace {

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
Class encoder_class = make_class("MTLComputeCommandEncoder", kEncoderMethods);
Class no_class = make_class("class", kNoMethods);
const RegisteredClass registered{encoder_class, &no_class};

}  // namespace

Encoder::Encoder(CommandBuffer* commands_) : Object(&encoder_class), commands(commands_) {}

}  // namespace stand_in
