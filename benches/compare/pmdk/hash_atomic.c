/*
 * A hash map whose changes are single atomic calls: the plan of hashmap_atomic among PMDK's
 * examples. Each bucket is an atomic list; an entry is made and linked by one call, and unlinked and
 * freed by one. The number of buckets is fixed, at one for eight keys of a full benchmark.
 */
#include "inside.h"

#define BUCKETS (1 << 14)

TOID_DECLARE(struct entry, 31);

struct entry {
	uint64_t key;
	PMEMoid value;
	POBJ_LIST_ENTRY(struct entry) links;
};

POBJ_LIST_HEAD(entries, struct entry);

struct head {
	uint64_t count;
	PMEMoid buckets;
};

struct content {
	uint64_t key;
	PMEMoid value;
};

static struct entries *
bucket_of(const struct head *head, uint64_t key)
{
	struct entries *buckets = pmemobj_direct(head->buckets);
	return &buckets[mix(key) & (BUCKETS - 1)];
}

static int
construct(PMEMobjpool *pop, void *place, void *argument)
{
	struct entry *entry = place;
	const struct content *content = argument;
	entry->key = content->key;
	entry->value = content->value;
	pmemobj_persist(pop, entry, sizeof(*entry));
	return 0;
}

static TOID(struct entry)
find(const struct head *head, uint64_t key)
{
	TOID(struct entry) entry;
	POBJ_LIST_FOREACH(entry, bucket_of(head, key), links)
		if (D_RO(entry)->key == key)
			break;
	return entry;
}

static void
add_to_count(PMEMobjpool *pop, struct head *head, uint64_t by)
{
	head->count += by;
	pmemobj_persist(pop, &head->count, sizeof(head->count));
}

static int
init(PMEMobjpool *pop, void *where)
{
	struct head *head = where;
	head->count = 0;
	pmemobj_persist(pop, &head->count, sizeof(head->count));
	return pmemobj_zalloc(pop, &head->buckets, BUCKETS * sizeof(struct entries), 32);
}

static int
clear(PMEMobjpool *pop, void *where)
{
	(void)pop;
	struct head *head = where;
	pmemobj_free(&head->buckets);
	return 0;
}

static int
insert(PMEMobjpool *pop, void *where, uint64_t key, PMEMoid value)
{
	struct head *head = where;
	TOID(struct entry) there = find(head, key);
	if (!TOID_IS_NULL(there)) {
		pmemobj_memcpy_persist(pop, &D_RW(there)->value, &value, sizeof(value));
		return 0;
	}
	struct content content = {key, value};
	PMEMoid made = POBJ_LIST_INSERT_NEW_HEAD(pop, bucket_of(head, key), links,
		sizeof(struct entry), construct, &content);
	if (OID_IS_NULL(made))
		return -1;
	add_to_count(pop, head, 1);
	return 0;
}

static PMEMoid
lookup(void *where, uint64_t key)
{
	TOID(struct entry) entry = find(where, key);
	return TOID_IS_NULL(entry) ? OID_NULL : D_RO(entry)->value;
}

static int
remove_key(PMEMobjpool *pop, void *where, uint64_t key)
{
	struct head *head = where;
	TOID(struct entry) entry = find(head, key);
	if (TOID_IS_NULL(entry))
		return 0;
	if (POBJ_LIST_REMOVE_FREE(pop, bucket_of(head, key), entry, links))
		return -1;
	add_to_count(pop, head, (uint64_t)-1);
	return 0;
}

static uint64_t
count(void *where)
{
	return ((struct head *)where)->count;
}

const struct map_form hash_atomic_form = {
	.head_bytes = sizeof(struct head),
	.init = init,
	.clear = clear,
	.insert = insert,
	.lookup = lookup,
	.remove = remove_key,
	.count = count,
};
