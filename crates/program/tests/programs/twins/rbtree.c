/* rbtree.c: red-black trees, partitioned by key, each with a lock; an insert or delete and its
 * rebalancing are one transaction (Cormen et al., chapter 13).
 * Twin of micro15/structures/rbtree. */
#include "twin.h"

enum { ROOT = 0, COUNT = 8, CHILD = 0, PARENT = 16, COLOUR = 24, KEY = 32, TAG = 40, PAYLOAD = 6 };
enum { BLACK, RED };

static uint64_t trees, keys;
static addr first, versions;
static struct locks locks;
static struct logs logs;
static struct slots slots;

static void shape(uint64_t threads, uint64_t entries, uint64_t *roots)
{
    uint64_t most = (entries + 3) / 4;
    roots[0] = threads;
    roots[1] = most < 64 ? most : 64;
    roots[2] = roots[3] = 2 * entries;
}

static int place(const uint64_t *roots, addr *used)
{
    trees = roots[1];
    keys = roots[3];
    if (trees == 0 || trees > 1 << 20 || roots[2] == 0 || roots[2] > 1 << 24)
        return 0;
    first = area(used, trees * PM_LINE);
    locks_place(&locks, trees, roots[0], 1);
    versions = area(used, trees * PM_LINE);
    logs_place(&logs, used, roots[0], 512);
    slots_place(&slots, used, slots_enough(roots[2], roots[0]), roots[0]);
    return 1;
}

/* A transaction on one tree. A side is 0 (left) or 1 (right). */
struct edit {
    struct tx tx;
    addr root;
};

static addr child(const struct edit *edit, addr node, unsigned side)
{
    return tx_load(&edit->tx, node + CHILD + 8 * side);
}

static addr parent_of(const struct edit *edit, addr node)
{
    return tx_load(&edit->tx, node + PARENT);
}

static int is_red(const struct edit *edit, addr node)
{
    return node && tx_load(&edit->tx, node + COLOUR) == RED;
}

static void set_child(struct edit *edit, addr node, unsigned side, addr to)
{
    tx_store(&edit->tx, node + CHILD + 8 * side, to);
}

static void set_parent(struct edit *edit, addr node, addr parent)
{
    if (node)
        tx_store(&edit->tx, node + PARENT, parent);
}

static void set_colour(struct edit *edit, addr node, uint64_t colour)
{
    if (tx_load(&edit->tx, node + COLOUR) != colour)
        tx_store(&edit->tx, node + COLOUR, colour);
}

static unsigned side_of(const struct edit *edit, addr node, addr parent)
{
    return child(edit, parent, 1) == node;
}

/* Replaces old below the parent. */
static void replace(struct edit *edit, addr old, addr parent, addr new)
{
    if (!parent)
        tx_store(&edit->tx, edit->root + ROOT, new);
    else
        set_child(edit, parent, side_of(edit, old, parent), new);
    set_parent(edit, new, parent);
}

/* Rotates the node down to the side; its child on the other side takes its place. */
static void rotate(struct edit *edit, addr node, unsigned side)
{
    addr up = child(edit, node, 1 - side), middle = child(edit, up, side);
    set_child(edit, node, 1 - side, middle);
    set_parent(edit, middle, node);
    replace(edit, node, parent_of(edit, node), up);
    set_child(edit, up, side, node);
    set_parent(edit, node, up);
}

static void after_link(struct edit *edit, addr node)
{
    for (;;) {
        addr parent = parent_of(edit, node);
        if (!is_red(edit, parent))
            return;
        addr grand = parent_of(edit, parent);
        if (!grand)
            return;
        unsigned side = side_of(edit, parent, grand);
        addr uncle = child(edit, grand, 1 - side);
        if (is_red(edit, uncle)) {
            set_colour(edit, parent, BLACK);
            set_colour(edit, uncle, BLACK);
            set_colour(edit, grand, RED);
            node = grand;
            continue;
        }
        if (side_of(edit, node, parent) != side) {
            rotate(edit, parent, side);
            parent = node;
        }
        set_colour(edit, parent, BLACK);
        set_colour(edit, grand, RED);
        rotate(edit, grand, 1 - side);
        return;
    }
}

/* Links a new red node below the parent (0: as the root). */
static void link_node(struct edit *edit, addr node, addr parent, unsigned side)
{
    if (!parent)
        tx_store(&edit->tx, edit->root + ROOT, node);
    else
        set_child(edit, parent, side, node);
    after_link(edit, node);
    set_colour(edit, tx_load(&edit->tx, edit->root + ROOT), BLACK);
}

/* Restores the black heights: paths through the node below the parent have a black one too few. */
static void after_unlink(struct edit *edit, addr node, addr parent)
{
    while (parent && !is_red(edit, node)) {
        unsigned side = child(edit, parent, 0) != node;
        addr sibling = child(edit, parent, 1 - side);
        if (is_red(edit, sibling)) {
            set_colour(edit, sibling, BLACK);
            set_colour(edit, parent, RED);
            rotate(edit, parent, side);
            sibling = child(edit, parent, 1 - side);
        }
        addr far = child(edit, sibling, 1 - side), near = child(edit, sibling, side);
        if (!is_red(edit, far) && !is_red(edit, near)) {
            set_colour(edit, sibling, RED);
            node = parent;
            parent = parent_of(edit, parent);
            continue;
        }
        if (!is_red(edit, far)) {
            set_colour(edit, near, BLACK);
            set_colour(edit, sibling, RED);
            rotate(edit, sibling, 1 - side);
            far = sibling;
            sibling = near;
        }
        set_colour(edit, sibling, is_red(edit, parent) ? RED : BLACK);
        set_colour(edit, parent, BLACK);
        set_colour(edit, far, BLACK);
        rotate(edit, parent, side);
        return;
    }
    if (node)
        set_colour(edit, node, BLACK);
}

/* Moves next, the successor of the node below its child right, into its place; returns the parent
 * of the hole, which takes the place of next. */
static addr take_over(struct edit *edit, addr node, addr next, addr right, addr hole)
{
    addr above = next;
    if (next != right) {
        above = parent_of(edit, next);
        replace(edit, next, above, hole);
        set_child(edit, next, 1, right);
        set_parent(edit, right, next);
    }
    replace(edit, node, parent_of(edit, node), next);
    addr left = child(edit, node, 0);
    set_child(edit, next, 0, left);
    set_parent(edit, left, next);
    set_colour(edit, next, is_red(edit, node) ? RED : BLACK);
    return above;
}

static void unlink_node(struct edit *edit, addr node)
{
    addr left = child(edit, node, 0), right = child(edit, node, 1), hole, above;
    addr parent = parent_of(edit, node);
    int lost_black;
    if (!left || !right) {
        hole = left ? left : right;
        above = parent;
        lost_black = !is_red(edit, node);
        replace(edit, node, parent, hole);
    } else {
        addr next = right;
        for (addr below; (below = child(edit, next, 0));)
            next = below;
        hole = child(edit, next, 1);
        lost_black = !is_red(edit, next);
        above = take_over(edit, node, next, right, hole);
    }
    if (lost_black)
        after_unlink(edit, hole, above);
}

/* The node of the key, or 0 and its would-be parent and side. */
static addr find(addr root, uint64_t key, addr *parent, unsigned *side)
{
    addr at = load(root + ROOT);
    *parent = 0;
    *side = 0;
    while (at) {
        uint64_t here = load(at + KEY);
        if (here == key)
            return at;
        *parent = at;
        *side = key > here;
        at = load(at + CHILD + 8 * *side);
    }
    return 0;
}

static void insert(uint64_t thread, struct edit *edit, addr parent, unsigned side, uint64_t key,
                   uint64_t tag)
{
    addr at = slots_take(&slots, thread);
    if (!at)
        return;
    store(at + CHILD, 0);
    store(at + CHILD + 8, 0);
    store(at + PARENT, parent);
    store(at + COLOUR, RED);
    store(at + KEY, key);
    store(at + TAG, tag);
    entry_fill(at, PAYLOAD, key, tag);
    tx_begin(&edit->tx, &logs, thread);
    tx_fresh(&edit->tx, at);
    tx_store(&edit->tx, edit->root + COUNT, tx_load(&edit->tx, edit->root + COUNT) + 1);
    link_node(edit, at, parent, side);
}

static void operate(uint64_t thread, enum action action, uint64_t key, uint64_t tag)
{
    uint64_t tree = key % trees;
    addr parent, freed = 0;
    unsigned side;
    struct edit edit;
    lock_acquire(&locks, tree, thread, 0);
    struct version version = version_read(versions, tree);
    edit.root = first + tree * PM_LINE;
    edit.tx.runs = 0;
    addr at = find(edit.root, key, &parent, &side);
    if (action == SEARCH && at) {
        (void)entry_read(at);
        (void)load(at + TAG);
    } else if (action == INSERT && !at) {
        insert(thread, &edit, parent, side, key, tag);
        tx_commit(&edit.tx, &version, 1);
    } else if (action == DELETE && at) {
        tx_begin(&edit.tx, &logs, thread);
        tx_store(&edit.tx, edit.root + COUNT, tx_load(&edit.tx, edit.root + COUNT) - 1);
        unlink_node(&edit, at);
        tx_commit(&edit.tx, &version, 1);
        freed = at;
    }
    lock_release(&locks, tree, thread, 0);
    if (freed)
        slots_give(&slots, thread, freed);
}

static void step(struct worker *worker)
{
    enum action action = draw_action(worker);
    operate(worker->thread, action, draw_below(worker, keys), tag_of(worker));
}

struct walk {
    unsigned char *live;
    uint64_t tree, found;
    int check;
};

/* Walks the subtree with keys from low to below high; returns its black height. */
static unsigned walk(struct walk *state, addr at, addr parent, int under_red, uint64_t low,
                     uint64_t high)
{
    if (!at)
        return 0;
    slots_reach(&slots, state->live, at);
    uint64_t key = load(at + KEY), colour = load(at + COLOUR);
    if (key % trees != state->tree || key < low || key >= high)
        pm_broken("key %llu of tree %llu is out of order", (unsigned long long)key,
                  (unsigned long long)state->tree);
    if (load(at + PARENT) != parent)
        pm_broken("the node of key %llu has another parent", (unsigned long long)key);
    if (colour > RED || (under_red && colour == RED))
        pm_broken("the node of key %llu has colour %llu", (unsigned long long)key,
                  (unsigned long long)colour);
    if (state->check)
        entry_check(at, PAYLOAD, key, load(at + TAG));
    state->found++;
    unsigned left = walk(state, load(at + CHILD), at, colour == RED, low, key);
    unsigned right = walk(state, load(at + CHILD + 8), at, colour == RED, key + 1, high);
    if (left != right)
        pm_broken("the node of key %llu breaks the black heights", (unsigned long long)key);
    return left + (colour == BLACK);
}

static void walk_all(unsigned char *live, int check)
{
    for (uint64_t tree = 0; tree < trees; tree++) {
        addr root = first + tree * PM_LINE;
        struct walk state = {live, tree, 0, check};
        walk(&state, load(root + ROOT), 0, 1, 0, keys);
        if (load(root + COUNT) != state.found)
            pm_broken("tree %llu has %llu nodes and counts %llu", (unsigned long long)tree,
                      (unsigned long long)state.found, (unsigned long long)load(root + COUNT));
    }
}

static void recover(void)
{
    unsigned char *live = zeroed(slots.count, 1);
    logs_recover(&logs);
    walk_all(live, 0);
    slots_rebuild(&slots, live);
    free(live);
}

static void check(void)
{
    unsigned char *live = zeroed(slots.count, 1);
    walk_all(live, 1);
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

const struct twin rbtree = {"rbtree", 4096, shape, place, fill, step, recover, check};
