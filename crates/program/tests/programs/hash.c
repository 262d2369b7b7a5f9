/* hash.c: a persistent hash table with chains and a lock for each bucket.
 *
 *     hash run POOL THREADS OPS [FLAW]      hash check POOL [FLAW]
 *
 * A node is one line and never changes while it is linked: a put makes a new node that replaces the
 * old one, and one store of 8 bytes (a bucket or the next of a node) publishes it. Free nodes are
 * known only to the running program; opening finds those that no chain reaches.
 *
 * Flaws:
 *   1  missing flush: a node is linked before it is written back
 *   2  missing fence: the node is flushed, but nothing orders it before the link
 *   3  wrong order: a node is filled in after it is linked
 *   4  missing flush: a link is never written back, so completed operations get lost
 *   5  non-atomic update: a put changes value and sum of a linked node in place
 *   6  wrong order: an operation counts as complete before the fence of its link */
#include "model.h"

#define MAGIC 0x3168736168ull
#define BUCKETS 128
#define NODES (2 * KEYS)

struct node {
    uint64_t key, value, next;
    /* Mixes key and value: tells a torn node. */
    uint64_t sum;
    uint64_t unused[4];
};

struct pool {
    struct pm_header header;
    /* The numbers of the first nodes, plus 1; 0 ends a chain. */
    uint64_t buckets[BUCKETS];
    struct node nodes[NODES];
};

#define POOL_BYTES (1u << 20)
_Static_assert(sizeof(struct pool) <= POOL_BYTES, "the pool holds the table");

static struct pool *pool;
static unsigned flaw;
static pthread_mutex_t locks[BUCKETS];
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t free_nodes[NODES], free_count;

static uint64_t bucket_of(uint64_t key)
{
    return key * 0x9e3779b97f4a7c15u >> 57;
}

static uint64_t sum_of(uint64_t key, uint64_t value)
{
    return (key ^ value * 0xff51afd7ed558ccdu) + 1;
}

static uint64_t take_node(void)
{
    pthread_mutex_lock(&free_lock);
    uint64_t node = free_nodes[--free_count];
    pthread_mutex_unlock(&free_lock);
    return node;
}

static void give_node(uint64_t node)
{
    pthread_mutex_lock(&free_lock);
    free_nodes[free_count++] = node;
    pthread_mutex_unlock(&free_lock);
}

/* The link that leads to the node of the key, or the end of its chain. */
static uint64_t *find(uint64_t key)
{
    uint64_t *link = &pool->buckets[bucket_of(key)];
    while (*link && pool->nodes[*link - 1].key != key)
        link = &pool->nodes[*link - 1].next;
    return link;
}

static void fill(struct node *node, uint64_t key, uint64_t value, uint64_t next)
{
    node->key = key;
    node->value = value;
    node->next = next;
    node->sum = sum_of(key, value);
}

/* Stores a link and makes it durable. */
static void publish(uint64_t *link, uint64_t node)
{
    *link = node;
    if (flaw != 4)
        pm_flush(link, sizeof *link);
    if (flaw != 6)
        pm_fence();
}

static void put(uint64_t key, uint64_t value, uint64_t fresh)
{
    uint64_t *link = find(key), old = *link;
    if (flaw == 5 && old) {
        pool->nodes[old - 1].value = value;
        pool->nodes[old - 1].sum = sum_of(key, value);
        pm_persist(&pool->nodes[old - 1], sizeof(struct node));
        give_node(fresh);
        return;
    }
    struct node *node = &pool->nodes[fresh];
    uint64_t next = old ? pool->nodes[old - 1].next : 0;
    if (flaw == 3) {
        node->next = next;
        publish(link, fresh + 1);
    }
    fill(node, key, value, next);
    if (flaw != 1)
        pm_flush(node, sizeof *node);
    if (flaw != 2)
        pm_fence();
    if (flaw != 3)
        publish(link, fresh + 1);
    if (old)
        give_node(old - 1);
}

static void erase(uint64_t key)
{
    uint64_t *link = find(key), old = *link;
    if (!old)
        return;
    publish(link, pool->nodes[old - 1].next);
    give_node(old - 1);
}

static void work(uint64_t thread, uint64_t operations)
{
    uint64_t first = pool->header.done[thread].value;
    for (uint64_t n = first; n < first + operations; n++) {
        struct operation operation = operation_of(thread, n);
        uint64_t fresh = operation.action == PUT ? take_node() : 0;
        pthread_mutex_t *lock = &locks[bucket_of(operation.key)];
        pthread_mutex_lock(lock);
        if (operation.action == PUT) {
            put(operation.key, operation.value, fresh);
        } else if (operation.action == ERASE) {
            erase(operation.key);
        } else {
            uint64_t node = *find(operation.key);
            if (node && pool->nodes[node - 1].value >> 32 != thread + 1)
                pm_broken("key %llu holds a value of another thread",
                          (unsigned long long)operation.key);
        }
        if (flaw == 6)
            pm_complete(&pool->header, thread, n + 1);
        pthread_mutex_unlock(lock);
        pm_complete(&pool->header, thread, n + 1);
    }
}

/* Walks all chains, says what they hold, and finds the free nodes. */
static void recover(uint64_t *held)
{
    static unsigned char reached[NODES];
    memset(reached, 0, sizeof reached);
    for (uint64_t b = 0; b < BUCKETS; b++) {
        for (uint64_t at = pool->buckets[b]; at; at = pool->nodes[at - 1].next) {
            if (at > NODES)
                pm_broken("a chain of bucket %llu leaves the pool", (unsigned long long)b);
            const struct node *node = &pool->nodes[at - 1];
            if (reached[at - 1]++)
                pm_broken("two links lead to node %llu", (unsigned long long)at - 1);
            if (node->key >= KEYS || bucket_of(node->key) != b)
                pm_broken("key %#llx is in bucket %llu", (unsigned long long)node->key,
                          (unsigned long long)b);
            if (node->sum != sum_of(node->key, node->value))
                pm_broken("the node of key %llu is torn", (unsigned long long)node->key);
            if (held[node->key])
                pm_broken("key %llu is there twice", (unsigned long long)node->key);
            held[node->key] = node->value;
        }
    }
    free_count = 0;
    for (uint64_t n = 0; n < NODES; n++)
        if (!reached[n])
            free_nodes[free_count++] = n;
}

int main(int count, char **words)
{
    static uint64_t held[KEYS];
    struct pm_command command = pm_command_line(count, words, 6);
    flaw = command.flaw;
    pool = pm_map(command.path, POOL_BYTES, command.run);
    int created = pm_is_created(&pool->header, MAGIC);
    if (!created && !command.run)
        return PM_OK;
    if (!created)
        pm_created(&pool->header, MAGIC);
    recover(held);
    model_check(&pool->header, held);
    if (!command.run)
        return PM_OK;
    pm_allow_threads(&pool->header, command.threads);
    for (unsigned b = 0; b < BUCKETS; b++)
        pthread_mutex_init(&locks[b], NULL);
    pm_threads(command.threads, command.operations, work);
    return PM_OK;
}
