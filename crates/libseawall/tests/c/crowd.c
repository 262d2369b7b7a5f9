/*
 * Hundreds of threads make random calls on several pools, more than the pools have lanes: maps of
 * both kinds, transactions of both kinds that commit, are rolled back or left open by a thread that
 * ends, objects, stores without transactions, cursors, defragmentation, checks, wrong handles, and
 * pools that are opened and closed meanwhile. Each thread knows what its calls have made of what is
 * its own; afterwards the pools hold exactly that.
 *
 *     crowd FOLDER SEED THREADS CALLS
 *
 * The calls of each thread are the same for each seed; how they meet is not.
 */
#include <libseawall.h>

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOLS 3
#define KEYS 24
#define ACCOUNTS 64
#define THREADS_MAX 512

/* The root of each pool. */
struct root {
    uint64_t map, omap[2];
    uint64_t accounts[ACCOUNTS];
    uint64_t objects[THREADS_MAX];
    uint64_t words[THREADS_MAX];
};

struct own {
    uint64_t number, state;
    /* What this thread has put under each of its keys; 0 if nothing. */
    uint64_t map[POOLS][KEYS], omap[POOLS][KEYS];
    uint64_t object[POOLS], object_words[POOLS], words[POOLS];
};

static struct own owns[THREADS_MAX];
static const char *folder;
static sw_pool *pools[POOLS];
static sw_ref roots[POOLS];
static pthread_mutex_t accounts[POOLS];
static long calls;

/* The middle pool takes stores without transactions, and the last one has objects that move. */
static const struct sw_type cell = {.name = "cell", .bytes = 64};
static const uint64_t root_refs[1] = {offsetof(struct root, objects)};
static const struct sw_type root_type = {
    .name = "root", .bytes = sizeof(struct root), .refs = root_refs, .ref_count = 1};

static struct sw_options options_of(int pool)
{
    struct sw_options options = {.root_bytes = sizeof(struct root), .threads = 24,
        .log_bytes = 16384, .bytes_max = 64 << 20, .in_place = pool == 1};
    if (pool == 2) {
        options.types = &cell;
        options.type_count = 1;
        options.root = &root_type;
    }
    return options;
}

static void must(int status, const char *what)
{
    if (status != SW_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, sw_status_name(status), sw_error_text());
        exit(1);
    }
}

static void holds(int is_so, const char *what, uint64_t thread)
{
    if (!is_so) {
        fprintf(stderr, "thread %lu: %s\n", thread, what);
        exit(1);
    }
}

static uint64_t below(struct own *own, uint64_t limit)
{
    own->state ^= own->state << 13;
    own->state ^= own->state >> 7;
    own->state ^= own->state << 17;
    return (own->state >> 11) % limit;
}

static uint64_t key_of(const struct own *own, uint64_t key)
{
    return own->number << 32 | key;
}

/* A value has its length in it, and repeats its number. */
static size_t fill(unsigned char *bytes, uint64_t value)
{
    size_t length = 8 + value % 97;
    for (size_t at = 0; at < length; at++)
        bytes[at] = (unsigned char)(value >> 8 * (at % 8));
    return length;
}

static int is_value(const unsigned char *bytes, size_t length, uint64_t value)
{
    unsigned char right[128];
    return length == fill(right, value) && memcmp(bytes, right, length) == 0;
}

static void map_call(struct own *own, int p)
{
    uint64_t k = below(own, KEYS), key = key_of(own, k), *known = &own->map[p][k];
    unsigned char bytes[128];
    size_t length = 0;
    int was = 2, status;
    switch (below(own, 4)) {
    case 0:
        *known = 0;
        status = sw_map_remove(pools[p], roots[p], &key, sizeof key);
        holds(status == SW_OK || status == SW_NOT_FOUND, "sw_map_remove", own->number);
        break;
    case 1:
        status = sw_map_get(pools[p], roots[p], &key, sizeof key, bytes, sizeof bytes, &length);
        holds(status == (*known ? SW_OK : SW_NOT_FOUND), "sw_map_get", own->number);
        holds(!*known || is_value(bytes, length, *known), "the value of sw_map_get", own->number);
        break;
    default: {
        uint64_t value = 1 + below(own, 1ull << 40);
        length = fill(bytes, value);
        must(sw_map_put(pools[p], roots[p], &key, sizeof key, bytes, length, &was), "sw_map_put");
        holds(was == (*known != 0), "whether it was there", own->number);
        *known = value;
    }
    }
}

static void omap_call(struct own *own, int p)
{
    uint64_t k = below(own, KEYS), key = key_of(own, k), *known = &own->omap[p][k], found = 0;
    sw_ref at = roots[p] + offsetof(struct root, omap);
    int status;
    switch (below(own, 5)) {
    case 0:
        status = sw_omap_remove(pools[p], at, key);
        holds(status == (*known ? SW_OK : SW_NOT_FOUND), "sw_omap_remove", own->number);
        *known = 0;
        break;
    case 1:
        status = sw_omap_get(pools[p], at, key, &found);
        holds(status == (*known ? SW_OK : SW_NOT_FOUND), "sw_omap_get", own->number);
        holds(found == *known, "the value of sw_omap_get", own->number);
        break;
    case 2: {
        sw_entry entries[KEYS];
        size_t count = 0, right = 0;
        status = sw_omap_range(pools[p], at, key_of(own, 0), key_of(own, KEYS - 1), entries, KEYS,
            &count);
        holds(status == SW_OK || status == SW_NOT_FOUND, "sw_omap_range", own->number);
        for (k = 0; k < KEYS; k++)
            right += own->omap[p][k] != 0;
        holds(count == right, "the entries of sw_omap_range", own->number);
        break;
    }
    default:
        *known = 1 + below(own, 1ull << 40);
        must(sw_omap_put(pools[p], at, key, *known, NULL), "sw_omap_put");
    }
}

/* Moves money between two accounts; the program's lock is held until that is durable. */
static int transfer(struct own *own, int p, sw_tx tx)
{
    uint64_t from = 8 * below(own, ACCOUNTS), to = 8 * below(own, ACCOUNTS), a, b;
    const size_t first = offsetof(struct root, accounts);
    uint64_t sum = below(own, 50);
    int status = sw_tx_load64(tx, roots[p], first + from, &a);
    if (status == SW_OK)
        status = sw_tx_store64(tx, roots[p], first + from, a - sum);
    if (status == SW_OK)
        status = sw_tx_load64(tx, roots[p], first + to, &b);
    if (status == SW_OK)
        status = sw_tx_store64(tx, roots[p], first + to, b + sum);
    return status;
}

/* Frees the thread's object, or makes one; in the pool whose objects move, the first slot only. */
static int object(struct own *own, int p, sw_tx tx, struct own *after)
{
    if (p == 2 && own->number != 0)
        return SW_OK;
    uint64_t slot = offsetof(struct root, objects) + 8 * own->number, ref = 0;
    int status = sw_tx_load64(tx, roots[p], slot, &ref);
    if (status != SW_OK)
        return status;
    holds((ref != 0) == (own->object[p] != 0), "the object in the slot", own->number);
    if (ref != 0) {
        uint64_t words[1024];
        status = sw_tx_read(tx, ref, 0, words, 8 * own->object_words[p]);
        if (status != SW_OK)
            return status;
        for (uint64_t at = 0; at < own->object_words[p]; at++)
            holds(words[at] == own->object[p] + at, "the object's content", own->number);
        after->object[p] = 0;
        status = sw_tx_free(tx, ref);
        ref = 0;
    } else {
        uint64_t words[1024], count = p == 2 ? 8 : 1 + below(own, below(own, 8) ? 60 : 1024);
        after->object[p] = 1 + below(own, 1ull << 40);
        after->object_words[p] = count;
        for (uint64_t at = 0; at < count; at++)
            words[at] = after->object[p] + at;
        status = p == 2 ? sw_tx_new(tx, 0, words, &ref)
                        : sw_tx_alloc_copy(tx, words, 8 * count, &ref);
    }
    return status == SW_OK ? sw_tx_store64(tx, roots[p], slot, ref) : status;
}

static int keyed(struct own *own, int p, sw_tx tx, struct own *after)
{
    uint64_t k = below(own, KEYS), key = key_of(own, k), value = 1 + below(own, 1ull << 40);
    unsigned char bytes[128];
    size_t length = 0;
    sw_ref at = roots[p] + offsetof(struct root, omap);
    int status;
    switch (below(own, 4)) {
    case 0:
        after->map[p][k] = value;
        length = fill(bytes, value);
        return sw_tx_map_put(tx, roots[p], &key, sizeof key, bytes, length, NULL);
    case 1:
        status = sw_tx_map_get(tx, roots[p], &key, sizeof key, bytes, sizeof bytes, &length);
        if (status == SW_OK || status == SW_NOT_FOUND) {
            uint64_t right = after->map[p][k];
            holds((status == SW_OK) == (right != 0), "sw_tx_map_get", own->number);
            holds(!right || is_value(bytes, length, right), "its value", own->number);
            return SW_OK;
        }
        return status;
    case 2:
        after->omap[p][k] = value;
        return sw_tx_omap_put(tx, at, key, value, NULL);
    default:
        status = sw_tx_omap_remove(tx, at, key);
        after->omap[p][k] = 0;
        return status == SW_NOT_FOUND ? SW_OK : status;
    }
}

/* A transaction of several parts: all of it, or nothing. What it lacks makes it run again. */
static void transaction(struct own *own, int p)
{
    const int kind = below(own, 2) ? SW_REDO : SW_UNDO, has_transfer = below(own, 3) == 0;
    const int parts = 1 + (int)below(own, 4), is_kept = below(own, 4) != 0;
    const uint64_t state = own->state;
    for (;;) {
        struct own after = *own;
        own->state = state;
        sw_tx tx;
        int status;
        if (has_transfer)
            pthread_mutex_lock(&accounts[p]);
        must(sw_tx_begin(pools[p], kind, &tx), "sw_tx_begin");
        status = has_transfer ? transfer(own, p, tx) : SW_OK;
        if (status == SW_OK && below(own, 2))
            status = object(own, p, tx, &after);
        for (int part = 0; part < parts && status == SW_OK; part++)
            status = keyed(own, p, tx, &after);
        if (status == SW_OK && is_kept) {
            must(sw_tx_commit(tx), "sw_tx_commit");
            after.state = own->state;
            *own = after;
        } else {
            must(sw_tx_abort(tx), "sw_tx_abort");
        }
        if (has_transfer)
            pthread_mutex_unlock(&accounts[p]);
        if (status == SW_OK)
            return;
        if (status != SW_BUSY)
            must(status, "a call of a transaction");
    }
}

/* Stores by an address, in the pool that was made for it. */
static void in_place(struct own *own)
{
    struct root *root = sw_direct(pools[1], roots[1]);
    holds(root->words[own->number] == own->words[1], "a word of its own", own->number);
    root->words[own->number] = own->words[1] = below(own, 1ull << 40);
    if (below(own, 2)) {
        must(sw_persist(pools[1], &root->words[own->number], 8), "sw_persist");
    } else {
        must(sw_flush(pools[1], &root->words[own->number], 8), "sw_flush");
        must(sw_drain(pools[1]), "sw_drain");
    }
}

static void walk(struct own *own, int p)
{
    sw_cursor *cursor;
    must(sw_map_cursor(pools[p], roots[p], &cursor), "sw_map_cursor");
    const void *key, *value;
    size_t key_bytes, value_bytes;
    for (uint64_t left = below(own, 200); left > 0; left--) {
        int status = sw_cursor_next(cursor, &key, &key_bytes, &value, &value_bytes);
        if (status == SW_NOT_FOUND)
            break;
        must(status, "sw_cursor_next");
        holds(key_bytes == 8 && value_bytes >= 8, "an entry of a cursor", own->number);
    }
    sw_cursor_free(cursor);
}

/* What is wrong is refused, and changes nothing. */
static void wrong(struct own *own, int p)
{
    const sw_tx stale = {pools[p], below(own, 1000)};
    sw_ref ref;
    holds(sw_tx_alloc(stale, 64, &ref) != SW_OK, "an old transaction allocates", own->number);
    holds(sw_tx_abort(stale) != SW_OK, "an old transaction ends", own->number);
    holds(sw_map_open(pools[p], below(own, 1ull << 50)) != SW_OK, "a wild map", own->number);
    holds(sw_direct(pools[p], 1ull << 50) == NULL, "a wild ref", own->number);
    sw_pool *other = NULL;
    char path[4096];
    snprintf(path, sizeof path, "%s/pool-%d", folder, p);
    holds(sw_pool_open(path, NULL, &other) != SW_OK, "a pool is open twice", own->number);
}

/* Pools that come and go: whoever has one uses it. */
static void visit(struct own *own)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/visited-%lu", folder, below(own, 4));
    struct sw_options options = {.threads = 2, .log_bytes = 4096, .bytes_max = 8 << 20};
    sw_pool *pool;
    int status = sw_pool_open(path, &options, &pool);
    if (status == SW_MISSING)
        status = sw_pool_create(path, &options, &pool);
    /* Another thread makes it, has it, or has just begun to make it. */
    if (status == SW_IN_USE || status == SW_EXISTS || status == SW_NOT_A_POOL)
        return;
    must(status, "a pool that comes and goes");
    sw_ref root;
    must(sw_pool_root(pool, &root, NULL), "sw_pool_root");
    status = sw_map_create(pool, root);
    holds(status == SW_OK || status == SW_EXISTS, "sw_map_create", own->number);
    uint64_t key = below(own, 50);
    must(sw_map_put(pool, root, &key, 8, &key, 8, NULL), "sw_map_put");
    must(sw_pool_close(pool), "sw_pool_close");
}

static void *work(void *argument)
{
    struct own *own = argument;
    for (long call = 0; call < calls; call++) {
        int p = (int)below(own, POOLS);
        switch (below(own, 24)) {
        case 0:
            walk(own, p);
            break;
        case 1:
            wrong(own, p);
            break;
        case 2:
            visit(own);
            break;
        case 3: {
            int status = sw_defragment(pools[2], below(own, 50), NULL);
            holds(status == SW_OK || status == SW_BUSY, "sw_defragment", own->number);
            break;
        }
        case 4: case 5:
            in_place(own);
            break;
        case 6: case 7: case 8: case 9:
            map_call(own, p);
            break;
        case 10: case 11: case 12: case 13:
            omap_call(own, p);
            break;
        default:
            transaction(own, p);
        }
    }
    /* It is rolled back when the thread has ended. */
    sw_tx tx;
    int p = (int)below(own, POOLS);
    must(sw_tx_begin(pools[p], SW_UNDO, &tx), "the last sw_tx_begin");
    uint64_t key = key_of(own, 0);
    int status = sw_tx_map_put(tx, roots[p], &key, 8, "never", 5, NULL);
    holds(status == SW_OK || status == SW_BUSY, "the last sw_tx_map_put", own->number);
    return NULL;
}

static void check_own(struct own *own, int p)
{
    unsigned char bytes[128];
    size_t length;
    uint64_t found;
    for (uint64_t k = 0; k < KEYS; k++) {
        uint64_t key = key_of(own, k), right = own->map[p][k];
        int status = sw_map_get(pools[p], roots[p], &key, 8, bytes, sizeof bytes, &length);
        holds((status == SW_OK) == (right != 0), "a key of the map at the end", own->number);
        holds(!right || is_value(bytes, length, right), "its value", own->number);
        status = sw_omap_get(pools[p], roots[p] + offsetof(struct root, omap), key, &found);
        holds(found == own->omap[p][k], "a key of the ordered map at the end", own->number);
    }
    const struct root *root = sw_direct(pools[p], roots[p]);
    holds((root->objects[own->number] != 0) == (own->object[p] != 0), "its slot", own->number);
    holds(p != 1 || root->words[own->number] == own->words[1], "its word", own->number);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    folder = argv[1];
    uint64_t seed = strtoull(argv[2], NULL, 10), threads = strtoull(argv[3], NULL, 10);
    calls = atol(argv[4]);
    if (threads > THREADS_MAX)
        return 2;
    char path[4096];
    for (int p = 0; p < POOLS; p++) {
        struct sw_options options = options_of(p);
        snprintf(path, sizeof path, "%s/pool-%d", folder, p);
        must(sw_pool_create(path, &options, &pools[p]), path);
        must(sw_pool_root(pools[p], &roots[p], NULL), "sw_pool_root");
        must(sw_map_create(pools[p], roots[p]), "sw_map_create");
        must(sw_omap_create(pools[p], roots[p] + offsetof(struct root, omap)), "sw_omap_create");
        pthread_mutex_init(&accounts[p], NULL);
    }
    pthread_t ids[THREADS_MAX];
    for (uint64_t at = 0; at < threads; at++) {
        owns[at].number = at;
        owns[at].state = (seed * 1000 + at + 1) * 0x9e3779b97f4a7c15;
        if (pthread_create(&ids[at], NULL, work, &owns[at]) != 0)
            return 2;
    }
    for (uint64_t at = 0; at < threads; at++)
        pthread_join(ids[at], NULL);
    for (int p = 0; p < POOLS; p++) {
        struct sw_options options = options_of(p);
        snprintf(path, sizeof path, "%s/pool-%d", folder, p);
        must(sw_pool_close(pools[p]), "sw_pool_close at the end");
        must(sw_pool_open(path, &options, &pools[p]), "sw_pool_open at the end");
        must(sw_map_check(pools[p], roots[p]), "sw_map_check");
        must(sw_omap_check(pools[p], roots[p] + offsetof(struct root, omap)), "sw_omap_check");
        const struct root *root = sw_direct(pools[p], roots[p]);
        uint64_t sum = 0;
        for (int at = 0; at < ACCOUNTS; at++)
            sum += root->accounts[at];
        holds(sum == 0, "the sum of the accounts", threads);
        for (uint64_t at = 0; at < threads; at++)
            check_own(&owns[at], p);
        must(sw_pool_close(pools[p]), "sw_pool_close");
    }
    printf("%lu threads, %ld calls each: as they left it\n", threads, calls);
    return 0;
}
