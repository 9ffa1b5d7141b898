// Fibers: one stack per GPU thread of a threadgroup, and a switch between them that makes no system
// call on x86-64 and AArch64.
#pragma once

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace metal_host {

constexpr size_t kStackNbytes = size_t{64} << 10;
constexpr uint64_t kStackCanary = 0xC0DEDBADC0DEDBADull;

// AddressSanitizer, where the process has it, wants to know which stack is in use.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void**, const void*, size_t);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void*, const void**, size_t*);
}

/// A suspended flow of control.
struct Fiber {
  void* stack_pointer = nullptr;
  const void* stack_bottom = nullptr;
  size_t stack_nbytes = 0;
#if !defined(__x86_64__) && !defined(__aarch64__)
  ucontext_t context;
#endif
};

}  // namespace metal_host

#if defined(__x86_64__)
// Saves what a called function must keep, then exchanges stacks.
asm(R"(
.text
.local metal_host_switch_stack
.type metal_host_switch_stack,@function
metal_host_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
.size metal_host_switch_stack, . - metal_host_switch_stack
)");
#elif defined(__aarch64__)
asm(R"(
.text
.local metal_host_switch_stack
.type metal_host_switch_stack,%function
metal_host_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size metal_host_switch_stack, . - metal_host_switch_stack
)");
#endif

namespace metal_host {

#if defined(__x86_64__) || defined(__aarch64__)
extern "C" __attribute__((visibility("hidden"))) void metal_host_switch_stack(void** save,
                                                                              void* load);
#endif

/// Makes `fiber` start in `entry` on the stack when it is switched to.
inline void prepare(Fiber& fiber, char* stack, void (*entry)()) {
  fiber.stack_bottom = stack;
  fiber.stack_nbytes = kStackNbytes;
  memcpy(stack, &kStackCanary, sizeof(kStackCanary));
#if defined(__x86_64__)
  auto** top = reinterpret_cast<void**>(stack + kStackNbytes);
  *--top = nullptr;  // where entry would return to
  *--top = reinterpret_cast<void*>(entry);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  fiber.stack_pointer = top;
#elif defined(__aarch64__)
  auto** top = reinterpret_cast<void**>(stack + kStackNbytes) - 20;
  for (int saved = 0; saved < 20; ++saved) top[saved] = nullptr;
  top[11] = reinterpret_cast<void*>(entry);
  fiber.stack_pointer = top;
#else
  (void)getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = kStackNbytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
#endif
}

inline bool overflowed(const Fiber& fiber) {
  return memcmp(fiber.stack_bottom, &kStackCanary, sizeof(kStackCanary)) != 0;
}

/// To be called first on a fresh stack. Tells of the stack that was left.
inline void arrived(Fiber& left) {
  if (__sanitizer_finish_switch_fiber != nullptr) {
    __sanitizer_finish_switch_fiber(nullptr, &left.stack_bottom, &left.stack_nbytes);
  }
}

/// Exchanges stacks alone; `fake_stack` is null where nothing comes back.
inline void exchange_stacks(Fiber& from, Fiber& to, void** fake_stack) {
  if (__sanitizer_start_switch_fiber != nullptr) {
    __sanitizer_start_switch_fiber(fake_stack, to.stack_bottom, to.stack_nbytes);
  }
#if defined(__x86_64__) || defined(__aarch64__)
  metal_host_switch_stack(&from.stack_pointer, to.stack_pointer);
#else
  (void)swapcontext(&from.context, &to.context);
#endif
}

/// Goes on with `to`; returns when something switches back to `from`.
inline void switch_fiber(Fiber& from, Fiber& to) {
  void* fake_stack = nullptr;
  exchange_stacks(from, to, &fake_stack);
  if (__sanitizer_finish_switch_fiber != nullptr) {
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
  }
}

/// Goes on with `to` when `from` is at its end. Has no variable in memory: what AddressSanitizer
/// marks around one would stay, and the stack may be used again.
inline void leave_fiber(Fiber& from, Fiber& to) {
  exchange_stacks(from, to, nullptr);
}

}  // namespace metal_host
