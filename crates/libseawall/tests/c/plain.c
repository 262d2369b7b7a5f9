/*
 * A counter that is stored and made durable without transactions, and by one now and then; each
 * value is said when it is durable.
 *
 *   plain POOL run | read | make LAYOUT
 */
#include <libseawall.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(int status)
{
    if (status != SW_OK) {
        fprintf(stderr, "%s: %s\n", sw_status_name(status), sw_error_text());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const struct sw_options options = {.in_place = 1, .bytes_max = 1 << 20, .threads = 4};
    sw_pool *pool;
    sw_ref root;
    if (argc < 3)
        return 2;
    if (argc == 4) { /* makes a pool for another program */
        const struct sw_options other = {.in_place = 1, .layout = argv[3]};
        must(sw_pool_create(argv[1], &other, &pool));
        must(sw_pool_close(pool));
        return 0;
    }
    int status = sw_pool_open(argv[1], &options, &pool);
    if (status == SW_MISSING)
        status = sw_pool_create(argv[1], &options, &pool);
    must(status);
    must(sw_pool_root(pool, &root, NULL));
    uint64_t *counter = sw_direct(pool, root);
    if (strcmp(argv[2], "read") == 0) {
        printf("%" PRIu64 "\n", *counter);
        return 0;
    }
    for (uint64_t value = *counter + 1;; value++) {
        sw_tx tx;
        char line[32];
        if (value % 7 == 0) {
            must(sw_tx_begin(pool, value % 2 ? SW_REDO : SW_UNDO, &tx));
            must(sw_tx_store64(tx, root, 0, value));
            must(sw_tx_commit(tx));
        } else if (value % 2 == 0) {
            *counter = value;
            must(sw_persist(pool, counter, sizeof *counter));
        } else {
            *counter = value;
            must(sw_flush(pool, counter, sizeof *counter));
            must(sw_drain(pool));
        }
        const int length = snprintf(line, sizeof line, "0 %" PRIu64 "\n", value);
        if (write(1, line, (size_t)length) != length)
            return 1;
    }
}
