/* Declarations that only the files of this folder share. */
#ifndef COMPARE_INSIDE_H
#define COMPARE_INSIDE_H

#include "pmdk.h"
#include <libpmemobj.h>

struct pmdk_pool {
	PMEMobjpool *pop;
	struct root *root;
};

/* One kind of map: its functions do one operation each on the persistent object at `head`. */
struct map_form {
	size_t head_bytes;
	int (*init)(PMEMobjpool *pop, void *head);
	int (*clear)(PMEMobjpool *pop, void *head);
	int (*insert)(PMEMobjpool *pop, void *head, uint64_t key, PMEMoid value);
	PMEMoid (*lookup)(void *head, uint64_t key);
	int (*remove)(PMEMobjpool *pop, void *head, uint64_t key);
	uint64_t (*count)(void *head);
};

extern const struct map_form hash_tx_form;
extern const struct map_form hash_rp_form;
extern const struct map_form btree_form;
extern const struct map_form hash_atomic_form;
extern const struct map_form rbtree_form;

/* Mixes all bits of a key. */
static inline uint64_t
mix(uint64_t key)
{
	key = (key ^ (key >> 32)) * 0xd6e8feb86659fd93ULL;
	key = (key ^ (key >> 32)) * 0xd6e8feb86659fd93ULL;
	return key ^ (key >> 32);
}

#endif
