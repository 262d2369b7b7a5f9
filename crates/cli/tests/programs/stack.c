/* A stack in a pool of libpmemobj, whose nodes are counted:
 *
 *   stack create POOL
 *   stack run POOL THREADS PUSHES FLAW    makes the pool, if there is none
 *   stack check POOL
 *
 * Flaws: 0 none, 1 a range is not added, 2 a flush is missing, 3 a word is stored before what it
 * vouches for, 4 two transactions instead of one. */
#include <libpmemobj.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 8

enum flaw { NOT_ADDED = 1, NOT_FLUSHED, PUBLISHED_EARLY, TWO_TRANSACTIONS };

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
static int pushes, flaw;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, pmemobj_errormsg());
    exit(1);
}

static void push(void)
{
    TX_BEGIN_PARAM(pool, TX_PARAM_MUTEX, &top->lock, TX_PARAM_NONE) {
        pmemobj_tx_add_range_direct(&top->first, sizeof top->first);
        if (flaw != NOT_ADDED)
            pmemobj_tx_add_range_direct(&top->count, sizeof top->count);
        PMEMoid made = pmemobj_tx_alloc(sizeof(struct node), 1);
        struct node *node = pmemobj_direct(made);
        node->next = top->first;
        node->value = top->count + 1;
        node->twice = 2 * node->value;
        top->first = made;
        if (flaw != TWO_TRANSACTIONS)
            top->count++;
    } TX_ONABORT {
        fail("push");
    } TX_END
    if (flaw == TWO_TRANSACTIONS) {
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
    if (flaw == PUBLISHED_EARLY)
        top->noted = value;
    if (flaw != NOT_FLUSHED)
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
    const char *path = words[2];
    pool = pmemobj_open(path, "stack");
    if (pool == NULL && strcmp(words[1], "check") == 0 && strstr(pmemobj_errormsg(), "cut short"))
        return 0; /* It was never made. */
    if (pool == NULL && strcmp(words[1], "check") != 0)
        pool = pmemobj_create(path, "stack", PMEMOBJ_MIN_POOL, 0600);
    if (pool == NULL)
        fail(path);
    top = pmemobj_direct(pmemobj_root(pool, sizeof *top));
    int result = 0;
    if (strcmp(words[1], "check") == 0)
        result = check();
    if (count > 5) {
        pushes = atoi(words[4]);
        flaw = atoi(words[5]);
        run(atoi(words[3]));
    }
    pmemobj_close(pool);
    return result;
}
