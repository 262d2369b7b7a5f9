/* twin.c: runs a twin of one of seawall's MICRO'15 workloads; the structures are in the other files
 * of this folder (cc *.c).
 *
 *     twin NAME POOL THREADS OPS SEED [ENTRIES]     makes the pool and runs OPS operations a thread
 *     twin check POOL                               recovers it and checks it
 *
 * NAME is sps, queue, hash, rbtree or sdg. A pool that was made before is recovered and run on,
 * with the threads that it was made for. Operations are as those of `seawall run NAME --seed SEED
 * --ops OPS --threads THREADS`, and `seawall run NAME --recover POOL` reads the pool. */
#include "twin.h"

char *pool;
uint64_t pool_bytes;

static const struct twin *const twins[] = {&sps, &queue, &hash, &rbtree, &sdg};
static const struct twin *twin;
static uint64_t seed;

static const struct twin *twin_named(const char *name)
{
    for (unsigned n = 0; n < sizeof twins / sizeof *twins; n++)
        if (!strcmp(name, twins[n]->name))
            return twins[n];
    return NULL;
}

/* The header: see crates/runtime/src/pool.rs. */
enum { MAGIC, VERSION, NAME, NAME_END, BYTES, SUM, UUID, UUID_HIGH, FIRST_ROOT, WORDS = 24 };

static const uint64_t magic = 0x004c4c4157414553; /* SEAWALL */

static void write_header(const uint64_t *roots, uint64_t entries)
{
    uint64_t words[WORDS] = {[MAGIC] = magic, [VERSION] = 3, [BYTES] = pool_bytes};
    memcpy(&words[NAME], twin->name, strlen(twin->name));
    words[UUID] = entries << 16 | roots[0];
    words[UUID_HIGH] = seed;
    memcpy(&words[FIRST_ROOT], roots, ROOTS * sizeof *roots);
    words[SUM] = crc32c(0, words, WORDS);
    pm_fence();
    for (unsigned n = 0; n < WORDS; n++)
        store(8 * n, words[n]);
    pm_persist(pool, HEADER_BYTES);
}

/* Places the structure of a pool that is whole and mapped as far as its header; returns whether it
 * is one. */
static int read_header(uint64_t *roots)
{
    uint64_t words[WORDS];
    char name[17] = {0};
    addr used = HEADER_BYTES;
    memcpy(words, pool, sizeof words);
    uint64_t sum = words[SUM];
    words[SUM] = 0;
    if (words[MAGIC] != magic || words[VERSION] != 3 || crc32c(0, words, WORDS) != sum)
        return 0;
    memcpy(name, &words[NAME], 16);
    memcpy(roots, &words[FIRST_ROOT], ROOTS * sizeof *roots);
    twin = twin_named(name);
    if (!twin || roots[0] == 0 || roots[0] > PM_THREADS_MAX || !twin->place(roots, &used) ||
        used != words[BYTES])
        pm_broken("the header of %s is not that of a pool", name);
    pool_bytes = used;
    return 1;
}

static void work(uint64_t thread, uint64_t operations)
{
    struct worker worker = {thread, 0, random_stream(seed, thread + 1)};
    for (; worker.number < operations; worker.number++)
        twin->step(&worker);
}

static int check(const char *path)
{
    uint64_t roots[ROOTS];
    pool = pm_map(path, HEADER_BYTES, 0);
    if (!read_header(roots))
        return PM_OK; /* its creation did not finish */
    munmap(pool, HEADER_BYTES);
    pool = pm_map(path, pool_bytes, 0);
    twin->recover();
    twin->check();
    return PM_OK;
}

static int run(int count, char **words)
{
    uint64_t roots[ROOTS] = {0}, entries, operations = pm_number(words[4], 0, 1u << 30);
    uint64_t threads = pm_number(words[3], 1, PM_THREADS_MAX);
    addr used = HEADER_BYTES;
    seed = pm_number(words[5], 0, UINT64_MAX);
    entries = count > 6 ? pm_number(words[6], 1, 1u << 20) : twin->entries;
    twin->shape(threads, entries, roots);
    if (!twin->place(roots, &used))
        pm_broken("the twin cannot be that large");
    pool_bytes = used;
    pool = pm_map(words[2], pool_bytes, 1);
    if (load(0)) {
        const struct twin *wanted = twin;
        if (!read_header(roots) || twin != wanted || used != pool_bytes || roots[0] != threads)
            pm_broken("the pool is there and not one for these threads and entries");
        twin->recover();
    } else {
        twin->fill(seed, entries);
        write_header(roots, entries);
    }
    pm_threads(threads, operations, work);
    return PM_OK;
}

int main(int count, char **words)
{
    if (count == 3 && !strcmp(words[1], "check"))
        return check(words[2]);
    twin = count == 6 || count == 7 ? twin_named(words[1]) : NULL;
    if (!twin) {
        fprintf(stderr, "usage: %s NAME POOL THREADS OPS SEED [ENTRIES]\n       %s check POOL\n",
                words[0], words[0]);
        return PM_UNUSABLE;
    }
    return run(count, words);
}
