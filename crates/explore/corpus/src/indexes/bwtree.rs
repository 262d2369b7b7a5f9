//! A lock-free B+-tree of delta records, with the helping bug of its conversion to persistence.
//!
//! "The Bw-Tree: A B-tree for New Hardware Platforms" (Levandoski, Lomet, Sengupta, ICDE'13), with
//! what each delta knows of its page from "Building a Bw-Tree Takes More Than Just Buzz Words"
//! (Wang et al., SIGMOD'18). A mapping table leads from the id of a page to its newest record. A
//! thread changes a page by a compare-exchange of its entry: to a delta, or to a new base once the
//! chain is long. A page splits in two steps: a split delta cuts its range and leads to the new
//! right sibling; an index term tells the parent. A writer that meets a page which was cut, and
//! which the parent takes for whole, helps: it posts the term first. Pages are never merged.
//!
//! RECIPE (Lee et al., SOSP'19) made it persistent (P-BwTree): who changes an entry flushes it. The
//! bug (RB-4, 91aa34b -> e85fdd1): a helper posts the index term of a split whose delta another
//! thread has installed and not flushed yet; a crash may keep the term and lose the split. The fix
//! flushes the entry that the helper has read before it posts.

mod page;

use super::Index;
use crate::kit::{Words, ensure, line};
use crate::program::{About, BugKind};
use page::{DELTA_BYTES, Delta, END, Header, Kind, Page, Top};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// Where the next free byte of the pool is noted.
const FREE: Addr = line(1);
/// Where the next free id of a page is noted.
const FREE_ID: Addr = line(2);
/// Where the id of the root is.
const ROOT: Addr = line(3);
/// The mapping table. An entry has a line of its own: threads do not share lines where they do not
/// share pages.
const TABLE: u64 = 4;
const PAGES: u64 = 252;

const POOL_BYTES: u64 = 192 << 10;

/// The tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BwTree;

/// The entry of a page in the mapping table.
fn entry(id: u64) -> Addr {
    line(TABLE + id)
}

/// Deltas on a base before a visitor consolidates the page.
fn chain_max(level: u64) -> u64 {
    if level == 0 { 4 } else { 2 }
}

/// Items of a page before a visitor splits it.
fn items_max(level: u64) -> u64 {
    if level == 0 { 8 } else { 4 }
}

/// Takes memory of the pool. That it is taken persists with the next fence, before anything leads
/// there. A crash may lose free memory, and no more.
fn allocate<M: Memory>(memory: &M, bytes: u64) -> Addr {
    let at = memory.fetch_add(FREE, bytes);
    memory.flush(FREE, 8);
    Addr::from_bits(at)
}

/// Makes a page of one base under a new id. It persists with the next fence.
fn new_page<M: Memory>(memory: &M, page: &Page) -> u64 {
    let base = allocate(memory, page::base_bytes(page.items.len()));
    page.write(memory, base);
    let id = memory.fetch_add(FREE_ID, 1);
    assert!(id < PAGES, "the mapping table is full");
    memory.flush(FREE_ID, 8);
    memory.put_flush(entry(id), base.bits());
    id
}

fn new_delta<M: Memory>(memory: &M, delta: &Delta) -> Addr {
    let at = allocate(memory, DELTA_BYTES);
    delta.write(memory, at);
    at
}

/// Puts a new top on a page; false if the page has changed since it was visited. What the new top
/// leads to persists before it, and it is durable on return.
fn install<M: Memory>(memory: &M, old: &Top, new: Addr) -> bool {
    memory.order();
    let place = entry(old.id);
    let installed = memory.compare_exchange(place, old.record.bits(), new.bits()).is_ok();
    if installed {
        memory.persist(place, 8);
    }
    installed
}

fn visit<M: Memory>(memory: &M, id: u64) -> Top {
    let record = Addr::from_bits(memory.get(entry(id)));
    let header = Header::of(memory, record);
    Top { id, record, header, high: memory.get(page::high(record)) }
}

/// The leaf for `key`. On the way there, pages that need it are completed, split or consolidated.
fn leaf_for<M: Memory>(memory: &M, key: u64, fixed: bool) -> Top {
    loop {
        if let Some(leaf) = descend(memory, key, fixed) {
            return leaf;
        }
    }
}

/// One way down; none if it ends because a page had to be changed.
fn descend<M: Memory>(memory: &M, key: u64, fixed: bool) -> Option<Top> {
    let (mut parent, mut id, mut end) = (None, memory.get(ROOT), END);
    loop {
        let page = visit(memory, id);
        let Header { level, depth, items, .. } = page.header;
        if page.high < end {
            help(memory, parent.as_ref(), &page, end, fixed);
            return None;
        }
        if items >= items_max(level) {
            split(memory, &page);
            return None;
        }
        if depth >= chain_max(level) {
            consolidate(memory, &page);
            return None;
        }
        if level == 0 {
            return Some(page);
        }
        (id, end) = page::child_for(memory, &page, key);
        parent = Some(page);
    }
}

/// Replaces a chain by a base.
fn consolidate<M: Memory>(memory: &M, old: &Top) {
    let page = Page::read(memory, old.record).expect("a page is whole");
    let base = allocate(memory, page::base_bytes(page.items.len()));
    page.write(memory, base);
    install(memory, old, base);
}

/// The first step of a split: moves the upper half of a page to a new right sibling. The second
/// one is [`help`].
fn split<M: Memory>(memory: &M, old: &Top) {
    let mut page = Page::read(memory, old.record).expect("a page is whole");
    let items = page.items.split_off(page.items.len() / 2);
    let separator = items[0].0;
    let sibling = new_page(memory, &Page { low: separator, items, ..page });
    let delta = Delta {
        header: old.header_above(Kind::Split, page.items.len() as u64),
        high: separator,
        right: sibling,
        next: old.record,
        key: separator,
        value: sibling,
        end: 0,
    };
    install(memory, old, new_delta(memory, &delta));
}

/// The second step of a split, by whoever comes first: posts the index term of the right sibling
/// of `child` to the parent, in which the range of the child still ends at `end`.
fn help<M: Memory>(memory: &M, parent: Option<&Top>, child: &Top, end: u64, fixed: bool) {
    if fixed {
        memory.persist(entry(child.id), 8);
    }
    let sibling = memory.get(page::right(child.record));
    let Some(parent) = parent else {
        return grow(memory, child, sibling);
    };
    let term = Delta {
        header: parent.header_above(Kind::Index, parent.header.items + 1),
        high: parent.high,
        right: memory.get(page::right(parent.record)),
        next: parent.record,
        key: child.high,
        value: sibling,
        end,
    };
    install(memory, parent, new_delta(memory, &term));
}

/// Puts a new root over the old one and its sibling.
fn grow<M: Memory>(memory: &M, old: &Top, sibling: u64) {
    let root = Page {
        level: old.header.level + 1,
        low: 0,
        high: END,
        right: 0,
        items: vec![(0, old.id), (old.high, sibling)],
    };
    let root = new_page(memory, &root);
    memory.order();
    if memory.compare_exchange(ROOT, old.id, root).is_ok() {
        memory.persist(ROOT, 8);
    }
}

/// Adds an item to a leaf or takes it out; false if the leaf has changed since it was visited.
fn change<M: Memory>(memory: &M, leaf: &Top, kind: Kind, key: u64, value: u64) -> bool {
    let items = match kind {
        Kind::Insert => leaf.header.items + 1,
        _ => leaf.header.items - 1,
    };
    let delta = Delta {
        header: leaf.header_above(kind, items),
        high: leaf.high,
        right: memory.get(page::right(leaf.record)),
        next: leaf.record,
        key,
        value,
        end: 0,
    };
    install(memory, leaf, new_delta(memory, &delta))
}

/// Pages of one level from left to right, with their ids.
type Level = Vec<(u64, Page)>;

/// Follows the right siblings from a page, and checks all that can be seen of one level.
fn siblings<M: Memory>(memory: &M, first: u64) -> Result<Level, String> {
    let (free, ids) = (memory.get(FREE), memory.get(FREE_ID));
    let mut level: Level = Vec::new();
    let mut id = first;
    loop {
        ensure((1..ids).contains(&id), "a page has an id that is free")?;
        let top = memory.follow(entry(id))?;
        ensure(top.bits() < free, "a page lies in free memory")?;
        let page = Page::read(memory, top)?;
        page.check()?;
        let left = level.last().map(|(_, left)| left);
        let low = left.map_or(0, |left| left.high);
        ensure(page.low == low, "the range of a page does not begin where its left sibling ends")?;
        ensure(left.is_none_or(|left| left.level == page.level), "siblings are of two levels")?;
        let next = page.right;
        level.push((id, page));
        if next == 0 {
            return Ok(level);
        }
        id = next;
    }
}

/// Whether each index term of a level is a page of the level below, which was cut for it.
fn check_terms(parents: &Level, children: &Level) -> Result<(), String> {
    let terms: Vec<(u64, u64)> = parents.iter().flat_map(|(_, page)| page.items.clone()).collect();
    for (separator, id) in terms {
        let child = children.iter().find(|(child, _)| *child == id);
        let (_, child) = child.ok_or("a parent knows a split that its child does not")?;
        ensure(child.low == separator, "a separator is not the low key of its child")?;
        ensure(child.level + 1 == parents[0].1.level, "a child is of a wrong level")?;
    }
    Ok(())
}

/// All pages by levels, the root first.
fn levels<M: Memory>(memory: &M) -> Result<Vec<Level>, String> {
    let mut levels = vec![siblings(memory, memory.get(ROOT))?];
    loop {
        let parents = &levels[levels.len() - 1];
        let first = &parents[0].1;
        if first.level == 0 {
            return Ok(levels);
        }
        let children = siblings(memory, first.items[0].1)?;
        check_terms(parents, &children)?;
        levels.push(children);
    }
}

/// Whether the parents of every page know it.
fn all_are_known(levels: &[Level]) -> bool {
    let mut known = 1;
    levels.iter().all(|level| {
        let pages = std::mem::replace(&mut known, level.iter().map(|(_, p)| p.items.len()).sum());
        pages == level.len()
    })
}

impl Index for BwTree {
    fn about(&self) -> About {
        About::new(
            "p-bwtree",
            BugKind::Threads,
            "a thread helps with a split whose delta is not durable yet, in a whole Bw-tree",
            "RECIPE P-BwTree, helping on split and merge deltas, 91aa34b -> e85fdd1",
        )
        .threads(2)
    }

    fn pool_bytes(&self) -> u64 {
        POOL_BYTES
    }

    fn dram_bytes(&self) -> u64 {
        LINE_BYTES
    }

    fn entries_before(&self) -> u64 {
        34
    }

    fn operations(&self) -> u64 {
        3
    }

    fn create<M: Memory>(&self, memory: &M) {
        memory.put_flush(FREE, entry(PAGES).bits());
        memory.put_flush(FREE_ID, 1);
        let leaf = Page { level: 0, low: 0, high: END, right: 0, items: Vec::new() };
        let root = new_page(memory, &leaf);
        memory.order();
        memory.put_persist(ROOT, root);
    }

    fn insert<M: Memory>(&self, memory: &M, key: u64, value: u64, fixed: bool) {
        while !change(memory, &leaf_for(memory, key, fixed), Kind::Insert, key, value) {}
    }

    fn remove<M: Memory>(&self, memory: &M, key: u64, fixed: bool) -> bool {
        loop {
            let leaf = leaf_for(memory, key, fixed);
            if page::value_for(memory, &leaf, key).is_none() {
                // Another thread may have taken it out and not flushed that yet.
                memory.persist(entry(leaf.id), 8);
                return false;
            }
            if change(memory, &leaf, Kind::Delete, key, 0) {
                return true;
            }
        }
    }

    /// Readers go right where a page was cut; they neither help nor flush.
    fn get<M: Memory>(&self, memory: &M, key: u64, _: bool) -> Option<u64> {
        let mut id = memory.get(ROOT);
        loop {
            let page = visit(memory, id);
            if key >= page.high {
                id = memory.get(page::right(page.record));
            } else if page.header.level == 0 {
                return page::value_for(memory, &page, key);
            } else {
                (id, _) = page::child_for(memory, &page, key);
            }
        }
    }

    /// Deltas need no redo. Splits that a crash left half-done are completed.
    fn recover<M: Memory>(&self, memory: &M) -> Result<(), String> {
        if all_are_known(&levels(memory)?) {
            return Ok(());
        }
        let mut key = 0;
        while key != END {
            key = leaf_for(memory, key, true).high;
        }
        ensure(all_are_known(&levels(memory)?), "a split is half-done after recovery")
    }

    fn entries<M: Memory>(&self, memory: &M) -> Result<Vec<(u64, u64)>, String> {
        let leaves = levels(memory)?.pop().unwrap_or_default();
        Ok(leaves.into_iter().flat_map(|(_, leaf)| leaf.items).collect())
    }
}

#[cfg(test)]
mod tests;
