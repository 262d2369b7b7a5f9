/* Stores to persistent memory, a file or its heap, and asks for nothing. -DASKS: for a fence. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

static void *work(void *words)
{
    volatile uint64_t *all = words;
    for (int n = 0; n < 4096; n++)
        all[n] = n + 1;
#ifdef ASKS
    __asm__ volatile("sfence" : : : "memory");
#endif
    return NULL;
}

int main(void)
{
    pthread_t thread;
    uint64_t *words = calloc(4096, sizeof *words);
    if (!words || pthread_create(&thread, NULL, work, words) != 0)
        return 1;
    return pthread_join(thread, NULL);
}
