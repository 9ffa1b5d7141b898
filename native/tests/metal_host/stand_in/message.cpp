// objc_msgSend: finds the method of an object's class and jumps to it with all arguments in place.

#include "object.h"

#if defined(__x86_64__)
asm(R"(
.text
.globl objc_msgSend
.type objc_msgSend,@function
objc_msgSend:
  testq %rdi, %rdi
  jz 1f
  pushq %rbp
  movq %rsp, %rbp
  subq $192, %rsp
  movq %rdi, 0(%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movq %rax, 48(%rsp)
  movups %xmm0, 64(%rsp)
  movups %xmm1, 80(%rsp)
  movups %xmm2, 96(%rsp)
  movups %xmm3, 112(%rsp)
  movups %xmm4, 128(%rsp)
  movups %xmm5, 144(%rsp)
  movups %xmm6, 160(%rsp)
  movups %xmm7, 176(%rsp)
  call metal_stand_in_lookup
  movq %rax, %r11
  movq 0(%rsp), %rdi
  movq 8(%rsp), %rsi
  movq 16(%rsp), %rdx
  movq 24(%rsp), %rcx
  movq 32(%rsp), %r8
  movq 40(%rsp), %r9
  movq 48(%rsp), %rax
  movups 64(%rsp), %xmm0
  movups 80(%rsp), %xmm1
  movups 96(%rsp), %xmm2
  movups 112(%rsp), %xmm3
  movups 128(%rsp), %xmm4
  movups 144(%rsp), %xmm5
  movups 160(%rsp), %xmm6
  movups 176(%rsp), %xmm7
  leave
  jmpq *%r11
1:
  xorl %eax, %eax
  xorl %edx, %edx
  xorps %xmm0, %xmm0
  retq
.size objc_msgSend, . - objc_msgSend
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl objc_msgSend
.type objc_msgSend,%function
objc_msgSend:
  cbz x0, 1f
  stp x29, x30, [sp, #-224]!
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  stp q0, q1, [sp, #96]
  stp q2, q3, [sp, #128]
  stp q4, q5, [sp, #160]
  stp q6, q7, [sp, #192]
  bl metal_stand_in_lookup
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr x8, [sp, #80]
  ldp q0, q1, [sp, #96]
  ldp q2, q3, [sp, #128]
  ldp q4, q5, [sp, #160]
  ldp q6, q7, [sp, #192]
  ldp x29, x30, [sp], #224
  br x16
1:
  mov x0, #0
  mov x1, #0
  movi d0, #0
  ret
.size objc_msgSend, . - objc_msgSend
)");
#else
#error "objc_msgSend is written for x86-64 and AArch64"
#endif

namespace stand_in {
namespace {

/// What a message does that no method answers, where misuse does not abort.
long answer_nothing(Object*, Selector) {
  return 0;
}

}  // namespace
}  // namespace stand_in

extern "C" __attribute__((visibility("hidden"), used)) stand_in::Method metal_stand_in_lookup(
    stand_in::Object* object, stand_in::Selector selector) {
  if (object->magic != stand_in::kLiveObject) {
    stand_in::misuse("%s to a %s after its last release", selector,
                     object->magic == stand_in::kDeadObject ? object->isa->name : "thing");
    return stand_in::as_method(stand_in::answer_nothing);
  }
  const stand_in::Method method = stand_in::find_method(object, selector);
  if (method == nullptr) {
    stand_in::misuse("%s does not respond to %s", object->isa->name, selector);
    return stand_in::as_method(stand_in::answer_nothing);
  }
  return method;
}
