/* A lock that two threads try again and again, while the one that has it, on a later core, reads
 * what is beside it. */
#include <pthread.h>
#include <stdatomic.h>

#define THREADS 3
#define READS 50

static struct {
    _Alignas(64) atomic_flag flag;
    volatile long beside[4];
} lock;

static pthread_barrier_t all;
static volatile long sum;

static void take(void)
{
    while (atomic_flag_test_and_set(&lock.flag))
        __builtin_ia32_pause();
}

static void leave(void)
{
    atomic_flag_clear_explicit(&lock.flag, memory_order_release);
}

static void *run(void *last)
{
    if (last != NULL)
        take();
    pthread_barrier_wait(&all);
    if (last == NULL)
        take();
    for (int i = 0; last != NULL && i < READS; i++) {
        sum += lock.beside[i % 4];
        for (volatile int wait = 0; wait < i; wait++)
            ;
    }
    sum++;
    leave();
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&all, NULL, THREADS);
    for (int n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, run, n + 1 < THREADS ? NULL : &all);
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    return sum != THREADS;
}
