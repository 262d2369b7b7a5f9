/* The page for tests: its entries count what instrumented code is about to do, and spoil every
 * register and flag that the code said it does not need. Compiled with -mgeneral-regs-only. */
#define _GNU_SOURCE
#include "harness.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct access test_last;
unsigned long test_counts[KINDS], test_bytes[KINDS], test_mask;
static volatile uint64_t *const page = (volatile uint64_t *)PAGE;
char test_avx, test_avx512;

unsigned long test_instructions(void) { return page[2]; }
unsigned long test_stack_loads(void) { return page[3]; }
unsigned long test_stack_stores(void) { return page[4]; }

void test_reset(void) {
    for (int kind = 0; kind < KINDS; kind++) test_counts[kind] = test_bytes[kind] = 0;
    page[2] = page[3] = page[4] = 0;
}

int test_expect(const char *what, unsigned kind, const void *address, unsigned bytes) {
    int wrong = test_counts[kind] != 1 || test_bytes[kind] != bytes;
    for (unsigned other = 0; other < KINDS; other++) wrong |= other != kind && test_counts[other] != 0;
    if (address) wrong |= test_last.address != address || test_last.kind != kind;
    if (wrong)
        printf("%s: %lu of kind %u, %lu bytes, last %u at %p (expected %p)\n", what,
               test_counts[kind], kind, test_bytes[kind], test_last.kind,
               (void *)test_last.address, address);
    return wrong;
}

/* The registers as the entry pushed them. */
struct registers { uint64_t rax, rcx, rdx, rbx, rsi, r8, r9, r10, r11, r12, r13, r14, r15, flags; };

static void string(unsigned kind, struct registers *registers, uint64_t bytes) {
    uint64_t count = kind == REP_MOVS || kind == REP_STOS ? registers->rcx : 1;
    test_bytes[kind] += count * bytes;
}

static void system_call(struct registers *registers) {
    register uint64_t r10 __asm__("r10") = registers->r10;
    register uint64_t r8 __asm__("r8") = registers->r8;
    register uint64_t r9 __asm__("r9") = registers->r9;
    __asm__ volatile("syscall"
                     : "+a"(registers->rax)
                     : "D"(page[0]), "S"(registers->rsi), "d"(registers->rdx), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
}

void test_record(char *address, struct registers *registers) {
    uint32_t what = (uint32_t)page[1];
    unsigned kind = what >> 16 & 0x7fff, bytes = what & 0xffff;
    if (kind >= KINDS) abort();
    /* No access, and nothing that the program does. */
    if (kind >= BEGIN_COPY && kind <= FLOW) return;
    test_counts[kind]++;
    if (kind >= REP_MOVS && kind <= SCAN) {
        string(kind, registers, bytes & 0x7fff);
    } else if (kind == SYSCALL) {
        system_call(registers);
    } else if (kind >= MASKED_LOAD && kind <= MASKED_STREAM) {
        test_bytes[kind] += bytes;
        test_mask = page[5];
        test_last = (struct access){kind, address, bytes};
    } else {
        test_bytes[kind] += bytes;
        if ((kind >= SFENCE && kind <= PAUSE || kind == SEVERAL) != (bytes == 0)) abort();
    }
    if (bytes && (kind < REP_MOVS || kind >= DIRECT)) {
        /* A wrong address would be likely to fault. */
        (void)*(volatile char *)address;
        test_last = (struct access){kind, address, bytes};
    }
}

/* clang-format off */
__asm__(
    ".text\n"
    /* Every vector register. */
    "spoil_0:\n"
    "pcmpeqd %xmm0, %xmm0\n"
    ".irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n movdqa %xmm0, %xmm\\n\n .endr\n"
    /* All but the low 128 bits of 16 registers. */
    "spoil_1:\n"
    "cmpb $0, test_avx(%rip)\n je 1f\n vzeroupper\n"
    /* All but 256 bits of them. */
    "spoil_2:\n"
    "cmpb $0, test_avx512(%rip)\n je 1f\n"
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n vmovdqa %ymm\\n, %ymm\\n\n .endr\n"
    ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n"
    " vpternlogd $255, %zmm\\n, %zmm\\n, %zmm\\n\n .endr\n"
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7\n kxnorw %k\\n, %k\\n, %k\\n\n .endr\n"
    "1: ret\n"
    "spoil_3: ret\n"
    ".macro entry flags, vectors\n"
    "pushfq\n cld\n"
    "pushq %r15\n pushq %r14\n pushq %r13\n pushq %r12\n pushq %r11\n pushq %r10\n pushq %r9\n"
    "pushq %r8\n pushq %rsi\n pushq %rbx\n pushq %rdx\n pushq %rcx\n pushq %rax\n"
    "movq %rsp, %rsi\n pushq %rbp\n movq %rsp, %rbp\n andq $-16, %rsp\n"
    /* What the program might have below its stack pointer. */
    "movq $-1, %rax\n .irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10\n pushq %rax\n .endr\n"
    "call test_record\n call spoil_\\vectors\n"
    "movq %rbp, %rsp\n popq %rbp\n"
    "popq %rax\n popq %rcx\n popq %rdx\n popq %rbx\n popq %rsi\n popq %r8\n popq %r9\n popq %r10\n"
    "popq %r11\n popq %r12\n popq %r13\n popq %r14\n popq %r15\n"
    "movq 0x5ea00000, %rdi\n"
    ".if \\flags == 0\n xorq $0x8d5, (%rsp)\n .endif\n"
    "popfq\n ret\n"
    ".endm\n"
    "entry_0: entry 0, 0\n entry_1: entry 1, 0\n entry_2: entry 0, 1\n entry_3: entry 1, 1\n"
    "entry_4: entry 0, 2\n entry_5: entry 1, 2\n entry_6: entry 0, 3\n entry_7: entry 1, 3\n"
    ".data\n .globl test_entries\n"
    "test_entries: .quad entry_0, entry_1, entry_2, entry_3, entry_4, entry_5, entry_6, entry_7\n"
    ".text\n");
/* clang-format on */
extern const uint64_t test_entries[8];

static void test_map(void) {
    __builtin_cpu_init();
    void *at = mmap((void *)PAGE, 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != (void *)PAGE) abort();
    for (int number = 0; number < 8; number++) page[32 + number] = test_entries[number];
    test_avx = __builtin_cpu_supports("avx") != 0;
    test_avx512 = __builtin_cpu_supports("avx512f") != 0;
}
/* Before all constructors, some of which are instrumented. */
__attribute__((section(".preinit_array"), used)) static void (*const test_first)(void) = test_map;
