/* A list in random order, walked in many ways: chase WAY POOL. In the ways from `scan` on, no load
   needs another one. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "seawall.h"

enum { COUNT = 4096, ALL = 2 * COUNT };

struct node {
    uint64_t next, value, to, pad[5];
};

static struct node *pool;
static uint64_t kept[16];

__attribute__((noinline)) static uint64_t step(uint64_t at)
{
    return pool[at].next;
}

__attribute__((noinline)) static uint64_t far_step(long a, long b, long c, long d, long e, long f,
                                                   uint64_t at)
{
    return pool[at + (uint64_t)(a + b + c + d + e + f)].next;
}

#define WAY(name, step)                    \
    if (!strcmp(way, name))                \
        for (uint64_t n = 0; n < ALL; n++) \
        step

static uint64_t walk(const char *way)
{
    uint64_t at = 0, sum = 0, random = 1;
    struct node *here = pool;
    volatile uint64_t where = 0;
    WAY("pointer", { here = (struct node *)here->to; });
    WAY("index", { at = pool[at].next; });
    WAY("offset", { at = *(uint64_t *)((char *)pool + at * sizeof(struct node)); });
    WAY("call", { at = step(at); });
    WAY("stack", { at = far_step(0, 0, 0, 0, 0, 0, at); });
    WAY("frame", { where = pool[where].next; });
    WAY("memory", {
        kept[3] = pool[kept[3]].next;
        __asm__ volatile("" ::: "memory");
    });
    WAY("choice", {
        uint64_t next = pool[at].next;
        at = next >= COUNT / 2 ? next - COUNT / 2 : next + COUNT / 2;
        at = (at + COUNT / 2) % COUNT;
    });
    WAY("scan", { sum += pool[n % COUNT].value; });
    WAY("random", {
        random = random * 6364136223846793005u + 1442695040888963407u;
        sum += pool[(random >> 33) % COUNT].value;
    });
    return sum + at + where + kept[3] + here->value;
}

int main(int count, char **words)
{
    int fd = count > 2 ? open(words[2], O_RDWR | O_CREAT, 0644) : -1;
    if (fd < 0 || ftruncate(fd, COUNT * sizeof(struct node)) != 0)
        return 2;
    pool = mmap(NULL, COUNT * sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED)
        return 2;
    for (uint64_t n = 0; n < COUNT; n++) {
        struct node *node = &pool[n * 2531 % COUNT];
        node->next = (n + 1) * 2531 % COUNT;
        node->to = (uint64_t)&pool[node->next];
    }
    seawall_region_begins();
    uint64_t sum = walk(words[1]);
    seawall_region_ends();
    printf("%d\n", sum == 0);
    return 0;
}
