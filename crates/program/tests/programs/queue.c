/* queue.c: a persistent first-in first-out queue of linked nodes with two locks (Michael and Scott,
 * PODC'96).
 *
 *     queue run POOL THREADS OPS [FLAW]     queue check POOL [FLAW]
 *
 * The head is the number of a node whose entry has been taken already; what follows it is in the
 * queue. One store to the next of the last node enqueues, one store to the head dequeues. The tail
 * only saves a walk: it may be old after a crash, and recovery sets it right. Nodes are numbered
 * along the queue, so the number of the head is the number of entries ever taken.
 *
 * Flaws:
 *   1  missing flush: a node is linked before it is written back
 *   2  missing fence: the node is flushed, but nothing orders it before the link
 *   3  missing flush: the link is never written back, so completed entries get lost
 *   4  missing flush: the head is never written back, so taken entries come again
 *   5  wrong order: a node is filled in after it is linked
 *   6  early reuse: a node is free before the head that leaves it is durable (needs two threads
 *      that meet)
 *   7  missing recovery step (flaw of check): the tail stays where the crash left it */
#include "pm.h"

#include <stdatomic.h>

#define MAGIC 0x31657565757165ull
#define NODES 16000

struct node {
    _Atomic uint64_t next; /* the number of a node, plus 1, or 0 */
    uint64_t position, thread, operation, sum;
    uint64_t unused[3];
};

struct pool {
    struct pm_header header;
    uint64_t head, unused_1[7];
    uint64_t tail, unused_2[7];
    /* What the counters miss of operations that crashes interrupted; set by recovery. */
    uint64_t put_uncounted, taken_uncounted, unused_3[6];
    struct node nodes[NODES];
};

#define POOL_BYTES (1u << 20)
_Static_assert(sizeof(struct pool) <= POOL_BYTES, "the pool holds the queue");

static struct pool *pool;
static unsigned flaw;
static pthread_mutex_t head_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t tail_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t free_nodes[NODES], free_count;

/* Whether the operation enqueues; the others dequeue. At first most do, to have a queue. */
static int enqueues(uint64_t thread, uint64_t number)
{
    return pm_random(thread, number) % 100 < (number < 16 ? 85 : 50);
}

static uint64_t sum_of(const struct node *node)
{
    return (node->position * 0x9e3779b97f4a7c15u ^ node->thread << 40 ^ node->operation) + 1;
}

static uint64_t take_node(void)
{
    pthread_mutex_lock(&free_lock);
    if (free_count == 0)
        errno = ENOSPC, pm_unusable("the queue is full");
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

static void fill(struct node *node, uint64_t position, uint64_t thread, uint64_t operation)
{
    node->position = position;
    node->thread = thread;
    node->operation = operation;
    node->sum = sum_of(node);
}

static void link_node(struct node *last, uint64_t node)
{
    atomic_store_explicit(&last->next, node + 1, memory_order_release);
    if (flaw != 3)
        pm_flush(&last->next, sizeof last->next);
    pm_fence();
}

static void enqueue(uint64_t thread, uint64_t operation)
{
    uint64_t fresh = take_node();
    struct node *node = &pool->nodes[fresh];
    pthread_mutex_lock(&tail_lock);
    struct node *last = &pool->nodes[pool->tail];
    uint64_t position = last->position + 1;
    atomic_store_explicit(&node->next, 0, memory_order_relaxed);
    if (flaw == 5)
        link_node(last, fresh);
    fill(node, position, thread, operation);
    if (flaw != 1)
        pm_flush(node, sizeof *node);
    if (flaw != 2)
        pm_fence();
    if (flaw != 5)
        link_node(last, fresh);
    pool->tail = fresh;
    if (flaw != 3)
        pm_persist(&pool->tail, sizeof pool->tail);
    pthread_mutex_unlock(&tail_lock);
}

/* Whether there was an entry to take. */
static int dequeue(void)
{
    pthread_mutex_lock(&head_lock);
    uint64_t old = pool->head;
    uint64_t next = atomic_load_explicit(&pool->nodes[old].next, memory_order_acquire);
    if (next) {
        pool->head = next - 1;
        if (flaw != 4 && flaw != 6)
            pm_flush(&pool->head, sizeof pool->head);
        pm_fence();
    }
    pthread_mutex_unlock(&head_lock);
    if (next)
        give_node(old);
    if (next && flaw == 6)
        pm_persist(&pool->head, sizeof pool->head);
    return next != 0;
}

static void work(uint64_t thread, uint64_t operations)
{
    struct pm_counter *counter = &pool->header.done[thread];
    uint64_t first = counter->value;
    for (uint64_t n = first; n < first + operations; n++) {
        if (enqueues(thread, n))
            enqueue(thread, n);
        else if (dequeue())
            counter->extra++;
        pm_complete(&pool->header, thread, n + 1);
    }
}

/* What a walk along the queue finds. */
static uint64_t first_position, last_position;
static uint64_t last_of[PM_THREADS_MAX]; /* the last operation of a thread in the queue, plus 1 */

static void check_node(const struct node *node)
{
    if (node->sum != sum_of(node) || node->thread >= pool->header.threads)
        pm_broken("the node at position %llu is torn", (unsigned long long)last_position);
    if (node->position != last_position + 1)
        pm_broken("position %llu follows position %llu", (unsigned long long)node->position,
                  (unsigned long long)last_position);
    uint64_t t = node->thread, n = node->operation, done = pool->header.done[t].value;
    if (n > done || !enqueues(t, n))
        pm_broken("operation %llu of thread %llu put no entry", (unsigned long long)n,
                  (unsigned long long)t);
    if (last_of[t] > n)
        pm_broken("the entries of thread %llu are not in order", (unsigned long long)t);
    for (uint64_t between = last_of[t]; last_of[t] && between < n; between++)
        if (enqueues(t, between))
            pm_broken("entry %llu of thread %llu is missing", (unsigned long long)between,
                      (unsigned long long)t);
    last_of[t] = n + 1;
}

/* Walks the queue, sets the tail right, and finds the free nodes. */
static void recover(void)
{
    static unsigned char reached[NODES];
    uint64_t at = pool->head;
    if (at >= NODES)
        pm_broken("the head leaves the pool");
    first_position = last_position = pool->nodes[at].position;
    for (;;) {
        if (reached[at]++)
            pm_broken("the queue has a loop");
        uint64_t next = pool->nodes[at].next;
        if (!next)
            break;
        if (next > NODES)
            pm_broken("the node at position %llu leads out of the pool",
                      (unsigned long long)last_position);
        at = next - 1;
        check_node(&pool->nodes[at]);
        last_position++;
    }
    if (flaw != 7 && pool->tail != at) {
        pool->tail = at;
        pm_persist(&pool->tail, sizeof pool->tail);
    }
    free_count = 0;
    for (uint64_t n = NODES; n-- > 0;)
        if (!reached[n])
            free_nodes[free_count++] = n;
}

/* The counted entries, and the number of threads that may have put or taken one more. */
struct tally {
    uint64_t put, taken, putting, taking;
};

static struct tally count_entries(void)
{
    struct tally tally = {pool->put_uncounted, pool->taken_uncounted, 0, 0};
    for (uint64_t t = 0; t < pool->header.threads; t++) {
        uint64_t done = pool->header.done[t].value, puts = 0;
        for (uint64_t n = 0; n < done; n++)
            puts += (uint64_t)enqueues(t, n);
        if (last_of[t])
            for (uint64_t n = last_of[t]; n < done; n++)
                if (enqueues(t, n))
                    pm_broken("entry %llu of thread %llu is missing", (unsigned long long)n,
                              (unsigned long long)t);
        tally.put += puts;
        tally.taken += pool->header.done[t].extra;
        *(enqueues(t, done) ? &tally.putting : &tally.taking) += 1;
    }
    return tally;
}

static void check(void)
{
    struct tally tally = count_entries();
    if (pool->nodes[pool->tail % NODES].position != last_position)
        pm_broken("the tail is not the last node");
    if (last_position < tally.put || last_position > tally.put + tally.putting)
        pm_broken("%llu entries were put, the queue has numbered %llu",
                  (unsigned long long)tally.put, (unsigned long long)last_position);
    if (first_position < tally.taken || first_position > tally.taken + tally.taking)
        pm_broken("%llu entries were taken, the head has left %llu",
                  (unsigned long long)tally.taken, (unsigned long long)first_position);
}

/* Counts the operations that a crash interrupted after their effect. */
static void settle(void)
{
    for (uint64_t t = 0; t < pool->header.threads; t++)
        if (last_of[t] == pool->header.done[t].value + 1)
            pm_complete(&pool->header, t, last_of[t]);
    struct tally tally = count_entries();
    pool->put_uncounted += last_position - tally.put;
    pool->taken_uncounted += first_position - tally.taken;
    pm_persist(&pool->put_uncounted, PM_LINE);
}

int main(int count, char **words)
{
    struct pm_command command = pm_command_line(count, words, 7);
    flaw = command.flaw;
    pool = pm_map(command.path, POOL_BYTES, command.run);
    int created = pm_is_created(&pool->header, MAGIC);
    if (!created && !command.run)
        return PM_OK;
    if (!created)
        pm_created(&pool->header, MAGIC); /* zeros: an empty queue whose head is node 0 */
    recover();
    check();
    if (!command.run)
        return PM_OK;
    settle();
    pm_allow_threads(&pool->header, command.threads);
    pm_threads(command.threads, command.operations, work);
    return PM_OK;
}
