/* recovery.c: pairs of words that an undo log keeps equal. `seawall bench cc` explores it to time
 * recoveries: the check undoes what was not finished and reads every word, so each recovery makes
 * about WORDS accesses to persistent memory.
 *
 *     recovery run POOL WORDS OPERATIONS       recovery check POOL WORDS */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
    uint64_t pair, old[2], unused[5];
    uint64_t is_begun, more[7]; /* whether the log holds what the words were */
    volatile uint64_t words[];
};

static struct pool *pool;
static uint64_t pairs;

static void persist(const volatile void *at)
{
    _mm_clflush((const void *)at);
    _mm_sfence();
}

static volatile uint64_t *word(uint64_t pair, unsigned half)
{
    return &pool->words[half * pairs + pair];
}

static void set(uint64_t pair, uint64_t first, uint64_t second)
{
    *word(pair, 0) = first;
    *word(pair, 1) = second;
    persist(word(pair, 0));
    persist(word(pair, 1));
}

static void mark(uint64_t is_begun)
{
    pool->is_begun = is_begun;
    persist(&pool->is_begun);
}

static void change(uint64_t pair, uint64_t value)
{
    pool->pair = pair;
    pool->old[0] = *word(pair, 0);
    pool->old[1] = *word(pair, 1);
    persist(&pool->pair);
    mark(1);
    set(pair, value, value);
    mark(0);
}

static int recover_and_check(void)
{
    if (pool->is_begun) {
        set(pool->pair, pool->old[0], pool->old[1]);
        mark(0);
    }
    for (uint64_t pair = 0; pair < pairs; pair++) {
        if (*word(pair, 0) != *word(pair, 1)) {
            fprintf(stderr, "pair %llu differs\n", (unsigned long long)pair);
            return 1;
        }
    }
    return 0;
}

int main(int count, char **words)
{
    int is_run = count == 5 && !strcmp(words[1], "run");
    if (!is_run && (count != 4 || strcmp(words[1], "check"))) {
        fprintf(stderr, "usage: %s run POOL WORDS OPERATIONS | check POOL WORDS\n", words[0]);
        return 2;
    }
    pairs = strtoull(words[3], NULL, 10) / 2;
    uint64_t bytes = sizeof *pool + 16 * pairs;
    int file = open(words[2], O_RDWR | O_CREAT, 0644);
    if (pairs == 0 || file < 0 || ftruncate(file, (off_t)bytes) != 0) {
        perror(words[2]);
        return 2;
    }
    pool = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (pool == MAP_FAILED) {
        perror(words[2]);
        return 2;
    }
    if (!is_run)
        return recover_and_check();
    uint64_t operations = strtoull(words[4], NULL, 10);
    for (uint64_t n = 0; n < operations; n++)
        change(n * 7 % pairs, n + 1);
    return 0;
}
