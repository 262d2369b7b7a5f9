/* A pool that is full: an object of every kind of call is freed for each new one, all are freed by
 * one transaction, and there is room for other sizes then. Arguments: pool. */
#include <assert.h>
#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 1000000

static PMEMobjpool *pop;
static PMEMoid objects[MOST];
static size_t first, end;

static int atomic(PMEMoid *oid, size_t size)
{
	return pmemobj_alloc(pop, oid, size, 1, NULL, NULL);
}

static int reserved(PMEMoid *oid, size_t size)
{
	struct pobj_action action;
	*oid = pmemobj_reserve(pop, &action, size, 1);
	return OID_IS_NULL(*oid) ? -1 : pmemobj_publish(pop, &action, 1);
}

static int in_tx(PMEMoid *oid, size_t size)
{
	int failed = 0;
	TX_BEGIN(pop) {
		*oid = pmemobj_tx_alloc(size, 1);
	} TX_ONABORT {
		failed = -1;
	} TX_END
	return failed;
}

typedef int (*alloc_call)(PMEMoid *, size_t);

static void fill(alloc_call alloc, size_t size)
{
	while (!alloc(&objects[end], size)) {
		assert(pmemobj_alloc_usable_size(objects[end]) >= size);
		end++;
	}
}

static void free_all(void)
{
	TX_BEGIN(pop) {
		for (size_t i = first; i < end; i++)
			pmemobj_tx_free(objects[i]);
	} TX_ONABORT {
		assert(!"freeing needs room");
	} TX_END
	first = end = 0;
}

int main(int argc, char **argv)
{
	static const alloc_call calls[] = {atomic, reserved, in_tx};
	static const size_t sizes[] = {16, 100, 1000, 10000, 100000};
	assert(argc == 2);
	pop = pmemobj_create(argv[1], "full", 16 << 20, 0600);
	assert(pop);
	for (int i = 0; i < 15; i++) {
		alloc_call alloc = calls[i % 3];
		size_t size = sizes[i % 5], other = sizes[(i + 2) % 5];
		fill(alloc, size);
		assert(end > 100);
		for (int puts = 0; puts < 1000; puts++) {
			if (puts % 100 == 0)
				assert(alloc(&objects[end], 12 << 20));
			pmemobj_free(&objects[first++]);
			assert(!alloc(&objects[end++], size));
		}
		size_t count = end - first;
		assert(alloc(&objects[end], size));
		free_all();
		assert(!alloc(&objects[end++], other));
		free_all();
		fill(alloc, size);
		/* An object of the other size has parted two runs. */
		assert(end + 1 >= count);
		free_all();
	}
	pmemobj_close(pop);
	assert(pmemobj_check(argv[1], "full") == 1);
	return 0;
}
