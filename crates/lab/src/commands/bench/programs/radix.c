/* radix.c: the parallel radix sort that `seawall bench cc` times, 32-bit keys and 8 bits a pass.
 * Its threads do all of the work, from the keys to the check, so that what is timed on many cores
 * runs on many cores.
 *
 *     radix [-pTHREADS] [-nKEYS] */
#include "bench.h"

#define DIGITS 256

static uint32_t *from, *to;
static unsigned counts[THREADS_MAX][DIGITS];

static void make_keys(unsigned thread)
{
    uint64_t random = 88172645463325252u + thread;
    for (unsigned n = first_of(thread, size); n < first_of(thread + 1, size); n++)
        from[n] = (uint32_t)(kernel_random(&random) >> 16);
}

static void count_digits(unsigned thread, unsigned shift)
{
    memset(counts[thread], 0, sizeof counts[thread]);
    for (unsigned n = first_of(thread, size); n < first_of(thread + 1, size); n++)
        counts[thread][from[n] >> shift & (DIGITS - 1)]++;
}

/* Turns the counts of all threads into the places of their first keys. */
static void place_digits(void)
{
    unsigned place = 0;
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        for (unsigned t = 0; t < threads; t++) {
            unsigned count = counts[t][digit];
            counts[t][digit] = place;
            place += count;
        }
    }
}

static void move_keys(unsigned thread, unsigned shift)
{
    for (unsigned n = first_of(thread, size); n < first_of(thread + 1, size); n++)
        to[counts[thread][from[n] >> shift & (DIGITS - 1)]++] = from[n];
}

static void check_keys(unsigned thread)
{
    for (unsigned n = first_of(thread, size); n < first_of(thread + 1, size); n++)
        if (n && from[n - 1] > from[n])
            kernel_fail("key %u is less than the one before", n);
}

static void *work(void *argument)
{
    unsigned thread = (unsigned)(uintptr_t)argument;
    make_keys(thread);
    for (unsigned shift = 0; shift < 32; shift += 8) {
        count_digits(thread, shift);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            place_digits();
        pthread_barrier_wait(&barrier);
        move_keys(thread, shift);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
            uint32_t *sorted = to;
            to = from;
            from = sorted;
        }
        pthread_barrier_wait(&barrier);
    }
    check_keys(thread);
    return NULL;
}

int main(int count, char **words)
{
    kernel_start(count, words, 16384, 1u << 28);
    from = allocate(size * sizeof *from);
    to = allocate(size * sizeof *to);
    kernel_run(work);
    return bench_end(from[size / 2]);
}
