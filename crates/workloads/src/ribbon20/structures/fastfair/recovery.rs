//! Recovery of a FAST & FAIR tree after a crash, and the check of its invariants.
//!
//! A crash can leave an invalid record (during a shift), records that belong to the sibling (during
//! a split or a merge), and a node without a record in its parent (during either, or during a
//! change of the root). The publication leaves them to the next operation that finds them; here
//! opening repairs them all, with the stores of the operations themselves, so a crash during
//! recovery leaves no other states.

use super::{
    FastFairTree, Head, LEFTMOST, LEVEL, LEVELS_MAX, LOW, NO_CHILD, SIBLING, key, left_of, persist,
    pointer, word,
};
use crate::shared::Inconsistency;
use crate::shared::epoch_log::OrderFlaw;
use crate::shared::inconsistency::Reached;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use std::collections::BTreeMap;

/// The nodes of a tree, level by level from the root, each from left to right.
type Levels = Vec<Vec<Addr>>;

impl FastFairTree {
    /// Finishes or undoes what a crash interrupted, and finds the free nodes. DRAM must be zero.
    ///
    /// # Errors
    /// If the pool is damaged beyond what a crash can do.
    pub fn recover<M: Memory>(&self, memory: &M) -> Result<(), Inconsistency> {
        let mut reached = Reached::none(&self.nodes);
        let is_new = memory.load::<Addr>(self.root).is_null();
        let levels = if is_new { Vec::new() } else { self.levels(memory, &mut reached)? };
        for node in levels.iter().flatten() {
            self.mend(memory, *node);
            self.check_records(memory, *node)?;
        }
        let children = self.children(memory, &levels)?;
        self.nodes.rebuild(memory, &reached.live);
        let full = |_| Inconsistency::Broken("there is no node left to finish a split".to_owned());
        if is_new {
            let head = Head { leftmost: NO_CHILD, sibling: 0, level: 0, low: 0 };
            let root = self.fresh(memory, head).map_err(full)?;
            memory.flush(root, 2 * LINE_BYTES);
            memory.order();
            persist(memory, self.root, root.bits());
        }
        for node in levels.iter().flat_map(|level| &level[1..]) {
            if !children.contains_key(&node.bits()) {
                let [level, low] = [LEVEL, LOW].map(|offset| word(memory, *node, offset));
                self.tell_parent(memory, level + 1, (low, *node), OrderFlaw::None).map_err(full)?;
            }
        }
        Ok(())
    }

    /// Visits every node, and checks the invariants that hold after any crash.
    fn levels<M: Memory>(
        &self,
        memory: &M,
        reached: &mut Reached<'_>,
    ) -> Result<Levels, Inconsistency> {
        let mut first = memory.load::<u64>(self.root);
        if first == 0 {
            return Err(Inconsistency::Broken("the tree has no root".to_owned()));
        }
        let mut levels = Levels::new();
        let mut wanted = None;
        loop {
            let (mut next, mut nodes, mut low) = (first, Vec::new(), None);
            while next != 0 {
                let node = reached.reach(next, || format!("level {wanted:?}"))?;
                let [level, least] = [LEVEL, LOW].map(|offset| word(memory, node, offset));
                let is_level = *wanted.get_or_insert(level) == level && level < LEVELS_MAX;
                let is_after = low.map_or(least == 0, |low| low < least);
                if !is_level || !is_after || self.count(memory, node) == self.shape.slots {
                    return Err(Inconsistency::Broken(format!(
                        "the node at {node} is not in its place"
                    )));
                }
                low = Some(least);
                nodes.push(node);
                next = word(memory, node, SIBLING);
            }
            let leftmost = word(memory, nodes[0], LEFTMOST);
            levels.push(nodes);
            match wanted {
                Some(0) => return Ok(levels),
                level => wanted = level.map(|level| level - 1),
            }
            first = leftmost;
            if first == 0 {
                return Err(Inconsistency::Broken(
                    "an inner node has no leftmost child".to_owned(),
                ));
            }
        }
    }

    /// Removes invalid records, and ends the node where its sibling begins.
    fn mend<M: Memory>(&self, memory: &M, node: Addr) {
        let mut place = 0;
        while place < self.count(memory, node) {
            if memory.load::<u64>(pointer(node, place)) == memory.load::<u64>(left_of(node, place))
            {
                self.shift_out(memory, node, place, OrderFlaw::None);
            } else {
                place += 1;
            }
        }
        let foreign = |place: &u64| {
            FastFairTree::beyond(memory, node, memory.load(key(node, *place))).is_some()
        };
        if let Some(end) = (0..self.count(memory, node)).find(foreign) {
            persist(memory, pointer(node, end), 0);
        }
    }

    /// The separator of each child of an inner node; all children are nodes of the level below.
    fn children<M: Memory>(
        &self,
        memory: &M,
        levels: &Levels,
    ) -> Result<BTreeMap<u64, u64>, Inconsistency> {
        let mut children = BTreeMap::new();
        for pair in levels.windows(2) {
            let lows: BTreeMap<u64, u64> =
                pair[1].iter().map(|node| (node.bits(), word(memory, *node, LOW))).collect();
            for parent in &pair[0] {
                let head = (word(memory, *parent, LOW), word(memory, *parent, LEFTMOST));
                let more = (0..self.count(memory, *parent)).map(|place| {
                    (memory.load(key(*parent, place)), memory.load(pointer(*parent, place)))
                });
                for (low, child) in std::iter::once(head).chain(more) {
                    if lows.get(&child) != Some(&low) || children.insert(child, low).is_some() {
                        let what = format!("the record {low} of the node at {parent}");
                        return Err(Inconsistency::Pointer { what, to: child });
                    }
                }
            }
        }
        Ok(children)
    }

    /// Checks every invariant and returns the tag of each key. No operation may be in flight.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn contents<M: Memory>(&self, memory: &M) -> Result<BTreeMap<u64, u64>, Inconsistency> {
        let levels = self.levels(memory, &mut Reached::none(&self.nodes))?;
        let known = self.children(memory, &levels)?.len();
        let nodes: usize = levels.iter().map(Vec::len).sum();
        if levels[0].len() != 1 || known + 1 != nodes {
            return Err(Inconsistency::Broken(format!("parents know {known} of {nodes} nodes")));
        }
        let mut contents = BTreeMap::new();
        for node in levels.iter().flatten() {
            self.check_records(memory, *node)?;
            if word(memory, *node, LEVEL) == 0 {
                contents.extend((0..self.count(memory, *node)).map(|place| {
                    (
                        memory.load::<u64>(key(*node, place)),
                        memory.load::<u64>(pointer(*node, place)),
                    )
                }));
            }
        }
        Ok(contents)
    }

    /// Checks that every record is valid, in order, and belongs to the node.
    fn check_records<M: Memory>(&self, memory: &M, node: Addr) -> Result<(), Inconsistency> {
        let mut least = Some(word(memory, node, LOW));
        for place in 0..self.count(memory, node) {
            let found = memory.load::<u64>(key(node, place));
            let counts = memory.load::<u64>(pointer(node, place))
                != memory.load::<u64>(left_of(node, place));
            let is_in_order = least.is_some_and(|least| least <= found);
            if !counts || !is_in_order || FastFairTree::beyond(memory, node, found).is_some() {
                let what = format!("record {place} (key {found}) of the node at {node}");
                return Err(Inconsistency::Broken(format!("{what} is not in its place")));
            }
            least = found.checked_add(1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FastFairShape, SWITCH};
    use super::*;
    use crate::shared::Change;
    use proptest::prelude::*;
    use seawall_memory::Image;
    use seawall_runtime::Arena;

    fn place(slots: u64, keys: u64) -> (Image, FastFairTree) {
        let mut arena = Arena::new();
        let shape = FastFairShape { threads: 1, slots, keys }.check().expect("a good shape");
        let tree = FastFairTree::place(shape, &mut arena);
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        tree.recover(&image).expect("an empty pool");
        (image, tree)
    }

    fn again(image: Image, tree: &FastFairTree) -> (Image, Result<(), Inconsistency>) {
        let dram = image.clone().into_parts().1.len() as u64;
        let image = Image::from_pm(image.into_pm(), dram);
        let outcome = tree.recover(&image);
        (image, outcome)
    }

    proptest! {
        #[test]
        fn it_does_what_a_sorted_map_does(
            steps in proptest::collection::vec((0u8..8, 0u64..60), 0..500), slots in 2u64..4,
        ) {
            let (image, tree) = place(4 * slots, 60);
            let mut model = BTreeMap::new();
            for (number, (action, key)) in steps.into_iter().enumerate() {
                let (tag, is_there) = (number as u64 + 2, model.contains_key(&key));
                match action {
                    0 => prop_assert_eq!(tree.search(&image, key), model.get(&key).copied()),
                    1..4 => {
                        let inserted = tree.insert(&image, key, Change::of(tag));
                        prop_assert_eq!(inserted, Ok(!is_there));
                        model.entry(key).or_insert(tag);
                    }
                    4 => {
                        prop_assert_eq!(tree.update(&image, key, Change::of(tag)), is_there);
                        model.entry(key).and_modify(|old| *old = tag);
                    }
                    5 => {
                        let mut found = Vec::new();
                        let count = tree.scan(&image, key, 7, |key, tag| found.push((key, tag)));
                        let wanted = model.range(key..).take(7).map(|(key, tag)| (*key, *tag));
                        let wanted: Vec<(u64, u64)> = wanted.collect();
                        prop_assert_eq!(&found, &wanted);
                        prop_assert_eq!(count, wanted.len() as u64);
                    }
                    _ => {
                        prop_assert_eq!(tree.delete(&image, key, Change::of(tag)), is_there);
                        model.remove(&key);
                    }
                }
            }
            prop_assert_eq!(tree.contents(&image), Ok(model.clone()));
            let (image, outcome) = again(image, &tree);
            prop_assert_eq!(outcome, Ok(()));
            prop_assert_eq!(tree.contents(&image), Ok(model));
        }

        #[test]
        fn wild_bytes_are_damage_and_never_a_panic_or_a_loop(
            wild in proptest::collection::vec((any::<u16>(), any::<u64>()), 1..40), small: bool,
        ) {
            let (image, tree) = place(8, 40);
            for key in 0..40 {
                prop_assert_eq!(tree.insert(&image, key, Change::of(key + 2)), Ok(true));
            }
            let bytes = image.clone().into_pm().len() as u64;
            for (word, value) in wild {
                let value = if small { value % bytes / 64 * 64 } else { value };
                image.store(Addr::pm(u64::from(word) * 8 % (bytes - 8)), value);
            }
            let _ = tree.contents(&image);
            let _ = again(image, &tree).1;
        }
    }

    #[test]
    fn a_tree_without_a_root_is_damage() {
        let (image, tree) = place(8, 40);
        image.store(tree.root, 0u64);
        assert!(matches!(tree.contents(&image), Err(Inconsistency::Broken(_))));
    }

    #[test]
    fn a_tree_that_lost_its_keys_has_given_its_nodes_back_and_one_level() {
        let (image, tree) = place(8, 1000);
        for round in 0..5 {
            for key in 0..1000 {
                let tag = 1000 * round + key + 2;
                assert_eq!(tree.insert(&image, key, Change::of(tag)), Ok(true));
            }
            let height = |tree: &FastFairTree| {
                tree.levels(&image, &mut Reached::none(&tree.nodes)).expect("whole").len()
            };
            assert!(height(&tree) >= 4);
            for key in 0..1000 {
                assert!(tree.delete(&image, (key * 379 + round) % 1000, Change::of(7)));
            }
            assert_eq!(tree.contents(&image), Ok(BTreeMap::new()));
            assert!(height(&tree) <= 2, "{}", height(&tree));
        }
    }

    #[test]
    fn a_reader_on_its_way_to_a_node_that_has_joined_another_starts_again() {
        let (image, tree) = place(8, 40);
        for key in 0..40 {
            tree.insert(&image, key, Change::of(key + 2)).expect("room");
        }
        let dead = |node: &&Addr| image.load::<u64>(tree.words(**node).plus(SWITCH)) >> 63 == 1;
        let before = tree.levels(&image, &mut Reached::none(&tree.nodes)).expect("whole");
        let leaves = before.last().expect("leaves");
        assert_eq!(leaves.iter().filter(dead).count(), 0);
        for key in 4..40 {
            tree.delete(&image, key, Change::of(99));
        }
        assert!(leaves.iter().filter(dead).count() > leaves.len() / 2);
    }
}
