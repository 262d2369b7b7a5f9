/* lu.c: LU factorisation without pivoting of a dense matrix in blocks, which belong to the threads
 * in turn; three barriers a block step. Without persistence.
 *
 *     lu [-pTHREADS] [-nSIDE]       the side is rounded up to blocks of 8 */
#include "kernel.h"

#define BLOCK 8

static double *matrix;
static unsigned side, blocks;

static double *at(double *in, unsigned row, unsigned column)
{
    return &in[(size_t)row * side + column];
}

static void factor(unsigned k)
{
    for (unsigned p = k * BLOCK; p < (k + 1) * BLOCK; p++) {
        for (unsigned row = p + 1; row < (k + 1) * BLOCK; row++) {
            *at(matrix, row, p) /= *at(matrix, p, p);
            for (unsigned column = p + 1; column < (k + 1) * BLOCK; column++)
                *at(matrix, row, column) -= *at(matrix, row, p) * *at(matrix, p, column);
        }
    }
}

/* The block right of the diagonal block k. */
static void solve_right(unsigned k, unsigned j)
{
    for (unsigned p = k * BLOCK; p < (k + 1) * BLOCK; p++)
        for (unsigned row = p + 1; row < (k + 1) * BLOCK; row++)
            for (unsigned column = j * BLOCK; column < (j + 1) * BLOCK; column++)
                *at(matrix, row, column) -= *at(matrix, row, p) * *at(matrix, p, column);
}

/* The block below the diagonal block k. */
static void solve_below(unsigned i, unsigned k)
{
    for (unsigned p = k * BLOCK; p < (k + 1) * BLOCK; p++) {
        for (unsigned row = i * BLOCK; row < (i + 1) * BLOCK; row++) {
            *at(matrix, row, p) /= *at(matrix, p, p);
            for (unsigned column = p + 1; column < (k + 1) * BLOCK; column++)
                *at(matrix, row, column) -= *at(matrix, row, p) * *at(matrix, p, column);
        }
    }
}

static void update(unsigned i, unsigned j, unsigned k)
{
    for (unsigned row = i * BLOCK; row < (i + 1) * BLOCK; row++)
        for (unsigned p = k * BLOCK; p < (k + 1) * BLOCK; p++)
            for (unsigned column = j * BLOCK; column < (j + 1) * BLOCK; column++)
                *at(matrix, row, column) -= *at(matrix, row, p) * *at(matrix, p, column);
}

static int is_of(unsigned thread, unsigned i, unsigned j)
{
    return (i * 3 + j) % threads == thread;
}

static void *work(void *argument)
{
    unsigned thread = (unsigned)(uintptr_t)argument;
    for (unsigned k = 0; k < blocks; k++) {
        if (is_of(thread, k, k))
            factor(k);
        pthread_barrier_wait(&barrier);
        for (unsigned n = k + 1; n < blocks; n++) {
            if (is_of(thread, k, n))
                solve_right(k, n);
            if (is_of(thread, n, k))
                solve_below(n, k);
        }
        pthread_barrier_wait(&barrier);
        for (unsigned i = k + 1; i < blocks; i++)
            for (unsigned j = k + 1; j < blocks; j++)
                if (is_of(thread, i, j))
                    update(i, j, k);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* The greatest difference between the product of the factors and the matrix before. */
static double difference(double *before)
{
    double most = 0;
    for (unsigned row = 0; row < side; row++) {
        for (unsigned column = 0; column < side; column++) {
            double sum = 0;
            unsigned last = row < column ? row : column;
            for (unsigned p = 0; p <= last; p++)
                sum += (p == row ? 1 : *at(matrix, row, p)) * *at(matrix, p, column);
            double error = sum - *at(before, row, column);
            error = error < 0 ? -error : error;
            most = error > most ? error : most;
        }
    }
    return most;
}

int main(int count, char **words)
{
    kernel_start(count, words, 64, 1u << 12);
    blocks = (size + BLOCK - 1) / BLOCK;
    side = blocks * BLOCK;
    size_t bytes = (size_t)side * side * sizeof(double);
    double *before = allocate(bytes);
    matrix = allocate(bytes);
    uint64_t random = 88172645463325252u;
    for (unsigned row = 0; row < side; row++)
        for (unsigned column = 0; column < side; column++)
            *at(matrix, row, column) = (double)(kernel_random(&random) % 1000) / 1000 +
                                       (row == column ? side : 0);
    memcpy(before, matrix, bytes);
    kernel_run(work);
    double error = difference(before);
    if (!(error < 1e-9 * side))
        kernel_fail("the product of the factors is off by %g", error);
    return kernel_ok(checksum(matrix, bytes));
}
