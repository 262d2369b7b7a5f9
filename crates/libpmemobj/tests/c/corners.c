/* Corners of libpmemobj's contract; a line for each, which both libraries print.
 *
 *     corners FOLDER
 */

#include <errno.h>
#include <fcntl.h>
#include <libpmemobj.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE (32UL << 20)
#define WAITING 180

struct locked {
	PMEMmutex mutex;
	PMEMrwlock rwlock;
	uint64_t value;
};

struct root {
	struct locked locked;
	PMEMoid first;
	uint64_t words[16];
	PMEMmutex mutexes[80];
};

/* An object with an OID in it, which leads to the next. */
struct node {
	PMEMoid next;
	uint64_t number;
};

static PMEMobjpool *pool;
static struct root *root;
static char path[4096];

static void open_pool(const char *folder, const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	pool = pmemobj_create(path, "corners", SIZE, 0600);
	if (pool == NULL) {
		fprintf(stderr, "%s\n", pmemobj_errormsg());
		exit(1);
	}
	root = pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
}

static void close_pool(void)
{
	pmemobj_close(pool);
	printf("  check %d\n", pmemobj_check(path, "corners"));
	unlink(path);
}

/* A file whose first page is zero can be made a pool, whatever else is in it. */
static void recreate(const char *folder)
{
	open_pool(folder, "recreate");
	for (int i = 0; i < 1000; i++)
		pmemobj_alloc(pool, NULL, 1000, 1, NULL, NULL);
	pmemobj_close(pool);
	char zeros[4096] = {0};
	int file = open(path, O_RDWR);
	if (pwrite(file, zeros, sizeof(zeros), 0) != sizeof(zeros) || close(file))
		exit(1);
	pool = pmemobj_create(path, "corners", 0, 0600);
	root = pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
	printf("recreate: %d, empty %d\n", pool != NULL, OID_IS_NULL(pmemobj_first(pool)));
	close_pool();
}

static void *wait_for_lock(void *argument)
{
	(void)argument;
	pmemobj_mutex_lock(pool, &root->locked.mutex);
	pmemobj_mutex_unlock(pool, &root->locked.mutex);
	pmemobj_rwlock_rdlock(pool, &root->locked.rwlock);
	pmemobj_rwlock_unlock(pool, &root->locked.rwlock);
	return NULL;
}

/* An abort rolls back the bytes around a lock, and not the lock that others wait for. */
static void abort_with_locks(int kind)
{
	pthread_t waiter;
	int held = 0;
	root->locked.value = 5;
	TX_BEGIN_PARAM(pool, TX_PARAM_MUTEX, &root->locked.mutex, TX_PARAM_RWLOCK,
		&root->locked.rwlock, TX_PARAM_NONE) {
		pmemobj_tx_add_range_direct(&root->locked, sizeof(root->locked));
		root->locked.value = 6;
		pthread_create(&waiter, NULL, wait_for_lock, NULL);
		usleep(20000);
		if (kind == 0)
			pmemobj_tx_abort(ECANCELED);
		else
			pmemobj_tx_alloc(SIZE, 1);
	} TX_ONABORT {
		held = pmemobj_mutex_trylock(pool, &root->locked.mutex);
	} TX_END
	pthread_join(waiter, NULL);
	printf("abort with locks: held %d, value %lu\n", held == EBUSY, root->locked.value);
}

/* OIDs in objects that are moved are found where they are then. */
static void defragment(void)
{
	enum { COUNT = 600 };
	static PMEMoid *places[COUNT];
	PMEMoid *place = &root->first;
	for (uint64_t i = 0; i < COUNT; i++) {
		PMEMoid gap;
		pmemobj_alloc(pool, &gap, 200, 2, NULL, NULL);
		if (pmemobj_zalloc(pool, place, sizeof(struct node), 1))
			exit(1);
		struct node *node = pmemobj_direct(*place);
		node->number = i;
		pmemobj_persist(pool, node, sizeof(*node));
		place = &node->next;
	}
	PMEMoid oid, next;
	for (oid = pmemobj_first(pool); !OID_IS_NULL(oid); oid = next) {
		next = pmemobj_next(oid);
		if (pmemobj_type_num(oid) == 2)
			pmemobj_free(&oid);
	}
	uint64_t before, after;
	pmemobj_ctl_get(pool, "stats.heap.run_active", &before);
	for (int round = 0; round < 3; round++) {
		size_t count = 0;
		for (place = &root->first; !OID_IS_NULL(*place);
			place = &((struct node *)pmemobj_direct(*place))->next)
			places[count++] = place;
		struct pobj_defrag_result result;
		int outcome = pmemobj_defrag(pool, places, count, &result);
		printf("defrag %zu: %d, total %zu\n", count, outcome, result.total);
	}
	pmemobj_ctl_get(pool, "stats.heap.run_active", &after);
	printf("no more space: %d\n", after <= before);
	uint64_t found = 0, wrong = 0;
	for (place = &root->first; !OID_IS_NULL(*place); found++) {
		struct node *node = pmemobj_direct(*place);
		wrong += node->number != found || pmemobj_type_num(*place) != 1;
		place = &node->next;
	}
	printf("found %lu, wrong %lu\n", found, wrong);
	PMEMoid foreign = {12345, 4096};
	places[0] = &foreign;
	printf("defrag of a foreign one: %d\n", pmemobj_defrag(pool, places, 1, NULL));
}

static pthread_barrier_t all_in;
static pthread_mutex_t outside = PTHREAD_MUTEX_INITIALIZER;

static void *in_transaction(void *argument)
{
	(void)argument;
	TX_BEGIN(pool) {
		pthread_barrier_wait(&all_in);
		pthread_mutex_lock(&outside);
		pthread_mutex_unlock(&outside);
	} TX_END
	return NULL;
}

/* Many transactions at once wait for a lock whose owner begins one, too. */
static void many_transactions(void)
{
	pthread_t threads[WAITING];
	pthread_barrier_init(&all_in, NULL, WAITING + 1);
	pthread_mutex_lock(&outside);
	for (int i = 0; i < WAITING; i++)
		pthread_create(&threads[i], NULL, in_transaction, NULL);
	pthread_barrier_wait(&all_in);
	TX_BEGIN(pool) {
		pmemobj_tx_add_range_direct(root->words, 8);
		root->words[0] = 1;
	} TX_END
	pthread_mutex_unlock(&outside);
	for (int i = 0; i < WAITING; i++)
		pthread_join(threads[i], NULL);
	printf("many transactions: %lu\n", root->words[0]);
}

/* A thread that ends in a transaction: its objects are not there, and nobody gets their space while
 * they could be. */
static void *ends_inside(void *argument)
{
	(void)argument;
	pmemobj_tx_begin(pool, NULL, TX_PARAM_NONE);
	for (int i = 0; i < 200; i++)
		memset(pmemobj_direct(pmemobj_tx_alloc(200, 8)), 8, 200);
	return NULL;
}

static void *begins_again(void *argument)
{
	(void)argument;
	TX_BEGIN(pool) {
		pmemobj_tx_alloc(200, 6);
	} TX_END
	return NULL;
}

static void thread_that_ends(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, ends_inside, NULL);
	pthread_join(thread, NULL);
	/* Short of room, lanes return what they have; this object is larger than the pool. */
	PMEMoid large;
	pmemobj_alloc(pool, &large, SIZE, 8, NULL, NULL);
	static PMEMoid oids[2000];
	int wrong = 0;
	for (int i = 0; i < 2000; i++) {
		if (pmemobj_alloc(pool, &oids[i], 200, 6, NULL, NULL))
			exit(1);
		memset(pmemobj_direct(oids[i]), i % 100, 200);
	}
	pthread_create(&thread, NULL, begins_again, NULL);
	pthread_join(thread, NULL);
	PMEMoid more[500];
	for (int i = 0; i < 500; i++) {
		pmemobj_alloc(pool, &more[i], 200, 6, NULL, NULL);
		memset(pmemobj_direct(more[i]), 101, 200);
	}
	for (int i = 0; i < 2000; i++)
		wrong += *(char *)pmemobj_direct(oids[i]) != i % 100;
	for (int i = 0; i < 2000; i++)
		pmemobj_free(&oids[i]);
	for (int i = 0; i < 500; i++)
		pmemobj_free(&more[i]);
	printf("a thread that ends: wrong %d\n", wrong);
}

static int entered;

static void *enters(void *argument)
{
	(void)argument;
	TX_BEGIN(pool) {
		__atomic_add_fetch(&entered, 1, __ATOMIC_SEQ_CST);
		pthread_mutex_lock(&outside);
		pthread_mutex_unlock(&outside);
	} TX_END
	return NULL;
}

/* More transactions than a pool has room for: who holds what they wait for can still allocate. */
static void more_than_lanes(void)
{
	enum { THREADS = 300 };
	pthread_t threads[THREADS];
	pthread_mutex_lock(&outside);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, enters, NULL);
	for (int before = -1, now; (now = __atomic_load_n(&entered, __ATOMIC_SEQ_CST)) != before ||
		now < 240; before = now)
		usleep(100000);
	PMEMoid oid;
	int outcome = pmemobj_alloc(pool, &oid, 100, 6, NULL, NULL);
	pmemobj_free(&oid);
	pthread_mutex_unlock(&outside);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("more than lanes: %d, %d\n", outcome, entered);
}

#define FOUR(n) TX_PARAM_MUTEX, &root->mutexes[n], TX_PARAM_MUTEX, &root->mutexes[(n) + 1],\
	TX_PARAM_MUTEX, &root->mutexes[(n) + 2], TX_PARAM_MUTEX, &root->mutexes[(n) + 3]
#define TWENTY(n) FOUR(n), FOUR((n) + 4), FOUR((n) + 8), FOUR((n) + 12), FOUR((n) + 16)

static void many_parameters(void)
{
	int held = 0;
	TX_BEGIN_PARAM(pool, TWENTY(0), TWENTY(20), TWENTY(40), TWENTY(60), TX_PARAM_NONE) {
		for (int i = 0; i < 80; i++)
			held += pmemobj_mutex_trylock(pool, &root->mutexes[i]) == EBUSY;
	} TX_END
	printf("many parameters: %d held\n", held);
}

static void values_outside(void)
{
	struct pobj_action actions[3];
	uint64_t here = 1;
	PMEMoid oid = pmemobj_reserve(pool, &actions[0], 100, 7);
	pmemobj_set_value(pool, &actions[1], &here, 2);
	pmemobj_set_value(pool, &actions[2], &root->words[1], 3);
	int outcome = pmemobj_publish(pool, actions, 3);
	printf("values: %d, %lu, %lu, type %lu\n", outcome, here, root->words[1], pmemobj_type_num(oid));
	pmemobj_reserve(pool, &actions[0], 100, 7);
	pmemobj_set_value(pool, &actions[1], &here, 4);
	TX_BEGIN(pool) {
		pmemobj_tx_publish(actions, 2);
	} TX_END
	printf("in a transaction: %lu\n", here);
}

static void other_pool(const char *folder)
{
	char other_path[4096];
	snprintf(other_path, sizeof(other_path), "%s/other", folder);
	PMEMobjpool *other = pmemobj_create(other_path, "other", SIZE, 0600);
	int stages = 0;
	TX_BEGIN(pool) {
		pmemobj_tx_set_failure_behavior(POBJ_TX_FAILURE_RETURN);
		TX_BEGIN(other) {
			stages += 1;
		} TX_END
		stages += 10;
	} TX_ONABORT {
		stages += 100;
	} TX_END
	printf("other pool: stages %d, errno %d\n", stages, pmemobj_tx_errno() == EINVAL);
	pmemobj_close(other);
	unlink(other_path);
}

static void tell(PMEMobjpool *in, enum pobj_tx_stage stage, void *argument)
{
	(void)in, (void)argument;
	printf(" %d", (int)stage);
}

/* A transaction whose stages are not gone through. */
static void no_stages(void)
{
	printf("commit and end:");
	pmemobj_tx_begin(pool, NULL, TX_PARAM_CB, tell, NULL, TX_PARAM_NONE);
	pmemobj_tx_commit();
	pmemobj_tx_end();
	printf("\nabort and end:");
	pmemobj_tx_begin(pool, NULL, TX_PARAM_CB, tell, NULL, TX_PARAM_NONE);
	pmemobj_tx_abort(1);
	pmemobj_tx_end();
	printf("\n");
}

static void many_objects(void)
{
	TX_BEGIN(pool) {
		for (int i = 0; i < 20000; i++)
			pmemobj_tx_zalloc(64, 9);
		/* An object that was allocated in the transaction, and a range beside it. */
		PMEMoid oid = pmemobj_tx_zalloc(1000, 9);
		pmemobj_tx_add_range(oid, 0, 100);
		pmemobj_tx_free(oid);
	} TX_END
	int count = 0;
	PMEMoid oid, next;
	for (oid = pmemobj_first(pool); !OID_IS_NULL(oid); oid = next) {
		next = pmemobj_next(oid);
		count += pmemobj_type_num(oid) == 9;
	}
	printf("many objects: %d\n", count);
}

/* Objects of allocation classes that align them. */
static void aligned(void)
{
	static const size_t alignments[] = {0, 64, 128, 1024};
	for (int kind = 0; kind < 4; kind++) {
		size_t alignment = alignments[kind], unit = 2048 + 1024 * (size_t)kind;
		struct pobj_alloc_class_desc class = {unit, alignment, 100, POBJ_HEADER_COMPACT, 0};
		int made = pmemobj_ctl_set(pool, "heap.alloc_class.new.desc", &class);
		uint64_t flags = POBJ_CLASS_ID(class.class_id);
		PMEMoid oids[20], copy = OID_NULL;
		size_t wrong = 0, usable = 0;
		for (int i = 0; i < 20; i++) {
			if (i % 3 == 0)
				pmemobj_xalloc(pool, &oids[i], unit - 16, 77, flags, NULL, NULL);
			else if (i % 3 == 1)
				TX_BEGIN(pool) {
					oids[i] = pmemobj_tx_xalloc(unit - 16, 77, flags | POBJ_XALLOC_ZERO);
				} TX_END
			else {
				struct pobj_action action;
				oids[i] = pmemobj_xreserve(pool, &action, unit - 16, 77, flags);
				pmemobj_publish(pool, &action, 1);
			}
			uint64_t *words = pmemobj_direct(oids[i]);
			memset(words, i, unit - 16);
			wrong += alignment && (uintptr_t)words % alignment != 0;
			wrong += pmemobj_type_num(oids[i]) != 77;
			usable += pmemobj_alloc_usable_size(oids[i]);
		}
		size_t found = 0;
		for (PMEMoid oid = pmemobj_first(pool); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
			found += pmemobj_type_num(oid) == 77;
		copy = oids[3];
		pmemobj_realloc(pool, &copy, 5000, 77);
		wrong += *(unsigned char *)pmemobj_direct(copy) != 3;
		oids[3] = copy;
		PMEMoid *places[] = {&oids[7], &oids[19]};
		wrong += pmemobj_defrag(pool, places, 2, NULL) != 0;
		wrong += *(unsigned char *)pmemobj_direct(oids[19]) != 19;
		for (int i = 0; i < 20; i++)
			pmemobj_free(&oids[i]);
		printf("aligned to %zu: %d, usable %zu, found %zu, wrong %zu\n", alignment, made, usable,
			found, wrong);
	}
	struct pobj_alloc_class_desc odd = {1000, 64, 100, POBJ_HEADER_COMPACT, 0};
	printf("odd: %d\n", pmemobj_ctl_set(pool, "heap.alloc_class.new.desc", &odd));
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* What waits for ever fails. */
	alarm(60);
	recreate(argv[1]);
	open_pool(argv[1], "pool");
	abort_with_locks(0);
	abort_with_locks(1);
	defragment();
	many_transactions();
	thread_that_ends();
	more_than_lanes();
	many_parameters();
	values_outside();
	other_pool(argv[1]);
	no_stages();
	many_objects();
	aligned();
	close_pool();
	return 0;
}
