/* What a call has written may be overwritten by a plain store, made durable by the program: a crash
 * after that keeps the program's bytes, whatever the library has in its logs.
 *
 *     overwrites list                          the names of the calls and of the stores
 *     overwrites run POOL CALL STORE OTHER     does the call, overwrites all that it has written,
 *                                              does the other call elsewhere, and kills itself
 *     overwrites check POOL                    "right", or what was lost
 */

#include <libpmem.h>
#include <libpmemobj.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TOID_DECLARE(struct element, 2);

struct element {
	uint64_t value;
	POBJ_LIST_ENTRY(struct element) links;
};

POBJ_LIST_HEAD(list, struct element);

/* What calls write to; each call has one of its own. */
struct area {
	uint64_t words[8];
	PMEMoid oids[4];
	struct list list, other;
};

struct root {
	struct area first, second;
};

static PMEMobjpool *pool;
static struct root *root;

static void commit(struct area *area)
{
	TX_BEGIN(pool) {
		pmemobj_tx_add_range_direct(area->words, sizeof(area->words));
		for (int i = 0; i < 8; i++)
			area->words[i] = 1;
	} TX_END
}

static void commit_nested(struct area *area)
{
	TX_BEGIN(pool) {
		pmemobj_tx_add_range_direct(&area->words[0], 8);
		area->words[0] = 1;
		TX_BEGIN(pool) {
			pmemobj_tx_add_range_direct(&area->words[1], 8);
			area->words[1] = 1;
		} TX_END
	} TX_END
}

static void roll_back(struct area *area)
{
	TX_BEGIN(pool) {
		pmemobj_tx_add_range_direct(area->words, sizeof(area->words));
		area->words[3] = 1;
		pmemobj_tx_abort(ECANCELED);
	} TX_END
}

static void no_snapshot(struct area *area)
{
	TX_BEGIN(pool) {
		pmemobj_tx_xadd_range_direct(area->words, 64, POBJ_XADD_NO_SNAPSHOT);
		area->words[3] = 1;
	} TX_END
}

static void tx_objects(struct area *area)
{
	TX_BEGIN(pool) {
		pmemobj_tx_add_range_direct(area->oids, sizeof(area->oids));
		area->oids[0] = pmemobj_tx_zalloc(100, 1);
		area->oids[1] = pmemobj_tx_strdup("text", 1);
		area->oids[2] = pmemobj_tx_realloc(area->oids[0], 1000, 1);
	} TX_END
}

static void tx_publish(struct area *area)
{
	struct pobj_action actions[3];
	PMEMoid oid = pmemobj_reserve(pool, &actions[0], 100, 1);
	pmemobj_set_value(pool, &actions[1], &area->oids[0].off, oid.off);
	pmemobj_set_value(pool, &actions[2], &area->words[2], 1);
	TX_BEGIN(pool) {
		pmemobj_tx_publish(actions, 3);
	} TX_END
}

static void publish(struct area *area)
{
	struct pobj_action actions[3];
	PMEMoid oid = pmemobj_reserve(pool, &actions[0], 100, 1);
	pmemobj_set_value(pool, &actions[1], &area->oids[0].off, oid.off);
	pmemobj_set_value(pool, &actions[2], &area->words[2], 1);
	pmemobj_publish(pool, actions, 3);
}

static void alloc(struct area *area)
{
	pmemobj_alloc(pool, &area->oids[0], 100, 1, NULL, NULL);
}

static void zalloc_large(struct area *area)
{
	pmemobj_zalloc(pool, &area->oids[0], 200000, 1);
}

static void realloc_object(struct area *area)
{
	alloc(area);
	pmemobj_realloc(pool, &area->oids[0], 5000, 1);
	pmemobj_zrealloc(pool, &area->oids[0], 9000, 1);
}

static void free_object(struct area *area)
{
	alloc(area);
	pmemobj_free(&area->oids[0]);
}

static void duplicate(struct area *area)
{
	pmemobj_strdup(pool, &area->oids[0], "text", 1);
	pmemobj_wcsdup(pool, &area->oids[1], L"wide", 1);
}

static void list_insert(struct area *area)
{
	POBJ_LIST_INSERT_NEW_HEAD(pool, &area->list, links, sizeof(struct element), NULL, NULL);
	POBJ_LIST_INSERT_NEW_TAIL(pool, &area->list, links, sizeof(struct element), NULL, NULL);
}

static void list_remove(struct area *area)
{
	list_insert(area);
	POBJ_LIST_REMOVE_FREE(pool, &area->list, POBJ_LIST_FIRST(&area->list), links);
}

static void list_move(struct area *area)
{
	list_insert(area);
	POBJ_LIST_MOVE_ELEMENT_TAIL(pool, &area->list, &area->other, POBJ_LIST_FIRST(&area->list),
		links, links);
}

static void defragment(struct area *area)
{
	alloc(area);
	PMEMoid *places[] = {&area->oids[0]};
	pmemobj_defrag(pool, places, 1, NULL);
}

static void mem_calls(struct area *area)
{
	uint64_t from[8] = {1, 1, 1, 1, 1, 1, 1, 1};
	pmemobj_memcpy_persist(pool, area->words, from, sizeof(from));
	pmemobj_memset_persist(pool, area->oids, 1, sizeof(area->oids));
}

static void locks(struct area *area)
{
	TX_BEGIN_PARAM(pool, TX_PARAM_MUTEX, &area->list.lock, TX_PARAM_NONE) {
		pmemobj_tx_add_range_direct(area->words, 8);
		area->words[0] = 1;
	} TX_END
}

static const struct {
	const char *name;
	void (*run)(struct area *);
} CALLS[] = {
	{"commit", commit}, {"nested", commit_nested}, {"abort", roll_back},
	{"no-snapshot", no_snapshot}, {"tx-objects", tx_objects}, {"tx-publish", tx_publish},
	{"publish", publish}, {"alloc", alloc}, {"zalloc", zalloc_large},
	{"realloc", realloc_object}, {"free", free_object}, {"strdup", duplicate},
	{"list-insert", list_insert}, {"list-remove", list_remove}, {"list-move", list_move},
	{"defrag", defragment}, {"memcpy", mem_calls}, {"locks", locks},
};

static void by_persist(void *place, size_t bytes)
{
	memset(place, 0x5a, bytes);
	pmemobj_persist(pool, place, bytes);
}

static void by_flush(void *place, size_t bytes)
{
	memset(place, 0x5a, bytes);
	pmemobj_flush(pool, place, bytes);
	pmemobj_drain(pool);
}

static void by_memset(void *place, size_t bytes)
{
	pmemobj_memset_persist(pool, place, 0x5a, bytes);
}

static void by_pmem(void *place, size_t bytes)
{
	memset(place, 0x5a, bytes);
	pmem_persist(place, bytes);
}

/* As a compiler that knows clflush would. */
static void by_instruction(void *place, size_t bytes)
{
	memset(place, 0x5a, bytes);
#ifdef __x86_64__
	for (size_t at = 0; at < bytes + 64; at += 64)
		__builtin_ia32_clflush((char *)place + at);
	__builtin_ia32_mfence();
#else
	pmemobj_persist(pool, place, bytes);
#endif
}

static const struct {
	const char *name;
	void (*run)(void *, size_t);
} STORES[] = {
	{"persist", by_persist}, {"flush", by_flush}, {"memset", by_memset}, {"pmem", by_pmem},
	{"instruction", by_instruction},
};

#define COUNT(table) (int)(sizeof(table) / sizeof(*(table)))

#define FIND(table, wanted, found)\
	do {\
		(found) = -1;\
		for (int i = 0; i < COUNT(table); i++)\
			if (strcmp((table)[i].name, wanted) == 0)\
				(found) = i;\
		if ((found) < 0) {\
			fprintf(stderr, "no %s\n", wanted);\
			return 2;\
		}\
	} while (0)

static int run(char **names)
{
	int call, store, other;
	FIND(CALLS, names[1], call);
	FIND(STORES, names[2], store);
	FIND(CALLS, names[3], other);
	pool = pmemobj_create(names[0], "overwrites", 32 << 20, 0600);
	if (pool == NULL) {
		fprintf(stderr, "%s\n", pmemobj_errormsg());
		return 1;
	}
	root = pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
	CALLS[call].run(&root->first);
	STORES[store].run(&root->first, sizeof(root->first));
	CALLS[other].run(&root->second);
	TX_BEGIN(pool) {
		pmemobj_tx_add_range_direct(&root->second.words, 8);
		root->second.words[0] = 9;
		kill(getpid(), SIGKILL);
	} TX_END
	return 1;
}

static int check(const char *path)
{
	pool = pmemobj_open(path, "overwrites");
	if (pool == NULL) {
		fprintf(stderr, "%s\n", pmemobj_errormsg());
		return 1;
	}
	root = pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
	const unsigned char *bytes = (const unsigned char *)&root->first;
	int wrong = 0;
	for (size_t i = 0; i < sizeof(root->first); i++) {
		if (bytes[i] != 0x5a && wrong++ < 8)
			printf("byte %zu is %#x\n", i, bytes[i]);
	}
	printf("%s\n", wrong || root->second.words[0] == 9 ? "WRONG" : "right");
	pmemobj_close(pool);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "list") == 0) {
		for (int i = 0; i < COUNT(CALLS); i++)
			printf("call %s\n", CALLS[i].name);
		for (int i = 0; i < COUNT(STORES); i++)
			printf("store %s\n", STORES[i].name);
		return 0;
	}
	if (argc == 6 && strcmp(argv[1], "run") == 0)
		return run(argv + 2);
	if (argc == 3 && strcmp(argv[1], "check") == 0)
		return check(argv[2]);
	fprintf(stderr, "usage: overwrites list | run POOL CALL STORE OTHER | check POOL\n");
	return 2;
}
