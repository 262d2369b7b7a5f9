/* The heap against a model: blocks do not overlap, keep what is written to them, are aligned, and
 * zero if asked for; by one thread and by many that free each other's. */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

TESTED(malloc);
TESTED(free);
TESTED(calloc);
TESTED(realloc);
TESTED(reallocarray);
TESTED(posix_memalign);
TESTED(aligned_alloc);
TESTED(memalign);
TESTED(valloc);
TESTED(malloc_usable_size);
TESTED(pthread_create);
TESTED(pthread_join);

struct item {
    unsigned char *at;
    size_t bytes;
    unsigned char mark;
};

static size_t some_size(uint64_t *seed)
{
    uint64_t r = next_random(seed);
    switch (r % 8) {
    case 0:
        return (r >> 8) % 300000;
    case 1:
        return (r >> 8) % 40000;
    case 2:
        return 32760 + (r >> 8) % 20;
    default:
        return (r >> 8) % 600;
    }
}

/* Marks at the start, at some places and at the end: enough to see an overlap, and quick. */
static void mark(struct item *item)
{
    for (size_t i = 0; i < item->bytes; i += i < 64 ? 1 : 997)
        item->at[i] = item->mark;
    if (item->bytes > 0)
        item->at[item->bytes - 1] = item->mark;
}

/* What the first bytes hold of the marks. */
static void check_mark(const struct item *item, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += i < 64 ? 1 : 997)
        CHECK(item->at[i] == item->mark);
    if (bytes == item->bytes && bytes > 0)
        CHECK(item->at[bytes - 1] == item->mark);
}

static void fill_item(struct item *item, uint64_t *seed)
{
    size_t bytes = some_size(seed);
    size_t alignment = 8ul << next_random(seed) % 10;
    void *at = NULL;
    switch (next_random(seed) % 6) {
    case 0:
        at = t_calloc(bytes / 8 + 1, 8);
        bytes = (bytes / 8 + 1) * 8;
        for (size_t i = 0; i < bytes; i++)
            CHECK(((char *)at)[i] == 0);
        break;
    case 1:
        CHECK(t_posix_memalign(&at, alignment, bytes) == 0);
        CHECK((uintptr_t)at % alignment == 0);
        break;
    case 2:
        at = t_aligned_alloc(alignment, bytes);
        CHECK((uintptr_t)at % alignment == 0);
        break;
    default:
        at = t_malloc(bytes);
    }
    CHECK(at != NULL && (uintptr_t)at % 16 == 0);
    CHECK(t_malloc_usable_size(at) >= bytes);
    item->at = at;
    item->bytes = bytes;
    item->mark = (unsigned char)next_random(seed) | 1;
    mark(item);
}

static void step(struct item *item, uint64_t *seed)
{
    if (item->at == NULL) {
        fill_item(item, seed);
        return;
    }
    check_mark(item, item->bytes);
    if (next_random(seed) % 4 != 0) {
        memset(item->at, 0xaa, item->bytes < 64 ? item->bytes : 64);
        t_free(item->at);
        item->at = NULL;
        return;
    }
    size_t bytes = some_size(seed) + 1;
    size_t kept = bytes < item->bytes ? bytes : item->bytes;
    item->at = t_realloc(item->at, bytes);
    CHECK(item->at != NULL);
    check_mark(item, kept);
    item->bytes = bytes;
    mark(item);
}

static void check_apart(const struct item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            if (i == j || items[i].at == NULL || items[j].at == NULL)
                continue;
            CHECK(items[i].at + items[i].bytes <= items[j].at ||
                  items[j].at + items[j].bytes <= items[i].at);
        }
    }
}

#define SLOTS 200
#define THREADS 12

static void alone(void)
{
    static struct item items[SLOTS];
    uint64_t seed = 4;
    for (int round = 0; round < 60000; round++) {
        step(&items[next_random(&seed) % SLOTS], &seed);
        if (round % 2000 == 0)
            check_apart(items, SLOTS);
    }
    for (int i = 0; i < SLOTS; i++)
        t_free(items[i].at);
}

/* Slots that threads exchange, so that one frees what another allocated. */
static struct item *shared[64];

static void *together(void *number)
{
    uint64_t seed = 100 + (uint64_t)number;
    struct item *mine = t_calloc(1, sizeof *mine);
    for (int round = 0; round < 6000; round++) {
        step(mine, &seed);
        mine = __atomic_exchange_n(&shared[next_random(&seed) % 64], mine, __ATOMIC_SEQ_CST);
        if (mine == NULL)
            mine = t_calloc(1, sizeof *mine);
    }
    t_free(mine->at);
    t_free(mine);
    return NULL;
}

/* New blocks of a thread come from memory of its own: none lies between two of another's. */
#define NEW_BLOCKS 40
static char *new_blocks[2][NEW_BLOCKS];
static volatile int turn;

static void *takes_new(void *number)
{
    int me = (int)(uintptr_t)number;
    for (int i = 0; i < NEW_BLOCKS; i++) {
        while (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) != me)
            sched_yield();
        new_blocks[me][i] = t_malloc(700);
        __atomic_store_n(&turn, 1 - me, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void in_spans_of_their_own(void)
{
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(t_pthread_create(&threads[i], NULL, takes_new, (void *)i) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(t_pthread_join(threads[i], NULL) == 0);
    for (int i = 1; i < NEW_BLOCKS; i++)
        for (int j = 0; j < NEW_BLOCKS; j++)
            for (int me = 0; me < 2; me++) {
                char *other = new_blocks[1 - me][j];
                CHECK((new_blocks[me][i - 1] < other) == (new_blocks[me][i] < other));
            }
}

/* What is freed becomes one block with its free neighbours, in whatever order: a block as large as
 * all of it needs no more memory. */
static void coalesces(void)
{
    static const int steps[] = {1, 31, 7, 19};
    void *blocks[32];
    size_t had = 0;
    for (int order = 0; order < 4; order++) {
        for (int i = 0; i < 32; i++)
            blocks[i] = t_malloc(1 << 20);
        if (order == 0)
            had = heap_bytes;
        for (int i = 0; i < 32; i++)
            t_free(blocks[i * steps[order] % 32]);
        t_free(t_malloc(32 << 20));
        CHECK(heap_bytes == had);
    }
}

static void edges(void)
{
    /* The compiler warns of such sizes where it knows them. */
    volatile size_t huge = SIZE_MAX / 2;
    t_free(NULL);
    errno = 0;
    CHECK(t_malloc(huge + huge - 8) == NULL && errno == ENOMEM);
    CHECK(t_malloc(1ul << 40) == NULL);
    CHECK(t_calloc(huge, 3) == NULL);
    CHECK(t_reallocarray(NULL, huge, 3) == NULL);
    void *at;
    CHECK(t_posix_memalign(&at, 3, 8) == EINVAL);
    CHECK(t_malloc_usable_size(NULL) == 0);
    void *empty = t_malloc(0);
    CHECK(empty != NULL);
    t_free(empty);
    /* Memory of the C library is given back to it. */
    t_free(malloc(100));
    char *theirs = malloc(10);
    strcpy(theirs, "theirs");
    char *ours = t_realloc(theirs, 5000);
    CHECK(strcmp(ours, "theirs") == 0);
    t_free(ours);
    CHECK((uintptr_t)t_valloc(10) % 4096 == 0);
}

void test_heap(void)
{
    edges();
    in_spans_of_their_own();
    coalesces();
    alone();
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(t_pthread_create(&threads[i], NULL, together, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(t_pthread_join(threads[i], NULL) == 0);
    static struct item left[64];
    for (int i = 0; i < 64; i++) {
        if (shared[i] != NULL)
            left[i] = *shared[i];
    }
    check_apart(left, 64);
}
