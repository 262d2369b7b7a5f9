/*
 * A balanced binary tree with a transaction for each change. It is an AA tree: a red-black tree
 * whose red nodes are right children only, so that two rotations balance it. Each node that a change
 * alters is announced to the transaction by itself, as in the rbtree of PMDK's examples.
 */
#include "inside.h"

TOID_DECLARE(struct node, 41);

struct node {
	uint64_t key;
	PMEMoid value;
	uint64_t level;
	PMEMoid left, right;
};

struct head {
	uint64_t count;
	PMEMoid top;
};

static struct node *
at(PMEMoid oid)
{
	return pmemobj_direct(oid);
}

static uint64_t
level(PMEMoid oid)
{
	return OID_IS_NULL(oid) ? 0 : at(oid)->level;
}

static void
set(PMEMoid *link, PMEMoid to)
{
	if (OID_EQUALS(*link, to))
		return;
	pmemobj_tx_add_range_direct(link, sizeof(*link));
	*link = to;
}

static void
set_level(PMEMoid oid, uint64_t to)
{
	pmemobj_tx_add_range_direct(&at(oid)->level, sizeof(uint64_t));
	at(oid)->level = to;
}

/* Turns a red left child into a parent. */
static PMEMoid
skew(PMEMoid top)
{
	if (OID_IS_NULL(top) || OID_IS_NULL(at(top)->left) || level(at(top)->left) != level(top))
		return top;
	PMEMoid left = at(top)->left;
	set(&at(top)->left, at(left)->right);
	set(&at(left)->right, top);
	return left;
}

/* Raises the middle one of three red ones. */
static PMEMoid
split(PMEMoid top)
{
	if (OID_IS_NULL(top) || OID_IS_NULL(at(top)->right) ||
	    level(at(at(top)->right)->right) != level(top))
		return top;
	PMEMoid right = at(top)->right;
	set(&at(top)->right, at(right)->left);
	set(&at(right)->left, top);
	set_level(right, level(right) + 1);
	return right;
}

static PMEMoid
put(PMEMoid top, uint64_t key, PMEMoid value, int *is_new)
{
	if (OID_IS_NULL(top)) {
		PMEMoid made = pmemobj_tx_zalloc(sizeof(struct node), 41);
		at(made)->key = key;
		at(made)->value = value;
		at(made)->level = 1;
		*is_new = 1;
		return made;
	}
	if (at(top)->key == key) {
		pmemobj_tx_add_range_direct(&at(top)->value, sizeof(PMEMoid));
		at(top)->value = value;
		return top;
	}
	PMEMoid *child = key < at(top)->key ? &at(top)->left : &at(top)->right;
	set(child, put(*child, key, value, is_new));
	return split(skew(top));
}

static PMEMoid
balanced(PMEMoid top)
{
	uint64_t left = level(at(top)->left), right = level(at(top)->right);
	uint64_t least = (left < right ? left : right) + 1;
	if (least < level(top)) {
		set_level(top, least);
		if (least < right)
			set_level(at(top)->right, least);
	}
	top = skew(top);
	if (!OID_IS_NULL(at(top)->right)) {
		set(&at(top)->right, skew(at(top)->right));
		PMEMoid below = at(top)->right;
		if (!OID_IS_NULL(at(below)->right))
			set(&at(below)->right, skew(at(below)->right));
	}
	top = split(top);
	if (!OID_IS_NULL(at(top)->right))
		set(&at(top)->right, split(at(top)->right));
	return top;
}

static PMEMoid
take(PMEMoid top, uint64_t key, int *is_taken)
{
	if (OID_IS_NULL(top))
		return top;
	struct node *node = at(top);
	if (key != node->key) {
		PMEMoid *child = key < node->key ? &node->left : &node->right;
		set(child, take(*child, key, is_taken));
		return balanced(top);
	}
	*is_taken = 1;
	if (OID_IS_NULL(node->left) && OID_IS_NULL(node->right)) {
		pmemobj_tx_free(top);
		return OID_NULL;
	}
	/* The neighbour in order takes its place, and leaves its own. */
	int goes_left = OID_IS_NULL(node->right);
	PMEMoid next = goes_left ? node->left : node->right;
	for (;;) {
		PMEMoid further = goes_left ? at(next)->right : at(next)->left;
		if (OID_IS_NULL(further))
			break;
		next = further;
	}
	pmemobj_tx_add_range_direct(node, sizeof(uint64_t) + sizeof(PMEMoid));
	node->key = at(next)->key;
	node->value = at(next)->value;
	PMEMoid *child = goes_left ? &node->left : &node->right;
	set(child, take(*child, node->key, is_taken));
	return balanced(top);
}

static int
init(PMEMobjpool *pop, void *where)
{
	pmemobj_memset_persist(pop, where, 0, sizeof(struct head));
	return 0;
}

static int
clear(PMEMobjpool *pop, void *where)
{
	(void)pop;
	(void)where;
	return 0;
}

static void
add_to_count(struct head *head, uint64_t by)
{
	pmemobj_tx_add_range_direct(&head->count, sizeof(head->count));
	head->count += by;
}

static int
insert(PMEMobjpool *pop, void *where, uint64_t key, PMEMoid value)
{
	struct head *head = where;
	TX_BEGIN(pop) {
		int is_new = 0;
		set(&head->top, put(head->top, key, value, &is_new));
		if (is_new)
			add_to_count(head, 1);
	} TX_END
	return pmemobj_tx_errno() ? -1 : 0;
}

static PMEMoid
lookup(void *where, uint64_t key)
{
	const struct head *head = where;
	PMEMoid top = head->top;
	while (!OID_IS_NULL(top)) {
		const struct node *node = at(top);
		if (node->key == key)
			return node->value;
		top = key < node->key ? node->left : node->right;
	}
	return OID_NULL;
}

static int
remove_key(PMEMobjpool *pop, void *where, uint64_t key)
{
	struct head *head = where;
	TX_BEGIN(pop) {
		int is_taken = 0;
		set(&head->top, take(head->top, key, &is_taken));
		if (is_taken)
			add_to_count(head, (uint64_t)-1);
	} TX_END
	return pmemobj_tx_errno() ? -1 : 0;
}

static uint64_t
count(void *where)
{
	return ((struct head *)where)->count;
}

const struct map_form rbtree_form = {
	.head_bytes = sizeof(struct head),
	.init = init,
	.clear = clear,
	.insert = insert,
	.lookup = lookup,
	.remove = remove_key,
	.count = count,
};
