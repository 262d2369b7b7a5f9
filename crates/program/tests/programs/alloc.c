/* alloc.c: a persistent allocator of blocks, with a bitmap and a table of their owners.
 *
 *     alloc run POOL THREADS OPS [FLAW]     alloc check POOL [FLAW]
 *
 * Each thread owns slots that name a block or none. To allocate or free, it first makes durable
 * what it intends; then it changes slot and bitmap in any order; then it clears the intent.
 * Recovery finishes a free, and finishes an allocation whose slot is set and takes back the bit of
 * one whose slot is not. Which blocks are free to take is known only to the running program, which
 * offers a block again only when the intent to free it is cleared: so no two intents are about one
 * block. After recovery the bitmap is the set of the blocks with an owner, and no block has two.
 *
 * Flaws:
 *   1  missing flush: the intent is never written back
 *   2  missing fence: the intent is flushed, but nothing orders it before the slot
 *   3  missing flush: a block gets an owner before its contents are written back
 *   4  missing fence: the bit is flushed, but nothing orders it before the cleared intent
 *   5  early reuse: a block is free to take before its intent is cleared (needs two threads that
 *      meet)
 *   6  missing recovery step (flaw of check): intents are ignored
 *   7  lost update: the bitmap is changed by a load and a store (needs two threads that meet)
 *   8  none on x86: a free has no fence after its intent, but a locked instruction orders it too */
#include "pm.h"

#include <stdatomic.h>

#define MAGIC 0x31636f6c6c61ull
#define BLOCKS 1024
#define SLOTS 16

enum step { NOTHING, ALLOCATE, FREE };

struct block {
    uint64_t thread, slot, operation, sum, unused[4];
};

struct pool {
    struct pm_header header;
    _Atomic uint64_t bitmap[BLOCKS / 64];
    uint64_t intents[PM_THREADS_MAX][8];      /* step, slot and block; the first of each line */
    uint64_t owned[PM_THREADS_MAX][SLOTS];    /* the number of a block, plus 1, or 0 */
    struct block blocks[BLOCKS];
};

#define POOL_BYTES (1u << 20)
_Static_assert(sizeof(struct pool) <= POOL_BYTES, "the pool holds the blocks");

static struct pool *pool;
static unsigned flaw;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t free_blocks[BLOCKS], free_count;

static uint64_t slot_of(uint64_t thread, uint64_t number)
{
    return pm_random(thread, number) % SLOTS;
}

static uint64_t sum_of(const struct block *block)
{
    return (block->thread << 32 ^ block->slot << 48 ^ block->operation * 0x9e3779b97f4a7c15u) + 1;
}

static uint64_t take(void)
{
    pthread_mutex_lock(&lock);
    if (free_count == 0)
        errno = ENOSPC, pm_unusable("the pool is full"); /* more blocks than slots: never */
    uint64_t block = free_blocks[--free_count];
    pthread_mutex_unlock(&lock);
    return block;
}

static void give(uint64_t block)
{
    pthread_mutex_lock(&lock);
    free_blocks[free_count++] = block;
    pthread_mutex_unlock(&lock);
}

static void mark(uint64_t block, int used)
{
    _Atomic uint64_t *word = &pool->bitmap[block / 64];
    uint64_t bit = 1ull << block % 64;
    if (flaw == 7) {
        uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
        atomic_store_explicit(word, used ? old | bit : old & ~bit, memory_order_relaxed);
    } else if (used) {
        atomic_fetch_or(word, bit);
    } else {
        atomic_fetch_and(word, ~bit);
    }
    pm_flush(word, sizeof *word);
}

static void own(uint64_t thread, uint64_t slot, uint64_t name)
{
    pool->owned[thread][slot] = name;
    pm_flush(&pool->owned[thread][slot], sizeof name);
}

static void intend(uint64_t thread, enum step step, uint64_t slot, uint64_t block)
{
    uint64_t *intent = &pool->intents[thread][0];
    *intent = (uint64_t)step << 32 | slot << 16 | block;
    if (flaw != 1)
        pm_flush(intent, sizeof *intent);
    int fence = step == NOTHING || (flaw != 2 && !(flaw == 8 && step == FREE));
    if (fence)
        pm_fence();
}

static void allocate(uint64_t thread, uint64_t slot, uint64_t operation)
{
    uint64_t number = take();
    struct block *block = &pool->blocks[number];
    block->thread = thread;
    block->slot = slot;
    block->operation = operation;
    block->sum = sum_of(block);
    if (flaw != 3)
        pm_persist(block, sizeof *block);
    intend(thread, ALLOCATE, slot, number);
    own(thread, slot, number + 1);
    mark(number, 1);
    if (flaw != 4)
        pm_fence();
    intend(thread, NOTHING, 0, 0);
}

static void release(uint64_t thread, uint64_t slot)
{
    uint64_t number = pool->owned[thread][slot] - 1;
    intend(thread, FREE, slot, number);
    if (flaw == 8) {
        mark(number, 0);
        own(thread, slot, 0);
    } else {
        own(thread, slot, 0);
        mark(number, 0);
    }
    if (flaw != 4)
        pm_fence();
    if (flaw == 5)
        give(number);
    intend(thread, NOTHING, 0, 0);
    if (flaw != 5)
        give(number);
}

static void work(uint64_t thread, uint64_t operations)
{
    uint64_t first = pool->header.done[thread].value;
    for (uint64_t n = first; n < first + operations; n++) {
        uint64_t slot = slot_of(thread, n);
        if (pool->owned[thread][slot])
            release(thread, slot);
        else
            allocate(thread, slot, n);
        pm_complete(&pool->header, thread, n + 1);
    }
}

/* Finishes or takes back what a thread intended. */
static void recover(uint64_t thread)
{
    uint64_t intent = pool->intents[thread][0], step = intent >> 32;
    uint64_t slot = intent >> 16 & 0xffff, block = intent & 0xffff;
    if (step > FREE || slot >= SLOTS || block >= BLOCKS)
        pm_broken("thread %llu intends %#llx", (unsigned long long)thread,
                  (unsigned long long)intent);
    if (step == NOTHING)
        return;
    if (step == FREE)
        own(thread, slot, 0);
    mark(block, pool->owned[thread][slot] == block + 1);
    pm_fence();
    intend(thread, NOTHING, 0, 0);
}

static void check_block(uint64_t thread, uint64_t slot, uint64_t name, uint64_t operation)
{
    static unsigned char owned[BLOCKS];
    if (name > BLOCKS)
        pm_broken("slot %llu of thread %llu leads out of the pool", (unsigned long long)slot,
                  (unsigned long long)thread);
    const struct block *block = &pool->blocks[name - 1];
    if (owned[name - 1]++)
        pm_broken("block %llu has two owners", (unsigned long long)name - 1);
    if (!(pool->bitmap[(name - 1) / 64] >> (name - 1) % 64 & 1))
        pm_broken("block %llu has an owner and is free", (unsigned long long)name - 1);
    if (block->sum != sum_of(block) || block->thread != thread || block->slot != slot)
        pm_broken("block %llu is torn", (unsigned long long)name - 1);
    if (block->operation != operation)
        pm_broken("slot %llu of thread %llu has the block of operation %llu, not of %llu",
                  (unsigned long long)slot, (unsigned long long)thread,
                  (unsigned long long)block->operation, (unsigned long long)operation);
}

/* Checks the slots of a thread; returns whether the operation at its counter has happened, and adds
 * to the number of owned blocks. */
static int check_thread(uint64_t thread, uint64_t *owned)
{
    uint64_t wanted[SLOTS] = {0}, done = pool->header.done[thread].value; /* operation plus 1 */
    int happened = 0;
    for (uint64_t n = 0; n < done; n++) {
        uint64_t slot = slot_of(thread, n);
        wanted[slot] = wanted[slot] ? 0 : n + 1;
    }
    for (uint64_t slot = 0; slot < SLOTS; slot++) {
        uint64_t name = pool->owned[thread][slot];
        if (!name != !wanted[slot]) {
            if (thread >= pool->header.threads || slot != slot_of(thread, done))
                pm_broken("after %llu operations slot %llu of thread %llu is %s",
                          (unsigned long long)done, (unsigned long long)slot,
                          (unsigned long long)thread, name ? "in use" : "empty");
            happened = 1;
            wanted[slot] = done + 1;
        }
        if (name) {
            check_block(thread, slot, name, wanted[slot] - 1);
            ++*owned;
        }
    }
    return happened;
}

static void check(int settle)
{
    uint64_t owned = 0, marked = 0;
    for (uint64_t t = 0; t < PM_THREADS_MAX; t++) {
        int happened = check_thread(t, &owned);
        if (settle && happened)
            pm_complete(&pool->header, t, pool->header.done[t].value + 1);
    }
    free_count = 0;
    for (uint64_t block = BLOCKS; block-- > 0;) {
        if (pool->bitmap[block / 64] >> block % 64 & 1)
            marked++;
        else
            free_blocks[free_count++] = block;
    }
    if (marked != owned)
        pm_broken("%llu blocks are in use, %llu of them have an owner",
                  (unsigned long long)marked, (unsigned long long)owned);
}

int main(int count, char **words)
{
    struct pm_command command = pm_command_line(count, words, 8);
    flaw = command.flaw;
    pool = pm_map(command.path, POOL_BYTES, command.run);
    int created = pm_is_created(&pool->header, MAGIC);
    if (!created && !command.run)
        return PM_OK;
    if (!created)
        pm_created(&pool->header, MAGIC);
    for (uint64_t t = 0; flaw != 6 && t < PM_THREADS_MAX; t++)
        recover(t);
    check(command.run);
    if (!command.run)
        return PM_OK;
    pm_allow_threads(&pool->header, command.threads);
    pm_threads(command.threads, command.operations, work);
    return PM_OK;
}
