/* A script of calls that a seed determines. What it leaves in the pool does not depend on the
 * library, so two libraries can be compared, and a pool that a kill has left with whole runs.
 *
 *     script run POOL SEED STEPS [KILL]    does the steps, and writes the number of each when it has
 *                                          returned; in step KILL it kills itself half-way
 *     script dump POOL                     writes what the pool holds
 *
 * Every step is atomic with respect to crashes. */

#include <libpmemobj.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS 48
#define WORDS 64
#define LISTS 2

/* More than any pool of this program has. */
#define TOO_LARGE (1UL << 30)

enum { OBJECT = 1, ELEMENT = 2, TEXT = 3 };

/* The beginning of an object; a pattern that `seed` determines is behind it. */
struct object {
	uint32_t length;
	uint32_t seed;
	unsigned char bytes[];
};

TOID_DECLARE(struct element, ELEMENT);

struct element {
	uint64_t value;
	POBJ_LIST_ENTRY(struct element) links;
};

POBJ_LIST_HEAD(list, struct element);

struct root {
	PMEMoid slots[SLOTS];
	uint64_t words[WORDS];
	struct list lists[LISTS];
	PMEMmutex mutex;
};

static PMEMobjpool *pool;
static struct root *root;
static uint64_t state;
static int kills;

static uint64_t rnd(uint64_t below)
{
	state += 0x9e3779b97f4a7c15;
	uint64_t z = state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (z ^ (z >> 31)) % below;
}

/* Half-way through a step. */
static void half_way(void)
{
	if (kills)
		raise(SIGKILL);
}

static unsigned char pattern(uint32_t seed, size_t place)
{
	return (unsigned char)(seed * 31 + place * 7 + (place >> 8));
}

static void fill(struct object *object, uint32_t length, uint32_t seed)
{
	object->length = length;
	object->seed = seed;
	for (uint32_t i = 0; i < length; i++)
		object->bytes[i] = pattern(seed, i);
}

struct content {
	uint32_t length, seed;
	int refuses;
};

static int construct(PMEMobjpool *in, void *place, void *argument)
{
	const struct content *content = argument;
	fill(place, content->length, content->seed);
	pmemobj_persist(in, place, sizeof(struct object) + content->length);
	half_way();
	return content->refuses;
}

static struct content some_content(void)
{
	static const uint32_t most[] = {40, 300, 3000, 80000};
	uint64_t kind = rnd(20);
	uint32_t length = (uint32_t)rnd(most[kind < 10 ? 0 : kind < 16 ? 1 : kind < 19 ? 2 : 3]);
	return (struct content){length, (uint32_t)rnd(1u << 30), rnd(8) == 0};
}

static void alloc_or_free(PMEMoid *slot)
{
	if (!OID_IS_NULL(*slot)) {
		pmemobj_free(slot);
		return;
	}
	struct content content = some_content();
	pmemobj_alloc(pool, slot, sizeof(struct object) + content.length, OBJECT, construct, &content);
}

/* A longer object with the same content. */
static void grow(PMEMoid *slot)
{
	struct object *object = pmemobj_direct(*slot);
	if (object == NULL)
		return;
	size_t bytes = sizeof(*object) + object->length + rnd(2000);
	if (rnd(2))
		pmemobj_realloc(pool, slot, bytes, OBJECT);
	else
		pmemobj_zrealloc(pool, slot, bytes, OBJECT);
}

static void store(uint64_t *word)
{
	uint64_t value = rnd(1000);
	switch (rnd(4)) {
	case 0:
		*word = value;
		pmemobj_persist(pool, word, sizeof(*word));
		break;
	case 1:
		*word = value;
		pmemobj_flush(pool, word, sizeof(*word));
		pmemobj_drain(pool);
		break;
	case 2:
		pmemobj_memcpy_persist(pool, word, &value, sizeof(value));
		break;
	default:
		pmemobj_memset_persist(pool, word, (int)(value & 0xff), 1);
	}
}

static void tx_store(uint64_t *word)
{
	uint64_t flags = rnd(3) == 0 ? POBJ_XADD_ASSUME_INITIALIZED : 0;
	if (rnd(2))
		pmemobj_tx_xadd_range_direct(word, sizeof(*word), flags);
	else
		pmemobj_tx_add_range(pmemobj_oid(word), 0, sizeof(*word));
	*word = rnd(1000);
}

static void tx_object(PMEMoid *slot)
{
	struct content content = some_content();
	size_t bytes = sizeof(struct object) + content.length;
	pmemobj_tx_add_range_direct(slot, sizeof(*slot));
	if (OID_IS_NULL(*slot)) {
		PMEMoid oid = rnd(2) ? pmemobj_tx_alloc(bytes, OBJECT) : pmemobj_tx_zalloc(bytes, OBJECT);
		fill(pmemobj_direct(oid), content.length, content.seed);
		*slot = oid;
	} else if (rnd(3) == 0) {
		const struct object *object = pmemobj_direct(*slot);
		*slot = pmemobj_tx_realloc(*slot, sizeof(*object) + object->length + rnd(500), OBJECT);
	} else {
		pmemobj_tx_free(*slot);
		*slot = OID_NULL;
	}
}

static void tx_publish(PMEMoid *slot)
{
	if (!OID_IS_NULL(*slot))
		return;
	struct content content = some_content();
	struct pobj_action actions[3];
	PMEMoid oid = pmemobj_reserve(pool, &actions[0], sizeof(struct object) + content.length, OBJECT);
	struct object *object = pmemobj_direct(oid);
	fill(object, content.length, content.seed);
	pmemobj_persist(pool, object, sizeof(*object) + content.length);
	pmemobj_set_value(pool, &actions[1], &slot->pool_uuid_lo, oid.pool_uuid_lo);
	pmemobj_set_value(pool, &actions[2], &slot->off, oid.off);
	pmemobj_tx_publish(actions, 3);
}

static void transaction(int depth)
{
	TX_BEGIN_PARAM(pool, TX_PARAM_MUTEX, &root->mutex, TX_PARAM_NONE) {
		uint64_t steps = 1 + rnd(5);
		for (uint64_t i = 0; i < steps; i++) {
			switch (rnd(7)) {
			case 0:
			case 1:
				tx_store(&root->words[rnd(WORDS)]);
				break;
			case 2:
			case 3:
				tx_object(&root->slots[rnd(SLOTS)]);
				break;
			case 4:
				/* Published slots are stored at the commit, so each is used once. */
				if (depth == 0 && i == 0)
					tx_publish(&root->slots[rnd(SLOTS)]);
				break;
			case 5:
				if (depth < 2)
					transaction(depth + 1);
				break;
			default:
				if (rnd(3) == 0)
					half_way();
			}
		}
		if (rnd(6) == 0)
			pmemobj_tx_abort(ECANCELED);
		if (rnd(12) == 0)
			pmemobj_tx_alloc(TOO_LARGE, OBJECT);
		half_way();
	} TX_END
}

/* A slot that a transaction publishes is not read in it, so these do it alone. */
static void publish(PMEMoid *slot)
{
	struct pobj_action actions[3];
	if (!OID_IS_NULL(*slot)) {
		pmemobj_defer_free(pool, *slot, &actions[0]);
		pmemobj_set_value(pool, &actions[1], &slot->off, 0);
		pmemobj_set_value(pool, &actions[2], &slot->pool_uuid_lo, 0);
		half_way();
		pmemobj_publish(pool, actions, 3);
		return;
	}
	struct content content = some_content();
	PMEMoid oid = pmemobj_reserve(pool, &actions[0], sizeof(struct object) + content.length, OBJECT);
	struct object *object = pmemobj_direct(oid);
	fill(object, content.length, content.seed);
	pmemobj_persist(pool, object, sizeof(*object) + content.length);
	pmemobj_set_value(pool, &actions[1], &slot->pool_uuid_lo, oid.pool_uuid_lo);
	pmemobj_set_value(pool, &actions[2], &slot->off, oid.off);
	half_way();
	if (rnd(4) == 0)
		pmemobj_cancel(pool, actions, 3);
	else
		pmemobj_publish(pool, actions, 3);
}

static int construct_element(PMEMobjpool *in, void *place, void *argument)
{
	struct element *element = place;
	element->value = *(const uint64_t *)argument;
	pmemobj_persist(in, &element->value, sizeof(element->value));
	half_way();
	return 0;
}

static TOID(struct element) some_element(struct list *list)
{
	TOID(struct element) element = POBJ_LIST_FIRST(list);
	for (uint64_t i = rnd(6); i > 0 && !TOID_IS_NULL(element); i--)
		element = POBJ_LIST_NEXT(element, links);
	return element;
}

static void change_list(void)
{
	uint64_t which = rnd(LISTS);
	struct list *list = &root->lists[which], *other = &root->lists[1 - which];
	TOID(struct element) element = some_element(list);
	uint64_t value = rnd(1000);
	size_t bytes = sizeof(struct element);
	if (TOID_IS_NULL(element) || rnd(2)) {
		switch (TOID_IS_NULL(element) ? rnd(2) : rnd(4)) {
		case 0:
			POBJ_LIST_INSERT_NEW_HEAD(pool, list, links, bytes, construct_element, &value);
			break;
		case 1:
			POBJ_LIST_INSERT_NEW_TAIL(pool, list, links, bytes, construct_element, &value);
			break;
		case 2:
			POBJ_LIST_INSERT_NEW_AFTER(pool, list, element, links, bytes, construct_element,
				&value);
			break;
		default:
			POBJ_LIST_INSERT_NEW_BEFORE(pool, list, element, links, bytes,
				construct_element, &value);
		}
		return;
	}
	switch (rnd(4)) {
	case 0:
		POBJ_LIST_MOVE_ELEMENT_HEAD(pool, list, other, element, links, links);
		break;
	case 1:
		POBJ_LIST_MOVE_ELEMENT_TAIL(pool, list, other, element, links, links);
		break;
	default:
		POBJ_LIST_REMOVE_FREE(pool, list, element, links);
	}
}

static void step(void)
{
	PMEMoid *slot = &root->slots[rnd(SLOTS)];
	switch (rnd(10)) {
	case 0:
	case 1:
		alloc_or_free(slot);
		break;
	case 2:
		grow(slot);
		break;
	case 3:
		store(&root->words[rnd(WORDS)]);
		break;
	case 4:
	case 5:
		publish(slot);
		break;
	case 6:
	case 7:
		change_list();
		break;
	default:
		transaction(0);
	}
}

static int run(const char *path, uint64_t seed, long steps, long kill)
{
	pool = pmemobj_create(path, "script", 32 << 20, 0600);
	if (pool == NULL) {
		fprintf(stderr, "%s\n", pmemobj_errormsg());
		return 1;
	}
	root = pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
	for (long i = 1; i <= steps; i++) {
		/* Each step has a seed of its own: a kill that finds no place in it changes nothing. */
		state = seed * 1000003 + (uint64_t)i;
		kills = i == kill;
		step();
		char line[24];
		int length = snprintf(line, sizeof(line), "%ld\n", i);
		if (write(STDOUT_FILENO, line, (size_t)length) != length)
			return 1;
		if (kills)
			raise(SIGKILL);
	}
	pmemobj_close(pool);
	return 0;
}

static void dump_object(PMEMoid oid)
{
	const struct object *object = pmemobj_direct(oid);
	if (object == NULL)
		return;
	uint32_t wrong = 0;
	for (uint32_t i = 0; i < object->length; i++)
		wrong += object->bytes[i] != pattern(object->seed, i);
	printf(" %u/%u/%lu", object->length, object->seed, pmemobj_type_num(oid));
	if (wrong)
		printf(" (%u WRONG)", wrong);
	if (pmemobj_alloc_usable_size(oid) < sizeof(*object) + object->length)
		printf(" (SHORT)");
}

static void dump_list(struct list *list)
{
	TOID(struct element) element;
	printf("list");
	POBJ_LIST_FOREACH(element, list, links)
		printf(" %lu", D_RO(element)->value);
	printf(" back");
	POBJ_LIST_FOREACH_REVERSE(element, list, links)
		printf(" %lu", D_RO(element)->value);
	printf("\n");
}

static int dump(const char *path)
{
	pool = pmemobj_open(path, "script");
	if (pool == NULL) {
		fprintf(stderr, "%s\n", pmemobj_errormsg());
		return 1;
	}
	root = pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
	for (int slot = 0; slot < SLOTS; slot++) {
		printf("slot %d", slot);
		dump_object(root->slots[slot]);
		printf("\n");
	}
	for (int word = 0; word < WORDS; word++)
		printf("%lu%c", root->words[word], word % 16 == 15 ? '\n' : ' ');
	for (int list = 0; list < LISTS; list++)
		dump_list(&root->lists[list]);
	uint64_t found[4] = {0};
	for (PMEMoid oid = pmemobj_first(pool); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
		found[pmemobj_type_num(oid) % 4]++;
	printf("objects %lu %lu %lu %lu\n", found[0], found[1], found[2], found[3]);
	pmemobj_close(pool);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 5 && strcmp(argv[1], "run") == 0)
		return run(argv[2], strtoul(argv[3], NULL, 10), atol(argv[4]),
			argc > 5 ? atol(argv[5]) : 0);
	if (argc == 3 && strcmp(argv[1], "dump") == 0)
		return dump(argv[2]);
	fprintf(stderr, "usage: script run POOL SEED STEPS [KILL] | script dump POOL\n");
	return 2;
}
