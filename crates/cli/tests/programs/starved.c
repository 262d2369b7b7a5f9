/* Threads that look for work by taking and giving back two locks in turns, while the one that would
 * end that waits for the first of them. */
#include <pthread.h>

#define THREADS 4

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;
static volatile int left = THREADS;
static volatile long sum;

static void *run(void *number)
{
    for (long n = 0; n < 100 * (long)number; n++)
        sum += n;
    pthread_mutex_lock(&first);
    left--;
    while (left > 0) {
        pthread_mutex_lock(&second);
        pthread_mutex_unlock(&second);
        pthread_mutex_unlock(&first);
        pthread_mutex_lock(&first);
    }
    pthread_mutex_unlock(&first);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (long n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, run, (void *)n);
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    return left;
}
