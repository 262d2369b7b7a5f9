/*
 * As many threads as PMEMOBJ_NLANES says are in transactions at the same time, and each makes a
 * call beside its own: lanes FILE THREADS.
 */
#include <libpmemobj.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static PMEMobjpool *pool;
static pthread_barrier_t all_inside;

static void *transaction(void *count)
{
	PMEMoid beside;
	TX_BEGIN(pool) {
		pthread_barrier_wait(&all_inside);
		pmemobj_tx_alloc(100, 1);
		if (pmemobj_alloc(pool, &beside, 100, 2, NULL, NULL) == 0)
			++*(int *)count;
		pthread_barrier_wait(&all_inside);
	} TX_END
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	int threads = atoi(argv[2]), done = 0;
	pthread_t started[64];
	int counts[64] = {0};
	/* What waits for ever fails. */
	alarm(60);
	pool = pmemobj_create(argv[1], "lanes", 16 << 20, 0600);
	if (pool == NULL || threads > 64)
		return 1;
	pthread_barrier_init(&all_inside, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++)
		pthread_create(&started[i], NULL, transaction, &counts[i]);
	for (int i = 0; i < threads; i++) {
		pthread_join(started[i], NULL);
		done += counts[i];
	}
	int found = 0;
	for (PMEMoid oid = pmemobj_first(pool); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
		found++;
	printf("%d threads, %d calls, %d objects\n", threads, done, found);
	pmemobj_close(pool);
	return 0;
}
