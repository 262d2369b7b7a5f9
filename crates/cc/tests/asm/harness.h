/* What the entries of harness.c have counted. */
#ifndef HARNESS_H
#define HARNESS_H

#define PAGE 0x5ea00000ul

enum kind {
    LOAD, STORE, MODIFY, LOCKED, STREAM, CLWB, CLFLUSHOPT, CLFLUSH, SFENCE, MFENCE, LFENCE, PAUSE,
    REP_MOVS, REP_STOS, MOVS, STOS, SCAN, SYSCALL, MASKED_LOAD, MASKED_STORE, MASKED_STREAM, SEVERAL,
    DIRECT, COMPARE, COMPARE_PAIR, BEGIN_COPY, END_COPY, FLOW, KINDS
};
/* What the entries saw last. */
struct access { unsigned kind; char *address; unsigned bytes; };

#ifdef __cplusplus
extern "C" {
#endif
extern struct access test_last;
extern unsigned long test_counts[KINDS], test_bytes[KINDS], test_mask;
unsigned long test_instructions(void);
unsigned long test_stack_loads(void);
unsigned long test_stack_stores(void);
void test_reset(void);
/* Whether anything else was seen since the reset than one access of this kind. */
int test_expect(const char *what, unsigned kind, const void *address, unsigned bytes);
#ifdef __cplusplus
}
#endif

#endif
