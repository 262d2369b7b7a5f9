/* pm.h: what the persistent programs of this folder share: the flushes and fences of x86, the pool
 * file, the per-thread counters of completed operations, the command line, and the threads.
 *
 * A pool is a file that is mapped at a fixed size. Its contents refer to each other by number or
 * offset, never by pointer. It begins with a pm_header, whose magic is stored and made durable
 * last: a pool whose magic is 0 was not created yet.
 *
 * A thread makes operation n durable and then, with pm_complete, its counter n + 1. After a power
 * failure the pool holds the effects of all operations below the counter, of the one at the counter
 * perhaps, and of none above.
 *
 * The environment variable PM_FLUSH=clflush or PM_FLUSH=clflushopt replaces clwb, for processors
 * and tools that lack it. */
#ifndef PM_H
#define PM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PM_LINE 64
#define PM_THREADS_MAX 32
#define PM_OPERATIONS_MAX (1u << 28)
/* Exit codes of check: all is well, an invariant is broken, there is nothing to check. */
#define PM_OK 0
#define PM_BROKEN 1
#define PM_UNUSABLE 2

struct pm_counter {
    uint64_t value;
    /* What a program counts beside it; in the same line, so never newer than the value is old. */
    uint64_t extra;
    uint64_t unused[6];
};

struct pm_header {
    uint64_t magic;
    /* No thread with this number or a higher one has ever run. */
    uint64_t threads;
    uint64_t unused[6];
    struct pm_counter done[PM_THREADS_MAX];
};

enum pm_kind { PM_CLWB, PM_CLFLUSHOPT, PM_CLFLUSH };

static enum pm_kind pm_kind;

/* Flushes and fences. */

static inline void pm_flush_line(void *at)
{
    if (pm_kind == PM_CLWB) {
#ifdef __CLWB__
        _mm_clwb(at);
        __asm__ volatile("" : : : "memory");
#else
        __asm__ volatile("clwb %0" : "+m"(*(volatile char *)at) : : "memory");
#endif
    } else if (pm_kind == PM_CLFLUSHOPT) {
        __asm__ volatile("clflushopt %0" : "+m"(*(volatile char *)at) : : "memory");
    } else {
        _mm_clflush(at);
    }
}

/* Starts to write back all lines of the bytes. */
static inline void pm_flush(const void *at, size_t bytes)
{
    uintptr_t line = (uintptr_t)at & ~(uintptr_t)(PM_LINE - 1);
    for (; line < (uintptr_t)at + bytes; line += PM_LINE)
        pm_flush_line((void *)line);
}

/* Waits for the flushes; later stores are not durable before what was flushed. */
static inline void pm_fence(void)
{
    _mm_sfence();
}

static inline void pm_persist(const void *at, size_t bytes)
{
    pm_flush(at, bytes);
    pm_fence();
}

static inline void pm_choose_flush(void)
{
    const char *name = getenv("PM_FLUSH");
    if (!name || !*name || !strcmp(name, "clwb")) {
        pm_kind = PM_CLWB;
    } else if (!strcmp(name, "clflushopt")) {
        pm_kind = PM_CLFLUSHOPT;
    } else if (!strcmp(name, "clflush")) {
        pm_kind = PM_CLFLUSH;
    } else {
        fprintf(stderr, "PM_FLUSH is %s; it must be clwb, clflushopt or clflush\n", name);
        exit(PM_UNUSABLE);
    }
}

/* Failures. */

/* Ends the program: the pool is broken. */
__attribute__((noreturn, format(printf, 1, 2))) static inline void
pm_broken(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("broken: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(PM_BROKEN);
}

__attribute__((noreturn)) static inline void pm_unusable(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(PM_UNUSABLE);
}

/* Pools. */

/* Maps the pool file, which grows to the size with zeros; makes it if create is set. */
static inline void *pm_map(const char *path, size_t bytes, int create)
{
    struct stat status;
    pm_choose_flush();
    int file = open(path, create ? O_RDWR | O_CREAT : O_RDWR, 0644);
    if (file < 0 || fstat(file, &status) != 0)
        pm_unusable(path);
    if ((size_t)status.st_size < bytes && ftruncate(file, (off_t)bytes) != 0)
        pm_unusable(path);
    void *pool = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (pool == MAP_FAILED)
        pm_unusable(path);
    close(file);
    return pool;
}

/* Ends the creation of a pool, all of whose other contents are durable. */
static inline void pm_created(struct pm_header *header, uint64_t magic)
{
    header->magic = magic;
    pm_persist(&header->magic, sizeof header->magic);
}

/* Whether the pool was created; one that was not holds no completed operation. */
static inline int pm_is_created(const struct pm_header *header, uint64_t magic)
{
    if (header->magic != 0 && header->magic != magic)
        pm_broken("the magic is %#llx", (unsigned long long)header->magic);
    if (header->magic == 0 && header->threads != 0)
        pm_broken("threads have run in a pool that was not created");
    if (header->threads > PM_THREADS_MAX)
        pm_broken("%llu threads", (unsigned long long)header->threads);
    for (unsigned t = 0; t < PM_THREADS_MAX; t++)
        if (header->done[t].value > (t < header->threads ? PM_OPERATIONS_MAX : 0))
            pm_broken("thread %u has completed %llu operations", t,
                      (unsigned long long)header->done[t].value);
    return header->magic != 0;
}

/* Notes, before the threads start, how many there are. */
static inline void pm_allow_threads(struct pm_header *header, uint64_t threads)
{
    if (header->threads < threads) {
        header->threads = threads;
        pm_persist(&header->threads, sizeof header->threads);
    }
}

/* The operations below number of the thread are durable. */
static inline void pm_complete(struct pm_header *header, uint64_t thread, uint64_t number)
{
    header->done[thread].value = number;
    pm_persist(&header->done[thread], sizeof header->done[thread]);
}

/* Random numbers. */

/* Number n of the generator of a thread (xorshift and multiply), from 0 to 2^64 - 1. Operations
 * draw by their number, so that check can draw the same ones again. */
static inline uint64_t pm_random(uint64_t thread, uint64_t n)
{
    uint64_t x = (n + 1) * 0x9e3779b97f4a7c15u + (thread + 1) * 0xd1342543de82ef95u;
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The command line: run POOL THREADS OPS [FLAW], or check POOL [FLAW]. */

struct pm_command {
    int run;
    const char *path;
    uint64_t threads, operations;
    unsigned flaw;
};

static inline uint64_t pm_number(const char *text, uint64_t low, uint64_t high)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end || value < low || value > high) {
        fprintf(stderr, "%s is not a number from %llu to %llu\n", text, (unsigned long long)low,
                (unsigned long long)high);
        exit(PM_UNUSABLE);
    }
    return value;
}

static inline struct pm_command pm_command_line(int count, char **words, unsigned flaws)
{
    struct pm_command command;
    memset(&command, 0, sizeof command);
    int run = count > 1 && !strcmp(words[1], "run");
    int check = count > 1 && !strcmp(words[1], "check");
    int fixed = run ? 5 : 3;
    if ((!run && !check) || count < fixed || count > fixed + 1) {
        fprintf(stderr, "usage: %s run POOL THREADS OPS [FLAW]\n       %s check POOL [FLAW]\n",
                words[0], words[0]);
        exit(PM_UNUSABLE);
    }
    command.run = run;
    command.path = words[2];
    if (run) {
        command.threads = pm_number(words[3], 1, PM_THREADS_MAX);
        command.operations = pm_number(words[4], 0, 1u << 24);
    }
    if (count > fixed)
        command.flaw = (unsigned)pm_number(words[fixed], 0, flaws);
    return command;
}

/* Threads. */

#ifndef __cplusplus
#include <pthread.h>

struct pm_worker {
    pthread_t handle;
    uint64_t thread, operations;
    void (*work)(uint64_t thread, uint64_t operations);
};

static void *pm_start(void *argument)
{
    struct pm_worker *worker = argument;
    worker->work(worker->thread, worker->operations);
    return NULL;
}

/* Runs work on each of the threads and waits for them. */
static inline void pm_threads(uint64_t threads, uint64_t operations,
                              void (*work)(uint64_t thread, uint64_t operations))
{
    struct pm_worker workers[PM_THREADS_MAX];
    for (uint64_t t = 0; t < threads; t++) {
        workers[t].thread = t;
        workers[t].operations = operations;
        workers[t].work = work;
        if (pthread_create(&workers[t].handle, NULL, pm_start, &workers[t]) != 0)
            pm_unusable("pthread_create");
    }
    for (uint64_t t = 0; t < threads; t++)
        pthread_join(workers[t].handle, NULL);
}
#endif

#endif
