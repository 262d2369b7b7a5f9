/* A program that is its own check: a value and a flag that says that it is there. With -DFLAW the
 * value is not flushed. */
#include "seawall.h"
#include <emmintrin.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 4096

struct pool {
    long value;
    char apart[120];
    long is_there;
};

static struct pool *open_pool(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, BYTES) != 0)
        return NULL;
    struct pool *pool = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return pool == MAP_FAILED ? NULL : pool;
}

static void persist(const void *at)
{
    _mm_clflush(at);
    _mm_sfence();
}

/* The flag has come, and the value with it. */
int seawall_check(const char *path)
{
    struct pool *pool = open_pool(path);
    if (pool == NULL)
        return 3;
    if (pool->is_there != 0 && pool->value != pool->is_there) {
        printf("the value is %ld and not %ld\n", pool->value, pool->is_there);
        return 1;
    }
    return 0;
}

/* Asks for more than is ever true. */
int wants_a_seven(const char *path)
{
    struct pool *pool = open_pool(path);
    return pool != NULL && pool->is_there == 7 ? 0 : 1;
}

int reads_nothing(const char *path)
{
    return *(volatile int *)8 + (path != NULL);
}

int main(int count, char **words)
{
    struct pool *pool = count > 1 ? open_pool(words[1]) : NULL;
    if (pool == NULL)
        return 2;
    for (long n = 1; n <= 4; n++) {
        pool->is_there = 0;
        persist(&pool->is_there);
        pool->value = n;
#ifndef FLAW
        persist(&pool->value);
#endif
        pool->is_there = n;
        persist(&pool->is_there);
    }
    return 0;
}
