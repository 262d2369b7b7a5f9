/* Many threads work in one pool: transactions, objects, prepared actions and lists. What they leave
 * is what they did.
 *
 *     threads POOL THREADS ROUNDS [MIB]
 *
 * Then as many threads again as the first, each of which lives for one transaction. */

#include <libpmemobj.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 8

TOID_DECLARE(struct element, 2);

struct element {
	uint64_t value;
	POBJ_LIST_ENTRY(struct element) links;
};

POBJ_LIST_HEAD(list, struct element);

struct root {
	PMEMmutex mutex;
	PMEMrwlock rwlock;
	uint64_t sum, guarded;
	struct list list;
};

/* What belongs to one thread. */
struct part {
	PMEMoid slots[SLOTS];
	uint64_t words[4];
};

static PMEMobjpool *pool;
static struct root *root;
static long rounds;

static void must(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "%s: %s\n", what, pmemobj_errormsg());
		exit(1);
	}
}

static void change(struct part *part, long round)
{
	PMEMoid *slot = &part->slots[round % SLOTS];
	TX_BEGIN_PARAM(pool, TX_PARAM_MUTEX, &root->mutex, TX_PARAM_NONE) {
		pmemobj_tx_add_range_direct(&root->sum, sizeof(root->sum));
		root->sum++;
	} TX_END
	TX_BEGIN(pool) {
		pmemobj_tx_add_range_direct(part, sizeof(*part));
		part->words[round % 4]++;
		if (OID_IS_NULL(*slot)) {
			*slot = pmemobj_tx_zalloc(64 + (size_t)(round % 900), 1);
		} else {
			pmemobj_tx_free(*slot);
			*slot = OID_NULL;
		}
		/* Objects that are in no transaction, in the midst of one. */
		PMEMoid other;
		must(pmemobj_alloc(pool, &other, 100, 3, NULL, NULL) == 0, "alloc in a transaction");
		pmemobj_free(&other);
		if (round % 7 == 0)
			pmemobj_tx_abort(ECANCELED);
	} TX_END
	pmemobj_rwlock_wrlock(pool, &root->rwlock);
	root->guarded++;
	pmemobj_persist(pool, &root->guarded, sizeof(root->guarded));
	pmemobj_rwlock_unlock(pool, &root->rwlock);
	struct pobj_action action;
	PMEMoid oid = pmemobj_reserve(pool, &action, 200, 3);
	must(!OID_IS_NULL(oid), "reserve");
	pmemobj_cancel(pool, &action, 1);
	if (round % 16 == 0)
		POBJ_LIST_INSERT_NEW_HEAD(pool, &root->list, links, sizeof(struct element), NULL, NULL);
}

static void *work(void *argument)
{
	struct part *part = argument;
	for (long round = 0; round < rounds; round++)
		change(part, round);
	return NULL;
}

static void *once(void *argument)
{
	change(argument, 1);
	return NULL;
}

static void all(void *(*run)(void *), struct part *parts, int threads)
{
	pthread_t *ids = calloc((size_t)threads, sizeof(*ids));
	for (int i = 0; i < threads; i++)
		must(pthread_create(&ids[i], NULL, run, &parts[i]) == 0, "pthread_create");
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	free(ids);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	int threads = atoi(argv[2]);
	rounds = atol(argv[3]);
	size_t mib = argc > 4 ? (size_t)atol(argv[4]) : 64;
	pool = pmemobj_create(argv[1], "threads", mib << 20, 0600);
	must(pool != NULL, "create");
	root = pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
	PMEMoid oid;
	must(pmemobj_zalloc(pool, &oid, (size_t)threads * sizeof(struct part), 4) == 0, "zalloc");
	struct part *parts = pmemobj_direct(oid);
	all(work, parts, threads);
	all(once, parts, threads);
	pmemobj_close(pool);

	pool = pmemobj_open(argv[1], "threads");
	must(pool != NULL, "open");
	root = pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
	uint64_t objects[5] = {0}, held = 0, words = 0, elements = 0;
	PMEMoid next = pmemobj_first(pool);
	for (oid = OID_NULL; !OID_IS_NULL(next); next = pmemobj_next(next)) {
		objects[pmemobj_type_num(next) % 5]++;
		if (pmemobj_type_num(next) == 4)
			oid = next;
	}
	parts = pmemobj_direct(oid);
	for (int i = 0; i < threads; i++) {
		for (int slot = 0; slot < SLOTS; slot++)
			held += !OID_IS_NULL(parts[i].slots[slot]);
		for (int word = 0; word < 4; word++)
			words += parts[i].words[word];
	}
	TOID(struct element) element;
	POBJ_LIST_FOREACH(element, &root->list, links)
		elements++;
	printf("sum %lu guarded %lu words %lu\n", root->sum, root->guarded, words);
	printf("objects %lu of %lu, others %lu, elements %lu of %lu\n", objects[1], held, objects[3],
		objects[2], elements);
	pmemobj_close(pool);
	return 0;
}
