/* pointer.c: a persistent list of one node whose link is durable before the node.
 *
 *     pointer run POOL      pointer check POOL      pointer wait POOL
 *
 * Recovery trusts the node: `check` follows its pointer, and `wait` waits until it is there. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
    uint64_t linked, unused[7];
    int64_t value_at, unused_too[7];
    uint64_t value;
};

int main(int count, char **words)
{
    int file = count < 3 ? -1 : open(words[2], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0)
        return 2;
    struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (pool == MAP_FAILED)
        return 2;
    if (strcmp(words[1], "run") == 0) {
        pool->value = 7;
        pool->value_at = (char *)&pool->value - (char *)pool;
        pool->linked = 1;
        _mm_clflush(pool);
        return 0;
    }
    if (!pool->linked)
        return 0;
    volatile int64_t *at = &pool->value_at;
    if (strcmp(words[1], "wait") == 0) {
        while (*at == 0)
            ;
        return 0;
    }
    volatile uint64_t *value = *at == 0 ? 0 : (uint64_t *)((char *)pool + *at);
    return *value == 0 && *value == 1; /* a null pointer */
}
