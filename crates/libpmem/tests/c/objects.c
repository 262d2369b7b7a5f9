/* A pool of Debian's libpmemobj, whose flushes are those of the libpmem that is loaded. */
#include <libpmemobj.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments)
{
	if (count != 2)
		return 3;
	PMEMobjpool *pool = pmemobj_create(arguments[1], "test", PMEMOBJ_MIN_POOL, 0600);
	if (pool == NULL)
		return 2;
	PMEMoid root = pmemobj_root(pool, 1 << 20);
	char *bytes = pmemobj_direct(root);
	for (int i = 0; i < 1000; i++) {
		TX_BEGIN(pool) {
			pmemobj_tx_add_range(root, i * 1000, 700);
			memset(bytes + i * 1000, i, 700);
			if (i % 3 == 0)
				pmemobj_tx_abort(1);
		} TX_END
		pmemobj_memset_persist(pool, bytes + i * 1000 + 700, i, 300);
	}
	pmemobj_close(pool);
	printf("check %d\n", pmemobj_check(arguments[1], "test"));
	pool = pmemobj_open(arguments[1], "test");
	if (pool == NULL)
		return 2;
	bytes = pmemobj_direct(pmemobj_root(pool, 1 << 20));
	unsigned long sum = 0;
	for (int i = 0; i < 1 << 20; i++)
		sum = sum * 31 + (unsigned char)bytes[i];
	printf("sum %lx\n", sum);
	pmemobj_close(pool);
	return 0;
}
