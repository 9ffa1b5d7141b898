// What a compiled Metal library looks like from outside: a table of kernels. Plain C, as the
// stand-in for Metal, Python (../../metal_library.py) and the kernels themselves share it.
#pragma once

#define METAL_HOST_MAX_BUFFERS 31
#define METAL_HOST_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

enum MetalHostArgumentKind {
  kMetalHostDevicePointer = 0,
  kMetalHostConstantPointer = 1,
  kMetalHostConstantReference = 2,  // a value: bytes or a buffer
  kMetalHostGroupMemory = 3,        // index among the memories of a threadgroup
};

struct MetalHostArgument {
  int kind;
  unsigned int index;
  unsigned long long nbytes;  // of what it points or refers to, one element; 0 if unknown
};

/// One dispatch. Sizes are in threads, x y z.
struct MetalHostDispatch {
  void* const* buffers;                           // by buffer index
  const unsigned long long* buffer_nbytes;        // from the address on; null: unknown
  const unsigned long long* group_memory_nbytes;  // by threadgroup memory index
  unsigned int group_memory_count;
  unsigned int grid[3];
  unsigned int group[3];
  char* message;  // out: why it failed
  unsigned long long message_nbytes;
};

struct MetalHostKernel {
  const char* name;
  const struct MetalHostArgument* arguments;
  unsigned int argument_count;
  unsigned int buffer_count;    // one more than the highest buffer index
  unsigned int max_threads;     // per threadgroup, as the kernel says; 0: it does not
  unsigned int has_rendezvous;  // barriers or simdgroup operations
  /// 0, or 1 with a message. Not to be called by two host threads at once.
  int (*launch)(const struct MetalHostDispatch* dispatch);
};

/// Every library exports `metal_host_kernels` of this type.
typedef const struct MetalHostKernel* (*MetalHostKernels)(unsigned int* abi, unsigned int* count);

#ifdef __cplusplus
}
#endif
