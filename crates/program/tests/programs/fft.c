/* fft.c: fast Fourier transform of 2^SIZE complex points, in place, with a barrier a stage, there
 * and back again. Without persistence.
 *
 *     fft [-pTHREADS] [-nLOG2_POINTS] */
#include "kernel.h"

#include <math.h>

struct point {
    double re, im;
};

static struct point *points, *roots;
static unsigned all;

static unsigned reversed(unsigned n)
{
    unsigned result = 0;
    for (unsigned bit = 0; bit < size; bit++)
        result |= (n >> bit & 1) << (size - 1 - bit);
    return result;
}

static void reverse(unsigned thread)
{
    for (unsigned n = first_of(thread, all); n < first_of(thread + 1, all); n++) {
        unsigned other = reversed(n);
        if (n < other) {
            struct point kept = points[n];
            points[n] = points[other];
            points[other] = kept;
        }
    }
}

/* The butterflies of a thread in the stage with this distance; each pair is of one thread. */
static void stage(unsigned thread, unsigned distance, double sign)
{
    for (unsigned n = first_of(thread, all / 2); n < first_of(thread + 1, all / 2); n++) {
        unsigned low = n / distance * 2 * distance + n % distance, high = low + distance;
        struct point root = roots[(size_t)(n % distance) * (all / 2 / distance)];
        root.im *= sign;
        struct point turned = {points[high].re * root.re - points[high].im * root.im,
                               points[high].re * root.im + points[high].im * root.re};
        points[high].re = points[low].re - turned.re;
        points[high].im = points[low].im - turned.im;
        points[low].re += turned.re;
        points[low].im += turned.im;
    }
}

static void transform(unsigned thread, double sign)
{
    reverse(thread);
    pthread_barrier_wait(&barrier);
    for (unsigned distance = 1; distance < all; distance *= 2) {
        stage(thread, distance, sign);
        pthread_barrier_wait(&barrier);
    }
}

static void *forward(void *argument)
{
    transform((unsigned)(uintptr_t)argument, -1);
    return NULL;
}

static void *backward(void *argument)
{
    transform((unsigned)(uintptr_t)argument, 1);
    return NULL;
}

int main(int count, char **words)
{
    kernel_start(count, words, 10, 24);
    all = 1u << size;
    size_t bytes = all * sizeof *points;
    struct point *before = allocate(bytes);
    points = allocate(bytes);
    roots = allocate(bytes);
    uint64_t random = 88172645463325252u;
    double sum = 0, error = 0;
    for (unsigned n = 0; n < all; n++) {
        points[n].re = (double)(kernel_random(&random) % 2000) / 1000 - 1;
        points[n].im = (double)(kernel_random(&random) % 2000) / 1000 - 1;
        roots[n].re = cos(2 * 3.14159265358979323846 * n / all);
        roots[n].im = sin(2 * 3.14159265358979323846 * n / all);
        sum += points[n].re;
    }
    memcpy(before, points, bytes);
    kernel_run(forward);
    if (fabs(points[0].re - sum) > 1e-9 * all)
        kernel_fail("the first point is %g, not the sum %g", points[0].re, sum);
    uint64_t result = checksum(points, bytes);
    kernel_run(backward);
    for (unsigned n = 0; n < all; n++)
        error = fmax(error, fmax(fabs(points[n].re / all - before[n].re),
                                 fabs(points[n].im / all - before[n].im)));
    if (!(error < 1e-10))
        kernel_fail("there and back again is off by %g", error);
    return kernel_ok(result);
}
