/*
 * A phone book in a file: names to numbers, and numbers to names in order. Both change together,
 * in one transaction, so no crash leaves a name without its number.
 *
 *   phonebook POOL add NAME NUMBER | find NAME | remove NAME | list
 *   phonebook POOL fill THREADS STEPS    adds and removes, and says each step when it is durable
 */
#include <libseawall.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sw_pool *pool;
static sw_ref names;   /* a map: name -> number and the ref of the name */
static sw_ref numbers; /* an ordered map: number -> ref of the name */

struct person {
    uint64_t number;
    sw_ref name; /* an object: the name with its final zero */
};

static void must(int status, const char *what)
{
    if (status != SW_OK) {
        fprintf(stderr, "phonebook: %s: %s\n", what, sw_error_text());
        exit(1);
    }
}

static int add_in(sw_tx tx, const char *name, uint64_t number)
{
    struct person person = {number, 0};
    int status = sw_tx_alloc_copy(tx, name, strlen(name) + 1, &person.name);
    if (status == SW_OK)
        status = sw_tx_map_put(tx, names, name, strlen(name), &person, sizeof person, NULL);
    if (status == SW_OK)
        status = sw_tx_omap_put(tx, numbers, number, person.name, NULL);
    return status;
}

static int remove_in(sw_tx tx, const char *name)
{
    struct person person;
    int status = sw_tx_map_get(tx, names, name, strlen(name), &person, sizeof person, NULL);
    if (status == SW_OK)
        status = sw_tx_map_remove(tx, names, name, strlen(name));
    if (status == SW_OK)
        status = sw_tx_omap_remove(tx, numbers, person.number);
    if (status == SW_OK)
        status = sw_tx_free(tx, person.name);
    return status;
}

/* Removes a person, if one is named, and adds another, at once. */
static void change(const char *name, uint64_t number, const char *gone)
{
    for (;;) {
        sw_tx tx;
        must(sw_tx_begin(pool, SW_REDO, &tx), "begin");
        int status = gone != NULL ? remove_in(tx, gone) : SW_OK;
        if (status == SW_OK && name != NULL)
            status = add_in(tx, name, number);
        if (status == SW_OK)
            status = sw_tx_commit(tx); /* durable here */
        else
            sw_tx_abort(tx);
        if (status == SW_NOT_FOUND)
            fprintf(stderr, "phonebook: there is no %s\n", gone);
        else if (status != SW_BUSY) /* another thread was in the way: run it again */
            must(status, "change");
        if (status != SW_BUSY)
            return;
    }
}

static uint64_t steps;

static void *fill(void *argument)
{
    const uint64_t thread = (uint64_t)(uintptr_t)argument;
    for (uint64_t step = 0; step < steps; step++) {
        char name[64], gone[64], line[64];
        snprintf(name, sizeof name, "%" PRIu64 "-%" PRIu64, thread, step);
        snprintf(gone, sizeof gone, "%" PRIu64 "-%" PRIu64, thread, step - 1);
        change(name, thread * 1000000 + step, step % 3 == 2 ? gone : NULL);
        const int length = snprintf(line, sizeof line, "%" PRIu64 " %" PRIu64 "\n", thread, step);
        if (write(1, line, (size_t)length) != length)
            return NULL;
    }
    return NULL;
}

static void fill_all(uint64_t count)
{
    pthread_t *threads = calloc(count, sizeof *threads);
    for (uint64_t thread = 0; thread < count; thread++)
        if (pthread_create(&threads[thread], NULL, fill, (void *)(uintptr_t)thread) != 0)
            exit(1);
    for (uint64_t thread = 0; thread < count; thread++)
        pthread_join(threads[thread], NULL);
    free(threads);
}

static void list(void)
{
    sw_entry entry;
    size_t count;
    for (uint64_t from = 0;; from = entry.key + 1) {
        const int status = sw_omap_range(pool, numbers, from, UINT64_MAX, &entry, 1, &count);
        if (status == SW_NOT_FOUND)
            break;
        must(status, "list");
        const char *name = sw_direct(pool, entry.value);
        struct person person;
        must(sw_map_get(pool, names, name, strlen(name), &person, sizeof person, NULL), name);
        if (person.number != entry.key || person.name != entry.value) {
            fprintf(stderr, "phonebook: %s has two numbers\n", name);
            exit(1);
        }
        printf("%" PRIu64 " %s\n", entry.key, name);
    }
    uint64_t all, ordered;
    must(sw_map_count(pool, names, &all), "count");
    must(sw_omap_count(pool, numbers, &ordered), "count");
    if (all != ordered) {
        fprintf(stderr, "phonebook: %" PRIu64 " names, %" PRIu64 " numbers\n", all, ordered);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const struct sw_options options = {.layout = "phonebook 1"};
    const char *command = argc > 2 ? argv[2] : "";
    if (argc < 3)
        return 2;
    int status = sw_pool_open(argv[1], &options, &pool);
    if (status == SW_MISSING)
        status = sw_pool_create(argv[1], &options, &pool);
    must(status, "open");
    sw_ref root;
    must(sw_pool_root(pool, &root, NULL), "root");
    names = root;
    numbers = root + SW_MAP_BYTES;
    if (sw_map_open(pool, names) == SW_NO_MAP)
        must(sw_map_create(pool, names), "create");
    if (sw_omap_open(pool, numbers) == SW_NO_MAP)
        must(sw_omap_create(pool, numbers), "create");
    if (argc == 5 && strcmp(command, "add") == 0) {
        struct person person;
        const int found =
            sw_map_get(pool, names, argv[3], strlen(argv[3]), &person, sizeof person, NULL);
        change(argv[3], strtoull(argv[4], NULL, 10), found == SW_OK ? argv[3] : NULL);
    } else if (argc == 4 && strcmp(command, "remove") == 0) {
        change(NULL, 0, argv[3]);
    } else if (argc == 4 && strcmp(command, "find") == 0) {
        struct person person;
        must(sw_map_get(pool, names, argv[3], strlen(argv[3]), &person, sizeof person, NULL),
             "find");
        printf("%" PRIu64 "\n", person.number);
    } else if (argc == 5 && strcmp(command, "fill") == 0) {
        steps = strtoull(argv[4], NULL, 10);
        fill_all(strtoull(argv[3], NULL, 10));
    } else {
        list();
    }
    must(sw_pool_close(pool), "close");
    return 0;
}
