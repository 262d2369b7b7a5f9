/* Times single calls of libpmemobj: one line for each, its name and nanoseconds for one call.
 *
 *     calls POOL COUNT THREADS [NAME]
 *
 * The same binary runs with either library. Each thread makes COUNT calls, on objects of its own in
 * one pool. Each line is the median of five rounds. */

#include "crew.h"
#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 5
#define POOL_BYTES (256UL << 20)

POBJ_LAYOUT_BEGIN(calls);
POBJ_LAYOUT_ROOT(calls, struct root);
POBJ_LAYOUT_TOID(calls, struct element);
POBJ_LAYOUT_END(calls);

struct element {
	uint64_t value;
	POBJ_LIST_ENTRY(struct element) links;
};

/* What one thread works on. */
struct share {
	POBJ_LIST_HEAD(list, struct element) list;
	PMEMoid objects[4096];
	PMEMmutex mutex;
	PMEMrwlock rwlock;
	uint64_t words[1024];
	char data[64 << 10];
	char apart[128];
};

struct root {
	struct share shares[CREW_THREADS_MAX];
};

static PMEMobjpool *pool;
static PMEMoid root_oid;
static _Thread_local struct share *own;

static void add(size_t bytes, int count)
{
	for (int i = 0; i < count; i++) {
		TX_BEGIN(pool) {
			pmemobj_tx_add_range_direct(own->data, bytes);
			own->data[i % bytes]++;
		} TX_END
	}
}

static void add_8(int count) { add(8, count); }
static void add_64(int count) { add(64, count); }
static void add_512(int count) { add(512, count); }
static void add_4k(int count) { add(4096, count); }

/* Four ranges in a transaction. */
static void add_4_ranges(int count)
{
	for (int i = 0; i < count; i++) {
		TX_BEGIN(pool) {
			for (int range = 0; range < 4; range++) {
				uint64_t *word = &own->words[(i + range * 37) % 1024];
				pmemobj_tx_add_range_direct(word, 8);
				*word = (uint64_t)i;
			}
		} TX_END
	}
}

static void tx_alloc_free(size_t bytes, int count)
{
	for (int i = 0; i < count; i++) {
		PMEMoid oid = OID_NULL;
		TX_BEGIN(pool) {
			oid = pmemobj_tx_alloc(bytes, 1);
		} TX_END
		TX_BEGIN(pool) {
			pmemobj_tx_free(oid);
		} TX_END
	}
}

static void tx_alloc_64(int count) { tx_alloc_free(64, count); }
static void tx_alloc_1k(int count) { tx_alloc_free(1024, count); }

static void atomic_alloc_free(size_t bytes, int count)
{
	for (int i = 0; i < count; i++) {
		PMEMoid *place = &own->objects[i % 4096];
		if (pmemobj_alloc(pool, place, bytes, 1, NULL, NULL))
			abort();
		pmemobj_free(place);
	}
}

static void alloc_64(int count) { atomic_alloc_free(64, count); }
static void alloc_1k(int count) { atomic_alloc_free(1024, count); }
static void alloc_64k(int count) { atomic_alloc_free(64 << 10, count); }

static void publish(int count)
{
	for (int i = 0; i < count; i++) {
		struct pobj_action actions[3];
		PMEMoid *place = &own->objects[i % 4096];
		PMEMoid oid = pmemobj_reserve(pool, &actions[0], 64, 1);
		pmemobj_set_value(pool, &actions[1], &place->pool_uuid_lo, oid.pool_uuid_lo);
		pmemobj_set_value(pool, &actions[2], &place->off, oid.off);
		pmemobj_publish(pool, actions, 3);
		pmemobj_free(place);
	}
}

static void list(int count)
{
	for (int i = 0; i < count; i++) {
		TOID(struct element) element;
		element.oid = POBJ_LIST_INSERT_NEW_HEAD(pool, &own->list, links,
			sizeof(struct element), NULL, NULL);
		POBJ_LIST_REMOVE_FREE(pool, &own->list, element, links);
	}
}

static void iterate(int count)
{
	PMEMoid oid = pmemobj_first(pool);
	for (int i = 0; i < count; i++)
		oid = OID_IS_NULL(oid) ? pmemobj_first(pool) : pmemobj_next(oid);
}

static void mutex(int count)
{
	for (int i = 0; i < count; i++) {
		pmemobj_mutex_lock(pool, &own->mutex);
		pmemobj_mutex_unlock(pool, &own->mutex);
	}
}

static void rwlock(int count)
{
	for (int i = 0; i < count; i++) {
		pmemobj_rwlock_wrlock(pool, &own->rwlock);
		pmemobj_rwlock_unlock(pool, &own->rwlock);
	}
}

static void direct(int count)
{
	static _Thread_local volatile uint64_t sum;
	for (int i = 0; i < count; i++)
		sum += (uintptr_t)pmemobj_direct(root_oid) + pmemobj_oid(own).off;
}

static void persist(int count)
{
	for (int i = 0; i < count; i++) {
		own->words[i % 1024]++;
		pmemobj_persist(pool, &own->words[i % 1024], 8);
	}
}

static void memcpy_4k(int count)
{
	static char from[4096];
	for (int i = 0; i < count; i++)
		pmemobj_memcpy_persist(pool, own->data + 4096 * (i % 16), from, 4096);
}

static void empty_tx(int count)
{
	for (int i = 0; i < count; i++) {
		TX_BEGIN(pool) {
		} TX_END
	}
}

static void root_again(int count)
{
	for (int i = 0; i < count; i++)
		pmemobj_root(pool, sizeof(struct root));
}

/* `share`: of COUNT, for slow calls. */
static const struct {
	const char *name;
	void (*run)(int);
	int share;
} CALLS[] = {
	{"empty-tx", empty_tx, 1}, {"add-8", add_8, 1}, {"add-64", add_64, 1},
	{"add-512", add_512, 1}, {"add-4k", add_4k, 4}, {"add-4-ranges", add_4_ranges, 1},
	{"tx-alloc-64", tx_alloc_64, 1}, {"tx-alloc-1k", tx_alloc_1k, 1},
	{"alloc-64", alloc_64, 1}, {"alloc-1k", alloc_1k, 1}, {"alloc-64k", alloc_64k, 4},
	{"publish", publish, 1}, {"list", list, 1}, {"iterate", iterate, 1}, {"mutex", mutex, 1},
	{"rwlock", rwlock, 1}, {"direct", direct, 1}, {"persist", persist, 1},
	{"memcpy-4k", memcpy_4k, 4}, {"root", root_again, 1},
};

static size_t chosen;
static int calls;

static void measure(unsigned thread)
{
	struct root *root = pmemobj_direct(root_oid);
	own = &root->shares[thread];
	CALLS[chosen].run(calls / 10 + 1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		crew_begin();
		CALLS[chosen].run(calls);
		crew_end(round);
	}
}

static int by_size(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

static double median(void)
{
	double rounds[ROUNDS];
	for (unsigned round = 0; round < ROUNDS; round++)
		rounds[round] = crew_time(round);
	qsort(rounds, ROUNDS, sizeof(double), by_size);
	return rounds[ROUNDS / 2];
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	int count = atoi(argv[2]);
	unsigned threads = (unsigned)atoi(argv[3]);
	pool = pmemobj_create(argv[1], "calls", POOL_BYTES, 0600);
	if (pool == NULL) {
		fprintf(stderr, "%s\n", pmemobj_errormsg());
		return 1;
	}
	root_oid = pmemobj_root(pool, sizeof(struct root));
	for (int i = 0; i < 1000; i++) {
		PMEMoid oid;
		if (pmemobj_alloc(pool, &oid, 100, 2, NULL, NULL))
			return 1;
	}
	for (chosen = 0; chosen < sizeof(CALLS) / sizeof(*CALLS); chosen++) {
		if (argc > 4 && strcmp(argv[4], CALLS[chosen].name) != 0)
			continue;
		calls = count / CALLS[chosen].share;
		crew_run(threads, measure);
		printf("%s %.1f\n", CALLS[chosen].name, median() / calls);
	}
	pmemobj_close(pool);
	return 0;
}
