/*
 * A B-tree of order 8 where each change is one transaction: the plan of btree_map among PMDK's
 * examples. An insert splits each full node that it meets on its way down; a removal repairs
 * nodes that became too small on its way up. Every node that a change touches is snapshotted
 * whole; a node that the transaction itself allocated needs no snapshot.
 */
#include "inside.h"
#include <string.h>

#define ITEMS_MAX 7
#define ITEMS_MIN 3
#define MIDDLE (ITEMS_MAX / 2)

struct item {
	uint64_t key;
	PMEMoid value;
};

struct node {
	uint64_t items;
	struct item item[ITEMS_MAX];
	PMEMoid child[ITEMS_MAX + 1];
};

struct head {
	PMEMoid top;
};

static struct node *
node_of(PMEMoid node)
{
	return pmemobj_direct(node);
}

static int
is_leaf(const struct node *node)
{
	return OID_IS_NULL(node->child[0]);
}

static void
snapshot(struct node *node)
{
	pmemobj_tx_add_range_direct(node, sizeof(*node));
}

static void
snapshot_top(struct head *head)
{
	pmemobj_tx_add_range_direct(&head->top, sizeof(head->top));
}

/* The first place of node whose key is not below key. */
static unsigned
place_of(const struct node *node, uint64_t key)
{
	unsigned at = 0;
	while (at < node->items && node->item[at].key < key)
		at++;
	return at;
}

static int
holds(const struct node *node, unsigned at, uint64_t key)
{
	return at < node->items && node->item[at].key == key;
}

/* Makes room at a place of a snapshotted node: one item, and one child on its right. */
static void
open_gap(struct node *node, unsigned at)
{
	size_t after = node->items - at;
	memmove(&node->item[at + 1], &node->item[at], after * sizeof(node->item[0]));
	memmove(&node->child[at + 2], &node->child[at + 1], after * sizeof(node->child[0]));
	node->items++;
}

/* Takes out of a snapshotted node the item at a place and the child on its right. */
static void
close_gap(struct node *node, unsigned at)
{
	size_t after = node->items - at - 1;
	memmove(&node->item[at], &node->item[at + 1], after * sizeof(node->item[0]));
	memmove(&node->child[at + 1], &node->child[at + 2], after * sizeof(node->child[0]));
	node->items--;
	node->child[node->items + 1] = OID_NULL;
}

/* Splits the full child at a place of parent, whose item there becomes the middle one. */
static void
split(struct node *parent, unsigned at)
{
	struct node *left = node_of(parent->child[at]);
	PMEMoid made = pmemobj_tx_zalloc(sizeof(struct node), 31);
	struct node *right = node_of(made);
	size_t moved = ITEMS_MAX - MIDDLE - 1;
	if (right == NULL) /* never: an allocation that fails has aborted */
		return;
	snapshot(left);
	memcpy(right->item, &left->item[MIDDLE + 1], moved * sizeof(right->item[0]));
	memcpy(right->child, &left->child[MIDDLE + 1], (moved + 1) * sizeof(right->child[0]));
	memset(&left->child[MIDDLE + 1], 0, (moved + 1) * sizeof(left->child[0]));
	right->items = moved;
	left->items = MIDDLE;
	open_gap(parent, at);
	parent->item[at] = left->item[MIDDLE];
	parent->child[at + 1] = made;
}

/* A new top above the full one, so that this one has a parent to be split into. */
static void
grow_up(struct head *head)
{
	PMEMoid made = pmemobj_tx_zalloc(sizeof(struct node), 31);
	node_of(made)->child[0] = head->top;
	snapshot_top(head);
	head->top = made;
	split(node_of(made), 0);
}

static void
insert_item(struct head *head, struct item item)
{
	if (OID_IS_NULL(head->top)) {
		snapshot_top(head);
		head->top = pmemobj_tx_zalloc(sizeof(struct node), 31);
	} else if (node_of(head->top)->items == ITEMS_MAX) {
		grow_up(head);
	}
	struct node *node = node_of(head->top);
	unsigned at = place_of(node, item.key);
	while (!is_leaf(node)) {
		if (node_of(node->child[at])->items == ITEMS_MAX) {
			snapshot(node);
			split(node, at);
			at += node->item[at].key < item.key;
		}
		node = node_of(node->child[at]);
		at = place_of(node, item.key);
	}
	snapshot(node);
	open_gap(node, at);
	node->item[at] = item;
}

/* Moves an item from the right sibling through parent into the child at a place. */
static void
borrow_right(struct node *parent, unsigned at)
{
	struct node *node = node_of(parent->child[at]);
	struct node *sibling = node_of(parent->child[at + 1]);
	snapshot(node);
	snapshot(sibling);
	snapshot(parent);
	node->item[node->items] = parent->item[at];
	node->items++;
	node->child[node->items] = sibling->child[0];
	parent->item[at] = sibling->item[0];
	sibling->child[0] = sibling->child[1];
	close_gap(sibling, 0);
}

static void
borrow_left(struct node *parent, unsigned at)
{
	struct node *node = node_of(parent->child[at]);
	struct node *sibling = node_of(parent->child[at - 1]);
	unsigned last = sibling->items - 1;
	snapshot(node);
	snapshot(sibling);
	snapshot(parent);
	open_gap(node, 0);
	node->child[1] = node->child[0];
	node->child[0] = sibling->child[last + 1];
	node->item[0] = parent->item[at - 1];
	parent->item[at - 1] = sibling->item[last];
	close_gap(sibling, last);
}

/* Joins the children on both sides of an item of parent, with the item between them. */
static void
join(struct node *parent, unsigned at)
{
	struct node *left = node_of(parent->child[at]);
	PMEMoid gone = parent->child[at + 1];
	struct node *right = node_of(gone);
	unsigned to = left->items + 1;
	snapshot(left);
	snapshot(parent);
	left->item[to - 1] = parent->item[at];
	memcpy(&left->item[to], right->item, right->items * sizeof(right->item[0]));
	memcpy(&left->child[to], right->child, (right->items + 1) * sizeof(right->child[0]));
	left->items = to + right->items;
	close_gap(parent, at);
	pmemobj_tx_free(gone);
}

/* Gives the child at a place of parent more items if it has too few. */
static void
repair(struct node *parent, unsigned at)
{
	if (node_of(parent->child[at])->items >= ITEMS_MIN)
		return;
	if (at < parent->items && node_of(parent->child[at + 1])->items > ITEMS_MIN)
		borrow_right(parent, at);
	else if (at > 0 && node_of(parent->child[at - 1])->items > ITEMS_MIN)
		borrow_left(parent, at);
	else
		join(parent, at < parent->items ? at : at - 1);
}

/* Takes the least item out of the tree below node. */
static struct item
take_least(struct node *node)
{
	struct item least;
	if (is_leaf(node)) {
		least = node->item[0];
		snapshot(node);
		close_gap(node, 0);
	} else {
		least = take_least(node_of(node->child[0]));
		repair(node, 0);
	}
	return least;
}

static void
remove_below(struct node *node, uint64_t key)
{
	unsigned at = place_of(node, key);
	int is_here = holds(node, at, key);
	if (is_leaf(node)) {
		if (is_here) {
			snapshot(node);
			close_gap(node, at);
		}
		return;
	}
	if (is_here) {
		struct item next = take_least(node_of(node->child[at + 1]));
		pmemobj_tx_add_range_direct(&node->item[at], sizeof(next));
		node->item[at] = next;
		repair(node, at + 1);
	} else {
		remove_below(node_of(node->child[at]), key);
		repair(node, at);
	}
}

static int
init(PMEMobjpool *pop, void *where)
{
	(void)pop;
	(void)where;
	return 0;
}

static int
clear(PMEMobjpool *pop, void *where)
{
	(void)pop;
	struct head *head = where;
	pmemobj_free(&head->top);
	return 0;
}

static int
insert(PMEMobjpool *pop, void *where, uint64_t key, PMEMoid value)
{
	volatile int failed = 0;
	struct item item = {key, value};
	TX_BEGIN(pop) {
		insert_item(where, item);
	} TX_ONABORT {
		failed = -1;
	} TX_END
	return failed;
}

static PMEMoid
lookup(void *where, uint64_t key)
{
	const struct head *head = where;
	PMEMoid node = head->top;
	while (!OID_IS_NULL(node)) {
		const struct node *here = node_of(node);
		unsigned at = place_of(here, key);
		if (holds(here, at, key))
			return here->item[at].value;
		node = here->child[at];
	}
	return OID_NULL;
}

static int
remove_key(PMEMobjpool *pop, void *where, uint64_t key)
{
	volatile int failed = 0;
	struct head *head = where;
	if (OID_IS_NULL(head->top))
		return 0;
	TX_BEGIN(pop) {
		struct node *top = node_of(head->top);
		remove_below(top, key);
		if (top->items == 0 && !is_leaf(top)) {
			PMEMoid gone = head->top;
			snapshot_top(head);
			head->top = top->child[0];
			pmemobj_tx_free(gone);
		}
	} TX_ONABORT {
		failed = -1;
	} TX_END
	return failed;
}

static uint64_t
items_below(PMEMoid oid)
{
	uint64_t items = 0;
	if (!OID_IS_NULL(oid)) {
		const struct node *node = node_of(oid);
		items = node->items;
		for (unsigned at = 0; at <= node->items; at++)
			items += items_below(node->child[at]);
	}
	return items;
}

static uint64_t
count(void *where)
{
	const struct head *head = where;
	return items_below(head->top);
}

const struct map_form btree_form = {
	.head_bytes = sizeof(struct head),
	.init = init,
	.clear = clear,
	.insert = insert,
	.lookup = lookup,
	.remove = remove_key,
	.count = count,
};
