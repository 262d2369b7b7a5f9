/*
 * The baseline: operations of a program with libpmemobj, as loops that the harness calls in its own
 * process. Every function that can fail returns -1 or NULL, and pmdk_error() says why.
 */
#ifndef COMPARE_PMDK_H
#define COMPARE_PMDK_H

#include <stddef.h>
#include <stdint.h>

#define PMDK_THREADS_MAX 8
/* Links that a thread can hold, and so objects that PMDK_TX_ALLOC may make before it must stop. */
#define PMDK_LINKS 65536

struct pmdk_pool;
struct pmdk_map;

enum pmdk_operation {
	PMDK_TX_64,	    /* begin, add 64 B, write them, commit */
	PMDK_TX_256,
	PMDK_TX_1024,
	PMDK_TX_64K,
	PMDK_TX_MANY,	    /* begin, add and write 1000 ranges of 64 B one by one, commit */
	PMDK_TX_FOUR,	    /* begin, add and write four ranges of 64 B, commit */
	PMDK_TX_ABORT,	    /* begin, add 64 B, write them, abort */
	PMDK_ALLOC_FREE,    /* pmemobj_alloc of 64 B, pmemobj_free of it */
	PMDK_TX_ALLOC,	    /* begin, tx_alloc of 64 B, link it, commit */
	PMDK_FREE_LINKED,   /* frees what PMDK_TX_ALLOC made; count is ignored */
	PMDK_ALLOC_LOST,    /* pmemobj_alloc of 64 B that nothing links: fills a heap */
};

enum pmdk_map_kind {
	PMDK_HASH_TX,	    /* chained buckets, a transaction for each change */
	PMDK_HASH_RP,	    /* robin hood, a published set of actions for each change */
	PMDK_BTREE,	    /* B-tree of order 8, a transaction for each change */
	PMDK_HASH_ATOMIC,   /* lists of entries, an atomic call for each change */
	PMDK_RBTREE,	    /* balanced binary tree, a transaction for each change */
};

struct pmdk_pool *pmdk_create(const char *path, uint64_t bytes);
struct pmdk_pool *pmdk_open(const char *path);
void pmdk_close(struct pmdk_pool *pool);
const char *pmdk_error(void);
/* Fences and flushed lines since the process began; -1 unless counting.c is preloaded. */
int pmdk_counts(uint64_t *fences, uint64_t *lines);

/* Does operation count times for thread, which no other thread may be at the same time. */
int pmdk_run(struct pmdk_pool *pool, enum pmdk_operation operation, unsigned thread,
	uint64_t count);

/* Opens the pool, snapshots and overwrites 1000 x 512 B, and dies by SIGKILL; returns on errors. */
int pmdk_die_in_transaction(const char *path);

/* A new empty map. If is_shared, each call on it takes its lock. */
struct pmdk_map *pmdk_map_new(struct pmdk_pool *pool, enum pmdk_map_kind kind, int is_shared);
/* Frees the map, which must be empty. */
int pmdk_map_delete(struct pmdk_map *map);
int pmdk_map_insert(struct pmdk_map *map, const uint64_t *keys, size_t count);
/* Number of keys that the map holds with the value that was inserted. */
size_t pmdk_map_lookup(struct pmdk_map *map, const uint64_t *keys, size_t count);
/* Removes those of keys that the map holds. */
int pmdk_map_remove(struct pmdk_map *map, const uint64_t *keys, size_t count);
uint64_t pmdk_map_count(struct pmdk_map *map);

struct pmdk_slots;

/* A new pool with a table of count slots, which are empty. */
struct pmdk_slots *pmdk_slots_new(const char *path, uint64_t bytes, uint64_t count);
void pmdk_slots_close(struct pmdk_slots *slots);
/* Allocates an object of 128 B into an empty slot, all of whose words are the slot's number. */
int pmdk_slots_put(struct pmdk_slots *slots, uint64_t slot);
/* Frees the object of a slot. */
void pmdk_slots_take(struct pmdk_slots *slots, uint64_t slot);
/* Where the object of a slot is, from the start of the pool; 0 if the slot is empty. */
uint64_t pmdk_slots_at(struct pmdk_slots *slots, uint64_t slot);
/* The first word of the object of a slot, which is not empty. */
uint64_t pmdk_slots_value(struct pmdk_slots *slots, uint64_t slot);
/* Calls pmemobj_defrag once, for all slots. */
int pmdk_slots_defrag(struct pmdk_slots *slots);

#endif
