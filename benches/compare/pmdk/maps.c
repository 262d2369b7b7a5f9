/* Times the maps of this folder in a program of their own, so that it runs with either library: a
 * line for each map and operation, with nanoseconds for one key.
 *
 *     maps POOL KEYS THREADS
 *
 * The threads share the keys, and each has a map of its own in one pool.
 */

#include "crew.h"
#include "pmdk.h"
#include <stdio.h>
#include <stdlib.h>

enum step { INSERT, LOOKUP, REMOVE };

static const struct {
	const char *name;
	enum pmdk_map_kind kind;
} MAPS[] = {{"btree", PMDK_BTREE}, {"hash_tx", PMDK_HASH_TX}, {"hash_rp", PMDK_HASH_RP},
	{"hash_atomic", PMDK_HASH_ATOMIC}, {"rbtree", PMDK_RBTREE}};

static struct pmdk_pool *pool;
static size_t chosen;
static uint64_t *keys;
static size_t share;

static void failed(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, pmdk_error());
	exit(1);
}

static void measure(unsigned thread)
{
	const uint64_t *mine = keys + thread * share;
	struct pmdk_map *map = pmdk_map_new(pool, MAPS[chosen].kind, 0);
	if (map == NULL)
		failed(MAPS[chosen].name);
	crew_begin();
	if (pmdk_map_insert(map, mine, share))
		failed("insert");
	crew_end(INSERT);
	crew_begin();
	size_t found = pmdk_map_lookup(map, mine, share);
	crew_end(LOOKUP);
	if (found != pmdk_map_count(map) && found != share)
		failed("lookup");
	crew_begin();
	if (pmdk_map_remove(map, mine, share))
		failed("remove");
	crew_end(REMOVE);
	if (pmdk_map_delete(map))
		failed("delete");
}

int main(int argc, char **argv)
{
	static const char *const steps[] = {"insert", "lookup", "remove"};
	if (argc != 4)
		return 2;
	size_t count = strtoul(argv[2], NULL, 10);
	unsigned threads = (unsigned)atoi(argv[3]);
	share = count / threads;
	keys = malloc(count * sizeof(*keys));
	pool = pmdk_create(argv[1], 1UL << 30);
	if (keys == NULL || pool == NULL)
		failed("create");
	for (size_t i = 0; i < count; i++)
		keys[i] = (i * 0x9e3779b97f4a7c15 >> 16) + 1;
	for (chosen = 0; chosen < sizeof(MAPS) / sizeof(*MAPS); chosen++) {
		crew_run(threads, measure);
		for (unsigned step = INSERT; step <= REMOVE; step++) {
			double time = crew_time(step) / (double)share;
			printf("%s-%s %.1f\n", MAPS[chosen].name, steps[step], time);
		}
	}
	pmdk_close(pool);
	return 0;
}
