/*
 * Every wrong use that is found, and what the call gives then: a table, row by row. Prints the rows
 * that are not so.
 */
#include <libseawall.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int bad;

static void row(int line, const char *call, int found, int wanted, const char *part)
{
    const char *text = sw_error_text();
    if (found != wanted) {
        printf("%d: %s gives %s (%s), not %s\n", line, call, sw_status_name(found), text,
               sw_status_name(wanted));
        bad++;
    } else if (wanted != SW_OK && wanted != SW_NOT_FOUND && strstr(text, part) == NULL) {
        printf("%d: %s says \"%s\", without \"%s\"\n", line, call, text, part);
        bad++;
    }
}

#define OK(call) row(__LINE__, #call, call, SW_OK, "")
#define GIVES(call, wanted, part) row(__LINE__, #call, call, wanted, part)

static char path[4096], other[4096];

static void write_file(const char *at, const char *text, size_t bytes)
{
    FILE *file = fopen(at, "w");
    if (file == NULL || fwrite(text, 1, bytes, file) != bytes)
        exit(2);
    fclose(file);
}

static void files(void)
{
    sw_pool *pool, *second;
    struct sw_options options = {0};
    static char zeros[8192];
    OK(sw_pool_create(path, NULL, &pool));
    GIVES(sw_pool_create(path, NULL, &second), SW_EXISTS, "exists already");
    GIVES(second == NULL ? SW_OK : SW_INVALID, SW_OK, "");
    GIVES(sw_pool_open(path, NULL, &second), SW_IN_USE, "in use");
    GIVES(sw_pool_open("/nowhere/pool", NULL, &second), SW_MISSING, "/nowhere/pool");
    GIVES(sw_pool_create("/nowhere/pool", NULL, &second), SW_MISSING, "/nowhere/pool");
    GIVES(sw_pool_open("/", NULL, &second), SW_NOT_A_POOL, "not an ordinary file");
    GIVES(sw_pool_open(NULL, NULL, &second), SW_INVALID, "the path is NULL");
    GIVES(sw_pool_open(path, NULL, NULL), SW_INVALID, "the place for the pool is NULL");
    GIVES(sw_pool_create(NULL, NULL, &second), SW_INVALID, "the path is NULL");
    OK(sw_pool_close(pool));

    options.layout = "mine";
    GIVES(sw_pool_open(path, &options, &pool), SW_OTHER_LAYOUT, "\"mine\"");
    options.domain = 9;
    GIVES(sw_pool_open(path, &options, &pool), SW_INVALID, "options.domain is 9");
    options = (struct sw_options){.reserved = {1}};
    GIVES(sw_pool_open(path, &options, &pool), SW_INVALID, "reserved");
    options = (struct sw_options){.threads = 5000};
    GIVES(sw_pool_create(other, &options, &pool), SW_INVALID, "threads is 5000");
    options = (struct sw_options){.root_bytes = 1 << 30};
    GIVES(sw_pool_create(other, &options, &pool), SW_INVALID, "root_bytes");
    options = (struct sw_options){.bytes = 1 << 20, .bytes_max = 1};
    GIVES(sw_pool_create(other, &options, &pool), SW_INVALID, "bytes_max");
    options = (struct sw_options){.bytes = (uint64_t)1 << 43};
    GIVES(sw_pool_create(other, &options, &pool), SW_NO_ROOM, "room");
    options = (struct sw_options){.bytes = UINT64_MAX};
    GIVES(sw_pool_create(other, &options, &pool), SW_INVALID, "bytes");

    write_file(other, "no pool", 7);
    GIVES(sw_pool_open(other, NULL, &pool), SW_NOT_A_POOL, "7 bytes");
    write_file(other, zeros, sizeof zeros);
    GIVES(sw_pool_open(other, NULL, &pool), SW_NOT_A_POOL, "not a seawall pool");
    if (geteuid() != 0) {
        chmod(other, 0);
        GIVES(sw_pool_open(other, NULL, &pool), SW_PERMISSION, "permission");
    }
    unlink(other);

    /* Cut off, and a header of which a byte is another. */
    FILE *file = fopen(path, "r");
    static char head[65536];
    if (file == NULL || fread(head, 1, sizeof head, file) != sizeof head)
        exit(2);
    fclose(file);
    write_file(other, head, sizeof head);
    GIVES(sw_pool_open(other, NULL, &pool), SW_DAMAGED, "truncated");
    head[40] ^= 1;
    write_file(other, head, sizeof head);
    GIVES(sw_pool_open(other, NULL, &pool), SW_DAMAGED, "damaged");
    unlink(other);
}

static void *other_thread(void *argument)
{
    GIVES(sw_tx_commit(*(sw_tx *)argument), SW_MISUSE, "belongs to the thread");
    GIVES(sw_tx_store64(*(sw_tx *)argument, 0, 0, 0), SW_MISUSE, "belongs to the thread");
    return NULL;
}

static sw_pool *pool;
static sw_ref root;

static void *leaves_open(void *argument)
{
    sw_tx *tx = argument;
    OK(sw_tx_begin(pool, SW_UNDO, tx));
    OK(sw_tx_store64(*tx, root, 64, 77));
    return NULL;
}

static void in_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, argument) != 0)
        exit(2);
    pthread_join(thread, NULL);
}

static void transactions(void)
{
    sw_tx tx, left;
    const sw_tx none = {0};
    uint64_t value, bytes;
    sw_ref ref, freed;
    OK(sw_pool_root(pool, &root, &bytes));
    OK(sw_pool_root(pool, NULL, NULL));
    GIVES(sw_tx_begin(NULL, SW_REDO, &tx), SW_INVALID, "the pool is NULL");
    GIVES(sw_tx_begin(pool, SW_REDO, NULL), SW_INVALID, "NULL");
    GIVES(sw_tx_begin(pool, 7, &tx), SW_INVALID, "SW_UNDO");
    GIVES(sw_tx_commit(none), SW_INVALID, "the pool is NULL");
    GIVES(sw_tx_commit((sw_tx){pool, 0}), SW_MISUSE, "over");
    GIVES(sw_tx_commit((sw_tx){pool, UINT64_MAX}), SW_MISUSE, "over");
    OK(sw_tx_begin(pool, SW_REDO, &tx));
    GIVES(sw_tx_begin(pool, SW_REDO, &left), SW_MISUSE, "has a transaction open");
    GIVES(sw_pool_close(pool), SW_BUSY, "in progress");
    in_thread(other_thread, &tx);
    GIVES(sw_tx_alloc(tx, 0, &ref), SW_INVALID, "0 bytes");
    GIVES(sw_tx_alloc(tx, 1, NULL), SW_INVALID, "NULL");
    GIVES(sw_tx_alloc(tx, UINT64_MAX, &ref), SW_NO_ROOM, "bytes_max");
    GIVES(sw_tx_alloc(tx, 3 << 20, &ref), SW_NO_ROOM, "no room");
    GIVES(sw_tx_alloc_copy(tx, NULL, 5, &ref), SW_INVALID, "data is NULL");
    GIVES(sw_tx_alloc_copy(tx, "x", SIZE_MAX, &ref), SW_INVALID, "more than memory");
    OK(sw_tx_alloc(tx, 100, &ref));
    OK(sw_tx_free(tx, 0));
    GIVES(sw_tx_free(tx, ref + 16), SW_INVALID, "no object starts");
    GIVES(sw_tx_free(tx, root), SW_INVALID, "no object starts");
    GIVES(sw_tx_free(tx, UINT64_MAX), SW_INVALID, "not in this pool");
    GIVES(sw_tx_write(tx, ref, 0, NULL, 1), SW_INVALID, "data is NULL");
    GIVES(sw_tx_write(tx, 0, 0, "x", 1), SW_INVALID, "not in this pool");
    GIVES(sw_tx_write(tx, 8, 0, "x", 1), SW_INVALID, "no data of this pool");
    GIVES(sw_tx_write(tx, root, bytes, "x", 1), SW_INVALID, "no data of this pool");
    GIVES(sw_tx_write(tx, root, UINT64_MAX, "x", 1), SW_INVALID, "not in this pool");
    GIVES(sw_tx_write(tx, (sw_ref)1 << 63, 0, "x", 1), SW_INVALID, "not in this pool");
    OK(sw_tx_write(tx, root, 0, NULL, 0));
    GIVES(sw_tx_read(tx, root, 7, &value, SIZE_MAX / 4), SW_INVALID, "at 7 behind ref");
    GIVES(sw_tx_read(tx, root, bytes - 1, &value, 2), SW_INVALID, "no data of this pool");
    GIVES(sw_tx_read(tx, root, 0, NULL, 2), SW_INVALID, "NULL");
    GIVES(sw_tx_read(tx, root, 0, &value, SIZE_MAX), SW_INVALID, "more than memory");
    GIVES(sw_tx_store64(tx, root, 4, 1), SW_INVALID, "multiple of 8");
    GIVES(sw_tx_load64(tx, root, 1, &value), SW_INVALID, "multiple of 8");
    GIVES(sw_tx_load64(tx, root, 0, NULL), SW_INVALID, "NULL");
    GIVES(sw_tx_add(tx, root, 0, 8), SW_INVALID, "SW_UNDO");
    OK(sw_tx_store64(tx, root, 64, 5));
    OK(sw_tx_load64(tx, root, 64, &value));
    GIVES(value == 5 ? SW_OK : SW_INVALID, SW_OK, "");
    OK(sw_tx_commit(tx));
    GIVES(sw_tx_commit(tx), SW_MISUSE, "over");
    GIVES(sw_tx_abort(tx), SW_MISUSE, "over");
    GIVES(sw_tx_free(tx, ref), SW_MISUSE, "over");
    OK(sw_tx_begin(pool, SW_UNDO, &tx));
    OK(sw_tx_free(tx, ref));
    freed = ref;
    GIVES(sw_tx_free(tx, freed), SW_INVALID, "freed before");
    GIVES(sw_tx_add(tx, root, bytes, 8), SW_INVALID, "no data of this pool");
    OK(sw_tx_add(tx, root, 64, 8));
    *(uint64_t *)((char *)sw_direct(pool, root) + 64) = 6;
    OK(sw_tx_abort(tx));
    GIVES(*(uint64_t *)((char *)sw_direct(pool, root) + 64) == 5 ? SW_OK : SW_INVALID, SW_OK, "");

    in_thread(leaves_open, &left);
    GIVES(*(uint64_t *)((char *)sw_direct(pool, root) + 64) == 5 ? SW_OK : SW_INVALID, SW_OK, "");
    GIVES(sw_tx_commit(left), SW_MISUSE, "over");
}

static void addresses(void)
{
    char local;
    GIVES(sw_direct(pool, 0) == NULL ? SW_OK : SW_INVALID, SW_OK, "");
    GIVES(sw_direct(pool, 8) == NULL ? SW_INVALID : SW_OK, SW_INVALID, "no data of this pool");
    GIVES(sw_direct(pool, UINT64_MAX) == NULL ? SW_INVALID : SW_OK, SW_INVALID, "not in this pool");
    GIVES(sw_direct(NULL, root) == NULL ? SW_INVALID : SW_OK, SW_INVALID, "NULL");
    GIVES(sw_ref_of(pool, &local) == 0 ? SW_INVALID : SW_OK, SW_INVALID, "not in this pool");
    GIVES(sw_ref_of(pool, sw_direct(pool, root)) == root ? SW_OK : SW_INVALID, SW_OK, "");
    GIVES(sw_persist(pool, sw_direct(pool, root), 8), SW_INVALID, "in_place");
    GIVES(sw_drain(pool), SW_INVALID, "in_place");
    GIVES(sw_defragment(pool, 1, NULL), SW_INVALID, "nothing moves");
    GIVES(strlen(sw_pool_durability_text(pool)) > 10 ? SW_OK : SW_INVALID, SW_OK, "");
    GIVES(strlen(sw_pool_durability_text(NULL)) == 0 ? SW_OK : SW_INVALID, SW_OK, "");
    GIVES(strcmp(sw_status_name(3), "SW_INVALID"), 0, "");
    GIVES(strstr(sw_status_name(-1), "no status") != NULL ? SW_OK : SW_INVALID, SW_OK, "");
}

static void in_place(void)
{
    char local;
    char *const at = sw_direct(pool, root);
    OK(sw_persist(pool, at, 8));
    OK(sw_flush(pool, at, 0));
    OK(sw_flush(pool, at + 3, 1));
    OK(sw_drain(pool));
    GIVES(sw_persist(pool, &local, 1), SW_INVALID, "not in this pool");
    GIVES(sw_persist(pool, NULL, 1), SW_INVALID, "not in this pool");
    GIVES(sw_persist(pool, at, SIZE_MAX), SW_INVALID, "not in this pool");
    GIVES(sw_flush(NULL, at, 1), SW_INVALID, "NULL");
}

static const uint64_t refs[] = {0, 24}, odd[] = {4}, behind[] = {16};
static const struct sw_type types[] = {{"pair", 32, refs, 2}, {"plain", 100, NULL, 0}};

/* What is said of types when a pool is made or opened. */
static void types_of_a_pool(struct sw_options options)
{
    struct sw_type wrong = {"wrong", 16, odd, 1};
    sw_pool *none;
    unlink(path);
    options.types = &wrong;
    options.type_count = 1;
    GIVES(sw_pool_create(path, &options, &none), SW_INVALID, "multiples of 8");
    wrong.refs = behind;
    GIVES(sw_pool_create(path, &options, &none), SW_INVALID, "within the object's 16 bytes");
    wrong.refs = NULL;
    GIVES(sw_pool_create(path, &options, &none), SW_INVALID, "refs of type wrong");
    wrong = (struct sw_type){NULL, 16, NULL, 0};
    GIVES(sw_pool_create(path, &options, &none), SW_INVALID, "NULL");
    wrong = (struct sw_type){"large", 16 << 20, NULL, 0};
    GIVES(sw_pool_create(path, &options, &none), SW_INVALID, "less than 16 MiB");
    options.types = NULL;
    GIVES(sw_pool_create(path, &options, &none), SW_INVALID, "options.types");
    options.types = types;
    options.type_count = 2;
    options.in_place = 1;
    GIVES(sw_pool_create(path, &options, &none), SW_INVALID, "in_place");
    options.in_place = 0;
    options.defragment_at = 0.5;
    GIVES(sw_pool_create(path, &options, &none), SW_INVALID, "defragment_at");
    options.defragment_at = 2;
    options.defragment_to = 0.5;
    GIVES(sw_pool_create(path, &options, &none), SW_INVALID, "defragment_to");
    options.defragment_to = 2.5;
    GIVES(sw_pool_create(path, &options, &none), SW_INVALID, "1 to the first");
    options.defragment_to = 1.5;
    OK(sw_pool_create(path, &options, &pool));
    OK(sw_pool_root(pool, &root, NULL));
}

static void moving(struct sw_options options)
{
    const struct sw_type changed[] = {{"pair", 40, refs, 2}};
    char bytes[40] = {0};
    sw_tx tx;
    sw_ref pair, plain, still;
    struct sw_defragmented done;
    OK(sw_tx_begin(pool, SW_UNDO, &tx));
    GIVES(sw_defragment(pool, 1, &done), SW_MISUSE, "transaction open");
    OK(sw_tx_new(tx, 0, NULL, &pair));
    OK(sw_tx_new(tx, 1, NULL, &plain));
    OK(sw_tx_alloc(tx, 32, &still));
    GIVES(sw_tx_new(tx, 2, NULL, &plain), SW_INVALID, "no type 2");
    GIVES(sw_tx_new(tx, 0, NULL, NULL), SW_INVALID, "NULL");
    OK(sw_tx_new(tx, 1, NULL, &plain));
    GIVES(sw_tx_write(tx, pair, 0, bytes, 33), SW_INVALID, "which has 32");
    GIVES(sw_tx_read(tx, pair, 20, bytes, 8), SW_INVALID, "part of the pointer at 24");
    GIVES(sw_tx_write(tx, pair, 4, bytes, 8), SW_INVALID, "part of the pointer at 0");
    GIVES(sw_tx_read(tx, plain + 16, 0, bytes, 8), SW_INVALID, "no object starts");
    GIVES(sw_tx_store64(tx, plain, 4, 1), SW_INVALID, "multiple of 8");
    GIVES(sw_tx_add(tx, pair, 8, 8), SW_INVALID, "can move");
    OK(sw_tx_add(tx, still, 8, 8));
    OK(sw_tx_store64(tx, pair, 24, plain));
    OK(sw_tx_store64(tx, root, 0, pair));
    OK(sw_tx_commit(tx));
    GIVES(sw_direct(pool, pair) == NULL ? SW_INVALID : SW_OK, SW_INVALID, "can move");
    GIVES(sw_direct(pool, still) != NULL ? SW_OK : SW_INVALID, SW_OK, "");
    GIVES(sw_map_create(pool, pair + 8), SW_INVALID, "can move");
    OK(sw_map_create(pool, root + 8));
    OK(sw_map_put(pool, root + 8, "a", 1, "b", 1, NULL));
    OK(sw_defragment(pool, 1000, &done));
    GIVES(done.state, SW_DEFRAGMENT_IDLE, "");
    OK(sw_defragment(pool, 1, NULL));
    GIVES(sw_defragment(NULL, 1, &done), SW_INVALID, "NULL");
    OK(sw_pool_close(pool));
    GIVES(sw_defragment(pool, 1, &done), SW_MISUSE, "closed");

    GIVES(sw_pool_open(path, &options, &pool), SW_OTHER_LAYOUT, "types of its root");
    options.types = changed;
    options.type_count = 1;
    GIVES(sw_pool_open(path, &options, &pool), SW_OTHER_LAYOUT, "it had 32 bytes");
    options.types = types + 1;
    OK(sw_pool_open(path, &options, &pool));
    OK(sw_tx_begin(pool, SW_REDO, &tx));
    GIVES(sw_tx_read(tx, pair, 0, bytes, 8), SW_OTHER_LAYOUT, "of type pair");
    OK(sw_tx_abort(tx));
    OK(sw_pool_close(pool));
    options.types = types;
    options.type_count = 2;
    OK(sw_pool_open(path, &options, &pool));
    OK(sw_tx_begin(pool, SW_REDO, &tx));
    OK(sw_tx_free(tx, plain));
    GIVES(sw_tx_free(tx, plain), SW_INVALID, "freed before");
    OK(sw_tx_commit(tx));
    OK(sw_pool_close(pool));
}

static void maps(void)
{
    const sw_ref map = root, ordered = root + 8;
    char value[8];
    size_t bytes;
    uint64_t count;
    sw_entry entries[4];
    sw_cursor *cursor;
    const void *at;
    sw_tx tx;
    int was;
    GIVES(sw_map_open(pool, map), SW_NO_MAP, "leads to no map");
    GIVES(sw_omap_open(pool, ordered), SW_NO_MAP, "no ordered map");
    GIVES(sw_map_get(pool, map, "k", 1, value, 8, NULL), SW_NO_MAP, "map");
    GIVES(sw_map_create(pool, root + 64), SW_EXISTS, "not zero");
    GIVES(sw_map_create(pool, root + 1), SW_INVALID, "multiple of 8");
    GIVES(sw_map_create(pool, 0), SW_INVALID, "not in this pool");
    GIVES(sw_map_create(pool, 16), SW_INVALID, "no data of this pool");
    GIVES(sw_map_create(NULL, map), SW_INVALID, "NULL");
    OK(sw_map_create(pool, map));
    OK(sw_omap_create(pool, ordered));
    GIVES(sw_map_create(pool, map), SW_EXISTS, "not zero");
    GIVES(sw_omap_create(pool, ordered), SW_EXISTS, "not zero");
    GIVES(sw_omap_put(pool, map, 1, 2, NULL), SW_NO_MAP, "no ordered map");
    GIVES(sw_map_put(pool, ordered, "k", 1, "v", 1, NULL), SW_NO_MAP, "map");
    GIVES(sw_map_put(pool, map, NULL, 1, "v", 1, NULL), SW_INVALID, "the key is NULL");
    GIVES(sw_map_put(pool, map, "k", 1, NULL, 1, NULL), SW_INVALID, "the value is NULL");
    OK(sw_map_put(pool, map, "k", 1, "value", 5, &was));
    GIVES(was, 0, "");
    OK(sw_map_put(pool, map, "k", 1, "value", 5, &was));
    GIVES(was, 1, "");
    OK(sw_map_put(pool, map, NULL, 0, NULL, 0, NULL));
    OK(sw_map_get(pool, map, "", 0, NULL, 0, &bytes));
    GIVES(sw_map_get(pool, map, "k", 1, value, 3, &bytes), SW_SMALL, "5 bytes");
    GIVES(bytes == 5 && memcmp(value, "val", 3) == 0 ? SW_OK : SW_INVALID, SW_OK, "");
    GIVES(sw_map_get(pool, map, "none", 4, value, 8, NULL), SW_NOT_FOUND, "");
    GIVES(sw_map_get(pool, map, "k", 1, NULL, 3, NULL), SW_INVALID, "NULL");
    GIVES(sw_map_remove(pool, map, "none", 4), SW_NOT_FOUND, "");
    OK(sw_map_check(pool, map));
    OK(sw_omap_put(pool, ordered, 7, 49, &was));
    OK(sw_omap_check(pool, ordered));
    GIVES(sw_omap_get(pool, ordered, 8, &count), SW_NOT_FOUND, "");
    GIVES(sw_omap_range(pool, ordered, 8, 9, entries, 4, &bytes), SW_NOT_FOUND, "");
    GIVES(sw_omap_range(pool, ordered, 9, 8, entries, 4, &bytes), SW_NOT_FOUND, "");
    GIVES(sw_omap_range(pool, ordered, 0, 9, NULL, 4, &bytes), SW_INVALID, "NULL");
    OK(sw_omap_range(pool, ordered, 0, 9, entries, 4, &bytes));
    GIVES(bytes == 1 && entries[0].value == 49 ? SW_OK : SW_INVALID, SW_OK, "");

    OK(sw_tx_begin(pool, SW_REDO, &tx));
    GIVES(sw_map_put(pool, map, "k", 1, "v", 1, NULL), SW_MISUSE, "has a transaction open");
    GIVES(sw_omap_count(pool, ordered, &count), SW_MISUSE, "has a transaction open");
    OK(sw_tx_map_create(tx, root + 32));
    OK(sw_tx_map_put(tx, root + 32, "a", 1, "b", 1, &was));
    OK(sw_tx_map_get(tx, root + 32, "a", 1, value, 8, &bytes));
    OK(sw_tx_map_remove(tx, root + 32, "a", 1));
    OK(sw_tx_omap_create(tx, root + 40));
    OK(sw_tx_omap_put(tx, root + 40, 1, 2, &was));
    OK(sw_tx_omap_get(tx, root + 40, 1, &count));
    OK(sw_tx_omap_range(tx, root + 40, 0, UINT64_MAX, entries, 4, &bytes));
    OK(sw_tx_omap_remove(tx, root + 40, 1));
    OK(sw_tx_omap_destroy(tx, root + 40));
    OK(sw_tx_map_destroy(tx, root + 32));
    OK(sw_tx_commit(tx));
    GIVES(sw_map_open(pool, root + 32), SW_NO_MAP, "map");

    GIVES(sw_map_cursor(pool, ordered, &cursor), SW_NO_MAP, "map");
    GIVES(sw_map_cursor(pool, map, NULL), SW_INVALID, "NULL");
    GIVES(sw_cursor_next(NULL, NULL, NULL, NULL, NULL), SW_INVALID, "the cursor is NULL");
    OK(sw_map_cursor(pool, map, &cursor));
    OK(sw_cursor_next(cursor, &at, &bytes, NULL, NULL));
    OK(sw_cursor_next(cursor, NULL, NULL, &at, &bytes));
    GIVES(sw_cursor_next(cursor, &at, &bytes, &at, &bytes), SW_NOT_FOUND, "");
    GIVES(sw_cursor_next(cursor, &at, &bytes, &at, &bytes), SW_NOT_FOUND, "");
    sw_cursor_free(cursor);
    sw_cursor_free(NULL);
}

/* Fills the pool: what does not fit changes nothing, and removing makes room. */
static void full(void)
{
    static char value[10000];
    uint64_t count, key = 0;
    int status;
    do {
        status = sw_map_put(pool, root, &key, sizeof key, value, sizeof value, NULL);
        key++;
    } while (status == SW_OK && key < 1000);
    GIVES(status, SW_NO_ROOM, "no room");
    OK(sw_map_count(pool, root, &count));
    GIVES(count == key + 1 ? SW_OK : SW_INVALID, SW_OK, "");
    OK(sw_map_check(pool, root));
    for (uint64_t gone = 0; gone + 1 < key; gone++)
        OK(sw_map_remove(pool, root, &gone, sizeof gone));
    OK(sw_map_put(pool, root, &key, sizeof key, value, sizeof value, NULL));
    OK(sw_map_check(pool, root));
    OK(sw_map_destroy(pool, root));
    OK(sw_map_create(pool, root));
    OK(sw_omap_destroy(pool, root + 8));
}

static void closed(void)
{
    sw_cursor *cursor;
    char bytes[64] = {0};
    OK(sw_map_put(pool, root, "k", 1, "v", 1, NULL));
    OK(sw_map_cursor(pool, root, &cursor));
    OK(sw_pool_close(pool));
    GIVES(sw_pool_close(pool), SW_MISUSE, "closed");
    GIVES(sw_pool_root(pool, NULL, NULL), SW_MISUSE, "closed");
    GIVES(sw_map_put(pool, root, "k", 1, "v", 1, NULL), SW_MISUSE, "closed");
    GIVES(sw_cursor_next(cursor, NULL, NULL, NULL, NULL), SW_MISUSE, "closed");
    GIVES(sw_direct(pool, root) == NULL ? SW_MISUSE : SW_OK, SW_MISUSE, "closed");
    sw_tx tx;
    GIVES(sw_tx_begin(pool, SW_REDO, &tx), SW_MISUSE, "closed");
    sw_cursor_free(cursor);
    GIVES(sw_pool_close(NULL), SW_INVALID, "NULL");
    GIVES(sw_pool_close((sw_pool *)(void *)bytes), SW_INVALID, "none");
}

int main(int argc, char **argv)
{
    struct sw_options options = {.bytes = 1 << 20, .bytes_max = 2 << 20, .threads = 4};
    if (argc < 2)
        return 2;
    snprintf(path, sizeof path, "%s", argv[1]);
    snprintf(other, sizeof other, "%s.other", argv[1]);
    files();
    unlink(path);
    OK(sw_pool_create(path, &options, &pool));
    transactions();
    addresses();
    maps();
    full();
    closed();

    unlink(path);
    options.in_place = 1;
    OK(sw_pool_create(path, &options, &pool));
    transactions();
    in_place();
    maps();
    full();
    closed();

    options.in_place = 0;
    types_of_a_pool(options);
    GIVES(sw_defragment(pool, 1, NULL), SW_OK, "");
    transactions();
    maps();
    full();
    closed();
    types_of_a_pool(options);
    moving(options);
    return bad != 0;
}
