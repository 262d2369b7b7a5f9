/* The loop over keys that all maps share, and the lock around them when threads share one. */
#include "inside.h"
#include <pthread.h>
#include <stdlib.h>

struct pmdk_map {
	struct pmdk_pool *pool;
	const struct map_form *form;
	PMEMoid head;
	void *where;
	int is_shared;
	pthread_mutex_t lock;
};

static void
enter(struct pmdk_map *map)
{
	if (map->is_shared)
		pthread_mutex_lock(&map->lock);
}

static void
leave(struct pmdk_map *map)
{
	if (map->is_shared)
		pthread_mutex_unlock(&map->lock);
}

/* The value of a key looks like a pointer into the pool, because maps of libpmemobj hold those. */
static PMEMoid
value_of(const struct pmdk_map *map, uint64_t key)
{
	PMEMoid value = {map->head.pool_uuid_lo, key | 1};
	return value;
}

struct pmdk_map *
pmdk_map_new(struct pmdk_pool *pool, enum pmdk_map_kind kind, int is_shared)
{
	static const struct map_form *const forms[] = {
		[PMDK_HASH_TX] = &hash_tx_form,
		[PMDK_HASH_RP] = &hash_rp_form,
		[PMDK_BTREE] = &btree_form,
		[PMDK_HASH_ATOMIC] = &hash_atomic_form,
		[PMDK_RBTREE] = &rbtree_form,
	};
	struct pmdk_map *map = malloc(sizeof(*map));
	if (map == NULL)
		return NULL;
	map->pool = pool;
	map->form = forms[kind];
	map->is_shared = is_shared;
	pthread_mutex_init(&map->lock, NULL);
	if (pmemobj_zalloc(pool->pop, &map->head, map->form->head_bytes, 5) != 0 ||
	    map->form->init(pool->pop, pmemobj_direct(map->head)) != 0) {
		free(map);
		return NULL;
	}
	map->where = pmemobj_direct(map->head);
	return map;
}

int
pmdk_map_delete(struct pmdk_map *map)
{
	int failed = map->form->clear(map->pool->pop, map->where);
	pmemobj_free(&map->head);
	pthread_mutex_destroy(&map->lock);
	free(map);
	return failed;
}

int
pmdk_map_insert(struct pmdk_map *map, const uint64_t *keys, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		enter(map);
		int failed = map->form->insert(
			map->pool->pop, map->where, keys[i], value_of(map, keys[i]));
		leave(map);
		if (failed)
			return -1;
	}
	return 0;
}

size_t
pmdk_map_lookup(struct pmdk_map *map, const uint64_t *keys, size_t count)
{
	size_t found = 0;
	for (size_t i = 0; i < count; i++) {
		enter(map);
		found += map->form->lookup(map->where, keys[i]).off == (keys[i] | 1);
		leave(map);
	}
	return found;
}

int
pmdk_map_remove(struct pmdk_map *map, const uint64_t *keys, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		enter(map);
		int failed = map->form->remove(map->pool->pop, map->where, keys[i]);
		leave(map);
		if (failed)
			return -1;
	}
	return 0;
}

uint64_t
pmdk_map_count(struct pmdk_map *map)
{
	return map->form->count(map->where);
}
