//! A look at every structure of a pool whose types are described in it, and at nothing that it has
//! to guess: for a program that examines pools of others.

use super::layers::{SLICES_MAX, VERSIONS, goes_on, versions_of};
use super::texts::{Part, Texts, Type};
use crate::live::Live;
use crate::{BTree as Tree, BTreeError, Damage, KvMap, MapError};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::{AccessError, Session};
use std::collections::HashMap;

/// What a look at a pool has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspected {
    /// Live objects.
    pub objects: u64,
    /// Those that were looked at: each is of a type that the pool describes, or a part of a
    /// structure in such an object, or in the root.
    pub seen: u64,
    /// Whether the root was looked at.
    pub has_root: bool,
}

/// Looks at all structures of the heap whose places the types in the pool say: maps, trees and
/// vectors as a whole, and that pointers lead to objects. No other thread may work.
///
/// # Errors
/// The first damage: what reading that structure would meet, or what changing it would.
pub fn inspect<M: Memory>(session: &mut Session<'_, M>) -> Result<Inspected, AccessError> {
    let (heap, memory) = (session.heap(), session.memory());
    let infos = heap.types(memory)?;
    let texts = Texts::new(&infos);
    let types = infos.iter().map(|info| (info.number, texts.read(info)));
    let types: HashMap<u8, Option<Type>> = types.collect();
    let mut live = Live::of(memory, &heap)?;
    let objects: Vec<_> = live.all().collect();
    let mut look = Look { session, live: &mut live, types: &types };
    let is_root = |ty: &&Type| (ty.shape, ty.bytes) == (heap.root_shape(), heap.root_bytes());
    let root = types.values().flatten().find(is_root);
    if let Some(root) = root {
        look.parts(heap.root(), &root.parts)?;
    }
    for object in &objects {
        let Some(number) = object.type_number else { continue };
        let none = || damaged(format!("the object at {} is of no type of the pool", object.at));
        let Some(ty) = types.get(&number).ok_or_else(none)? else { continue };
        let reached = look.live.reach(object.at, ty.bytes, || format!("its type {number}"));
        reached.map_err(|damage| damaged(damage.to_string()))?;
        look.parts(object.at, &ty.parts)?;
    }
    let (objects, seen) = (objects.len() as u64, live.reached.0);
    let mut bytes = vec![0; heap.root_bytes() as usize];
    memory.read(heap.root(), &mut bytes);
    let has_root = root.is_some() || bytes.iter().all(|byte| *byte == 0);
    Ok(Inspected { objects, seen, has_root })
}

fn damaged(what: String) -> AccessError {
    AccessError::Damaged { what }
}

struct Look<'a, 'm, M: Memory> {
    session: &'a mut Session<'m, M>,
    live: &'a mut Live,
    types: &'a HashMap<u8, Option<Type>>,
}

impl<M: Memory> Look<'_, '_, M> {
    fn parts(&mut self, start: Addr, parts: &[(u64, Part)]) -> Result<(), AccessError> {
        parts.iter().try_for_each(|(offset, part)| self.part(start.plus(*offset), part))
    }

    fn part(&mut self, at: Addr, part: &Part) -> Result<(), AccessError> {
        let memory = self.session.memory();
        let first: u64 = memory.load(at);
        match part {
            Part::Array(count, bytes, parts) => {
                (0..*count).try_for_each(|number| self.parts(at.plus(number * bytes), parts))
            }
            _ if first == 0 => Ok(()),
            Part::Pointer { target, bytes, align } => {
                let mut named = self.types.values().flatten().filter(|ty| ty.name == *target);
                match (named.next(), named.next()) {
                    (Some(ty), None) => self.pointer((at, first), ty.bytes.max(1), ty.align),
                    _ => self.pointer((at, first), *bytes, *align),
                }
            }
            Part::Bytes => self.bytes(first, || format!("the field at {at}")),
            Part::Vector(bytes) => {
                let [length, room]: [u64; 2] = [8, 16].map(|word| memory.load(at.plus(word)));
                let what = || format!("the vector at {at}, of {length} elements,");
                let all = room.max(1).checked_mul(*bytes).filter(|_| length <= room);
                self.reach(first, all.unwrap_or(u64::MAX), what)
            }
            Part::Map => {
                let map = KvMap::open(self.session, at).map_err(|error| match error {
                    MapError::NoMap { .. } => damaged(format!("the field at {at} has no map")),
                    other => damaged(other.to_string()),
                })?;
                let checked = map.check_among(memory, self.live);
                checked.map(drop).map_err(|damage| damaged(format!("the map at {at}: {damage}")))
            }
            Part::Tree { has_marks, has_words } => self.trees(at, *has_marks, *has_words),
        }
    }

    /// Looks at the pointer at `at`, which leads `to` so many bytes.
    fn pointer(
        &mut self,
        (at, to): (Addr, u64),
        bytes: u64,
        align: u64,
    ) -> Result<(), AccessError> {
        let heap = self.session.heap();
        let to = heap.place_of(self.session.memory(), Addr::from_bits(to));
        let root = heap.root()..heap.root().plus(heap.root_bytes());
        let is_inside = root.contains(&to) && bytes <= root.end.bits() - to.bits();
        if to.bits().is_multiple_of(align) && (is_inside || self.live.holds(to, bytes)) {
            return Ok(());
        }
        Err(damaged(format!("the pointer at {at} leads to {to}, where no object is")))
    }

    fn reach(&mut self, to: u64, bytes: u64, what: impl Fn() -> String) -> Result<(), AccessError> {
        let reached = self.live.reach(Addr::from_bits(to), bytes, what);
        reached.map_err(|damage| damaged(damage.to_string()))
    }

    /// Bytes behind their length.
    fn bytes(&mut self, to: u64, what: impl Fn() -> String) -> Result<(), AccessError> {
        let at = Addr::from_bits(to);
        let has_length = self.live.has(at, 8);
        let length = if has_length { self.session.memory().load(at) } else { 0u64 };
        self.reach(to, length.saturating_add(8), what)
    }

    /// The trees of a field: that of the first slices of keys, and those behind it.
    fn trees(&mut self, at: Addr, has_marks: bool, has_words: bool) -> Result<(), AccessError> {
        let fail = |error: BTreeError| match error {
            BTreeError::Heap(error) => damaged(error.to_string()),
            BTreeError::Damage(damage) => damaged(format!("the tree at {at}: {damage}")),
        };
        let mut open = vec![(at, 1)];
        while let Some((anchor, depth)) = open.pop() {
            let (memory, heap) = (self.session.memory(), self.session.heap());
            let tree = Tree::open(self.session, anchor, versions_of(&heap), VERSIONS);
            let tree: Tree = tree.map_err(fail)?;
            let mut entries = Vec::new();
            let each = |slice: u64, word: u64| entries.push((slice, word));
            tree.check_among(memory, self.live, each).map_err(fail)?;
            if depth > SLICES_MAX || depth > 1 && entries.is_empty() {
                return Err(fail(Damage::Broken(format!("the part at {anchor} is none")).into()));
            }
            for (slice, word) in entries {
                let what = || format!("an entry of the tree at {at}");
                if has_marks && goes_on(slice) {
                    self.reach(word, super::layers::LINK_BYTES, what)?;
                    open.push((Addr::from_bits(word), depth + 1));
                } else if !has_words {
                    self.bytes(word, what)?;
                }
            }
        }
        Ok(())
    }
}
