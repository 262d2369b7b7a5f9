/* radix.c: parallel radix sort of 32-bit keys, 8 bits a pass: each thread counts its part, the
 * counts become places, each thread moves its part. Without persistence.
 *
 *     radix [-pTHREADS] [-nKEYS] */
#include "kernel.h"

#define DIGITS 256

static uint32_t *from, *to;
static unsigned counts[THREADS_MAX][DIGITS];

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

static void *work(void *argument)
{
    unsigned thread = (unsigned)(uintptr_t)argument;
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
    return NULL;
}

int main(int count, char **words)
{
    kernel_start(count, words, 16384, 1u << 26);
    from = allocate(size * sizeof *from);
    to = allocate(size * sizeof *to);
    uint64_t random = 88172645463325252u, sum = 0;
    for (unsigned n = 0; n < size; n++)
        sum += from[n] = (uint32_t)(kernel_random(&random) >> 16);
    kernel_run(work);
    for (unsigned n = 0; n < size; n++) {
        if (n && from[n - 1] > from[n])
            kernel_fail("key %u is less than the one before", n);
        sum -= from[n];
    }
    if (sum)
        kernel_fail("the keys are not those before");
    return kernel_ok(checksum(from, size * sizeof *from));
}
