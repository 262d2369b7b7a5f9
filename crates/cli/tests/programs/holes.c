/* holes.c: a pool far longer than what is stored in it.
 *
 *     holes run POOL
 *     holes check POOL     returns 2 if POOL has no holes */
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES (256ul << 20)
#define STORED_MAX (1ul << 20)

static volatile uint64_t *pool;

static void *work(void *nothing)
{
    for (uint64_t at = BYTES / 8 - 1; at > 0; at /= 8) {
        pool[at] = at;
        _mm_clflush((void *)&pool[at]);
        _mm_sfence();
    }
    pool[0] = 1;
    _mm_clflush((void *)pool);
    _mm_sfence();
    return nothing;
}

int main(int count, char **words)
{
    int is_check = count > 2 && strcmp(words[1], "check") == 0;
    int file = count > 2 ? open(words[2], O_RDWR | O_CREAT, 0600) : -1;
    struct stat about;
    pthread_t thread;
    if (file < 0 || ftruncate(file, BYTES) != 0 || fstat(file, &about) != 0)
        return 9;
    if (is_check && (uint64_t)about.st_blocks * 512 > STORED_MAX)
        return 2;
    pool = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (pool == MAP_FAILED)
        return 8;
    if (is_check)
        return pool[0] == 1 && pool[BYTES / 8 - 1] != BYTES / 8 - 1;
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        return 7;
    return pthread_join(thread, NULL);
}
