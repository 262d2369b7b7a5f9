/* What the C++ library does to objects of the program in functions of its own, which no header has:
 * the nodes of std::map and std::set, those of std::list, hash tables that grow, and std::thread.
 * Each is known by the name that a C++ compiler gives it (the Itanium ABI), and its objects have
 * the layout that libstdc++ never changes. Programs in C do not call them, and need no libstdc++.
 * */
#include "support.h"

#include <pthread.h>

/* A function of libstdc++ by its name. */
#define CXX(name) __asm__(name)

/* ---- std::map, std::set: red-black trees ---- */

struct tree_node {
    uint32_t color;
    struct tree_node *parent;
    struct tree_node *left;
    struct tree_node *right;
};
enum { RED, BLACK };

/* The place that has `node`: the root's is in the header. */
static struct tree_node **place_of(struct tree_node *node, struct tree_node *header)
{
    struct tree_node *parent = node->parent;
    if (header->parent == node)
        return &header->parent;
    return parent->left == node ? &parent->left : &parent->right;
}

static void rotate_left(struct tree_node *node, struct tree_node *header)
{
    struct tree_node *up = node->right;
    struct tree_node **place = place_of(node, header);
    node->right = up->left;
    if (up->left != NULL)
        up->left->parent = node;
    up->parent = node->parent;
    *place = up;
    up->left = node;
    node->parent = up;
}

static void rotate_right(struct tree_node *node, struct tree_node *header)
{
    struct tree_node *up = node->left;
    struct tree_node **place = place_of(node, header);
    node->left = up->right;
    if (up->right != NULL)
        up->right->parent = node;
    up->parent = node->parent;
    *place = up;
    up->right = node;
    node->parent = up;
}

/* The header has the root, the first node on its left and the last on its right. */
static void link_node(bool to_the_left, struct tree_node *node, struct tree_node *parent,
                      struct tree_node *header)
{
    *node = (struct tree_node){RED, parent, NULL, NULL};
    if (to_the_left) {
        parent->left = node;
        if (parent == header) {
            header->parent = node;
            header->right = node;
        } else if (parent == header->left) {
            header->left = node;
        }
    } else {
        parent->right = node;
        if (parent == header->right)
            header->right = node;
    }
}

void support_tree_insert(bool to_the_left, struct tree_node *node, struct tree_node *parent,
                         struct tree_node *header)
    CXX("_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_");
void support_tree_insert(bool to_the_left, struct tree_node *node, struct tree_node *parent,
                         struct tree_node *header)
{
    link_node(to_the_left, node, parent, header);
    while (node != header->parent && node->parent->color == RED) {
        parent = node->parent;
        struct tree_node *above = parent->parent;
        bool is_left = parent == above->left;
        struct tree_node *uncle = is_left ? above->right : above->left;
        if (uncle != NULL && uncle->color == RED) {
            parent->color = BLACK;
            uncle->color = BLACK;
            above->color = RED;
            node = above;
            continue;
        }
        if (node == (is_left ? parent->right : parent->left)) {
            node = parent;
            (is_left ? rotate_left : rotate_right)(node, header);
        }
        node->parent->color = BLACK;
        above->color = RED;
        (is_left ? rotate_right : rotate_left)(above, header);
    }
    header->parent->color = BLACK;
}

static struct tree_node *end_of(struct tree_node *node, bool to_the_left)
{
    for (struct tree_node *next; (next = to_the_left ? node->left : node->right) != NULL;)
        node = next;
    return node;
}

/* Where a node was taken out: what is there now, if anything, and its parent. */
struct gap {
    struct tree_node *node;
    struct tree_node *parent;
};

/* Takes out a node that has at most one child. */
static struct gap take_out(struct tree_node *gone, struct tree_node *header)
{
    struct gap gap = {gone->left != NULL ? gone->left : gone->right, gone->parent};
    *place_of(gone, header) = gap.node;
    if (gap.node != NULL)
        gap.node->parent = gone->parent;
    if (header->left == gone)
        header->left = gap.node == NULL ? gone->parent : end_of(gap.node, true);
    if (header->right == gone)
        header->right = gap.node == NULL ? gone->parent : end_of(gap.node, false);
    return gap;
}

/* Puts the node that follows `gone` into its place, with its color; it has no left child. */
static struct gap replace(struct tree_node *gone, struct tree_node *header)
{
    struct tree_node *next = end_of(gone->right, true);
    struct gap gap = {next->right, next};
    gone->left->parent = next;
    next->left = gone->left;
    if (next != gone->right) {
        gap.parent = next->parent;
        if (gap.node != NULL)
            gap.node->parent = gap.parent;
        gap.parent->left = gap.node;
        next->right = gone->right;
        gone->right->parent = next;
    }
    *place_of(gone, header) = next;
    next->parent = gone->parent;
    uint32_t color = next->color;
    next->color = gone->color;
    gone->color = color;
    return gap;
}

static bool is_black(const struct tree_node *node)
{
    return node == NULL || node->color == BLACK;
}

/* The way through the gap has one black node less than the others. Returns true at the end. */
static bool mend(struct gap *gap, struct tree_node *header)
{
    struct tree_node *parent = gap->parent;
    bool is_left = gap->node == parent->left;
    void (*rotate)(struct tree_node *, struct tree_node *) = is_left ? rotate_left : rotate_right;
    struct tree_node *other = is_left ? parent->right : parent->left;
    if (other->color == RED) {
        other->color = BLACK;
        parent->color = RED;
        rotate(parent, header);
        other = is_left ? parent->right : parent->left;
    }
    if (is_black(other->left) && is_black(other->right)) {
        other->color = RED;
        *gap = (struct gap){parent, parent->parent};
        return false;
    }
    if (is_black(is_left ? other->right : other->left)) {
        (is_left ? other->left : other->right)->color = BLACK;
        other->color = RED;
        (is_left ? rotate_right : rotate_left)(other, header);
        other = is_left ? parent->right : parent->left;
    }
    other->color = parent->color;
    parent->color = BLACK;
    struct tree_node *outer = is_left ? other->right : other->left;
    if (outer != NULL)
        outer->color = BLACK;
    rotate(parent, header);
    return true;
}

struct tree_node *support_tree_erase(struct tree_node *gone, struct tree_node *header)
    CXX("_ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_");
struct tree_node *support_tree_erase(struct tree_node *gone, struct tree_node *header)
{
    bool has_both = gone->left != NULL && gone->right != NULL;
    struct gap gap = has_both ? replace(gone, header) : take_out(gone, header);
    if (gone->color == BLACK) {
        while (gap.node != header->parent && is_black(gap.node)) {
            if (mend(&gap, header))
                break;
        }
        if (gap.node != NULL)
            gap.node->color = BLACK;
    }
    return gone;
}

/* ---- std::list ---- */

struct list_node {
    struct list_node *next;
    struct list_node *before;
};

void support_list_hook(struct list_node *node, struct list_node *at)
    CXX("_ZNSt8__detail15_List_node_base7_M_hookEPS0_");
void support_list_hook(struct list_node *node, struct list_node *at)
{
    node->next = at;
    node->before = at->before;
    at->before->next = node;
    at->before = node;
}

void support_list_unhook(struct list_node *node)
    CXX("_ZNSt8__detail15_List_node_base9_M_unhookEv");
void support_list_unhook(struct list_node *node)
{
    struct list_node *next = node->next, *before = node->before;
    before->next = next;
    next->before = before;
}

/* Moves the nodes from `first` on, without `last`, before `at`. */
void support_list_transfer(struct list_node *at, struct list_node *first, struct list_node *last)
    CXX("_ZNSt8__detail15_List_node_base11_M_transferEPS0_S1_");
void support_list_transfer(struct list_node *at, struct list_node *first, struct list_node *last)
{
    if (at == last)
        return;
    last->before->next = at;
    first->before->next = last;
    at->before->next = first;
    struct list_node *before = at->before;
    at->before = last->before;
    last->before = first->before;
    first->before = before;
}

void support_list_reverse(struct list_node *head)
    CXX("_ZNSt8__detail15_List_node_base10_M_reverseEv");
void support_list_reverse(struct list_node *head)
{
    struct list_node *node = head;
    do {
        struct list_node *next = node->next;
        node->next = node->before;
        node->before = next;
        node = next;
    } while (node != head);
}

static void take_nodes(struct list_node *to, const struct list_node *from)
{
    *to = *from;
    to->next->before = to;
    to->before->next = to;
}

/* An empty list is its own neighbour. */
void support_list_swap(struct list_node *a, struct list_node *b)
    CXX("_ZNSt8__detail15_List_node_base4swapERS0_S1_");
void support_list_swap(struct list_node *a, struct list_node *b)
{
    struct list_node had_a = *a, had_b = *b;
    bool has_a = had_a.next != a, has_b = had_b.next != b;
    if (has_b)
        take_nodes(a, &had_b);
    else
        *a = (struct list_node){a, a};
    if (has_a)
        take_nodes(b, &had_a);
    else
        *b = (struct list_node){b, b};
}

/* ---- std::unordered_map, std::unordered_set: when they grow ---- */

/* libstdc++ has the primes. What it changes is a copy. */
struct growth {
    float load;
    size_t next;
};
struct growth_now {
    bool grows;
    size_t buckets;
};

size_t support_next_buckets(struct growth *growth, size_t buckets)
    CXX("_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm");
size_t support_next_buckets(struct growth *growth, size_t buckets)
{
    static void *slot;
    struct growth copy = *growth;
    size_t (*real)(struct growth *, size_t) =
        support_real(&slot, "_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm");
    size_t result = real(&copy, buckets);
    growth->next = copy.next;
    return result;
}

struct growth_now support_grows(struct growth *growth, size_t buckets, size_t has, size_t more)
    CXX("_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm");
struct growth_now support_grows(struct growth *growth, size_t buckets, size_t has, size_t more)
{
    static void *slot;
    struct growth copy = *growth;
    struct growth_now (*real)(struct growth *, size_t, size_t, size_t) =
        support_real(&slot, "_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm");
    struct growth_now result = real(&copy, buckets, has, more);
    growth->next = copy.next;
    return result;
}

/* ---- std::thread: its only member is the handle ---- */

/* What cannot be is left to libstdc++, which throws. */
void support_thread_join(pthread_t *thread) CXX("_ZNSt6thread4joinEv");
void support_thread_join(pthread_t *thread)
{
    if (*thread == 0 || *thread == pthread_self() || pthread_join(*thread, NULL) != 0) {
        static void *slot;
        ((void (*)(pthread_t *))support_real(&slot, "_ZNSt6thread4joinEv"))(thread);
        return;
    }
    *thread = 0;
}

void support_thread_detach(pthread_t *thread) CXX("_ZNSt6thread6detachEv");
void support_thread_detach(pthread_t *thread)
{
    if (*thread == 0 || pthread_detach(*thread) != 0) {
        static void *slot;
        ((void (*)(pthread_t *))support_real(&slot, "_ZNSt6thread6detachEv"))(thread);
        return;
    }
    *thread = 0;
}
