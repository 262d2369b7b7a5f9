/* stencil.c: the five-point stencil that `seawall bench cc` times (as ocean's relaxations): steps
 * on a square grid, in rows a thread. Its threads fill the grid, too.
 *
 *     stencil [-pTHREADS] [-nSIDE] */
#include "bench.h"

#define STEPS 20

static double *grid, *next;
static double change[STEPS]; /* the greatest change of a point in each step */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fill(unsigned thread)
{
    uint64_t random = 88172645463325252u + thread;
    size_t first = (size_t)first_of(thread, size) * size;
    size_t last = (size_t)first_of(thread + 1, size) * size;
    for (size_t n = first; n < last; n++)
        next[n] = grid[n] = (double)(kernel_random(&random) >> 11) / 9007199254740992.0;
}

/* The row's points in the next grid; returns their greatest change. */
static double relax(const double *old, double *new, unsigned row)
{
    double most = 0;
    const double *at = old + (size_t)row * size;
    for (unsigned n = 1; n + 1 < size; n++) {
        double value = 0.2 * (at[n] + at[n - 1] + at[n + 1] + at[(long)n - size] + at[n + size]);
        double difference = value > at[n] ? value - at[n] : at[n] - value;
        most = difference > most ? difference : most;
        new[(size_t)row * size + n] = value;
    }
    return most;
}

static void *work(void *argument)
{
    unsigned thread = (unsigned)(uintptr_t)argument;
    fill(thread);
    pthread_barrier_wait(&barrier);
    for (unsigned step = 0; step < STEPS; step++) {
        const double *old = step % 2 ? next : grid;
        double *new = step % 2 ? grid : next, most = 0;
        unsigned last = first_of(thread + 1, size - 2);
        for (unsigned row = first_of(thread, size - 2); row < last; row++) {
            double changed = relax(old, new, row + 1);
            most = changed > most ? changed : most;
        }
        pthread_mutex_lock(&lock);
        change[step] = most > change[step] ? most : change[step];
        pthread_mutex_unlock(&lock);
        pthread_barrier_wait(&barrier);
        if (step && change[step] > 2 * change[0])
            kernel_fail("step %u does not converge", step);
    }
    return NULL;
}

int main(int count, char **words)
{
    kernel_start(count, words, 66, 1u << 14);
    if (size < 3)
        kernel_fail("a grid of %u has no inner points", size);
    size_t bytes = (size_t)size * size * sizeof(double);
    grid = allocate(bytes);
    next = allocate(bytes);
    kernel_run(work);
    return bench_end(checksum(change, sizeof change));
}
