/*
 * Queues whose nodes are moved while threads use them: each thread has one, to which it appends
 * numbers; after a while it takes out all but each eighth. Pages that hold few nodes are emptied by
 * a thread that calls sw_defragment, and return to the file system.
 *
 *     queues POOL fill THREADS STEPS     each thread says `thread step` when a step is durable
 *     queues POOL list                   what is in the queues: a line `thread numbers...` each
 *     queues POOL compact                defragments, and prints the blocks of the file before and
 *                                        after
 */
#include <libseawall.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 16, LATE = 64, KEPT = 8, FILLING = 14 };

/* Refs are offsets in the pool. The library knows where they are from the types below. */
struct node {
    uint64_t number;
    sw_ref next;
    uint64_t filling[FILLING];
};

struct root {
    sw_ref first[THREADS];
    sw_ref last[THREADS];
};

static const uint64_t node_refs[] = {offsetof(struct node, next)};
static const struct sw_type types[] = {{"node", sizeof(struct node), node_refs, 1}};
enum { NODE = 0 }; /* the place in `types` */

static uint64_t root_refs[2 * THREADS]; /* all of it */
static const struct sw_type root_type = {"root", sizeof(struct root), root_refs, 2 * THREADS};

static sw_pool *pool;
static uint64_t steps;
static atomic_int is_over;

static void check(int status, const char *what)
{
    if (status != SW_OK) {
        fprintf(stderr, "%s: %s\n", what, sw_error_text());
        exit(1);
    }
}

static size_t of_first(size_t queue) { return offsetof(struct root, first) + 8 * queue; }
static size_t of_last(size_t queue) { return offsetof(struct root, last) + 8 * queue; }

/* Appends a number. */
static void append(sw_tx tx, sw_ref root, size_t queue, uint64_t number)
{
    struct node node = {number, 0, {0}};
    sw_ref new, last;
    for (size_t word = 0; word < FILLING; word++)
        node.filling[word] = number * 3;
    check(sw_tx_new(tx, NODE, &node, &new), "a node");
    check(sw_tx_load64(tx, root, of_last(queue), &last), "the last");
    if (last)
        check(sw_tx_store64(tx, last, offsetof(struct node, next), new), "the link");
    else
        check(sw_tx_store64(tx, root, of_first(queue), new), "the first");
    check(sw_tx_store64(tx, root, of_last(queue), new), "the last");
}

/* Takes out a number that is not the last one. */
static void take_out(sw_tx tx, sw_ref root, size_t queue, uint64_t number)
{
    sw_ref in = root, at;
    uint64_t offset = of_first(queue);
    for (;;) {
        struct node node;
        check(sw_tx_load64(tx, in, offset, &at), "a link");
        check(sw_tx_read(tx, at, 0, &node, sizeof node), "a node");
        if (node.number == number) {
            check(sw_tx_store64(tx, in, offset, node.next), "the link");
            check(sw_tx_free(tx, at), "the node");
            return;
        }
        in = at;
        offset = offsetof(struct node, next);
    }
}

static void *fill(void *argument)
{
    size_t queue = (size_t)argument;
    sw_ref root;
    check(sw_pool_root(pool, &root, NULL), "the root");
    for (uint64_t step = 0; step < steps; step++) {
        char line[64];
        sw_tx tx;
        check(sw_tx_begin(pool, step % 5 == 0 ? SW_UNDO : SW_REDO, &tx), "a transaction");
        append(tx, root, queue, step);
        if (step >= LATE && (step - LATE) % KEPT != 0)
            take_out(tx, root, queue, step - LATE);
        check(sw_tx_commit(tx), "the commit");
        int length = snprintf(line, sizeof line, "%zu %llu\n", queue, (unsigned long long)step);
        if (write(1, line, length) != length)
            exit(1);
    }
    return NULL;
}

/* Keeps the pool small, until the program is over; says what that took. */
static void *collect(void *argument)
{
    struct sw_defragmented done = {0};
    (void)argument;
    while (!atomic_load(&is_over)) {
        check(sw_defragment(pool, 16, &done), "a cycle");
        if (done.state != SW_DEFRAGMENT_WORKS)
            usleep(100);
    }
    fprintf(stderr, "%llu pages emptied in %llu cycles, %llu returned\n",
            (unsigned long long)done.emptied, (unsigned long long)done.cycles,
            (unsigned long long)done.returned);
    return NULL;
}

static void fill_all(size_t threads)
{
    pthread_t collector, workers[THREADS];
    pthread_create(&collector, NULL, collect, NULL);
    for (size_t thread = 0; thread < threads; thread++)
        pthread_create(&workers[thread], NULL, fill, (void *)thread);
    for (size_t thread = 0; thread < threads; thread++)
        pthread_join(workers[thread], NULL);
    atomic_store(&is_over, 1);
    pthread_join(collector, NULL);
}

static void list(void)
{
    sw_ref root;
    sw_tx tx;
    check(sw_pool_root(pool, &root, NULL), "the root");
    check(sw_tx_begin(pool, SW_REDO, &tx), "a transaction");
    for (size_t queue = 0; queue < THREADS; queue++) {
        sw_ref at, last, end = 0;
        check(sw_tx_load64(tx, root, of_first(queue), &at), "the first");
        check(sw_tx_load64(tx, root, of_last(queue), &last), "the last");
        printf("%zu", queue);
        while (at) {
            struct node node;
            check(sw_tx_read(tx, at, 0, &node, sizeof node), "a node");
            printf(" %llu", (unsigned long long)node.number);
            for (size_t word = 0; word < FILLING; word++)
                if (node.filling[word] != node.number * 3)
                    printf("?");
            end = at;
            at = node.next;
        }
        printf(end == last ? "\n" : " but the last is another\n");
    }
    check(sw_tx_abort(tx), "the end");
}

static long blocks(const char *path)
{
    struct stat of;
    return stat(path, &of) == 0 ? (long)of.st_blocks : -1;
}

static void compact(const char *path)
{
    long before = blocks(path);
    struct sw_defragmented done;
    do
        check(sw_defragment(pool, 1000, &done), "a cycle");
    while (done.state == SW_DEFRAGMENT_WORKS);
    printf("%llu pages emptied, %llu returned; %ld blocks, then %ld\n",
           (unsigned long long)done.emptied, (unsigned long long)done.returned, before,
           blocks(path));
}

int main(int count, char **words)
{
    struct sw_options options = {0};
    if (count < 3)
        return 2;
    for (size_t ref = 0; ref < 2 * THREADS; ref++)
        root_refs[ref] = 8 * ref;
    options.layout = "queues 1";
    options.types = types;
    options.type_count = 1;
    options.root = &root_type;
    int status = sw_pool_open(words[1], &options, &pool);
    if (status == SW_MISSING)
        status = sw_pool_create(words[1], &options, &pool);
    check(status, "the pool");
    if (strcmp(words[2], "fill") == 0 && count == 5) {
        steps = strtoull(words[4], NULL, 10);
        fill_all(strtoull(words[3], NULL, 10) % (THREADS + 1));
    } else if (strcmp(words[2], "list") == 0) {
        list();
    } else if (strcmp(words[2], "compact") == 0) {
        compact(words[1]);
    } else {
        return 2;
    }
    check(sw_pool_close(pool), "the end");
    return 0;
}
