#pragma once

/// What clang calls for the OpenMP pragmas of a blob, over the `aotip_omp_*` functions.
///
/// Included by `blob_openmp.h` where clang compiles. Names, arguments and schedules are those of
/// LLVM's OpenMP runtime (`openmp/runtime/src/kmp.h`); clang's first two arguments, the place in
/// the source and the number of the thread, are not looked at. Dynamic schedules, tasks and `if`
/// clauses are not served: a blob that has some does not link. Nothing here throws.

#ifdef __cplusplus
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

namespace aotip {

/// Calls `task(thread, thread, args[0], …, args[count - 1])`, as C passes pointers. `args` has room
/// for six, however many there are.
extern "C" __attribute__((visibility("hidden"))) void aotip_omp_invoke(void (*task)(),
                                                                       int32_t* thread, void** args,
                                                                       size_t count);

// The number of arguments is known only here, so C++ has no words for the call. Every file of a
// blob brings it; the linker keeps one.
#if defined(__x86_64__)
__asm__(R"(
  .pushsection .text.aotip_omp_invoke, "ax", @progbits
  .weak aotip_omp_invoke
  .hidden aotip_omp_invoke
  .type aotip_omp_invoke, @function
aotip_omp_invoke:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  movq %rdi, %r11
  movq %rsi, %rdi
  movq %rdx, %r10
  movq %rcx, %rax
  subq $4, %rax
  jle 2f
  leaq 1(%rax), %r8
  andq $-2, %r8
  shlq $3, %r8
  subq %r8, %rsp
1:
  movq 24(%r10,%rax,8), %r9
  movq %r9, -8(%rsp,%rax,8)
  decq %rax
  jnz 1b
2:
  movq (%r10), %rdx
  movq 8(%r10), %rcx
  movq 16(%r10), %r8
  movq 24(%r10), %r9
  call *%r11
  leave
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size aotip_omp_invoke, . - aotip_omp_invoke
  .popsection
)");
#elif defined(__aarch64__)
__asm__(R"(
  .pushsection .text.aotip_omp_invoke, "ax", @progbits
  .weak aotip_omp_invoke
  .hidden aotip_omp_invoke
  .type aotip_omp_invoke, @function
  .p2align 2
aotip_omp_invoke:
  .cfi_startproc
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  mov x29, sp
  .cfi_def_cfa_register x29
  mov x9, x0
  mov x0, x1
  mov x10, x2
  subs x11, x3, #6
  b.le 2f
  add x12, x11, #1
  and x12, x12, #-2
  lsl x12, x12, #3
  sub sp, sp, x12
  add x13, x10, #48
1:
  sub x11, x11, #1
  ldr x14, [x13, x11, lsl #3]
  str x14, [sp, x11, lsl #3]
  cbnz x11, 1b
2:
  ldp x2, x3, [x10]
  ldp x4, x5, [x10, #16]
  ldp x6, x7, [x10, #32]
  blr x9
  mov sp, x29
  ldp x29, x30, [sp], #16
  .cfi_def_cfa sp, 0
  ret
  .cfi_endproc
  .size aotip_omp_invoke, . - aotip_omp_invoke
  .popsection
)");
#endif

/// A parallel region that clang made a function of.
struct Region {
  void (*task)();
  void** args;
  size_t count;
};

inline void run_region(void* data) noexcept {
  const Region& region = *static_cast<const Region*>(data);
  int32_t thread = aotip_omp_thread_num();
  aotip_omp_invoke(region.task, &thread, region.args, region.count);
}

/// Most threads of the next region that this thread starts; 0 for no limit.
inline unsigned& threads_of_next_region() noexcept {
  static thread_local unsigned threads = 0;
  return threads;
}

/// Schedules of loops that clang may ask for.
enum Schedule : int32_t { kStaticChunked = 33, kStatic = 34 };

/// Gives this thread its part of the loop `for (i = *lower; i != *upper + step; i += step)`, both
/// ends included; of a loop in chunks the first one, the others following at `*stride`. The first
/// threads have one iteration more where they do not go into equal parts, as with gcc.
template <typename Unsigned, typename Number, typename Signed>
void share_loop(int32_t schedule, int32_t* is_last, Number* lower, Number* upper, Signed* stride,
                Signed step, Signed chunk) noexcept {
  const Unsigned size = step > 0 ? Unsigned(step) : Unsigned(0) - Unsigned(step);
  const Unsigned span =
      step > 0 ? Unsigned(*upper) - Unsigned(*lower) : Unsigned(*lower) - Unsigned(*upper);
  const bool is_empty = step > 0 ? *upper < *lower : *lower < *upper;
  if (is_empty) {
    *is_last = 0;
    *stride = step;
    return;
  }
  const Unsigned last = span / size;  // number of the last iteration
  const Unsigned thread = Unsigned(aotip_omp_thread_num());
  const Unsigned threads = Unsigned(aotip_omp_num_threads());
  const auto place = [first = Unsigned(*lower), step](Unsigned iteration) {
    return Number(first + iteration * Unsigned(step));
  };
  if (schedule == kStaticChunked) {
    const Unsigned each = chunk > 0 ? Unsigned(chunk) : 1;
    *stride = Signed(each * threads * Unsigned(step));
    *is_last = last / each % threads == thread;
    *upper = place(thread * each + (each - 1));
    *lower = place(thread * each);
    return;
  }
  // There are last + 1 iterations, a number that may be too large; so is one of all of them.
  const Unsigned each = last / threads;
  const Unsigned more = last % threads + 1;  // threads with each + 1 iterations
  const bool has_more = thread < more;
  const bool has_some = has_more || each > 0;
  const Unsigned begin = thread * each + (has_more ? thread : more);
  const Unsigned end = has_more ? begin + each : begin + each - 1;
  *stride = Signed((last + 1) * Unsigned(step));
  *is_last = has_some && end == last;
  // A thread without iterations gets bounds that are the wrong way round.
  *upper = place(has_some ? end : 0);
  *lower = place(has_some ? begin : 1);
}

}  // namespace aotip

extern "C" {

#define AOTIP_IN_BLOB __attribute__((weak, visibility("hidden")))

AOTIP_IN_BLOB void __kmpc_fork_call(void*, int32_t count, void (*task)(), ...) noexcept {
  const size_t room = size_t(count < 6 ? 6 : count);
  void** args = static_cast<void**>(__builtin_alloca(room * sizeof(void*)));
  va_list given;
  va_start(given, task);
  for (int32_t i = 0; i < count; ++i) {
    args[i] = va_arg(given, void*);
  }
  va_end(given);
  for (size_t i = size_t(count); i < room; ++i) {
    args[i] = nullptr;
  }
  aotip::Region region{task, args, size_t(count)};
  const unsigned threads = aotip::threads_of_next_region();
  aotip::threads_of_next_region() = 0;
  aotip_omp_parallel(aotip::run_region, &region, threads);
}
AOTIP_IN_BLOB void __kmpc_push_num_threads(void*, int32_t, int32_t threads) noexcept {
  aotip::threads_of_next_region() = threads > 0 ? unsigned(threads) : 0;
}
AOTIP_IN_BLOB int32_t __kmpc_global_thread_num(void*) noexcept {
  return aotip_omp_thread_num();
}
AOTIP_IN_BLOB void __kmpc_barrier(void*, int32_t) noexcept {
  aotip_omp_barrier();
}
AOTIP_IN_BLOB int32_t __kmpc_single(void*, int32_t) noexcept {
  return aotip_omp_single();
}
AOTIP_IN_BLOB void __kmpc_end_single(void*, int32_t) noexcept {}
AOTIP_IN_BLOB void __kmpc_critical(void*, int32_t, void*) noexcept {
  aotip_omp_critical(1);
}
AOTIP_IN_BLOB void __kmpc_end_critical(void*, int32_t, void*) noexcept {
  aotip_omp_critical(0);
}

// Each thread adds its part of a reduction by itself, in a critical section: the answer 1.
AOTIP_IN_BLOB int32_t __kmpc_reduce(void*, int32_t, int32_t, size_t, void*, void (*)(void*, void*),
                                    void*) noexcept {
  aotip_omp_critical(1);
  return 1;
}
AOTIP_IN_BLOB void __kmpc_end_reduce(void*, int32_t, void*) noexcept {
  aotip_omp_critical(0);
  aotip_omp_barrier();
}
AOTIP_IN_BLOB int32_t __kmpc_reduce_nowait(void*, int32_t, int32_t, size_t, void*,
                                           void (*)(void*, void*), void*) noexcept {
  aotip_omp_critical(1);
  return 1;
}
AOTIP_IN_BLOB void __kmpc_end_reduce_nowait(void*, int32_t, void*) noexcept {
  aotip_omp_critical(0);
}

AOTIP_IN_BLOB void __kmpc_for_static_init_4(void*, int32_t, int32_t schedule, int32_t* is_last,
                                            int32_t* lower, int32_t* upper, int32_t* stride,
                                            int32_t step, int32_t chunk) noexcept {
  aotip::share_loop<uint32_t>(schedule, is_last, lower, upper, stride, step, chunk);
}
AOTIP_IN_BLOB void __kmpc_for_static_init_4u(void*, int32_t, int32_t schedule, int32_t* is_last,
                                             uint32_t* lower, uint32_t* upper, int32_t* stride,
                                             int32_t step, int32_t chunk) noexcept {
  aotip::share_loop<uint32_t>(schedule, is_last, lower, upper, stride, step, chunk);
}
AOTIP_IN_BLOB void __kmpc_for_static_init_8(void*, int32_t, int32_t schedule, int32_t* is_last,
                                            int64_t* lower, int64_t* upper, int64_t* stride,
                                            int64_t step, int64_t chunk) noexcept {
  aotip::share_loop<uint64_t>(schedule, is_last, lower, upper, stride, step, chunk);
}
AOTIP_IN_BLOB void __kmpc_for_static_init_8u(void*, int32_t, int32_t schedule, int32_t* is_last,
                                             uint64_t* lower, uint64_t* upper, int64_t* stride,
                                             int64_t step, int64_t chunk) noexcept {
  aotip::share_loop<uint64_t>(schedule, is_last, lower, upper, stride, step, chunk);
}
AOTIP_IN_BLOB void __kmpc_for_static_fini(void*, int32_t) noexcept {}

#undef AOTIP_IN_BLOB

}  // extern "C"
#endif
