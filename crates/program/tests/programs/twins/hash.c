/* hash.c: a hash table of stripes: a line with the number of its entries and six chains, which
 * change together in a transaction. Twin of micro15/structures/hash.rs. */
#include "twin.h"

enum { CHAINS = 6, COUNT = 0, HEADS = 8, NEXT = 0, KEY = 8, TAG = 16, PAYLOAD = 3 };

static uint64_t stripes, keys;
static addr first, versions;
static struct locks locks;
static struct logs logs;
static struct slots slots;

static void shape(uint64_t threads, uint64_t entries, uint64_t *roots)
{
    roots[0] = threads;
    roots[1] = entries / 6 ? entries / 6 : 1;
    roots[2] = roots[3] = 2 * entries;
}

static int place(const uint64_t *roots, addr *used)
{
    stripes = roots[1];
    keys = roots[3];
    if (stripes == 0 || stripes > 1 << 24 || roots[2] == 0 || roots[2] > 1 << 24)
        return 0;
    first = area(used, stripes * PM_LINE);
    locks_place(&locks, stripes, roots[0], 1);
    versions = area(used, stripes * PM_LINE);
    logs_place(&logs, used, roots[0], 8);
    slots_place(&slots, used, slots_enough(roots[2], roots[0]), roots[0]);
    return 1;
}

static uint64_t chain_of(uint64_t key)
{
    uint64_t hashed = (key + 1) * 0x9e3779b97f4a7c15u;
    return (uint64_t)((unsigned __int128)hashed * (stripes * CHAINS) >> 64);
}

static addr head_of(uint64_t chain)
{
    return first + chain / CHAINS * PM_LINE + HEADS + 8 * (chain % CHAINS);
}

/* The entry of the key, and in link where its address is; 0 if there is none. */
static addr find(uint64_t key, addr *link)
{
    *link = head_of(chain_of(key));
    for (;;) {
        addr at = load(*link);
        if (!at || load(at + KEY) == key)
            return at;
        *link = at + NEXT;
    }
}

static void add(uint64_t thread, uint64_t key, uint64_t tag, const struct version *version)
{
    uint64_t chain = chain_of(key);
    addr head = head_of(chain), count = first + chain / CHAINS * PM_LINE + COUNT;
    addr at = slots_take(&slots, thread);
    struct tx tx;
    if (!at)
        return;
    store(at + NEXT, load(head));
    store(at + KEY, key);
    store(at + TAG, tag);
    entry_fill(at, PAYLOAD, key, tag);
    tx_begin(&tx, &logs, thread);
    tx_fresh(&tx, at);
    tx_store(&tx, count, tx_load(&tx, count) + 1);
    tx_store(&tx, head, at);
    tx_commit(&tx, version, 1);
}

static void operate(uint64_t thread, enum action action, uint64_t key, uint64_t tag)
{
    uint64_t stripe = chain_of(key) / CHAINS;
    lock_acquire(&locks, stripe, thread, 0);
    struct version version = version_read(versions, stripe);
    addr link, at = find(key, &link), freed = 0;
    struct tx tx;
    if (action == SEARCH && at) {
        (void)entry_read(at);
        (void)load(at + TAG);
    } else if (action == INSERT && !at) {
        add(thread, key, tag, &version);
    } else if (action == DELETE && at) {
        addr count = first + stripe * PM_LINE + COUNT;
        tx_begin(&tx, &logs, thread);
        tx_store(&tx, count, tx_load(&tx, count) - 1);
        tx_store(&tx, link, tx_load(&tx, at + NEXT));
        tx_commit(&tx, &version, 1);
        freed = at;
    }
    lock_release(&locks, stripe, thread, 0);
    if (freed)
        slots_give(&slots, thread, freed);
}

static void step(struct worker *worker)
{
    enum action action = draw_action(worker);
    operate(worker->thread, action, draw_below(worker, keys), tag_of(worker));
}

/* Marks the slots of all entries, checks them if asked to, and the counts. */
static void walk(unsigned char *live, int check)
{
    for (uint64_t stripe = 0; stripe < stripes; stripe++) {
        uint64_t found = 0;
        for (uint64_t chain = stripe * CHAINS; chain < (stripe + 1) * CHAINS; chain++) {
            for (addr at = load(head_of(chain)); at; at = load(at + NEXT), found++) {
                slots_reach(&slots, live, at);
                uint64_t key = load(at + KEY);
                if (check)
                    entry_check(at, PAYLOAD, key, load(at + TAG));
                for (addr other = load(head_of(chain)); check && other != at;
                     other = load(other + NEXT))
                    if (load(other + KEY) == key)
                        pm_broken("key %llu is there twice", (unsigned long long)key);
                if (check && chain_of(key) != chain)
                    pm_broken("key %llu is in a foreign chain", (unsigned long long)key);
            }
        }
        if (load(first + stripe * PM_LINE + COUNT) != found)
            pm_broken("stripe %llu has %llu entries and counts %llu", (unsigned long long)stripe,
                      (unsigned long long)found,
                      (unsigned long long)load(first + stripe * PM_LINE + COUNT));
    }
}

static void recover(void)
{
    unsigned char *live = zeroed(slots.count, 1);
    logs_recover(&logs);
    walk(live, 0);
    slots_rebuild(&slots, live);
    free(live);
}

static void check(void)
{
    unsigned char *live = zeroed(slots.count, 1);
    walk(live, 1);
    free(live);
}

static void fill(uint64_t seed, uint64_t entries)
{
    uint64_t *initial = initial_keys(seed, entries);
    recover();
    for (uint64_t n = 0; n < entries; n++)
        operate(0, INSERT, initial[n], initial_tag(n));
    recover();
    free(initial);
}

const struct twin hash = {"hash", 4096, shape, place, fill, step, recover, check};
