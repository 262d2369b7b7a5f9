/* Threads that work together, to be killed at any time.
 *
 *     together run POOL THREADS     works until it is killed, and writes what each thread has done:
 *                                   its number and its count, when a step has returned
 *     together dump POOL            a line for each thread with its count, and what is wrong, if
 *                                   anything is
 *
 * A step of a thread counts, and changes its object, its entry in a list, and a sum that all share,
 * by one transaction and one atomic call. */

#include <libpmemobj.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 32

TOID_DECLARE(struct entry, 2);

struct entry {
	uint64_t thread;
	POBJ_LIST_ENTRY(struct entry) links;
};

POBJ_LIST_HEAD(list, struct entry);

struct part {
	/* Odd if there is an object. */
	uint64_t count;
	PMEMoid object;
	PMEMoid made;
	/* Less than a line from the next, so that threads share lines. */
	uint64_t guard;
};

struct root {
	PMEMmutex mutex;
	uint64_t sum;
	struct list list;
	struct part parts[THREADS_MAX];
};

static PMEMobjpool *pool;
static struct root *root;

static int construct(PMEMobjpool *in, void *place, void *argument)
{
	*(uint64_t *)place = *(uint64_t *)argument;
	pmemobj_persist(in, place, sizeof(uint64_t));
	return 0;
}

static void step(uint64_t thread)
{
	struct part *part = &root->parts[thread];
	uint64_t bytes = 8 + (thread * 40 + part->count * 24) % 700;
	TX_BEGIN_PARAM(pool, TX_PARAM_MUTEX, &root->mutex, TX_PARAM_NONE) {
		pmemobj_tx_add_range_direct(part, sizeof(*part));
		pmemobj_tx_add_range_direct(&root->sum, sizeof(root->sum));
		if (part->count % 2) {
			pmemobj_tx_free(part->object);
			part->object = OID_NULL;
		} else {
			part->object = pmemobj_tx_alloc(bytes, 1);
			*(uint64_t *)pmemobj_direct(part->object) = thread;
		}
		part->count++;
		root->sum++;
	} TX_ONABORT {
		_exit(3);
	} TX_END
	if (OID_IS_NULL(part->made)) {
		if (pmemobj_alloc(pool, &part->made, bytes, 3, construct, &thread))
			_exit(4);
		POBJ_LIST_INSERT_NEW_HEAD(pool, &root->list, links, sizeof(struct entry), construct,
			&thread);
	} else {
		pmemobj_free(&part->made);
		TOID(struct entry) entry = POBJ_LIST_FIRST(&root->list);
		if (!TOID_IS_NULL(entry) && thread == 0)
			POBJ_LIST_REMOVE_FREE(pool, &root->list, entry, links);
	}
}

static void *work(void *argument)
{
	uint64_t thread = (uint64_t)(uintptr_t)argument;
	for (;;) {
		step(thread);
		char line[48];
		int length = snprintf(line, sizeof(line), "%lu %lu\n", thread,
			root->parts[thread].count);
		if (write(STDOUT_FILENO, line, (size_t)length) != length)
			_exit(5);
	}
	return NULL;
}

static int run(const char *path, uint64_t threads)
{
	pool = pmemobj_create(path, "together", 64 << 20, 0600);
	if (pool == NULL || threads > THREADS_MAX)
		return 1;
	root = pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
	pthread_t id;
	for (uint64_t thread = 0; thread < threads; thread++)
		pthread_create(&id, NULL, work, (void *)(uintptr_t)thread);
	pthread_join(id, NULL);
	return 1;
}

static int dump(const char *path)
{
	pool = pmemobj_open(path, "together");
	if (pool == NULL) {
		fprintf(stderr, "%s\n", pmemobj_errormsg());
		return 1;
	}
	root = pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
	uint64_t found[4] = {0}, held[4] = {0}, sum = 0;
	for (uint64_t thread = 0; thread < THREADS_MAX; thread++) {
		const struct part *part = &root->parts[thread];
		int is_there = !OID_IS_NULL(part->object);
		if (is_there != (int)(part->count % 2) || part->guard ||
			(is_there && *(uint64_t *)pmemobj_direct(part->object) != thread) ||
			(!OID_IS_NULL(part->made) &&
				*(uint64_t *)pmemobj_direct(part->made) != thread))
			printf("thread %lu is WRONG\n", thread);
		held[1] += (uint64_t)is_there;
		held[3] += !OID_IS_NULL(part->made);
		sum += part->count;
		printf("%lu %lu\n", thread, part->count);
	}
	TOID(struct entry) entry;
	POBJ_LIST_FOREACH(entry, &root->list, links)
		held[2]++;
	for (PMEMoid oid = pmemobj_first(pool); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
		found[pmemobj_type_num(oid) % 4]++;
	if (memcmp(found, held, sizeof(found)) != 0)
		printf("objects are WRONG: %lu %lu %lu of %lu %lu %lu\n", found[1], found[2], found[3],
			held[1], held[2], held[3]);
	if (sum != root->sum)
		printf("the sum is WRONG: %lu of %lu\n", root->sum, sum);
	pmemobj_close(pool);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "run") == 0)
		return run(argv[2], strtoul(argv[3], NULL, 10));
	if (argc == 3 && strcmp(argv[1], "dump") == 0)
		return dump(argv[2]);
	return 2;
}
