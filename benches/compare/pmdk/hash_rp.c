/*
 * A robin hood hash map without transactions: the plan of hashmap_rp among PMDK's examples, its
 * fastest map. A change collects the words that it sets as actions and publishes them at once (a
 * redo log). The table is at most half full; a removed slot keeps its home, so that a search can
 * still tell how far it may go; doubling and halving fill a new table by plain stores.
 */
#include "inside.h"

#define CAPACITY_MIN 16
#define STEPS_MAX 150
#define WORDS_OF_A_SLOT 4
#define REMOVED (1ULL << 63)

/* `mark` is the home position + 1, or 0 if nothing was ever here. */
struct slot {
	uint64_t key;
	PMEMoid value;
	uint64_t mark;
};

struct head {
	uint64_t count;
	uint64_t capacity;
	PMEMoid slots;
};

/* The words that a change is going to set. */
struct changes {
	PMEMobjpool *pop;
	size_t count;
	struct pobj_action actions[WORDS_OF_A_SLOT * STEPS_MAX + 8];
};

static void
set(struct changes *changes, uint64_t *word, uint64_t value)
{
	pmemobj_set_value(changes->pop, &changes->actions[changes->count++], word, value);
}

static void
set_slot(struct changes *changes, struct slot *slot, const struct slot *to)
{
	if (changes == NULL) {
		*slot = *to;
		return;
	}
	set(changes, &slot->key, to->key);
	set(changes, &slot->value.pool_uuid_lo, to->value.pool_uuid_lo);
	set(changes, &slot->value.off, to->value.off);
	set(changes, &slot->mark, to->mark);
}

static int
publish(struct changes *changes)
{
	return pmemobj_publish(changes->pop, changes->actions, changes->count);
}

static uint64_t
home_of(uint64_t key, uint64_t mask)
{
	return mix(key) & mask;
}

static int
is_live(const struct slot *slot)
{
	return slot->mark != 0 && !(slot->mark & REMOVED);
}

/* Distance of the slot's entry from its home. */
static uint64_t
distance(const struct slot *slot, uint64_t at, uint64_t mask)
{
	return (at + 1 - (slot->mark & ~REMOVED)) & mask;
}

/*
 * Puts a key in its place and moves on entries that are closer to their home; 1 if it is new. The
 * key is passed in a register: a copy of a structure would wait in the store buffer for the fence
 * before it.
 */
static int
place(struct changes *changes, struct slot *slots, uint64_t mask, uint64_t key, PMEMoid value)
{
	uint64_t at = home_of(key, mask);
	uint64_t steps = 0;
	struct slot carried = {key, value, at + 1};
	for (int tries = 0; tries < STEPS_MAX; tries++) {
		struct slot *slot = &slots[at];
		if (slot->mark == 0) {
			set_slot(changes, slot, &carried);
			return 1;
		}
		if (slot->key == carried.key && is_live(slot)) {
			set_slot(changes, slot, &carried);
			return 0;
		}
		uint64_t theirs = distance(slot, at, mask);
		if (theirs < steps) {
			struct slot moved = *slot;
			set_slot(changes, slot, &carried);
			if (moved.mark & REMOVED)
				return 1;
			carried = moved;
			steps = theirs;
		}
		at = (at + 1) & mask;
		steps++;
	}
	return -1;
}

static struct slot *
find(const struct head *head, uint64_t key)
{
	struct slot *slots = pmemobj_direct(head->slots);
	uint64_t mask = head->capacity - 1;
	uint64_t at = home_of(key, mask);
	uint64_t mark = at + 1;
	for (uint64_t steps = 0;; steps++) {
		struct slot *slot = &slots[at];
		if (slot->mark == mark && slot->key == key)
			return slot;
		if (slot->mark == 0 || distance(slot, at, mask) < steps)
			return NULL;
		at = (at + 1) & mask;
	}
}

static int
init(PMEMobjpool *pop, void *where)
{
	struct head *head = where;
	size_t bytes = CAPACITY_MIN * sizeof(struct slot);
	head->count = 0;
	head->capacity = CAPACITY_MIN;
	pmemobj_persist(pop, head, sizeof(*head));
	return pmemobj_zalloc(pop, &head->slots, bytes, 21);
}

static int
clear(PMEMobjpool *pop, void *where)
{
	(void)pop;
	struct head *head = where;
	pmemobj_free(&head->slots);
	return 0;
}

static int
resize(PMEMobjpool *pop, struct head *head, uint64_t capacity)
{
	struct changes changes = {.pop = pop, .count = 1};
	size_t bytes = capacity * sizeof(struct slot);
	PMEMoid made = pmemobj_xreserve(pop, &changes.actions[0], bytes, 21, POBJ_XALLOC_ZERO);
	if (OID_IS_NULL(made))
		return -1;
	struct slot *slots = pmemobj_direct(made);
	const struct slot *old = pmemobj_direct(head->slots);
	for (uint64_t i = 0; i < head->capacity; i++) {
		if (!is_live(&old[i]))
			continue;
		if (place(NULL, slots, capacity - 1, old[i].key, old[i].value) < 0) {
			pmemobj_cancel(pop, changes.actions, changes.count);
			return -1;
		}
	}
	pmemobj_persist(pop, slots, bytes);
	pmemobj_defer_free(pop, head->slots, &changes.actions[changes.count++]);
	set(&changes, &head->slots.pool_uuid_lo, made.pool_uuid_lo);
	set(&changes, &head->slots.off, made.off);
	set(&changes, &head->capacity, capacity);
	return publish(&changes);
}

static int
insert(PMEMobjpool *pop, void *where, uint64_t key, PMEMoid value)
{
	struct head *head = where;
	if (2 * (head->count + 1) >= head->capacity && resize(pop, head, 2 * head->capacity) != 0)
		return -1;
	struct changes changes;
	changes.pop = pop;
	changes.count = 1;
	struct slot *slots = pmemobj_direct(head->slots);
	int is_new = place(&changes, slots, head->capacity - 1, key, value);
	if (is_new < 0) {
		pmemobj_cancel(pop, changes.actions + 1, changes.count - 1);
		return -1;
	}
	pmemobj_set_value(pop, &changes.actions[0], &head->count, head->count + is_new);
	return publish(&changes);
}

static PMEMoid
lookup(void *where, uint64_t key)
{
	const struct slot *slot = find(where, key);
	return slot == NULL ? OID_NULL : slot->value;
}

static int
remove_key(PMEMobjpool *pop, void *where, uint64_t key)
{
	struct head *head = where;
	struct slot *slot = find(head, key);
	if (slot == NULL)
		return 0;
	struct changes changes;
	changes.pop = pop;
	changes.count = 0;
	set(&changes, &slot->mark, slot->mark | REMOVED);
	set(&changes, &slot->value.pool_uuid_lo, 0);
	set(&changes, &slot->value.off, 0);
	set(&changes, &slot->key, 0);
	set(&changes, &head->count, head->count - 1);
	if (publish(&changes) != 0)
		return -1;
	uint64_t least = head->capacity / 4;
	if (least >= CAPACITY_MIN && head->count < least)
		return resize(pop, head, head->capacity / 2);
	return 0;
}

static uint64_t
count(void *where)
{
	const struct head *head = where;
	return head->count;
}

const struct map_form hash_rp_form = {
	.head_bytes = sizeof(struct head),
	.init = init,
	.clear = clear,
	.insert = insert,
	.lookup = lookup,
	.remove = remove_key,
	.count = count,
};
