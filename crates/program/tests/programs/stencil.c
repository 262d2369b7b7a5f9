/* stencil.c: steps of a five-point stencil on a square grid (as ocean's relaxations), in rows a
 * thread, with two barriers a step and a sum under a lock. Without persistence.
 *
 *     stencil [-pTHREADS] [-nSIDE] */
#include "kernel.h"

#define STEPS 20

static double *grid, *next;
static double change[STEPS]; /* the greatest change of a point in each step */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void fill(double *points)
{
    uint64_t random = 88172645463325252u;
    for (size_t n = 0; n < (size_t)size * size; n++)
        points[n] = (double)(kernel_random(&random) >> 11) / 9007199254740992.0;
}

int main(int count, char **words)
{
    kernel_start(count, words, 66, 1u << 13);
    if (size < 3)
        kernel_fail("a grid of %u has no inner points", size);
    size_t bytes = (size_t)size * size * sizeof(double);
    double *alone[2] = {allocate(bytes), allocate(bytes)};
    grid = allocate(bytes);
    next = allocate(bytes);
    fill(grid);
    memcpy(next, grid, bytes);
    memcpy(alone[0], grid, bytes);
    memcpy(alone[1], grid, bytes);
    kernel_run(work);
    for (unsigned step = 0; step < STEPS; step++)
        for (unsigned row = 1; row + 1 < size; row++)
            relax(alone[step % 2], alone[(step + 1) % 2], row);
    if (memcmp(grid, alone[0], bytes) || memcmp(next, alone[1], bytes))
        kernel_fail("one thread computes another grid");
    return kernel_ok(checksum(grid, bytes));
}
