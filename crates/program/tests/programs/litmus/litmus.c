/* litmus.c: small racy programs with plain loads and stores, whose outcomes tell the memory model.
 *
 *     litmus NAME ROUNDS [OUTCOME...]        litmus list
 *
 * Each round, the threads meet at a spinning barrier, take some lines into their caches, wait for a
 * few turns that depend on round and thread, and run the test once; then one of them notes the
 * outcome. Prints a line "name outcome count" for each outcome seen, in the order of the numbers.
 * If outcomes are given, exits with 1 if it has seen others or has missed one of them; those with
 * a ? behind may be missed. Locations are x, y (each in a line of its own); a to d are what was
 * read. A test tells something only if its accesses are single instructions in program order, hence
 * volatile. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <sched.h>

#include "../../../../cc/include/seawall.h"

#define THREADS_MAX 4
#define OUTCOMES 256
#define TURNS 64

typedef volatile uint64_t word;

/* On a page of their own, which is persistent, so that designs see the stores to them. */
static struct {
    _Alignas(4096) word x;
    word beside_x;
    _Alignas(64) word y;
    word beside_y;
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

static const struct test {
    const char *name;
    unsigned threads;
    const char *shown; /* the parts of its outcomes */
    void (*run)(unsigned thread);
} tests[] = {
    {"SB", 2, "ab", sb},
    {"SB+mfence", 2, "ab", sb_mfence},
    {"SB+xchg", 2, "ab", sb_xchg},
    {"MP", 2, "ab", mp},
    {"LB", 2, "ab", lb},
    {"2+2W", 2, "xy", two_writes},
    {"IRIW", 4, "abcd", iriw},
    {"R", 2, "ay", r},
    {"S", 2, "ax", s},
    {"N6", 2, "abxy", n6},
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

/* Random, the same in each run. */
static uint64_t draw(unsigned long round, unsigned thread)
{
    uint64_t drawn = (round * THREADS_MAX + thread + 1) * 0x9e3779b97f4a7c15;
    drawn = (drawn ^ drawn >> 32) * 0xbf58476d1ce4e5b9;
    return drawn ^ drawn >> 29;
}

/* Perhaps takes lines of the test into the thread's own cache, then waits for some turns. */
static void prepare(unsigned long round, unsigned thread)
{
    uint64_t drawn = draw(round, thread);
    volatile unsigned turns = (unsigned)(drawn >> 8) % TURNS;
    if (drawn % 4 == 0)
        at.beside_x = round;
    if (drawn / 4 % 4 == 0)
        at.beside_y = round;
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
        prepare(round, thread);
        test->run(thread);
        meet();
        if (thread == round % test->threads)
            note();
    }
    return NULL;
}

/* The digits of the outcome with this index. */
static void spell(unsigned index, char *digits)
{
    size_t length = strlen(test->shown);
    for (size_t n = 0; n < length; n++)
        digits[n] = (char)('0' + (index >> 2 * (length - 1 - n) & 3));
    digits[length] = 0;
}

static void report(unsigned index)
{
    char digits[8];
    spell(index, digits);
    printf("%s ", test->name);
    for (size_t n = 0; digits[n]; n++)
        printf("%s%c=%c", n ? "," : "", test->shown[n], digits[n]);
    printf(" %lu\n", counts[index]);
}

/* Holds what was seen of an outcome to those that are expected; returns whether that is wrong. */
static int judge(unsigned index, char **expected)
{
    char digits[8];
    size_t length = strlen(test->shown);
    int may = 0, must = 0;
    spell(index, digits);
    for (; *expected; expected++) {
        int is_this = !strncmp(*expected, digits, length);
        may |= is_this;
        must |= is_this && (*expected)[length] != '?';
    }
    if (counts[index] && !may)
        printf("%s: %s was seen, which is not allowed\n", test->name, digits);
    if (!counts[index] && must)
        printf("%s: %s was never seen\n", test->name, digits);
    return counts[index] ? !may : must;
}

int main(int count, char **words)
{
    pthread_t threads[THREADS_MAX];
    int failed = 0;
    for (size_t n = 0; n < sizeof tests / sizeof *tests; n++) {
        if (count == 2 && !strcmp(words[1], "list"))
            puts(tests[n].name);
        else if (count >= 3 && !strcmp(words[1], tests[n].name))
            test = &tests[n];
    }
    if (!test) {
        if (count == 2 && !strcmp(words[1], "list"))
            return 0;
        fprintf(stderr, "usage: %s NAME ROUNDS [OUTCOME...]\n       %s list\n", words[0], words[0]);
        return 2;
    }
    seawall_is_persistent(&at, sizeof at);
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
            report(n);
    unsigned outcomes = 1u << 2 * strlen(test->shown);
    for (unsigned n = 0; n < outcomes && count > 3; n++)
        failed |= judge(n, words + 3);
    return failed;
}
