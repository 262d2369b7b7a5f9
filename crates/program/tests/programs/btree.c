/* btree.c: a persistent B+tree under one reader-writer lock, with an undo log for splits.
 *
 *     btree run POOL THREADS OPS [FLAW]     btree check POOL [FLAW]
 *
 * A leaf has slots and a word with one bit a slot: an entry is written to a free slot, and one
 * store of the word makes it valid; an update clears the bit of the old entry with the same store.
 * A split changes the node and its parent, whose old contents it logs first. A new node needs no
 * log: nothing leads to it before the split commits. Nodes are never freed, and only the running
 * program knows how many there are.
 *
 * Flaws:
 *   1  missing flush of the log: old contents are not written back before the nodes change
 *   2  missing fence: the log counts a record before the record is durable
 *   3  unlogged field: a split does not log the parent
 *   4  missing flush: the log is emptied although the split is not written back
 *   5  missing fence: the split is flushed, but nothing orders it before the empty log
 *   6  non-atomic publish: the bit of an entry is durable before the entry
 *   7  missing recovery step (flaw of check): an interrupted split is not undone */
#include "model.h"

#include <stddef.h>

#define MAGIC 0x316565727462ull
#define NODES 2000
#define SLOTS 6
#define FANOUT 8
#define DEPTH_MAX 8
#define RECORDS_MAX 4

enum kind { LEAF = 1, INNER = 2 };

struct entry {
    uint64_t key, value;
};

/* Nodes are named by their number plus 1; 0 is none. */
struct leaf {
    uint32_t kind, next;
    uint64_t valid;
    struct entry entries[SLOTS];
    uint64_t unused[2];
};

struct inner {
    uint32_t kind, count; /* of children */
    uint64_t keys[FANOUT - 1]; /* child n + 1 has the keys from keys[n] on */
    uint32_t children[FANOUT];
    uint64_t unused[4];
};

union node {
    uint32_t kind;
    struct leaf leaf;
    struct inner inner;
};

struct record {
    uint64_t offset, bytes, unused[6];
    unsigned char old[sizeof(union node)];
};

struct pool {
    struct pm_header header;
    uint64_t root, unused_1[7];
    uint64_t records, unused_2[7];
    struct record log[RECORDS_MAX];
    union node nodes[NODES];
};

#define POOL_BYTES (1u << 19)
_Static_assert(sizeof(struct leaf) == 128 && sizeof(union node) == 128, "nodes are two lines");
_Static_assert(sizeof(struct pool) <= POOL_BYTES, "the pool holds the tree");

static struct pool *pool;
static unsigned flaw;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static uint64_t used_nodes;

static union node *node_at(uint64_t number)
{
    return &pool->nodes[number - 1];
}

static uint32_t take_node(void)
{
    if (used_nodes == NODES)
        errno = ENOSPC, pm_unusable("the tree is full");
    memset(&pool->nodes[used_nodes], 0, sizeof(union node));
    return (uint32_t)++used_nodes;
}

/* The undo log. */

/* Keeps the contents of the bytes until the log is emptied. */
static void keep(const void *at, size_t bytes)
{
    struct record *record = &pool->log[pool->records];
    record->offset = (uint64_t)((const char *)at - (const char *)pool);
    record->bytes = bytes;
    memcpy(record->old, at, bytes);
    if (flaw != 1)
        pm_flush(record, sizeof *record);
    if (flaw != 2)
        pm_fence();
    pool->records++;
    pm_persist(&pool->records, sizeof pool->records);
}

static void empty_log(void)
{
    if (flaw != 5)
        pm_fence();
    pool->records = 0;
    pm_persist(&pool->records, sizeof pool->records);
}

static void undo(void)
{
    if (pool->records > RECORDS_MAX)
        pm_broken("%llu records in the log", (unsigned long long)pool->records);
    if (flaw == 7 || pool->records == 0)
        return;
    for (uint64_t n = pool->records; n-- > 0;) {
        const struct record *record = &pool->log[n];
        if (record->bytes > sizeof record->old || record->offset > POOL_BYTES - record->bytes ||
            record->offset < offsetof(struct pool, root))
            pm_broken("record %llu of the log is not of this pool", (unsigned long long)n);
        memcpy((char *)pool + record->offset, record->old, record->bytes);
        pm_flush((char *)pool + record->offset, record->bytes);
    }
    empty_log();
}

/* The tree. */

static unsigned child_of(const struct inner *node, uint64_t key)
{
    unsigned n = 0;
    while (n + 1 < node->count && key >= node->keys[n])
        n++;
    return n;
}

static struct leaf *leaf_of(uint64_t key)
{
    union node *node = node_at(pool->root);
    while (node->kind == INNER)
        node = node_at(node->inner.children[child_of(&node->inner, key)]);
    return &node->leaf;
}

static int slot_of(const struct leaf *leaf, uint64_t key)
{
    for (int slot = 0; slot < SLOTS; slot++)
        if (leaf->valid >> slot & 1 && leaf->entries[slot].key == key)
            return slot;
    return -1;
}

static int is_full(const union node *node)
{
    return node->kind == LEAF ? node->leaf.valid == (1u << SLOTS) - 1 : node->inner.count == FANOUT;
}

/* Moves the upper half of a full leaf to a new one, and returns the least key there. */
static uint64_t split_leaf(struct leaf *leaf, uint32_t number)
{
    struct leaf *right = &node_at(number)->leaf;
    uint64_t keys[SLOTS];
    for (int slot = 0; slot < SLOTS; slot++) {
        int place = slot;
        for (; place > 0 && keys[place - 1] > leaf->entries[slot].key; place--)
            keys[place] = keys[place - 1];
        keys[place] = leaf->entries[slot].key;
    }
    uint64_t middle = keys[SLOTS / 2], moved = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        if (leaf->entries[slot].key >= middle) {
            right->entries[slot] = leaf->entries[slot];
            moved |= 1ull << slot;
        }
    }
    right->kind = LEAF;
    right->valid = moved;
    right->next = leaf->next;
    leaf->valid &= ~moved;
    leaf->next = number;
    return middle;
}

static uint64_t split_inner(struct inner *inner, uint32_t number)
{
    struct inner *right = &node_at(number)->inner;
    unsigned half = FANOUT / 2;
    right->kind = INNER;
    right->count = FANOUT - half;
    memcpy(right->keys, inner->keys + half, (right->count - 1) * sizeof *right->keys);
    memcpy(right->children, inner->children + half, right->count * sizeof *right->children);
    inner->count = half;
    return inner->keys[half - 1];
}

/* Splits the full child with this index of a parent that is not full. */
static void split(struct inner *parent, unsigned index)
{
    union node *child = node_at(parent->children[index]);
    if (flaw != 3)
        keep(parent, sizeof(union node));
    keep(child, sizeof *child);
    uint32_t number = take_node();
    uint64_t middle =
        child->kind == LEAF ? split_leaf(&child->leaf, number) : split_inner(&child->inner, number);
    for (unsigned n = parent->count; n > index + 1; n--) {
        parent->children[n] = parent->children[n - 1];
        parent->keys[n - 1] = parent->keys[n - 2];
    }
    parent->children[index + 1] = number;
    parent->keys[index] = middle;
    parent->count++;
    if (flaw != 4) {
        pm_flush(node_at(number), sizeof(union node));
        pm_flush(child, sizeof *child);
        pm_flush(parent, sizeof(union node));
    }
    empty_log();
}

/* Puts a new root above a full one. */
static void grow(void)
{
    uint32_t number = take_node();
    struct inner *root = &node_at(number)->inner;
    root->kind = INNER;
    root->count = 1;
    root->children[0] = (uint32_t)pool->root;
    pm_persist(root, sizeof(union node));
    pool->root = number;
    pm_persist(&pool->root, sizeof pool->root);
}

static void put(uint64_t key, uint64_t value)
{
    if (is_full(node_at(pool->root)))
        grow();
    union node *node = node_at(pool->root);
    while (node->kind == INNER) {
        unsigned index = child_of(&node->inner, key);
        if (is_full(node_at(node->inner.children[index]))) {
            split(&node->inner, index);
            index = child_of(&node->inner, key);
        }
        node = node_at(node->inner.children[index]);
    }
    struct leaf *leaf = &node->leaf;
    int old = slot_of(leaf, key), slot = __builtin_ctzll(~leaf->valid);
    uint64_t valid = (leaf->valid | 1ull << slot) & ~(old < 0 ? 0 : 1ull << old);
    if (flaw == 6) {
        leaf->valid = valid;
        pm_persist(&leaf->valid, sizeof leaf->valid);
    }
    leaf->entries[slot] = (struct entry){key, value};
    pm_persist(&leaf->entries[slot], sizeof(struct entry));
    leaf->valid = valid;
    pm_persist(&leaf->valid, sizeof leaf->valid);
}

static void erase(uint64_t key)
{
    struct leaf *leaf = leaf_of(key);
    int slot = slot_of(leaf, key);
    if (slot < 0)
        return;
    leaf->valid &= ~(1ull << slot);
    pm_persist(&leaf->valid, sizeof leaf->valid);
}

static uint64_t get(uint64_t key)
{
    const struct leaf *leaf = leaf_of(key);
    int slot = slot_of(leaf, key);
    return slot < 0 ? 0 : leaf->entries[slot].value;
}

static void work(uint64_t thread, uint64_t operations)
{
    uint64_t first = pool->header.done[thread].value;
    for (uint64_t n = first; n < first + operations; n++) {
        struct operation operation = operation_of(thread, n);
        if (operation.action == GET) {
            pthread_rwlock_rdlock(&lock);
            uint64_t value = get(operation.key);
            if (value && value >> 32 != thread + 1)
                pm_broken("key %llu holds a value of another thread",
                          (unsigned long long)operation.key);
        } else {
            pthread_rwlock_wrlock(&lock);
            if (operation.action == PUT)
                put(operation.key, operation.value);
            else
                erase(operation.key);
        }
        pthread_rwlock_unlock(&lock);
        pm_complete(&pool->header, thread, n + 1);
    }
}

/* What a walk through the tree finds. */
static unsigned char reached[NODES];
static uint32_t last_next;
static uint64_t *held;

static void walk_leaf(const struct leaf *leaf, uint64_t number, uint64_t low, uint64_t high)
{
    if (last_next != 0 && last_next != number)
        pm_broken("the leaf before leaf %llu leads to leaf %u", (unsigned long long)number,
                  last_next);
    last_next = leaf->next ? leaf->next : NODES + 1;
    if (leaf->valid >> SLOTS)
        pm_broken("leaf %llu has bits of no slot", (unsigned long long)number);
    for (int slot = 0; slot < SLOTS; slot++) {
        if (!(leaf->valid >> slot & 1))
            continue;
        uint64_t key = leaf->entries[slot].key;
        if (key < low || key >= high)
            pm_broken("key %llu is in a leaf from %llu to %llu", (unsigned long long)key,
                      (unsigned long long)low, (unsigned long long)high);
        if (held[key] || leaf->entries[slot].value == 0)
            pm_broken("key %llu is there twice or without a value", (unsigned long long)key);
        held[key] = leaf->entries[slot].value;
    }
}

/* Walks the subtree with the keys from low to below high; returns its height. */
static unsigned walk(uint64_t number, uint64_t low, uint64_t high, unsigned depth)
{
    if (number == 0 || number > NODES || depth > DEPTH_MAX)
        pm_broken("a link of the tree leaves the pool");
    if (reached[number - 1]++)
        pm_broken("two links lead to node %llu", (unsigned long long)number);
    const union node *node = node_at(number);
    if (number > used_nodes)
        used_nodes = number;
    if (node->kind == LEAF) {
        walk_leaf(&node->leaf, number, low, high);
        return 0;
    }
    const struct inner *inner = &node->inner;
    if (node->kind != INNER || inner->count == 0 || inner->count > FANOUT)
        pm_broken("node %llu is neither a leaf nor an inner node", (unsigned long long)number);
    unsigned height = 0;
    for (unsigned n = 0; n < inner->count; n++) {
        uint64_t from = n ? inner->keys[n - 1] : low;
        uint64_t to = n + 1 < inner->count ? inner->keys[n] : high;
        if (from < low || from > to || to > high)
            pm_broken("the keys of node %llu are not in order", (unsigned long long)number);
        unsigned below = walk(inner->children[n], from, to, depth + 1);
        if (n && below != height)
            pm_broken("node %llu has children of two heights", (unsigned long long)number);
        height = below;
    }
    return height + 1;
}

static void create(void)
{
    struct leaf *leaf = &node_at(take_node())->leaf;
    leaf->kind = LEAF;
    pm_persist(leaf, sizeof *leaf);
    pool->root = 1;
    pm_persist(&pool->root, sizeof pool->root);
    used_nodes = 0;
    pm_created(&pool->header, MAGIC);
}

int main(int count, char **words)
{
    static uint64_t values[KEYS];
    struct pm_command command = pm_command_line(count, words, 7);
    flaw = command.flaw;
    held = values;
    pool = pm_map(command.path, POOL_BYTES, command.run);
    int created = pm_is_created(&pool->header, MAGIC);
    if (!created && !command.run)
        return PM_OK;
    if (!created)
        create();
    undo();
    walk(pool->root, 0, KEYS, 0);
    if (last_next != NODES + 1)
        pm_broken("the last leaf leads to leaf %u", last_next);
    model_check(&pool->header, held);
    if (!command.run)
        return PM_OK;
    pm_allow_threads(&pool->header, command.threads);
    pm_threads(command.threads, command.operations, work);
    return PM_OK;
}
