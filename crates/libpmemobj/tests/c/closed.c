/* Calls on a pool that was closed, and on none: errors, where PMDK's library ends the program.
 *
 *     closed POOL
 */

#include <errno.h>
#include <libpmemobj.h>
#include <stdio.h>

#define SHOW(text, call)\
	do {\
		errno = 0;\
		long given = (long)(call);\
		printf("%s: %ld errno %d\n", text, given, errno == EINVAL);\
	} while (0)

static void calls(PMEMobjpool *pool, PMEMoid oid, PMEMmutex *mutex)
{
	PMEMoid place = OID_NULL;
	struct pobj_action action;
	SHOW("alloc", pmemobj_alloc(pool, &place, 10, 1, NULL, NULL));
	SHOW("root", OID_IS_NULL(pmemobj_root(pool, 10)));
	SHOW("first", OID_IS_NULL(pmemobj_first(pool)));
	SHOW("reserve", OID_IS_NULL(pmemobj_reserve(pool, &action, 10, 1)));
	SHOW("reserve of no bytes", OID_IS_NULL(pmemobj_reserve(pool, &action, 0, 1)));
	SHOW("publish", pmemobj_publish(pool, &action, 0));
	SHOW("lock", pmemobj_mutex_lock(pool, mutex) == EINVAL);
	SHOW("user data", (long)pmemobj_get_user_data(pool));
	SHOW("direct", (long)pmemobj_direct(oid));
	SHOW("type", pmemobj_type_num(oid));
	SHOW("free", (pmemobj_free(&oid), OID_IS_NULL(oid)));
	SHOW("close", (pmemobj_close(pool), 0));
	int stages = 0;
	TX_BEGIN(pool) {
		stages += 1;
	} TX_ONABORT {
		stages += 10;
	} TX_FINALLY {
		stages += 100;
	} TX_END
	printf("transaction: stages %d, errno %d\n", stages, pmemobj_tx_errno() == EINVAL);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	PMEMobjpool *pool = pmemobj_create(argv[1], "closed", PMEMOBJ_MIN_POOL, 0600);
	PMEMoid root = pmemobj_root(pool, 1000);
	static PMEMmutex mutex;
	pmemobj_close(pool);
	calls(pool, root, &mutex);
	calls(NULL, root, &mutex);
	/* A transaction works after one that could not be begun. */
	pool = pmemobj_open(argv[1], "closed");
	TX_BEGIN(pool) {
		pmemobj_tx_alloc(100, 1);
	} TX_END
	printf("works: %d, %d\n", pmemobj_tx_errno(), !OID_IS_NULL(pmemobj_first(pool)));
	PMEMoid twice = pmemobj_first(pool);
	PMEMoid again = twice;
	pmemobj_free(&twice);
	SHOW("free twice", (pmemobj_free(&again), 0));
	pmemobj_close(pool);
	return 0;
}
