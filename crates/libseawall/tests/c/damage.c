/*
 * Uses a file of which a byte may be another in all ways: every call gives a status, and the
 * program ends by itself. `fill` makes the file. With a word behind `use`, maps are checked first,
 * and those that the checks find sound are read without an error, or the program ends with 3.
 */
#include <libseawall.h>

#include <stdio.h>
#include <string.h>

static const struct sw_options options = {.bytes_max = 1 << 20, .threads = 2, .log_bytes = 4096};

static int fill(const char *path)
{
    sw_pool *pool;
    sw_ref root;
    if (sw_pool_create(path, &options, &pool) != SW_OK || sw_pool_root(pool, &root, NULL) != SW_OK)
        return 1;
    if (sw_map_create(pool, root) != SW_OK || sw_omap_create(pool, root + 8) != SW_OK)
        return 1;
    for (uint64_t key = 0; key < 300; key++)
        if (sw_map_put(pool, root, &key, 1 + key % 8, "some value", key % 10, NULL) != SW_OK ||
            sw_omap_put(pool, root + 8, key * key, key, NULL) != SW_OK)
            return 1;
    return sw_pool_close(pool);
}

/* Whether all that a sound map has can be read. */
static int is_read(sw_pool *pool, sw_ref root)
{
    sw_cursor *cursor;
    sw_entry entries[50];
    size_t some;
    uint64_t count, next = 0, of_map = 0, of_omap = 0;
    int status = sw_map_cursor(pool, root, &cursor);
    if (status != SW_OK)
        return 0;
    while ((status = sw_cursor_next(cursor, NULL, NULL, NULL, NULL)) == SW_OK)
        of_map++;
    sw_cursor_free(cursor);
    if (status != SW_NOT_FOUND || sw_map_count(pool, root, &count) != SW_OK || count != of_map)
        return 0;
    const sw_ref omap = root + 8;
    while ((status = sw_omap_range(pool, omap, next, UINT64_MAX, entries, 50, &some)) == SW_OK) {
        of_omap += some;
        if (entries[some - 1].key == UINT64_MAX)
            break;
        next = entries[some - 1].key + 1;
    }
    if ((status != SW_NOT_FOUND && status != SW_OK) ||
        sw_omap_count(pool, root + 8, &count) != SW_OK || count != of_omap)
        return 0;
    for (uint64_t key = 0; key < 310; key++) {
        char value[16];
        uint64_t number;
        status = sw_map_get(pool, root, &key, 1 + key % 8, value, sizeof value, NULL);
        if (status != SW_OK && status != SW_NOT_FOUND && status != SW_SMALL)
            return 0;
        status = sw_omap_get(pool, root + 8, key * key, &number);
        if (status != SW_OK && status != SW_NOT_FOUND)
            return 0;
    }
    return 1;
}

static int use(const char *path, int checks)
{
    sw_pool *pool;
    sw_ref root;
    int status = sw_pool_open(path, &options, &pool);
    if (status != SW_OK)
        return puts(sw_error_text()) < 0;
    sw_pool_root(pool, &root, NULL);
    if (checks && (sw_map_check(pool, root) != SW_OK || sw_omap_check(pool, root + 8) != SW_OK)) {
        puts(sw_error_text());
        return sw_pool_close(pool);
    }
    if (checks && !is_read(pool, root)) {
        puts(sw_error_text());
        return 3;
    }
    sw_cursor *cursor;
    uint64_t keys = 0, count = 0;
    size_t some;
    sw_entry entries[50];
    if (sw_map_cursor(pool, root, &cursor) == SW_OK) {
        while (sw_cursor_next(cursor, NULL, NULL, NULL, NULL) == SW_OK)
            keys++;
        sw_cursor_free(cursor);
    }
    sw_map_count(pool, root, &count);
    sw_omap_range(pool, root + 8, 0, UINT64_MAX, entries, 50, &some);
    for (uint64_t key = 0; key < 310; key++) {
        char value[16];
        sw_map_get(pool, root, &key, 1 + key % 8, value, sizeof value, NULL);
        sw_map_put(pool, root, &key, 1 + key % 7, "other", 5, NULL);
        sw_map_remove(pool, root, &key, 1 + key % 8);
        sw_omap_get(pool, root + 8, key * key, &count);
        sw_omap_put(pool, root + 8, key * key + 1, key, NULL);
        sw_omap_remove(pool, root + 8, key * key);
    }
    sw_tx tx;
    if (sw_tx_begin(pool, SW_UNDO, &tx) == SW_OK) {
        sw_ref ref;
        if (sw_tx_alloc(tx, 300, &ref) == SW_OK)
            sw_tx_free(tx, ref);
        sw_tx_map_destroy(tx, root);
        sw_tx_omap_destroy(tx, root + 8);
        sw_tx_commit(tx);
    }
    return sw_pool_close(pool);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    return strcmp(argv[2], "fill") == 0 ? fill(argv[1]) : use(argv[1], argc > 3);
}
