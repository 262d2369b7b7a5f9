/* Three threads whose time goes to known lines: one line of a pool that two of them write in turns,
 * a chain of pointers that no cache has, and a mutex that is held for long. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NODES (1 << 16)

struct node {
    struct node *next;
    char rest[1016];
};

static volatile uint64_t *shared;
static struct node *chain;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((noinline)) void contend(long me, long times)
{
    for (long n = 0; n < times; n++) {
        shared[me] = n; /* contends */
        __builtin_ia32_clflush((const void *)&shared[me]); /* flushes */
        __builtin_ia32_sfence();
    }
}

static __attribute__((noinline)) uint64_t chase(long me, long times)
{
    struct node *at = &chain[me * (NODES / 3)];
    for (long n = 0; n < times; n++)
        at = at->next; /* misses */
    return (uint64_t)(at - chain);
}

static __attribute__((noinline)) void hold(long times)
{
    for (long n = 0; n < times; n++) {
        pthread_mutex_lock(&mutex); /* waits */
        for (volatile int spin = 0; spin < 400; spin++)
            ;
        pthread_mutex_unlock(&mutex);
    }
}

static const char *what;
static long times;

static void *run(void *me)
{
    if (strcmp(what, "contend") == 0)
        contend((long)me, times);
    else if (strcmp(what, "chase") == 0)
        return (void *)chase((long)me, times);
    else
        hold(times);
    return NULL;
}

int main(int count, char **words)
{
    what = words[2];
    times = count > 3 ? atol(words[3]) : 100;
    int file = open(words[1], O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, 4096) != 0)
        return 2;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    chain = calloc(NODES, sizeof *chain);
    for (uint32_t n = 0, at = 0; n < NODES; n++) {
        uint32_t next = (at * 5 + 12345) % NODES;
        chain[at].next = &chain[next];
        at = next;
    }
    pthread_t threads[3];
    for (long n = 0; n < 3; n++)
        pthread_create(&threads[n], NULL, run, (void *)n);
    for (long n = 0; n < 3; n++)
        pthread_join(threads[n], NULL);
    return 0;
}
