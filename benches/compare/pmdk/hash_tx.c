/*
 * A hash map of chained buckets where each change is one transaction: the plan of hashmap_tx among
 * PMDK's examples. An insert snapshots the bucket and the count and allocates the entry inside the
 * transaction. The table doubles when a long chain is met at more than 7/4 entries a bucket, and
 * halves below one; then every entry moves in a single transaction. The example doubles at two
 * entries a bucket or at any chain of more than ten, which chance brings at about 7/4 or, in every
 * second run of a million keys, once more just before their end; here chance has no part.
 */
#include "inside.h"

#define BUCKETS_MIN 10
#define CHAIN_LONG 5

struct entry {
	uint64_t key;
	PMEMoid value;
	PMEMoid next;
};

struct table {
	uint64_t buckets;
	PMEMoid first[];
};

struct head {
	PMEMoid table;
	uint64_t count;
};

static struct table *
table_of(const struct head *head)
{
	return pmemobj_direct(head->table);
}

static struct entry *
entry_of(PMEMoid entry)
{
	return pmemobj_direct(entry);
}

static PMEMoid *
bucket_of(struct table *table, uint64_t key)
{
	return &table->first[(unsigned __int128)mix(key) * table->buckets >> 64];
}

static size_t
table_bytes(uint64_t buckets)
{
	return sizeof(struct table) + buckets * sizeof(PMEMoid);
}

static PMEMoid
new_table(uint64_t buckets)
{
	PMEMoid oid = pmemobj_tx_zalloc(table_bytes(buckets), 11);
	struct table *table = pmemobj_direct(oid);
	table->buckets = buckets;
	return oid;
}

static int
init(PMEMobjpool *pop, void *where)
{
	volatile int failed = 0;
	struct head *head = where;
	TX_BEGIN(pop) {
		pmemobj_tx_add_range_direct(head, sizeof(*head));
		head->count = 0;
		head->table = new_table(BUCKETS_MIN);
	} TX_ONABORT {
		failed = -1;
	} TX_END
	return failed;
}

static int
clear(PMEMobjpool *pop, void *where)
{
	volatile int failed = 0;
	struct head *head = where;
	TX_BEGIN(pop) {
		pmemobj_tx_add_range_direct(&head->table, sizeof(head->table));
		pmemobj_tx_free(head->table);
		head->table = OID_NULL;
	} TX_ONABORT {
		failed = -1;
	} TX_END
	return failed;
}

static int
resize(PMEMobjpool *pop, struct head *head, uint64_t buckets)
{
	volatile int failed = 0;
	struct table *old = table_of(head);
	TX_BEGIN(pop) {
		pmemobj_tx_add_range_direct(&head->table, sizeof(head->table));
		pmemobj_tx_add_range_direct(old, table_bytes(old->buckets));
		PMEMoid made = new_table(buckets);
		struct table *table = pmemobj_direct(made);
		for (uint64_t i = 0; i < old->buckets; i++) {
			PMEMoid at = old->first[i];
			while (!OID_IS_NULL(at)) {
				struct entry *entry = entry_of(at);
				PMEMoid next = entry->next;
				PMEMoid *bucket = bucket_of(table, entry->key);
				pmemobj_tx_add_range_direct(&entry->next, sizeof(entry->next));
				entry->next = *bucket;
				*bucket = at;
				at = next;
			}
		}
		pmemobj_tx_free(head->table);
		head->table = made;
	} TX_ONABORT {
		failed = -1;
	} TX_END
	return failed;
}

static int
insert(PMEMobjpool *pop, void *where, uint64_t key, PMEMoid value)
{
	volatile int failed = 0;
	struct head *head = where;
	struct table *table = table_of(head);
	PMEMoid *bucket = bucket_of(table, key);
	unsigned length = 1;
	for (PMEMoid at = *bucket; !OID_IS_NULL(at); at = entry_of(at)->next) {
		if (entry_of(at)->key == key)
			return -1;
		length++;
	}
	TX_BEGIN(pop) {
		pmemobj_tx_add_range_direct(bucket, sizeof(*bucket));
		pmemobj_tx_add_range_direct(&head->count, sizeof(head->count));
		PMEMoid made = pmemobj_tx_alloc(sizeof(struct entry), 12);
		struct entry *entry = entry_of(made);
		entry->key = key;
		entry->value = value;
		entry->next = *bucket;
		*bucket = made;
		head->count++;
	} TX_ONABORT {
		failed = -1;
	} TX_END
	if (failed)
		return -1;
	if (length > CHAIN_LONG && 4 * head->count > 7 * table->buckets)
		return resize(pop, head, 2 * table->buckets);
	return 0;
}

static PMEMoid
lookup(void *where, uint64_t key)
{
	PMEMoid at = *bucket_of(table_of(where), key);
	while (!OID_IS_NULL(at)) {
		const struct entry *entry = entry_of(at);
		if (entry->key == key)
			return entry->value;
		at = entry->next;
	}
	return OID_NULL;
}

static int
remove_key(PMEMobjpool *pop, void *where, uint64_t key)
{
	volatile int failed = 0;
	struct head *head = where;
	struct table *table = table_of(head);
	PMEMoid *link = bucket_of(table, key);
	while (!OID_IS_NULL(*link) && entry_of(*link)->key != key)
		link = &entry_of(*link)->next;
	if (OID_IS_NULL(*link))
		return 0;
	TX_BEGIN(pop) {
		PMEMoid gone = *link;
		pmemobj_tx_add_range_direct(link, sizeof(*link));
		pmemobj_tx_add_range_direct(&head->count, sizeof(head->count));
		*link = entry_of(gone)->next;
		head->count--;
		pmemobj_tx_free(gone);
	} TX_ONABORT {
		failed = -1;
	} TX_END
	if (!failed && head->count < table->buckets && table->buckets > BUCKETS_MIN)
		return resize(pop, head, table->buckets / 2);
	return failed;
}

static uint64_t
count(void *where)
{
	const struct head *head = where;
	return head->count;
}

const struct map_form hash_tx_form = {
	.head_bytes = sizeof(struct head),
	.init = init,
	.clear = clear,
	.insert = insert,
	.lookup = lookup,
	.remove = remove_key,
	.count = count,
};
