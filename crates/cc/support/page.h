/* What the support library calls: functions of the process that runs the program, by their place in
 * the page (`src/abi.rs`). They have the C calling convention and may switch to another thread of
 * the program. The support library itself is compiled like the program, so that its accesses are
 * accesses of the program. */
#ifndef SEAWALL_PAGE_H
#define SEAWALL_PAGE_H

#include <stddef.h>
#include <stdint.h>

#define SEAWALL_PAGE 0x5ea00000ul
#define SEAWALL_CALL(n, result, ...) ((result(*)(__VA_ARGS__))((void **)(SEAWALL_PAGE + 0x200))[n])

/* Starts a thread that runs start(argument) and then thread_exit. Returns its number, from 1, or 0
 * if there is no core left. The main thread is number 0. */
#define sw_thread_start SEAWALL_CALL(0, uint64_t, void *(*)(void *), void *)
/* Ends the calling thread; never returns. */
#define sw_thread_exit SEAWALL_CALL(1, void, void)
/* The number of the calling thread. */
#define sw_thread_self SEAWALL_CALL(2, uint64_t, void)
/* Waits while the aligned 8 bytes at the address equal the value; returns the value that ended the
 * wait. A spin loop of loads, in one call. */
#define sw_wait_while SEAWALL_CALL(3, uint64_t, volatile uint64_t *, uint64_t)
/* The clock of the calling core, in nanoseconds of simulated time. */
#define sw_nanoseconds SEAWALL_CALL(4, uint64_t, void)
/* Ends the program with this exit code, as _exit does; never returns. */
#define sw_exit SEAWALL_CALL(5, void, int)
/* Ends the program because it does what cannot be run here: the name of it; never returns. */
#define sw_unsupported SEAWALL_CALL(6, void, const char *)
/* mmap, munmap, msync: as those, with -errno as the result of a failure. */
#define sw_mmap SEAWALL_CALL(7, intptr_t, void *, size_t, int, int, int, int64_t)
#define sw_munmap SEAWALL_CALL(8, intptr_t, void *, size_t)
#define sw_msync SEAWALL_CALL(9, intptr_t, void *, size_t, int)
/* More memory for the heap, at the end of what it has; its start, a multiple of 4096, at the first
 * call. The bytes are a multiple of 4096, and 0 at first. Null if there is no more. */
#define sw_heap_grow SEAWALL_CALL(10, void *, size_t)
/* Between these calls the calling thread's accesses are not simulated, and what it wrote to memory
 * is taken over afterwards: for what the C library does to memory of its own. No other thread runs
 * between them. Neither changes errno. */
#define sw_host_begin SEAWALL_CALL(11, void, void)
#define sw_host_end SEAWALL_CALL(12, void, void)
/* Instructions that the C library has executed for the program, which were not seen. */
#define sw_work SEAWALL_CALL(13, void, uint64_t)
/* seawall.h: the region of interest, outputs, order and drain. */
#define sw_roi SEAWALL_CALL(14, void, int)
#define sw_output SEAWALL_CALL(15, void, uint64_t)
#define sw_order SEAWALL_CALL(16, void, void)
#define sw_drain SEAWALL_CALL(17, void, void)
/* Lets other threads run: a hint, as in a loop that waits. */
#define sw_yield SEAWALL_CALL(18, void, void)
/* The number of cores: what a program should start at most. */
#define sw_cores SEAWALL_CALL(19, uint64_t, void)
/* Memory that survives a crash, before it is touched. */
#define sw_persistent SEAWALL_CALL(20, void, const void *, size_t)
/* The bytes of the stack of a thread, by its number, and where they end. */
#define sw_stack SEAWALL_CALL(21, size_t, uint64_t, void **)

/* Where the bytes of an open file from this offset on (-1: its own) are mapped, and in the last
 * argument how many of so many there are. Null if they are not: the file itself has them. */
#define sw_mapped SEAWALL_CALL(22, char *, int, int64_t, size_t *)

/* Sleeps until another thread wakes it, or this time, in nanoseconds of simulated time, if the
 * aligned 4 bytes at the address equal the value: nothing comes between the look and the sleep. 0 if
 * it was woken, -EAGAIN if they do not equal it, -ETIMEDOUT. Earlier stores are visible before. */
#define sw_futex_wait SEAWALL_CALL(23, int64_t, volatile uint32_t *, uint32_t, uint64_t)
/* Wakes at most so many threads that sleep there, in the order in which they came; how many. Earlier
 * stores are visible before. */
#define sw_futex_wake SEAWALL_CALL(24, uint64_t, volatile uint32_t *, uint64_t)

/* mprotect, of what is mapped of a file, with -errno as the result of a failure. */
#define sw_protect SEAWALL_CALL(25, intptr_t, const void *, size_t, int)
/* An open file is about to get so many bytes; other than 0 if it is mapped and has them already. */
#define sw_resize SEAWALL_CALL(26, int, int, int64_t)
/* So many bytes of an open file from an offset on are about to become zeros, or to move. */
#define sw_empty SEAWALL_CALL(27, void, int, int64_t, int64_t)
/* Ends the program as this signal does; never returns. */
#define sw_end_by SEAWALL_CALL(28, void, int)
/* What was stored to mappings of files becomes durable: of all files (0), of those in the file
 * system of an open file (1), of that file (2), or of so many bytes of it from an offset on (3).
 * Other than 0 if there are mappings of them. */
#define sw_sync_files SEAWALL_CALL(29, int, int, int, int64_t, size_t)
/* A file has got another name, or none. */
#define sw_renamed SEAWALL_CALL(30, void, void)

#endif
