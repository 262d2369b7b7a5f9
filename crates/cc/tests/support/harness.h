/* For the tests of the support library: its functions are linked under names with `t_` in front, so
 * that the tests can compare them with those of the C library. */
#ifndef HARNESS_H
#define HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Declares the function of the support library that replaces this one. */
#define TESTED(name) extern __typeof__(name) t_##name

/* Ends the test unless the condition holds. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _Exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* The next number of a sequence that the seed starts. */
static inline uint64_t next_random(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15ul;
    uint64_t z = *seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ul;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebul;
    return z ^ (z >> 31);
}

/* Runs the function in another process, as the main thread of a program; its exit code, and what it
 * wrote to its standard output and error, up to `room`. */
int run_program(int (*program)(int, char **, char **), char *output, size_t room);

/* How much memory the heap has asked for. */
extern size_t heap_bytes;
/* What sw_mapped says of the first 100 bytes of every file. */
extern char *mapped_file;

/* Threads that have a core, beside the main one. */
unsigned threads_left(void);

/* How often threads have asked to sleep, and to wake others. */
extern uint64_t futex_waits, futex_wakes;

/* The exit code of a program that was refused. */
#define REFUSED 77

void test_memory(void);
void test_strings(void);
void test_sort(void);
void test_heap(void);
void test_locks(void);
void test_conditions(void);
void test_threads(void);
void test_futex(void);
void test_time(void);
void test_files(void);
void test_exit(void);

#endif
