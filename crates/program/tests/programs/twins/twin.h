/* twin.h: what the twins of seawall's MICRO'15 workloads share: areas of the pool, accesses word by
 * word, queue locks, lock versions, redo logs of three epochs, slots, entries, random numbers.
 *
 * They follow crates/workloads/src/{shared,micro15,harness} and crates/runtime/src/{locks,pool}:
 * the same bytes at the same offsets, the same stores, flushes and fences in the same order, the
 * same random numbers. One thread with the same seed leaves the same pool, byte by byte. What the
 * Rust forms keep in memory of the host (the words of a transaction, the copy of an entry that is
 * read) is ordinary memory of the program here. */
#ifndef TWIN_H
#define TWIN_H

#include "../pm.h"

#include <sched.h>
#include <stdatomic.h>

#define ENTRY_BYTES 512
#define ENTRY_WORDS 64
#define HEADER_BYTES 192
#define ROOTS 4

/* An offset in the pool; 0 is none. */
typedef uint64_t addr;

extern char *pool;
extern uint64_t pool_bytes;

static inline uint64_t load(addr at)
{
    return *(volatile uint64_t *)(pool + at);
}

static inline void store(addr at, uint64_t value)
{
    *(volatile uint64_t *)(pool + at) = value;
}

static inline void flush(addr at, uint64_t bytes)
{
    pm_flush(pool + at, bytes);
}

static inline void order(void)
{
    pm_fence();
}

/* Places areas one after the other in whole lines. */
static inline addr area(addr *used, uint64_t bytes)
{
    addr start = *used;
    *used += (bytes + PM_LINE - 1) / PM_LINE * PM_LINE;
    return start;
}

/* Random numbers: Xoshiro256++, seeded by SplitMix64. */

struct random {
    uint64_t s[4];
};

struct random random_stream(uint64_t seed, uint64_t index);
uint64_t random_below(struct random *random, uint64_t n);
/* The keys at the start: half of the numbers below 2 * entries, shuffled; to be freed. */
uint64_t *initial_keys(uint64_t seed, uint64_t entries);

enum action { SEARCH, INSERT, DELETE };

struct worker {
    uint64_t thread, number;
    struct random random;
};

enum action draw_action(struct worker *worker);

static inline uint64_t draw_below(struct worker *worker, uint64_t n)
{
    return random_below(&worker->random, n);
}

static inline uint64_t tag_of(const struct worker *worker)
{
    return (worker->thread + 1) << 40 | (worker->number + 1);
}

static inline uint64_t initial_tag(uint64_t number)
{
    return 0xffffull << 40 | (number + 1);
}

/* Queue locks (Mellor-Crummey and Scott) in DRAM. */

struct lock_node {
    _Alignas(PM_LINE) _Atomic uint64_t waits;
    _Atomic(struct lock_node *) next;
};

struct lock {
    _Alignas(PM_LINE) _Atomic(struct lock_node *) last;
};

struct locks {
    struct lock *all;
    struct lock_node *nodes;
    uint64_t levels;
};

void locks_place(struct locks *locks, uint64_t count, uint64_t threads, uint64_t levels);
void lock_acquire(const struct locks *locks, uint64_t index, uint64_t thread, uint64_t level);
void lock_release(const struct locks *locks, uint64_t index, uint64_t thread, uint64_t level);

/* Lock versions: a word in the pool for each lock, read after the lock is taken and increased in
 * the last epoch of a critical section that changed something. */

struct version {
    addr at;
    uint64_t value;
};

static inline struct version version_read(addr versions, uint64_t index)
{
    struct version version = {versions + index * PM_LINE, load(versions + index * PM_LINE)};
    return version;
}

/* Redo logs, one for each thread, and the transactions that write them. */

struct logs {
    addr area;
    uint64_t threads, words;
};

#define TX_WORDS 512
#define TX_RUNS 256

struct tx {
    addr log;
    uint64_t capacity;
    unsigned runs, records;
    addr fresh; /* an object of ENTRY_WORDS words, or 0 */
    struct {
        addr at;
        unsigned first, count;
    } run[TX_RUNS];
    /* The log as it will be written: the fresh object, then each run with its words. */
    uint64_t record[TX_WORDS + TX_RUNS];
};

void logs_place(struct logs *logs, addr *used, uint64_t threads, uint64_t words);
void logs_recover(const struct logs *logs);
void tx_begin(struct tx *tx, const struct logs *logs, uint64_t thread);
uint64_t tx_load(const struct tx *tx, addr at);
void tx_store(struct tx *tx, addr at, uint64_t value);
/* Stores what the pool has at `from`; the transaction has stored neither these words nor those, and
 * they are not of its fresh entry. Returns the words, which may still be changed. */
uint64_t *tx_copy(struct tx *tx, addr to, addr from, unsigned count);
/* Makes the entry at the address, to which nothing leads yet, part of the transaction unlogged. */
void tx_fresh(struct tx *tx, addr at);
void tx_commit(struct tx *tx, const struct version *versions, unsigned count);

/* Slots of ENTRY_BYTES, with free lists in DRAM, one for each thread and a shared one. */

struct slot_list {
    _Alignas(PM_LINE) uint64_t first;
    uint64_t length;
};

struct slots {
    addr area, version;
    uint64_t count, threads;
    uint64_t *next;
    struct slot_list *lists;
    struct locks lock;
};

static inline uint64_t slots_enough(uint64_t live, uint64_t threads)
{
    return live + threads * 17;
}

void slots_place(struct slots *slots, addr *used, uint64_t count, uint64_t threads);
/* A free slot; 0 if there is none. */
addr slots_take(struct slots *slots, uint64_t thread);
void slots_give(struct slots *slots, uint64_t thread, addr at);
/* Makes free lists of the slots that are not live. */
void slots_rebuild(struct slots *slots, const unsigned char *live);
/* Marks the slot to which a pointer leads; broken if it is no slot or marked. */
addr slots_reach(const struct slots *slots, unsigned char *live, addr to);

/* Entries: the words from some index on follow from key and tag. */

void entry_fill(addr at, unsigned from, uint64_t key, uint64_t tag);
/* Reads the whole entry; returns a value that depends on all of it. */
uint64_t entry_read(addr at);
void entry_check(addr at, unsigned from, uint64_t key, uint64_t tag);

/* A structure. Shape sets the roots, which go into the header; place lays it out and returns
 * whether the roots are possible; fill makes its first contents in a pool of zeros; recover
 * finishes what a crash interrupted; check ends the program if an invariant is broken. */
struct twin {
    const char *name;
    uint64_t entries;
    void (*shape)(uint64_t threads, uint64_t entries, uint64_t *roots);
    int (*place)(const uint64_t *roots, addr *used);
    void (*fill)(uint64_t seed, uint64_t entries);
    void (*step)(struct worker *worker);
    void (*recover)(void);
    void (*check)(void);
};

extern const struct twin sps, queue, hash, rbtree, sdg;

/* CRC-32C of the words after bytes with this sum. */
__attribute__((target("sse4.2"))) uint32_t crc32c(uint32_t sum, const uint64_t *words,
                                                  uint64_t count);
void *zeroed(uint64_t count, uint64_t bytes);

#endif
