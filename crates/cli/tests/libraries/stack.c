/* A stack in a pool of libpmemobj, whose top is also counted: STACK create|run|check|fresh POOL
 * [THREADS PUSHES]; fresh is create and run. A bug is planted with -DBUG=N; 0 is none. */
#include <libpmemobj.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef BUG
#define BUG 0
#endif
#define THREADS_MAX 8

enum { NOT_ADDED = 1, NOT_FLUSHED, PUBLISHED_EARLY, TWO_TRANSACTIONS };

struct node {
    PMEMoid next;
    uint64_t value, twice;
};

struct top {
    PMEMmutex lock;
    PMEMoid first;
    uint64_t count;
    uint64_t note[8]; /* stored in place, and then how far that is durable */
    char another_line[64];
    uint64_t noted;
};

static PMEMobjpool *pool;
static struct top *top;
static int pushes;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, pmemobj_errormsg());
    exit(1);
}

static void push(void)
{
    TX_BEGIN_PARAM(pool, TX_PARAM_MUTEX, &top->lock, TX_PARAM_NONE) {
        pmemobj_tx_add_range_direct(&top->first, sizeof top->first);
        if (BUG != NOT_ADDED)
            pmemobj_tx_add_range_direct(&top->count, sizeof top->count);
        PMEMoid made = pmemobj_tx_alloc(sizeof(struct node), 1);
        struct node *node = pmemobj_direct(made);
        node->next = top->first;
        node->value = top->count + 1;
        node->twice = 2 * node->value;
        top->first = made;
        if (BUG != TWO_TRANSACTIONS)
            top->count++;
    } TX_ONABORT {
        fail("push");
    } TX_END
    if (BUG == TWO_TRANSACTIONS) {
        TX_BEGIN(pool) {
            pmemobj_tx_add_range_direct(&top->count, sizeof top->count);
            top->count++;
        } TX_END
    }
}

static void note(uint64_t value)
{
    for (int i = 0; i < 8; i++)
        top->note[i] = value;
    if (BUG == PUBLISHED_EARLY)
        top->noted = value;
    if (BUG != NOT_FLUSHED)
        pmemobj_flush(pool, top->note, sizeof top->note);
    pmemobj_drain(pool);
    top->noted = value;
    pmemobj_persist(pool, &top->noted, sizeof top->noted);
}

static void *work(void *first)
{
    for (int i = 0; i < pushes; i++) {
        push();
        if (first != NULL)
            note((uint64_t)i + 1);
    }
    return NULL;
}

static void run(int threads)
{
    pthread_t running[THREADS_MAX];
    for (int i = 0; i < threads; i++)
        pthread_create(&running[i], NULL, work, i == 0 ? top : NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(running[i], NULL);
    printf("%lu\n", (unsigned long)top->count);
}

static int check(void)
{
    uint64_t expected = top->count;
    for (PMEMoid at = top->first; !OID_IS_NULL(at); expected--) {
        struct node *node = pmemobj_direct(at);
        if (node->value != expected || node->twice != 2 * expected) {
            fprintf(stderr, "node %lu is wrong\n", (unsigned long)expected);
            return 1;
        }
        at = node->next;
    }
    for (int i = 0; i < 8; i++) {
        if (top->note[i] < top->noted) {
            fprintf(stderr, "note %lu is lost\n", (unsigned long)top->noted);
            return 1;
        }
    }
    if (expected != 0)
        fprintf(stderr, "%lu nodes are lost\n", (unsigned long)expected);
    return expected != 0;
}

int main(int count, char **words)
{
    if (count < 3)
        return 64;
    int creates = strcmp(words[1], "create") == 0 || strcmp(words[1], "fresh") == 0;
    pool = creates ? pmemobj_create(words[2], "stack", PMEMOBJ_MIN_POOL, 0600)
                   : pmemobj_open(words[2], "stack");
    if (pool == NULL)
        fail(words[2]);
    top = pmemobj_direct(pmemobj_root(pool, sizeof *top));
    int result = 0;
    if (count > 4) {
        pushes = atoi(words[4]);
        run(atoi(words[3]));
    } else if (!creates) {
        result = check();
    }
    pmemobj_close(pool);
    return result;
}
