/* Instructions whose calls are known exactly: the harness must have seen each of them. */
#include "harness.h"
#include <stdio.h>

static int failures;
static char memory[256] __attribute__((aligned(64)));
static __thread long local_cell[4] = {1, 2, 3, 4};

#define CHECK(kind, address, bytes, code, ...)                                                    \
    do {                                                                                          \
        test_reset();                                                                             \
        __asm__ volatile(code : : __VA_ARGS__ : "rax", "rcx", "rdx", "r11", "xmm0", "memory", "cc"); \
        failures += test_expect(code, kind, address, bytes);                                                      \
    } while (0)

/* Operands are in registers, so that the asm is all there is. */
__attribute__((noinline)) static void events(char *p) {
    CHECK(LOAD, p + 8, 8, "movq 8(%0), %%rax", "r"(p));
    CHECK(LOAD, p, 8, "movq (%0), %%rax", "D"(p));
    CHECK(STORE, p + 4, 4, "movl $7, 4(%0)", "r"(p));
    CHECK(MODIFY, p + 12, 2, "addw $1, (%0,%1,4)", "r"(p), "r"(3l));
    CHECK(LOCKED, p, 8, "lock; xaddq %%rax, (%0)", "r"(p));
    CHECK(LOCKED, p, 8, "LOCK XADDQ %%RAX, 0X0(%0)", "r"(p));
    CHECK(CLFLUSH, p + 3, 64, "CLFLUSH 3(%0)", "r"(p));
    CHECK(REP_MOVS, NULL, 32, "MOVL $4, %%ECX; PUSHQ %%RSI; pushq %%rdi; REP MOVSQ; popq %%rdi; popq %%rsi",
          "S"(p), "D"(p + 64));
    CHECK(LOCKED, p, 8, "lock\n\tincq (%0)", "r"(p));
    CHECK(LOCKED, p, 4, "xchgl %%eax, (%0)", "r"(p));
    CHECK(STREAM, p + 16, 8, "movnti %%rax, 16(%0)", "r"(p));
    CHECK(STREAM, p + 16, 16, "movntdq %%xmm0, 16(%0)", "r"(p));
    CHECK(CLWB, p + 3, 64, ".byte 0x66; xsaveopt 3(%0)", "r"(p));
    CHECK(CLWB, p + 3, 64, ".byte 0x66\n\txsaveopt 3(%0)", "r"(p));
    CHECK(CLFLUSHOPT, p + 3, 64, ".byte 0x66; clflush 3(%0)", "r"(p));
    CHECK(CLFLUSH, p + 3, 64, "clflush 3(%0)", "r"(p));
    CHECK(SFENCE, NULL, 0, "sfence", "r"(p));
    CHECK(PAUSE, NULL, 0, "rep; nop", "r"(p));
    CHECK(REP_MOVS, NULL, 32, "movl $4, %%ecx; pushq %%rsi; pushq %%rdi; rep movsq; popq %%rdi; popq %%rsi",
          "S"(p), "D"(p + 64));
    CHECK(STOS, NULL, 4, "pushq %%rdi; stosl; popq %%rdi", "D"(p));
    CHECK(SCAN, NULL, 1, "pushq %%rsi; lodsb; popq %%rsi", "S"(p));
}

#define MASKED(kind, address, length, mask, ...)                                                  \
    do {                                                                                          \
        CHECK(kind, address, length, __VA_ARGS__);                                                \
        if (test_mask != (mask)) failures++, printf("mask %lx, not %lx\n", test_mask, (long)(mask)); \
    } while (0)

__attribute__((noinline)) static void masked(char *p) {
    long top = 1l << 63;
    MASKED(MASKED_STREAM, p, 1 << 8 | 16, 0x8080,
           "movq %1, %%xmm0; punpcklqdq %%xmm0, %%xmm0; maskmovdqu %%xmm0, %%xmm0", "D"(p), "r"(top));
    MASKED(MASKED_STREAM, p, 1 << 8 | 8, 0x80, "movq %1, %%mm0; maskmovq %%mm0, %%mm0; emms",
           "D"(p), "r"(top));
    if (__builtin_cpu_supports("avx"))
        MASKED(MASKED_STORE, p + 8, 4 << 8 | 16, 2,
               "vmovq %1, %%xmm0; vmaskmovps %%xmm0, %%xmm0, 8(%0)", "D"(p), "r"(top));
    if (__builtin_cpu_supports("avx512bw")) {
        MASKED(MASKED_STORE, p + 64, 4 << 8 | 64, 0x5151,
               "movl $0x5151, %%eax; kmovw %%eax, %%k1; vmovdqu32 %%zmm0, 64(%0)%{%%k1%}", "r"(p));
        MASKED(MASKED_STORE, p, 0x8000 | 4 << 8 | 64, 3,
               "movl $3, %%eax; kmovw %%eax, %%k1; vpcompressd %%zmm0, (%0)%{%%k1%}", "r"(p));
    }
}

/* Thread-local storage: no base, bases, %rdi as a base. */
__attribute__((noinline)) static void thread_cells(void) {
    long thread;
    __asm__("movq %%fs:0, %0" : "=r"(thread));
    long offset = (long)local_cell - thread;
    CHECK(LOAD, local_cell, 8, "movq %%fs:(%0), %%rax", "r"(offset));
    CHECK(LOAD, local_cell + 1, 8, "movq %%fs:8(%0), %%rax", "D"(offset));
    CHECK(LOAD, local_cell + 2, 8, "movq %%fs:(%0,%1,8), %%rax", "r"(offset), "D"(2l));
    CHECK(STORE, local_cell + 3, 8, "movq %1, %%fs:(%0,%1,8)", "D"(offset), "r"(3l));
}

/* Flags live across accesses, and a jump that can only reach near targets. */
__attribute__((noinline)) static long flags_live(long *p) {
    long carry = 0, turns = 5;
    __asm__ volatile("addq $1, (%2)\n\tmovq 8(%2), %%rax\n\tadcq $0, %0\n\t"
                     "1: movq (%2), %%rax\n\tdecq %1\n\tmovq (%2), %%rdx\n\tjnz 1b\n\t"
                     "movl $2, %%ecx\n2: incq 8(%2)\n\tloop 2b\n\tjrcxz 3f\n\tmovq $9, %0\n3:"
                     : "+r"(carry), "+r"(turns)
                     : "r"(p)
                     : "rax", "rcx", "rdx", "memory", "cc");
    return carry;
}

__attribute__((noinline)) static long pops(long *p) {
    long value;
    __asm__ volatile("leaq -256(%%rsp), %%rsp; pushq $5; pushq $6; popq (%1); popq %0;"
                     "pushq $7; pushq $8; popq (%%rsp); popq %%rax; addq %%rax, %0;"
                     "leaq 256(%%rsp), %%rsp"
                     : "=&r"(value)
                     : "r"(p)
                     : "rax", "memory", "cc");
    return value;
}

static long system_call(long number) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    events(memory);
    masked(memory);
    thread_cells();
    long cells[2] = {-1, 41};
    if (flags_live(cells) != 1 || cells[1] != 43) failures++, printf("flags are lost\n");
    if (pops(cells) != 13 || cells[0] != 6) failures++, printf("pops are wrong\n");
    if (system_call(39) <= 0) failures++, printf("syscall\n");
    printf("%d failures\n", failures);
    return failures != 0;
}
