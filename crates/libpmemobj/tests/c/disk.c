/* A pool on an ordinary disk: what is persisted is written by msync, however it was stored. A line
 * for each way, with the kilobytes of the pool that are not written behind it.
 *
 *     disk POOL
 */

#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (256 << 10)

static PMEMobjpool *pool;

/* Kilobytes of the pool's mapping that are dirty. */
static long dirty(void)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	char line[512];
	unsigned long from, to;
	long sum = 0, kilobytes;
	int is_pool = 0;
	while (maps != NULL && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			is_pool = from == (unsigned long)pool;
		else if (is_pool && (sscanf(line, "Shared_Dirty: %ld", &kilobytes) == 1 ||
			sscanf(line, "Private_Dirty: %ld", &kilobytes) == 1))
			sum += kilobytes;
	}
	fclose(maps);
	return sum;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	pool = pmemobj_create(argv[1], "disk", 32 << 20, 0600);
	if (pool == NULL)
		return 1;
	PMEMoid root = pmemobj_root(pool, BYTES);
	char *bytes = pmemobj_direct(root);
	static char from[BYTES];
	memset(bytes, 1, BYTES);
	printf("plain %ld\n", dirty());
	pmemobj_persist(pool, bytes, BYTES);
	printf("persist %ld\n", dirty());
	pmemobj_memcpy_persist(pool, bytes, from, BYTES);
	printf("memcpy %ld\n", dirty());
	pmemobj_memcpy(pool, bytes, from, BYTES, PMEMOBJ_F_MEM_NONTEMPORAL);
	printf("memcpy past the caches %ld\n", dirty());
	pmemobj_memset_persist(pool, bytes, 2, BYTES);
	printf("memset %ld\n", dirty());
	TX_BEGIN(pool) {
		pmemobj_tx_add_range(root, 0, BYTES);
		memset(bytes, 3, BYTES);
	} TX_END
	printf("transaction %ld\n", dirty());
	PMEMoid oid;
	pmemobj_zalloc(pool, &oid, BYTES, 1);
	printf("zalloc %ld\n", dirty());
	pmemobj_close(pool);
	return 0;
}
