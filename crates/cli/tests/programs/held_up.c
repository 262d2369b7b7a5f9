/* Threads that wait for a mutex that the main one has, and keep it for a while each. */
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile long sum;

static void keep_busy(long turns)
{
    for (volatile long n = 0; n < turns; n++)
        ;
}

static void *run(void *argument)
{
    pthread_mutex_lock(&mutex);
    keep_busy(2000);
    sum++;
    pthread_mutex_unlock(&mutex);
    return argument;
}

int main(int count, char **words)
{
    long threads = count > 1 ? atol(words[1]) : 1;
    pthread_t all[64];
    pthread_mutex_lock(&mutex);
    for (long n = 0; n < threads; n++)
        pthread_create(&all[n], NULL, run, NULL);
    keep_busy(20000);
    pthread_mutex_unlock(&mutex);
    for (long n = 0; n < threads; n++)
        pthread_join(all[n], NULL);
    return sum != threads;
}
