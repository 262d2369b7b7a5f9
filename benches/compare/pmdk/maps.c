/* Times the maps of this folder in a program of their own, so that it runs with either library: a
 * line for each map and operation, with nanoseconds for one key.
 *
 *     maps POOL KEYS
 */

#include "pmdk.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int failed(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, pmdk_error());
	return 1;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		enum pmdk_map_kind kind;
	} maps[] = {{"btree", PMDK_BTREE}, {"hash_tx", PMDK_HASH_TX}, {"hash_rp", PMDK_HASH_RP},
		{"hash_atomic", PMDK_HASH_ATOMIC}, {"rbtree", PMDK_RBTREE}};
	if (argc != 3)
		return 2;
	size_t count = strtoul(argv[2], NULL, 10);
	uint64_t *keys = malloc(count * sizeof(*keys));
	struct pmdk_pool *pool = pmdk_create(argv[1], 1UL << 30);
	if (keys == NULL || pool == NULL)
		return failed("create");
	for (size_t i = 0; i < count; i++)
		keys[i] = (i * 0x9e3779b97f4a7c15 >> 16) + 1;
	for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++) {
		struct pmdk_map *map = pmdk_map_new(pool, maps[i].kind, 0);
		if (map == NULL)
			return failed(maps[i].name);
		double begin = now();
		if (pmdk_map_insert(map, keys, count))
			return failed("insert");
		double inserted = now();
		size_t found = pmdk_map_lookup(map, keys, count);
		double looked_up = now();
		if (found != pmdk_map_count(map) && found != count)
			return failed("lookup");
		if (pmdk_map_remove(map, keys, count))
			return failed("remove");
		double removed = now();
		printf("%s-insert %.1f\n", maps[i].name, (inserted - begin) / (double)count);
		printf("%s-lookup %.1f\n", maps[i].name, (looked_up - inserted) / (double)count);
		printf("%s-remove %.1f\n", maps[i].name, (removed - looked_up) / (double)count);
		if (pmdk_map_delete(map))
			return failed("delete");
	}
	pmdk_close(pool);
	return 0;
}
