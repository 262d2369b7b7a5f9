/* sps.c: swaps of two random entries of an array, in a transaction that logs both; a search reads
 * one. Twin of micro15/structures/array.rs. */
#include "twin.h"

enum { ID = 0, TAG = 8, PAYLOAD = 2, MOVES = 1 };

static uint64_t stripes, entries;
static addr first, versions;
static struct locks locks;
static struct logs logs;

static addr entry_at(uint64_t index)
{
    return first + index * ENTRY_BYTES;
}

static void shape(uint64_t threads, uint64_t wanted, uint64_t *roots)
{
    roots[0] = threads;
    roots[2] = wanted < 2 ? 2 : wanted;
    roots[1] = roots[2] < 1024 ? roots[2] : 1024;
}

static int place(const uint64_t *roots, addr *used)
{
    stripes = roots[1];
    entries = roots[2];
    if (stripes == 0 || stripes > 1 << 24 || entries < 2 || entries > 1 << 24)
        return 0;
    first = area(used, entries * ENTRY_BYTES);
    locks_place(&locks, stripes, roots[0], 2);
    versions = area(used, stripes * PM_LINE);
    logs_place(&logs, used, roots[0], 2 * (ENTRY_WORDS + 1));
    return 1;
}

static void fill(uint64_t seed, uint64_t count)
{
    (void)seed, (void)count;
    for (uint64_t index = 0; index < entries; index++) {
        store(entry_at(index) + ID, index);
        store(entry_at(index) + TAG, initial_tag(index));
        entry_fill(entry_at(index), PAYLOAD, index, MOVES);
        flush(entry_at(index), ENTRY_BYTES);
    }
    pm_fence();
}

static void search(uint64_t thread, uint64_t index)
{
    lock_acquire(&locks, index % stripes, thread, 0);
    (void)version_read(versions, index % stripes);
    (void)entry_read(entry_at(index));
    (void)load(entry_at(index) + TAG);
    lock_release(&locks, index % stripes, thread, 0);
}

static void swap(uint64_t thread, uint64_t left, uint64_t right, uint64_t tag)
{
    uint64_t a = left % stripes, b = right % stripes, low = a < b ? a : b, high = a < b ? b : a;
    struct tx tx;
    lock_acquire(&locks, low, thread, 0);
    if (low != high)
        lock_acquire(&locks, high, thread, 1);
    struct version both[2] = {version_read(versions, low), version_read(versions, high)};
    tx_begin(&tx, &logs, thread);
    tx_copy(&tx, entry_at(left), entry_at(right), ENTRY_WORDS)[TAG / 8] = tag;
    tx_copy(&tx, entry_at(right), entry_at(left), ENTRY_WORDS)[TAG / 8] = tag;
    tx_commit(&tx, both, low != high ? 2 : 1);
    if (low != high)
        lock_release(&locks, high, thread, 1);
    lock_release(&locks, low, thread, 0);
}

static void step(struct worker *worker)
{
    enum action action = draw_action(worker);
    uint64_t left = draw_below(worker, entries);
    if (action == SEARCH) {
        search(worker->thread, left);
    } else {
        uint64_t right = (left + 1 + draw_below(worker, entries - 1)) % entries;
        swap(worker->thread, left, right, tag_of(worker));
    }
}

static void recover(void)
{
    logs_recover(&logs);
}

static void check(void)
{
    unsigned char *seen = zeroed(entries, 1);
    for (uint64_t index = 0; index < entries; index++) {
        uint64_t id = load(entry_at(index) + ID), tag = load(entry_at(index) + TAG);
        entry_check(entry_at(index), PAYLOAD, id, MOVES);
        if (id >= entries || seen[id]++ || tag == 0)
            pm_broken("entry %llu has id %llu: an id is lost or there twice",
                      (unsigned long long)index, (unsigned long long)id);
    }
    free(seen);
}

const struct twin sps = {"sps", 4096, shape, place, fill, step, recover, check};
