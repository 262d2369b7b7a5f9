/* deadly.c: what a program can do wrong, or that cannot be simulated; each by its name.
 *
 *     deadly NAME */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What `#pragma omp parallel` becomes; natively it is in a library. */
__attribute__((weak)) void GOMP_parallel(void (*)(void), void *, unsigned, unsigned);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *takes_it_too(void *nothing)
{
    pthread_mutex_lock(&mutex);
    return nothing;
}

static int reads(const int *at)
{
    return *at;
}

static void deadlock(void)
{
    pthread_t thread;
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, takes_it_too, NULL);
    pthread_join(thread, NULL);
}

static void start_many(void)
{
    pthread_t threads[100];
    pthread_mutex_lock(&mutex);
    for (int n = 0; n < 100; n++)
        pthread_create(&threads[n], NULL, takes_it_too, NULL);
}

int main(int count, char **words)
{
    const char *name = count > 1 ? words[1] : "";
    int is_native = count > 2;
    if (is_native)
        return 0;
    if (strcmp(name, "deadlock") == 0)
        deadlock();
    if (strcmp(name, "null") == 0)
        return reads((const int *)8);
    if (strcmp(name, "wild") == 0)
        return reads((const int *)0x123456789000);
    if (strcmp(name, "abort") == 0)
        abort();
    if (strcmp(name, "fork") == 0)
        return fork() < 0;
    if (strcmp(name, "threads") == 0)
        start_many();
    if (strcmp(name, "openmp") == 0)
        GOMP_parallel(start_many, NULL, 2, 0);
    if (strcmp(name, "spin") == 0)
        for (;;)
            __asm__ volatile("");
    if (strcmp(name, "three") == 0)
        return 3;
    return 0;
}
