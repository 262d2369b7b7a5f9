/* sdg.c: edges of a graph, in lists by source; an insert or delete changes the lines of two
 * vertices in a transaction. Twin of micro15/structures/graph.rs. */
#include "twin.h"

enum { HEAD = 0, OUT = 8, IN = 16, NEXT = 0, KEY = 8, TAG = 16, PAYLOAD = 3 };

static uint64_t vertices, edges;
static addr first, versions;
static struct locks locks;
static struct logs logs;
static struct slots slots;

static void shape(uint64_t threads, uint64_t entries, uint64_t *roots)
{
    roots[0] = threads;
    roots[1] = entries / 4 < 16 ? 16 : entries / 4;
    roots[2] = roots[3] = 2 * entries;
}

static int place(const uint64_t *roots, addr *used)
{
    vertices = roots[1];
    edges = roots[3];
    if (vertices == 0 || vertices > 1 << 24 || roots[2] == 0 || roots[2] > 1 << 24)
        return 0;
    first = area(used, vertices * PM_LINE);
    locks_place(&locks, vertices, roots[0], 2);
    versions = area(used, vertices * PM_LINE);
    logs_place(&logs, used, roots[0], 8);
    slots_place(&slots, used, slots_enough(roots[2], roots[0]), roots[0]);
    return 1;
}

static addr vertex_at(uint64_t vertex)
{
    return first + vertex * PM_LINE;
}

static addr find(uint64_t source, uint64_t key, addr *link)
{
    *link = vertex_at(source) + HEAD;
    for (;;) {
        addr at = load(*link);
        if (!at || load(at + KEY) == key)
            return at;
        *link = at + NEXT;
    }
}

static void add_to(struct tx *tx, addr at, uint64_t amount)
{
    tx_store(tx, at, tx_load(tx, at) + amount);
}

static void insert(uint64_t thread, addr source, addr target, uint64_t key, uint64_t tag,
                   const struct version *both, unsigned count)
{
    addr at = slots_take(&slots, thread);
    struct tx tx;
    if (!at)
        return;
    store(at + NEXT, load(source + HEAD));
    store(at + KEY, key);
    store(at + TAG, tag);
    entry_fill(at, PAYLOAD, key, tag);
    tx_begin(&tx, &logs, thread);
    tx_fresh(&tx, at);
    tx_store(&tx, source + HEAD, at);
    add_to(&tx, source + OUT, 1);
    add_to(&tx, target + IN, 1);
    tx_commit(&tx, both, count);
}

static void search(uint64_t thread, uint64_t from, uint64_t key)
{
    addr link;
    lock_acquire(&locks, from, thread, 0);
    (void)version_read(versions, from);
    addr at = find(from, key, &link);
    if (at) {
        (void)entry_read(at);
        (void)load(at + TAG);
    }
    lock_release(&locks, from, thread, 0);
}

static void operate(uint64_t thread, enum action action, uint64_t number, uint64_t tag)
{
    uint64_t from = number % vertices, to = (from + 1 + number / vertices) % vertices;
    uint64_t low = from < to ? from : to, high = from < to ? to : from, key = from << 32 | to;
    addr source = vertex_at(from), target = vertex_at(to), link, freed = 0;
    struct tx tx;
    if (action == SEARCH) {
        search(thread, from, key);
        return;
    }
    lock_acquire(&locks, low, thread, 0);
    if (low != high)
        lock_acquire(&locks, high, thread, 1);
    struct version both[2] = {version_read(versions, low), version_read(versions, high)};
    unsigned count = low != high ? 2 : 1;
    addr at = find(from, key, &link);
    if (action == INSERT && !at) {
        insert(thread, source, target, key, tag, both, count);
    } else if (action == DELETE && at) {
        tx_begin(&tx, &logs, thread);
        tx_store(&tx, link, tx_load(&tx, at + NEXT));
        add_to(&tx, source + OUT, (uint64_t)-1);
        add_to(&tx, target + IN, (uint64_t)-1);
        tx_commit(&tx, both, count);
        freed = at;
    }
    if (low != high)
        lock_release(&locks, high, thread, 1);
    lock_release(&locks, low, thread, 0);
    if (freed)
        slots_give(&slots, thread, freed);
}

static void step(struct worker *worker)
{
    enum action action = draw_action(worker);
    operate(worker->thread, action, draw_below(worker, edges), tag_of(worker));
}

static void walk(unsigned char *live, int check)
{
    uint64_t *entering = zeroed(vertices, sizeof *entering);
    for (uint64_t source = 0; source < vertices; source++) {
        uint64_t leaving = 0;
        for (addr at = load(vertex_at(source) + HEAD); at; at = load(at + NEXT), leaving++) {
            slots_reach(&slots, live, at);
            uint64_t key = load(at + KEY), target = key & UINT32_MAX;
            if (key >> 32 != source || target >= vertices)
                pm_broken("the list of vertex %llu holds key %#llx", (unsigned long long)source,
                          (unsigned long long)key);
            entering[target]++;
            if (check)
                entry_check(at, PAYLOAD, key, load(at + TAG));
        }
        if (load(vertex_at(source) + OUT) != leaving)
            pm_broken("%llu edges leave vertex %llu, not the count", (unsigned long long)leaving,
                      (unsigned long long)source);
    }
    for (uint64_t target = 0; target < vertices; target++)
        if (load(vertex_at(target) + IN) != entering[target])
            pm_broken("%llu edges enter vertex %llu, not the count",
                      (unsigned long long)entering[target], (unsigned long long)target);
    free(entering);
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

const struct twin sdg = {"sdg", 4096, shape, place, fill, step, recover, check};
