// One dispatch: the threadgroups of a grid one after the other, each with its arguments.
#pragma once

namespace metal_host {

/// One GPU thread, asked by the names of Metal's attributes.
struct Thread {
  uint3 in_group;
  uint index;  // in its threadgroup

  static uint3 of(const unsigned int (&size)[3]) { return uint3(size[0], size[1], size[2]); }
  static uint3 nominal_group() { return of(runtime.dispatch->group); }

  uint3 thread_position_in_threadgroup() const { return in_group; }
  uint3 thread_position_in_grid() const {
    return runtime.group_position * nominal_group() + in_group;
  }
  uint3 threadgroup_position_in_grid() const { return runtime.group_position; }
  uint3 threads_per_threadgroup() const { return runtime.group_size; }
  uint3 dispatch_threads_per_threadgroup() const { return nominal_group(); }
  uint3 threads_per_grid() const { return of(runtime.dispatch->grid); }
  uint3 threadgroups_per_grid() const {
    return (threads_per_grid() + nominal_group() - 1u) / nominal_group();
  }
  uint3 thread_index_in_threadgroup() const { return uint3(index); }
  uint3 thread_index_in_simdgroup() const { return uint3(index % kSimdgroupSize); }
  uint3 simdgroup_index_in_threadgroup() const { return uint3(index / kSimdgroupSize); }
  uint3 threads_per_simdgroup() const { return uint3(kSimdgroupSize); }
  uint3 thread_execution_width() const { return uint3(kSimdgroupSize); }
  uint3 simdgroups_per_threadgroup() const {
    const uint3 size = runtime.group_size;
    return uint3((size.x * size.y * size.z + kSimdgroupSize - 1) / kSimdgroupSize);
  }
};

/// A built-in value as the type that the kernel declares.
template <typename T>
T as_parameter(const uint3& value) {
  if constexpr (metal::vector_size_v<T> == 1) {
    return T(value.x);
  } else {
    T result;
    for (int i = 0; i < metal::vector_size_v<T>; ++i) {
      result[i] = value[i];
    }
    return result;
  }
}

template <typename F, int kPlace>
struct ParameterOf;
template <int kPlace, typename First, typename... Rest>
struct ParameterOf<void (*)(First, Rest...), kPlace> {
  using type = typename ParameterOf<void (*)(Rest...), kPlace - 1>::type;
};
template <typename First, typename... Rest>
struct ParameterOf<void (*)(First, Rest...), 0> {
  using type = First;
};
template <typename F, int kPlace>
using Parameter = typename ParameterOf<F, kPlace>::type;

template <typename T>
struct Pointee {
  using type = T;
};
template <typename T>
struct Pointee<T*> {
  using type = T;
};
template <typename T>
struct Pointee<T&> {
  using type = T;
};
template <typename T>
constexpr unsigned long long nbytes_of() {
  if constexpr (__is_void(T)) {
    return 1;
  } else {
    return sizeof(T);
  }
}
template <typename T>
constexpr unsigned long long pointee_nbytes = nbytes_of<typename Pointee<T>::type>();

/// Binds a buffer to a parameter of type T, a pointer or a reference.
template <typename T>
T buffer(uint index) {
  using Element = typename Pointee<T>::type;
  void* address = runtime.dispatch->buffers[index];
  if constexpr (__is_pointer(T)) {
    return static_cast<Element*>(address);
  } else {
    return *static_cast<Element*>(address);
  }
}

/// Memories that a kernel takes as arguments [[threadgroup(n)]].
constexpr uint kMaxGroupArguments = 8;
inline GroupMemoryRange group_arguments[kMaxGroupArguments];

template <typename T>
T group_argument(uint index) {
  group_memory.use(group_arguments[index]);
  return reinterpret_cast<T>(group_arguments[index].start);
}

inline bool allocate_group_arguments(const MetalHostDispatch& dispatch) {
  for (uint i = 0; i < kMaxGroupArguments; ++i) {
    const size_t nbytes = i < dispatch.group_memory_count ? dispatch.group_memory_nbytes[i] : 0;
    const size_t whole = (nbytes + 2 * kCanaryNbytes + 63) / 64 * 64;
    char* memory = nbytes == 0 ? nullptr : static_cast<char*>(aligned_alloc(64, whole));
    if (nbytes != 0 && memory == nullptr) {
      return false;
    }
    ByteUses* uses = nullptr;
#ifdef METAL_HOST_CHECK
    if (nbytes != 0) {
      uses = static_cast<ByteUses*>(calloc(nbytes, sizeof(ByteUses)));
    }
#endif
    group_arguments[i] = {memory + kCanaryNbytes, nbytes, nullptr, uses, 0};
  }
  return true;
}

inline void free_group_arguments() {
  for (GroupMemoryRange& argument : group_arguments) {
    if (argument.nbytes != 0) {
      free(argument.start - kCanaryNbytes);
      free(argument.uses);
    }
    argument = {};
  }
}

/// Whether every argument is there and aligned; fails with a reason.
inline bool check_arguments(const MetalHostKernel& kernel, const MetalHostDispatch& dispatch) {
  for (uint i = 0; i < kernel.argument_count; ++i) {
    const MetalHostArgument& argument = kernel.arguments[i];
    if (argument.kind == kMetalHostGroupMemory) {
      if (argument.index >= dispatch.group_memory_count ||
          dispatch.group_memory_nbytes[argument.index] == 0) {
        fail("no length for threadgroup memory %u", argument.index);
        return false;
      }
      continue;
    }
    const void* address = dispatch.buffers[argument.index];
    if (address == nullptr) {
      fail("nothing is bound to buffer %u", argument.index);
      return false;
    }
    if (argument.kind == kMetalHostConstantReference && dispatch.buffer_nbytes != nullptr &&
        dispatch.buffer_nbytes[argument.index] < argument.nbytes) {
      fail("buffer %u has %llu bytes, the kernel reads %llu", argument.index,
           dispatch.buffer_nbytes[argument.index], argument.nbytes);
      return false;
    }
  }
  return true;
}

/// All threads of a threadgroup, one after the other, on one fiber.
template <void (*kBody)(const Thread&)>
void run_alone() {
  const uint3 size = runtime.group_size;
  const uint count = size.x * size.y * size.z;
  const Order order(runtime.schedule, count);
  for (uint i = 0; i < count; ++i) {
    const uint index = order[i];
    runtime.running = index;
    kBody({uint3(index % size.x, index / size.x % size.y, index / size.x / size.y), index});
    settle_pending_write();
  }
}

/// The running thread of a threadgroup.
template <void (*kBody)(const Thread&)>
void run_one() {
  const uint3 size = runtime.group_size;
  const uint index = runtime.running;
  kBody({uint3(index % size.x, index / size.x % size.y, index / size.x / size.y), index});
}

inline void run_group(bool alone, uint3 position) {
  runtime.group_position = position;
  for (int i = 0; i < 3; ++i) {
    const uint left = runtime.dispatch->grid[i] - position[i] * runtime.dispatch->group[i];
    runtime.group_size[i] = left < runtime.dispatch->group[i] ? left : runtime.dispatch->group[i];
  }
  group_memory.begin(++runtime.group_number, runtime.schedule.poison());
  runtime.alone = alone;
  const uint3 size = runtime.group_size;
  run_threads(alone ? 1 : size.x * size.y * size.z);
  if (!runtime.failed && !group_memory.intact()) {
    fail("a write outside of a variable in threadgroup memory");
  }
}

/// Runs a kernel. `body` is run_one or, where no thread waits for others, run_alone.
inline int launch(const MetalHostKernel& kernel, const MetalHostDispatch& dispatch, bool alone,
                  void (*body)()) {
  runtime.dispatch = &dispatch;
  runtime.kernel = kernel.name;
  runtime.failed = false;
  runtime.count = 0;
  runtime.running = 0;
  runtime.group_position = uint3(0);
  runtime.schedule.read_environment();
  runtime.body = body;
  runtime.buffer_count = kernel.buffer_count;
  const uint3 group = Thread::nominal_group();
  uint3 groups(0);
  if (group.x * group.y * group.z > kMaxSimdgroups * kSimdgroupSize) {
    fail("%u x %u x %u threads per threadgroup", group.x, group.y, group.z);
  } else if (!all(Thread::of(dispatch.grid) > 0u) || !all(group > 0u)) {
    fail("a grid or threadgroup of no threads");
  } else if (!reserve(alone ? 1 : group.x * group.y * group.z) ||
             !allocate_group_arguments(dispatch)) {
    fail("no memory for the stacks of threads");
  } else if (check_arguments(kernel, dispatch)) {
    groups = Thread().threadgroups_per_grid();
  }
  const uint count = groups.x * groups.y * groups.z;
  const Order order(runtime.schedule, count);
  for (uint i = 0; i < count && !runtime.failed; ++i) {
    const uint at = order[i];
    run_group(alone, uint3(at % groups.x, at / groups.x % groups.y, at / groups.x / groups.y));
  }
  free_group_arguments();
  return runtime.failed ? 1 : 0;
}

}  // namespace metal_host
