/* Hundreds of threads make random calls on several pools: transactions in transactions, that commit
 * and abort, objects that are made, grown and freed with and without them, prepared actions,
 * elements that move between lists, locks of the pool with and without a time, settings, walks over
 * all objects, and pools that are opened and closed meanwhile. Each thread knows what its calls
 * have made of what is its own; afterwards the pools hold exactly that.
 *
 *     crowd FOLDER SEED THREADS CALLS
 *
 * The calls of each thread are the same for each seed; how they meet is not. */

#include <errno.h>
#include <libpmemobj.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POOLS 2
#define SLOTS 6
#define THREADS_MAX 512
#define OBJECT 1

TOID_DECLARE(struct element, 2);

struct element {
	uint64_t thread, value;
	POBJ_LIST_ENTRY(struct element) links;
};

POBJ_LIST_HEAD(list, struct element);

/* What belongs to one thread. */
struct part {
	PMEMoid slots[SLOTS];
	PMEMoid element;
	uint64_t word;
};

struct root {
	PMEMmutex mutex;
	PMEMrwlock rwlock;
	PMEMcond cond;
	struct list lists[2];
	uint64_t sum, guarded;
	struct part parts[THREADS_MAX];
};

struct object {
	uint64_t seed, words;
	uint64_t content[];
};

struct own {
	uint64_t number, state;
	/* Seed and words of the object in each slot; 0 if there is none. */
	uint64_t seed[POOLS][SLOTS], words[POOLS][SLOTS];
	uint64_t element[POOLS], word[POOLS], sum[POOLS], guarded[POOLS];
};

static struct own owns[THREADS_MAX];
static PMEMobjpool *pools[POOLS];
static struct root *roots[POOLS];
static const char *folder;
static long calls;

static void must(int holds, const char *what, uint64_t thread)
{
	if (!holds) {
		fprintf(stderr, "thread %lu: %s: %s\n", thread, what, pmemobj_errormsg());
		exit(1);
	}
}

static uint64_t below(struct own *own, uint64_t limit)
{
	own->state ^= own->state << 13;
	own->state ^= own->state >> 7;
	own->state ^= own->state << 17;
	return (own->state >> 11) % limit;
}

static void fill(struct object *object, uint64_t seed, uint64_t words)
{
	object->seed = seed;
	object->words = words;
	for (uint64_t at = 0; at < words; at++)
		object->content[at] = seed + at * 31;
}

static int is_filled(PMEMoid oid, uint64_t seed, uint64_t words)
{
	if (OID_IS_NULL(oid))
		return seed == 0;
	const struct object *object = pmemobj_direct(oid);
	int is_so = object->seed == seed && object->words == words;
	for (uint64_t at = 0; at < words && is_so; at++)
		is_so = object->content[at] == seed + at * 31;
	return is_so;
}

static size_t bytes_of(uint64_t words)
{
	return sizeof(struct object) + 8 * words;
}

static uint64_t some_words(struct own *own)
{
	return 1 + below(own, below(own, 20) ? 60 : 6000);
}

struct wanted {
	uint64_t seed, words;
};

static int construct(PMEMobjpool *pool, void *place, void *argument)
{
	const struct wanted *wanted = argument;
	fill(place, wanted->seed, wanted->words);
	pmemobj_persist(pool, place, bytes_of(wanted->words));
	return 0;
}

static void atomic_object(struct own *own, int p)
{
	uint64_t s = below(own, SLOTS), *seed = &own->seed[p][s], *words = &own->words[p][s];
	PMEMoid *slot = &roots[p]->parts[own->number].slots[s];
	must(is_filled(*slot, *seed, *words), "an object of its own", own->number);
	if (OID_IS_NULL(*slot)) {
		struct wanted wanted = {1 + below(own, 1ull << 40), some_words(own)};
		must(pmemobj_alloc(pools[p], slot, bytes_of(wanted.words), OBJECT, construct, &wanted) == 0,
			"pmemobj_alloc", own->number);
		*seed = wanted.seed;
		*words = wanted.words;
	} else if (below(own, 3) == 0) {
		size_t bytes = bytes_of(*words) + below(own, 3000);
		int failed = below(own, 2) ? pmemobj_realloc(pools[p], slot, bytes, OBJECT)
					   : pmemobj_zrealloc(pools[p], slot, bytes, OBJECT);
		must(failed == 0, "pmemobj_realloc", own->number);
		must(pmemobj_alloc_usable_size(*slot) >= bytes, "its bytes", own->number);
	} else {
		pmemobj_free(slot);
		*seed = 0;
	}
}

/* One change of a transaction, to what is the thread's own, as `after` then says. */
static void change(struct own *own, int p, struct own *after)
{
	struct part *part = &roots[p]->parts[own->number];
	uint64_t s = below(own, SLOTS), *seed = &after->seed[p][s], *words = &after->words[p][s];
	PMEMoid *slot = &part->slots[s];
	switch (below(own, 4)) {
	case 0:
		pmemobj_tx_add_range_direct(&part->word, sizeof(part->word));
		part->word = after->word[p] = below(own, 1ull << 40);
		break;
	default:
		must(is_filled(*slot, *seed, *words), "an object in a transaction", own->number);
		pmemobj_tx_add_range_direct(slot, sizeof(*slot));
		if (!OID_IS_NULL(*slot)) {
			pmemobj_tx_free(*slot);
			*slot = OID_NULL;
			*seed = 0;
		} else {
			*words = some_words(own);
			*seed = 1 + below(own, 1ull << 40);
			*slot = pmemobj_tx_alloc(bytes_of(*words), OBJECT);
			fill(pmemobj_direct(*slot), *seed, *words);
		}
	}
}

/* A transaction in which there may be others; an abort of an inner one ends all. */
static void nested(struct own *own, int p, struct own *after, int depth)
{
	struct root *root = roots[p];
	TX_BEGIN_PARAM(pools[p], TX_PARAM_MUTEX, &root->mutex, TX_PARAM_NONE) {
		pmemobj_tx_add_range_direct(&root->sum, sizeof(root->sum));
		root->sum++;
		after->sum[p]++;
		for (uint64_t left = 1 + below(own, 4); left > 0; left--)
			change(own, p, after);
		if (depth < 3 && below(own, 3) == 0)
			nested(own, p, after, depth + 1);
		if (below(own, 9) == 0)
			pmemobj_tx_abort(ECANCELED);
		if (below(own, 30) == 0)
			pmemobj_tx_alloc(1ull << 50, OBJECT);
	} TX_END
}

static void transaction(struct own *own, int p)
{
	struct own *after = malloc(sizeof(*after));
	*after = *own;
	volatile int is_done = 0;
	TX_BEGIN(pools[p]) {
		nested(own, p, after, 0);
	} TX_ONCOMMIT {
		is_done = 1;
	} TX_END
	if (is_done) {
		after->state = own->state;
		*own = *after;
	}
	free(after);
}

static void action(struct own *own, int p)
{
	uint64_t s = below(own, SLOTS), words = some_words(own), seed = 1 + below(own, 1ull << 40);
	PMEMoid *slot = &roots[p]->parts[own->number].slots[s];
	struct pobj_action actions[3];
	if (!OID_IS_NULL(*slot)) {
		pmemobj_defer_free(pools[p], *slot, &actions[0]);
		pmemobj_set_value(pools[p], &actions[1], &slot->off, 0);
		pmemobj_set_value(pools[p], &actions[2], &slot->pool_uuid_lo, 0);
		must(pmemobj_publish(pools[p], actions, 3) == 0, "pmemobj_publish", own->number);
		own->seed[p][s] = 0;
		return;
	}
	PMEMoid oid = pmemobj_reserve(pools[p], &actions[0], bytes_of(words), OBJECT);
	must(!OID_IS_NULL(oid), "pmemobj_reserve", own->number);
	fill(pmemobj_direct(oid), seed, words);
	pmemobj_persist(pools[p], pmemobj_direct(oid), bytes_of(words));
	pmemobj_set_value(pools[p], &actions[1], &slot->pool_uuid_lo, oid.pool_uuid_lo);
	pmemobj_set_value(pools[p], &actions[2], &slot->off, oid.off);
	if (below(own, 3) == 0) {
		pmemobj_cancel(pools[p], actions, 3);
		return;
	}
	must(pmemobj_publish(pools[p], actions, 3) == 0, "pmemobj_publish", own->number);
	own->seed[p][s] = seed;
	own->words[p][s] = words;
}

static int construct_element(PMEMobjpool *pool, void *place, void *argument)
{
	struct element *element = place;
	struct own *own = argument;
	element->thread = own->number;
	element->value = own->element[0];
	pmemobj_persist(pool, element, sizeof(*element));
	return 0;
}

static void list_call(struct own *own, int p)
{
	struct root *root = roots[p];
	PMEMoid *place = &root->parts[own->number].element;
	uint64_t in = own->element[p];
	if (in == 0) {
		struct list *list = &root->lists[below(own, 2)];
		own->element[p] = list == &root->lists[0] ? 1 : 2;
		size_t links = offsetof(struct element, links);
		PMEMoid oid = pmemobj_list_insert_new(pools[p], links, list, OID_NULL, (int)below(own, 2),
			sizeof(struct element), TOID_TYPE_NUM(struct element), construct_element, own);
		must(!OID_IS_NULL(oid), "pmemobj_list_insert_new", own->number);
		*place = oid;
		pmemobj_persist(pools[p], place, sizeof(*place));
		return;
	}
	TOID(struct element) element;
	TOID_ASSIGN(element, *place);
	struct list *list = &root->lists[in - 1], *other = &root->lists[2 - in];
	if (below(own, 2)) {
		must(POBJ_LIST_MOVE_ELEMENT_HEAD(pools[p], list, other, element, links, links) == 0,
			"POBJ_LIST_MOVE_ELEMENT_HEAD", own->number);
		own->element[p] = 3 - in;
	} else {
		must(POBJ_LIST_REMOVE_FREE(pools[p], list, element, links) == 0,
			"POBJ_LIST_REMOVE_FREE", own->number);
		own->element[p] = 0;
	}
}

static void lock(struct own *own, int p)
{
	struct root *root = roots[p];
	struct timespec soon;
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec = (soon.tv_nsec + 2000000) % 1000000000;
	switch (below(own, 4)) {
	case 0:
		pmemobj_rwlock_wrlock(pools[p], &root->rwlock);
		break;
	case 1:
		if (pmemobj_rwlock_timedwrlock(pools[p], &root->rwlock, &soon) != 0)
			return;
		break;
	case 2:
		pmemobj_mutex_lock(pools[p], &root->mutex);
		pmemobj_cond_timedwait(pools[p], &root->cond, &root->mutex, &soon);
		pmemobj_cond_broadcast(pools[p], &root->cond);
		pmemobj_mutex_unlock(pools[p], &root->mutex);
		return;
	default:
		if (pmemobj_rwlock_trywrlock(pools[p], &root->rwlock) != 0)
			return;
	}
	root->guarded++;
	own->guarded[p]++;
	pmemobj_persist(pools[p], &root->guarded, sizeof(root->guarded));
	pmemobj_rwlock_unlock(pools[p], &root->rwlock);
}

static void setting(struct own *own, int p)
{
	int on = (int)below(own, 2), number;
	uint64_t bytes;
	unsigned arenas;
	must(pmemobj_ctl_set(pools[p], "stats.enabled", &on) == 0, "stats.enabled", own->number);
	if (below(own, 8) == 0)
		must(pmemobj_ctl_get(pools[p], "stats.heap.curr_allocated", &bytes) == 0, "stats",
			own->number);
	must(pmemobj_ctl_get(pools[p], "heap.narenas.total", &arenas) == 0, "narenas", own->number);
	must(pmemobj_ctl_get(pools[p], "nothing.of.the.kind", &number) != 0, "nothing", own->number);
	must(pmemobj_ctl_get(pools[p], "prefault.at_open", &number) == 0, "prefault", own->number);
}

/* Pools that come and go: whoever has one uses it. */
static void visit(struct own *own)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/visited-%lu", folder, below(own, 3));
	PMEMobjpool *pool = pmemobj_open(path, "crowd");
	if (pool == NULL)
		pool = pmemobj_create(path, "crowd", PMEMOBJ_MIN_POOL, 0600);
	if (pool == NULL)
		return;
	PMEMoid oid, root = pmemobj_root(pool, 64);
	must(!OID_IS_NULL(root), "pmemobj_root", own->number);
	must(pmemobj_alloc(pool, &oid, 100, OBJECT, NULL, NULL) == 0, "alloc", own->number);
	TX_BEGIN(pool) {
		pmemobj_tx_free(oid);
	} TX_ONABORT {
		must(0, "a transaction in a pool that comes and goes", own->number);
	} TX_END
	pmemobj_close(pool);
}

static void *work(void *argument)
{
	struct own *own = argument;
	for (long call = 0; call < calls; call++) {
		int p = (int)below(own, POOLS);
		switch (below(own, 24)) {
		case 0:
			setting(own, p);
			break;
		case 1:
			if (below(own, 8) == 0)
				visit(own);
			break;
		case 2: case 3:
			lock(own, p);
			break;
		case 4: case 5: case 6:
			list_call(own, p);
			break;
		case 7: case 8: case 9:
			action(own, p);
			break;
		case 10: case 11: case 12: case 13: case 14:
			atomic_object(own, p);
			break;
		case 15: {
			uint64_t *word = &roots[p]->parts[own->number].word;
			must(*word == own->word[p], "a word of its own", own->number);
			own->word[p] = below(own, 1ull << 40);
			pmemobj_memcpy_persist(pools[p], word, &own->word[p], sizeof(*word));
			break;
		}
		default:
			transaction(own, p);
		}
	}
	return NULL;
}

static void check(int p, uint64_t threads)
{
	uint64_t objects = 0, right = 0, sum = 0, guarded = 0, elements[2] = {0}, right_in[2] = {0};
	struct root *root = roots[p];
	for (uint64_t t = 0; t < threads; t++) {
		const struct part *part = &root->parts[t];
		for (int s = 0; s < SLOTS; s++) {
			const uint64_t seed = owns[t].seed[p][s];
			must(is_filled(part->slots[s], seed, owns[t].words[p][s]), "an object at the end", t);
			right += seed != 0;
		}
		must(part->word == owns[t].word[p], "a word at the end", t);
		sum += owns[t].sum[p];
		guarded += owns[t].guarded[p];
		if (owns[t].element[p] != 0)
			right_in[owns[t].element[p] - 1]++;
	}
	PMEMoid oid;
	POBJ_FOREACH(pools[p], oid)
		objects += pmemobj_type_num(oid) == OBJECT;
	TOID(struct element) element;
	for (int in = 0; in < 2; in++) {
		POBJ_LIST_FOREACH(element, &root->lists[in], links)
			elements[in]++;
		must(elements[in] == right_in[in], "the elements of a list", threads);
	}
	must(objects == right, "objects are lost", threads);
	must(root->sum == sum, "the sum", threads);
	must(root->guarded == guarded, "what a lock guards", threads);
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	folder = argv[1];
	uint64_t seed = strtoull(argv[2], NULL, 10), threads = strtoull(argv[3], NULL, 10);
	calls = atol(argv[4]);
	if (threads > THREADS_MAX)
		return 2;
	char path[4096];
	for (int p = 0; p < POOLS; p++) {
		snprintf(path, sizeof(path), "%s/pool-%d", folder, p);
		pools[p] = pmemobj_create(path, "crowd", 128 << 20, 0600);
		must(pools[p] != NULL, "pmemobj_create", 0);
		roots[p] = pmemobj_direct(pmemobj_root(pools[p], sizeof(struct root)));
	}
	pthread_t ids[THREADS_MAX];
	for (uint64_t at = 0; at < threads; at++) {
		owns[at].number = at;
		owns[at].state = (seed * 1000 + at + 1) * 0x9e3779b97f4a7c15;
		must(pthread_create(&ids[at], NULL, work, &owns[at]) == 0, "pthread_create", at);
	}
	for (uint64_t at = 0; at < threads; at++)
		pthread_join(ids[at], NULL);
	for (int p = 0; p < POOLS; p++) {
		snprintf(path, sizeof(path), "%s/pool-%d", folder, p);
		check(p, threads);
		pmemobj_close(pools[p]);
		must(pmemobj_check(path, "crowd") == 1, "pmemobj_check", threads);
		pools[p] = pmemobj_open(path, "crowd");
		must(pools[p] != NULL, "pmemobj_open", threads);
		roots[p] = pmemobj_direct(pmemobj_root(pools[p], sizeof(struct root)));
		check(p, threads);
		pmemobj_close(pools[p]);
	}
	printf("%lu threads, %ld calls each: as they left it\n", threads, calls);
	return 0;
}
