/* kernel.h: what the programs without persistence share: the command line [-pTHREADS] [-nSIZE], the
 * threads, a checksum, and the end: "ok" with the checksum, or why the self-check failed. */
#ifndef KERNEL_H
#define KERNEL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 64

static unsigned threads = 4;
static unsigned size;
static pthread_barrier_t barrier;

/* Reads the command line; the size is default_size unless it says otherwise. */
static inline void kernel_start(int count, char **words, unsigned default_size, unsigned size_max)
{
    size = default_size;
    for (int n = 1; n < count; n++) {
        char *end = words[n];
        unsigned long value = 0;
        int option = words[n][0] == '-' ? words[n][1] : 0;
        if (option == 'p' || option == 'n')
            value = strtoul(words[n] + 2, &end, 10);
        if (end <= words[n] + 2 || *end || value == 0 ||
            value > (option == 'p' ? THREADS_MAX : size_max)) {
            fprintf(stderr, "usage: %s [-pTHREADS] [-nSIZE], up to %d and %u\n", words[0],
                    THREADS_MAX, size_max);
            exit(2);
        }
        *(option == 'p' ? &threads : &size) = (unsigned)value;
    }
    pthread_barrier_init(&barrier, NULL, threads);
}

/* Runs work with the numbers of the threads, and waits for them; the caller is thread 0. */
static inline void kernel_run(void *(*work)(void *thread))
{
    pthread_t handles[THREADS_MAX];
    for (uintptr_t t = 1; t < threads; t++) {
        if (pthread_create(&handles[t], NULL, work, (void *)t) != 0) {
            fprintf(stderr, "cannot start a thread\n");
            exit(2);
        }
    }
    work((void *)(uintptr_t)0);
    for (unsigned t = 1; t < threads; t++)
        pthread_join(handles[t], NULL);
}

/* The first of the items of a thread, of this many; the last is before the first of the next. */
static inline unsigned first_of(unsigned thread, unsigned items)
{
    return (unsigned)((uint64_t)items * thread / threads);
}

static inline uint64_t kernel_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline uint64_t checksum(const void *at, size_t bytes)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t n = 0; n < bytes; n++)
        sum = (sum ^ ((const unsigned char *)at)[n]) * 0x100000001b3u;
    return sum;
}

static inline void *allocate(size_t bytes)
{
    void *at = calloc(1, bytes ? bytes : 1);
    if (!at) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    return at;
}

__attribute__((noreturn, format(printf, 1, 2))) static inline void kernel_fail(const char *why, ...)
{
    va_list arguments;
    va_start(arguments, why);
    vfprintf(stderr, why, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static inline int kernel_ok(uint64_t sum)
{
    printf("ok %016llx\n", (unsigned long long)sum);
    return 0;
}

#endif
