/* Pools, small transactions, allocation, and a death in the middle of a transaction. */
#define _GNU_SOURCE
#include "inside.h"
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define LAYOUT "seawall-compare"
#define FIELD_BYTES (256 * 1024)
#define RANGE_BYTES 512
#define RANGES 1000

/* The data of one thread: bytes to change, and links to the objects that it allocates. */
struct work {
	PMEMoid field;
	PMEMoid links;
	PMEMoid link;
	char padding[16];
};

struct root {
	struct work work[PMDK_THREADS_MAX];
	PMEMoid ranges;
};

const char *
pmdk_error(void)
{
	return pmemobj_errormsg();
}

int
pmdk_counts(uint64_t *fences, uint64_t *lines)
{
	void (*read)(uint64_t *, uint64_t *);
	*(void **)&read = dlsym(RTLD_DEFAULT, "counting_read");
	if (read == NULL)
		return -1;
	read(fences, lines);
	return 0;
}

static struct pmdk_pool *
with_root(PMEMobjpool *pop)
{
	struct pmdk_pool *pool = malloc(sizeof(*pool));
	PMEMoid root = pmemobj_root(pop, sizeof(struct root));
	if (pool == NULL || OID_IS_NULL(root)) {
		free(pool);
		pmemobj_close(pop);
		return NULL;
	}
	pool->pop = pop;
	pool->root = pmemobj_direct(root);
	return pool;
}

struct pmdk_pool *
pmdk_create(const char *path, uint64_t bytes)
{
	PMEMobjpool *pop = pmemobj_create(path, LAYOUT, bytes, 0600);
	return pop == NULL ? NULL : with_root(pop);
}

struct pmdk_pool *
pmdk_open(const char *path)
{
	PMEMobjpool *pop = pmemobj_open(path, LAYOUT);
	return pop == NULL ? NULL : with_root(pop);
}

void
pmdk_close(struct pmdk_pool *pool)
{
	pmemobj_close(pool->pop);
	free(pool);
}

/* The thread's data; its field and links are allocated on first use. */
static struct work *
work_of(struct pmdk_pool *pool, unsigned thread)
{
	struct work *work = &pool->root->work[thread];
	if (OID_IS_NULL(work->field) &&
	    pmemobj_zalloc(pool->pop, &work->field, FIELD_BYTES, 1) != 0)
		return NULL;
	if (OID_IS_NULL(work->links) &&
	    pmemobj_zalloc(pool->pop, &work->links, PMDK_LINKS * sizeof(PMEMoid), 2) != 0)
		return NULL;
	return work;
}

static int
change(PMEMobjpool *pop, char *field, size_t bytes, uint64_t count)
{
	volatile int failed = 0;
	size_t slots = FIELD_BYTES / bytes;
	for (uint64_t i = 0; i < count && !failed; i++) {
		char *at = field + i % slots * bytes;
		TX_BEGIN(pop) {
			pmemobj_tx_add_range_direct(at, bytes);
			memset(at, (int)i, bytes);
		} TX_ONABORT {
			failed = 1;
		} TX_END
	}
	return failed ? -1 : 0;
}

static int
change_four(PMEMobjpool *pop, char *field, uint64_t count)
{
	volatile int failed = 0;
	size_t apart = FIELD_BYTES / 4;
	for (uint64_t i = 0; i < count && !failed; i++) {
		char *at = field + i * 64 % apart;
		TX_BEGIN(pop) {
			for (size_t range = 0; range < 4; range++) {
				pmemobj_tx_add_range_direct(at + range * apart, 64);
				memset(at + range * apart, (int)i, 64);
			}
		} TX_ONABORT {
			failed = 1;
		} TX_END
	}
	return failed ? -1 : 0;
}

static int
change_many(PMEMobjpool *pop, char *field, uint64_t count)
{
	volatile int failed = 0;
	for (uint64_t i = 0; i < count && !failed; i++) {
		TX_BEGIN(pop) {
			for (size_t range = 0; range < 1000; range++) {
				pmemobj_tx_add_range_direct(field + range * 256, 64);
				memset(field + range * 256, (int)i, 64);
			}
		} TX_ONABORT {
			failed = 1;
		} TX_END
	}
	return failed ? -1 : 0;
}

static int
change_and_abort(PMEMobjpool *pop, char *field, uint64_t count)
{
	volatile uint64_t aborted = 0;
	for (uint64_t i = 0; i < count; i++) {
		char *at = field + i * 64 % FIELD_BYTES;
		TX_BEGIN(pop) {
			pmemobj_tx_add_range_direct(at, 64);
			memset(at, (int)i, 64);
			pmemobj_tx_abort(ECANCELED);
		} TX_ONABORT {
			aborted++;
		} TX_END
	}
	return aborted == count ? 0 : -1;
}

static int
alloc_and_free(PMEMobjpool *pop, PMEMoid *link, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (pmemobj_alloc(pop, link, 64, 3, NULL, NULL) != 0)
			return -1;
		pmemobj_free(link);
	}
	return 0;
}

static int
alloc_in_transaction(PMEMobjpool *pop, PMEMoid *links, uint64_t count)
{
	volatile int failed = count > PMDK_LINKS;
	for (uint64_t i = 0; i < count && !failed; i++) {
		TX_BEGIN(pop) {
			pmemobj_tx_add_range_direct(&links[i], sizeof(links[i]));
			links[i] = pmemobj_tx_alloc(64, 3);
		} TX_ONABORT {
			failed = 1;
		} TX_END
	}
	return failed ? -1 : 0;
}

static int
alloc_lost(PMEMobjpool *pop, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (pmemobj_alloc(pop, NULL, 64, 3, NULL, NULL) != 0)
			return -1;
	return 0;
}

int
pmdk_run(struct pmdk_pool *pool, enum pmdk_operation operation, unsigned thread, uint64_t count)
{
	if (operation == PMDK_ALLOC_LOST)
		return alloc_lost(pool->pop, count);
	struct work *work = work_of(pool, thread);
	if (work == NULL)
		return -1;
	char *field = pmemobj_direct(work->field);
	PMEMoid *links = pmemobj_direct(work->links);
	switch (operation) {
	case PMDK_TX_64:
		return change(pool->pop, field, 64, count);
	case PMDK_TX_256:
		return change(pool->pop, field, 256, count);
	case PMDK_TX_1024:
		return change(pool->pop, field, 1024, count);
	case PMDK_TX_64K:
		return change(pool->pop, field, 65536, count);
	case PMDK_TX_MANY:
		return change_many(pool->pop, field, count);
	case PMDK_TX_FOUR:
		return change_four(pool->pop, field, count);
	case PMDK_TX_ABORT:
		return change_and_abort(pool->pop, field, count);
	case PMDK_ALLOC_FREE:
		return alloc_and_free(pool->pop, &work->link, count);
	case PMDK_TX_ALLOC:
		return alloc_in_transaction(pool->pop, links, count);
	case PMDK_FREE_LINKED:
		for (size_t i = PMDK_LINKS; i > 0; i--)
			pmemobj_free(&links[i - 1]);
		return 0;
	case PMDK_ALLOC_LOST:
		break;
	}
	return -1;
}

int
pmdk_die_in_transaction(const char *path)
{
	struct pmdk_pool *pool = pmdk_open(path);
	if (pool == NULL)
		return -1;
	PMEMoid *ranges = &pool->root->ranges;
	if (OID_IS_NULL(*ranges) &&
	    pmemobj_zalloc(pool->pop, ranges, RANGES * RANGE_BYTES, 4) != 0)
		return -1;
	char *at = pmemobj_direct(*ranges);
	TX_BEGIN(pool->pop) {
		for (size_t i = 0; i < RANGES; i++) {
			pmemobj_tx_add_range_direct(at + i * RANGE_BYTES, RANGE_BYTES);
			memset(at + i * RANGE_BYTES, (int)i, RANGE_BYTES);
		}
		raise(SIGKILL);
	} TX_END
	return -1;
}
