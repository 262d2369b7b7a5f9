/* litmus.c: small racy programs with plain loads and stores, whose outcomes tell the memory model.
 *
 *     litmus NAME ROUNDS        litmus list
 *
 * Each round, the threads meet at a spinning barrier, wait for a few turns that depend on round and
 * thread, and run the test once; then thread 0 notes the outcome. Prints a line "name outcome
 * count" for each outcome seen, in the order of the numbers. x86 (TSO) forbids some of them: exits
 * with 1 if one was seen. Locations are x, y (each in a line of its own); a to d are what was read.
 * A test passes only if its accesses are single instructions in program order, hence volatile. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <sched.h>

#define THREADS_MAX 4
#define OUTCOMES 256

typedef volatile uint64_t word;

static struct {
    _Alignas(64) word x;
    _Alignas(64) word y;
} at;
/* What the threads read; each in a line of its own, so that noting it does not disturb. */
static struct {
    _Alignas(64) uint64_t value;
} seen[4];

static uint64_t exchange(word *at, uint64_t value)
{
    __asm__ volatile("xchg %0, %1" : "+r"(value), "+m"(*at) : : "memory");
    return value;
}

static void sb(unsigned thread)
{
    if (thread == 0) {
        at.x = 1;
        seen[0].value = at.y;
    } else {
        at.y = 1;
        seen[1].value = at.x;
    }
}

static void sb_mfence(unsigned thread)
{
    if (thread == 0) {
        at.x = 1;
        _mm_mfence();
        seen[0].value = at.y;
    } else {
        at.y = 1;
        _mm_mfence();
        seen[1].value = at.x;
    }
}

static void sb_xchg(unsigned thread)
{
    if (thread == 0) {
        exchange(&at.x, 1);
        seen[0].value = at.y;
    } else {
        exchange(&at.y, 1);
        seen[1].value = at.x;
    }
}

static void mp(unsigned thread)
{
    if (thread == 0) {
        at.x = 1;
        at.y = 1;
    } else {
        seen[0].value = at.y;
        seen[1].value = at.x;
    }
}

static void lb(unsigned thread)
{
    if (thread == 0) {
        seen[0].value = at.x;
        at.y = 1;
    } else {
        seen[1].value = at.y;
        at.x = 1;
    }
}

static void two_writes(unsigned thread)
{
    if (thread == 0) {
        at.x = 1;
        at.y = 2;
    } else {
        at.y = 1;
        at.x = 2;
    }
}

static void iriw(unsigned thread)
{
    if (thread == 0) {
        at.x = 1;
    } else if (thread == 1) {
        at.y = 1;
    } else if (thread == 2) {
        seen[0].value = at.x;
        seen[1].value = at.y;
    } else {
        seen[2].value = at.y;
        seen[3].value = at.x;
    }
}

static void r(unsigned thread)
{
    if (thread == 0) {
        at.x = 1;
        at.y = 1;
    } else {
        at.y = 2;
        seen[0].value = at.x;
    }
}

static void s(unsigned thread)
{
    if (thread == 0) {
        at.x = 2;
        at.y = 1;
    } else {
        seen[0].value = at.y;
        at.x = 1;
    }
}

/* Store forwarding: each thread reads its own store early. */
static void n6(unsigned thread)
{
    if (thread == 0) {
        at.x = 1;
        seen[0].value = at.x;
        seen[1].value = at.y;
    } else {
        at.y = 2;
        at.x = 2;
    }
}

/* Forbidden outcomes, over a, b, c, d (what was read) and x, y (at the end). */
static int never(const uint64_t *o)
{
    return !o;
}

static int both_missed(const uint64_t *o)
{
    return o[0] == 0 && o[1] == 0;
}

static int mp_forbidden(const uint64_t *o)
{
    return o[0] == 1 && o[1] == 0;
}

static int lb_forbidden(const uint64_t *o)
{
    return o[0] == 1 && o[1] == 1;
}

static int two_writes_forbidden(const uint64_t *o)
{
    return o[4] == 1 && o[5] == 1;
}

static int iriw_forbidden(const uint64_t *o)
{
    return o[0] == 1 && o[1] == 0 && o[2] == 1 && o[3] == 0;
}

static int s_forbidden(const uint64_t *o)
{
    return o[0] == 1 && o[4] == 2;
}

static const struct test {
    const char *name;
    unsigned threads;
    const char *shown; /* the parts of its outcomes */
    void (*run)(unsigned thread);
    int (*is_forbidden)(const uint64_t *outcome);
} tests[] = {
    {"SB", 2, "ab", sb, never},
    {"SB+mfence", 2, "ab", sb_mfence, both_missed},
    {"SB+xchg", 2, "ab", sb_xchg, both_missed},
    {"MP", 2, "ab", mp, mp_forbidden},
    {"LB", 2, "ab", lb, lb_forbidden},
    {"2+2W", 2, "xy", two_writes, two_writes_forbidden},
    {"IRIW", 4, "abcd", iriw, iriw_forbidden},
    {"R", 2, "ay", r, never},
    {"S", 2, "ax", s, s_forbidden},
    {"N6", 2, "abxy", n6, never},
};

static const struct test *test;
static unsigned long rounds, counts[OUTCOMES];

static _Alignas(64) atomic_uint arrived;
static _Alignas(64) atomic_uint generation;

static void meet(void)
{
    unsigned turn = 0, now = atomic_load(&generation);
    if (atomic_fetch_add(&arrived, 1) + 1 == test->threads) {
        atomic_store(&arrived, 0);
        atomic_store(&generation, now + 1);
        return;
    }
    while (atomic_load(&generation) == now) {
        _mm_pause();
        if (++turn % 256 == 0)
            sched_yield();
    }
}

static void delay(unsigned long round, unsigned thread)
{
    volatile unsigned turns = (unsigned)((round * 7 + round / 16 * thread * 5 + thread) % 13);
    while (turns)
        turns--;
}

static uint64_t part(const uint64_t *outcome, char name)
{
    return outcome[name >= 'x' ? name - 'x' + 4 : name - 'a'];
}

/* All outcomes are below 4. */
static void note(void)
{
    uint64_t outcome[6] = {seen[0].value, seen[1].value, seen[2].value, seen[3].value, at.x, at.y};
    unsigned index = 0;
    for (const char *name = test->shown; *name; name++)
        index = index * 4 + (unsigned)(part(outcome, *name) & 3);
    counts[index]++;
    at.x = at.y = 0;
    for (unsigned n = 0; n < 4; n++)
        seen[n].value = 0;
}

static void *work(void *argument)
{
    unsigned thread = (unsigned)(uintptr_t)argument;
    for (unsigned long round = 0; round < rounds; round++) {
        meet();
        delay(round, thread);
        test->run(thread);
        meet();
        if (thread == 0)
            note();
    }
    return NULL;
}

/* Prints the outcome with this index if it was seen; returns whether it is forbidden. */
static int report(unsigned index)
{
    uint64_t outcome[6] = {0};
    size_t length = strlen(test->shown);
    for (size_t n = 0; n < length; n++) {
        char name = test->shown[n];
        outcome[name >= 'x' ? name - 'x' + 4 : name - 'a'] = index >> 2 * (length - 1 - n) & 3;
    }
    int is_forbidden = test->is_forbidden(outcome);
    printf("%s ", test->name);
    for (size_t n = 0; n < length; n++)
        printf("%s%c=%d", n ? "," : "", test->shown[n], (int)part(outcome, test->shown[n]));
    printf(" %lu%s\n", counts[index], is_forbidden ? " forbidden" : "");
    return is_forbidden;
}

int main(int count, char **words)
{
    pthread_t threads[THREADS_MAX];
    int failed = 0;
    for (size_t n = 0; n < sizeof tests / sizeof *tests; n++) {
        if (count == 2 && !strcmp(words[1], "list"))
            puts(tests[n].name);
        else if (count == 3 && !strcmp(words[1], tests[n].name))
            test = &tests[n];
    }
    if (!test) {
        if (count == 2 && !strcmp(words[1], "list"))
            return 0;
        fprintf(stderr, "usage: %s NAME ROUNDS\n       %s list\n", words[0], words[0]);
        return 2;
    }
    rounds = strtoul(words[2], NULL, 10);
    for (uintptr_t t = 1; t < test->threads; t++) {
        if (pthread_create(&threads[t], NULL, work, (void *)t) != 0) {
            fprintf(stderr, "cannot start a thread\n");
            return 2;
        }
    }
    work((void *)(uintptr_t)0);
    for (unsigned t = 1; t < test->threads; t++)
        pthread_join(threads[t], NULL);
    for (unsigned n = 0; n < OUTCOMES; n++)
        if (counts[n])
            failed |= report(n);
    return failed;
}
