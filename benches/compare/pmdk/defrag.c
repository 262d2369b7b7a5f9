/* Objects in slots of a table, which come and go, and pmemobj_defrag, which moves them together. */
#include "inside.h"
#include <stdlib.h>
#include <string.h>

#define OBJECT_BYTES 128

struct pmdk_slots {
	PMEMobjpool *pop;
	PMEMoid *slots;
	uint64_t count;
};

struct pmdk_slots *
pmdk_slots_new(const char *path, uint64_t bytes, uint64_t count)
{
	PMEMobjpool *pop = pmemobj_create(path, "seawall-defrag", bytes, 0600);
	if (pop == NULL)
		return NULL;
	PMEMoid root = pmemobj_root(pop, sizeof(PMEMoid) * count);
	struct pmdk_slots *slots = malloc(sizeof(*slots));
	if (slots == NULL || OID_IS_NULL(root)) {
		free(slots);
		pmemobj_close(pop);
		return NULL;
	}
	slots->pop = pop;
	slots->slots = pmemobj_direct(root);
	slots->count = count;
	return slots;
}

void
pmdk_slots_close(struct pmdk_slots *slots)
{
	pmemobj_close(slots->pop);
	free(slots);
}

static int
fill(PMEMobjpool *pop, void *object, void *value)
{
	uint64_t words[OBJECT_BYTES / sizeof(uint64_t)];
	for (size_t word = 0; word < OBJECT_BYTES / sizeof(uint64_t); word++)
		words[word] = *(uint64_t *)value;
	pmemobj_memcpy_persist(pop, object, words, OBJECT_BYTES);
	return 0;
}

int
pmdk_slots_put(struct pmdk_slots *slots, uint64_t slot)
{
	return pmemobj_alloc(slots->pop, &slots->slots[slot], OBJECT_BYTES, 2, fill, &slot);
}

void
pmdk_slots_take(struct pmdk_slots *slots, uint64_t slot)
{
	pmemobj_free(&slots->slots[slot]);
}

uint64_t
pmdk_slots_at(struct pmdk_slots *slots, uint64_t slot)
{
	return slots->slots[slot].off;
}

uint64_t
pmdk_slots_value(struct pmdk_slots *slots, uint64_t slot)
{
	return *(uint64_t *)pmemobj_direct(slots->slots[slot]);
}

int
pmdk_slots_defrag(struct pmdk_slots *slots)
{
	PMEMoid **all = malloc(sizeof(*all) * slots->count);
	size_t count = 0;
	struct pobj_defrag_result result;
	if (all == NULL)
		return -1;
	for (uint64_t slot = 0; slot < slots->count; slot++)
		if (!OID_IS_NULL(slots->slots[slot]))
			all[count++] = &slots->slots[slot];
	int status = pmemobj_defrag(slots->pop, all, count, &result);
	free(all);
	return status;
}
