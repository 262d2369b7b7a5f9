/* Opens a pool that may be damaged, and does what does not follow a pointer of the program: 0 if the
 * pool opens, 1 if it is refused by a text.
 *
 *     hostile POOL
 */

#include <libpmemobj.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	int whole = pmemobj_check(argv[1], "script");
	PMEMobjpool *pool = pmemobj_open(argv[1], NULL);
	if (pool == NULL) {
		printf("%d, refused: %s\n", whole, pmemobj_errormsg());
		return 1;
	}
	int count = 0;
	for (PMEMoid oid = pmemobj_first(pool); !OID_IS_NULL(oid) && count < 100000; count++)
		oid = pmemobj_next(oid);
	PMEMoid oid = OID_NULL;
	pmemobj_alloc(pool, &oid, 100, 1, NULL, NULL);
	pmemobj_free(&oid);
	TX_BEGIN(pool) {
		pmemobj_tx_alloc(5000, 1);
		pmemobj_tx_alloc(100000, 1);
		pmemobj_tx_free(pmemobj_first(pool));
	} TX_END
	pmemobj_root(pool, pmemobj_root_size(pool) + 100);
	printf("%d, opened, %d objects\n", whole, count);
	pmemobj_close(pool);
	return 0;
}
