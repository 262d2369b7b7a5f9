//! Reachability: which objects can be reached from an object by the pointers of their types, which
//! are lost, and which pointers lead nowhere.
//!
//! A transaction keeps an allocation and the link to it, or neither, so no crash loses an object.
//! But a program can unlink an object without freeing it, or free one that is still linked.

use super::{Persist, Ptr};
use crate::heap::type_table;
use crate::persist::pointers::all_from;
use crate::{AccessError, Object, Session};
use rustc_hash::FxHashMap;
use seawall_memory::{Addr, Memory, MemoryExt};

/// What [`Session::reach`](super::Session::reach) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reach {
    /// Reachable live objects, with the first one if the pointer leads to a whole object.
    pub reached: u64,
    /// Live typed objects that cannot be reached, by rising address: also those that a program
    /// finds by `for_each` only, but not those that were allocated as bytes.
    pub lost: Vec<Object>,
    /// Pointers of reached objects that lead to no live object, or to one that ends too early.
    pub dangling: Vec<Dangling>,
}

/// A pointer that leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dangling {
    /// The address of the pointer.
    pub at: Addr,
    /// The address that it leads to.
    pub to: Addr,
}

/// All live objects, and those of them that have been reached.
struct Objects {
    all: Vec<Object>,
    reached: Vec<bool>,
}

impl Objects {
    /// Each at its current address.
    fn of<M: Memory>(session: &Session<'_, M>) -> Result<Objects, AccessError> {
        let mut all = Vec::new();
        session.heap.objects(session.memory, |object| {
            all.push(Object { at: session.place_of_found(object.at), ..object });
        })?;
        all.sort_unstable_by_key(|object| object.at);
        Ok(Objects { reached: vec![false; all.len()], all })
    }

    /// The number of the object that holds all of these bytes.
    fn holding(&self, at: Addr, bytes: u64) -> Option<usize> {
        let number = self.all.partition_point(|object| object.at <= at).checked_sub(1)?;
        let object = &self.all[number];
        let end = at.bits().checked_add(bytes)?;
        (end <= object.at.bits() + object.bytes).then_some(number)
    }
}

/// Follows all pointers from the `T` at `from`.
pub(super) fn reach<'p, T: Persist<'p>, M: Memory>(
    session: &Session<'_, M>,
    from: Ptr<'p, T>,
) -> Result<Reach, AccessError> {
    let (heap, memory) = (&session.heap, session.memory);
    let all = all_from::<T>();
    let numbers: FxHashMap<u8, u64> = type_table::shapes(heap, memory)?.into_iter().collect();
    let mut objects = Objects::of(session)?;
    let mut found = Reach::default();
    let shape_of = |object: &Object| numbers.get(&object.type_number?).copied();
    let from = session.place_to_read(from.addr());
    let first = objects.holding(from, T::SIZE);
    let is_whole = |object: &Object| object.at == from && shape_of(object) == Some(T::SHAPE);
    if let Some(first) = first.filter(|first| is_whole(&objects.all[*first])) {
        objects.reached[first] = true;
        found.reached = 1;
    }
    // Values whose pointers have not been followed yet: addresses and shapes.
    let mut open = vec![(from, T::SHAPE)];
    while let Some((value, shape)) = open.pop() {
        for pointer in all.shapes.pointers(shape).into_iter().flat_map(|places| places.iter()) {
            let at = value.plus(pointer.offset);
            let to = session.place_of_found(memory.load(at));
            if to.is_null() || heap.layout.is_root(to, pointer.bytes) {
                continue;
            }
            let Some(number) = objects.holding(to, pointer.bytes) else {
                found.dangling.push(Dangling { at, to });
                continue;
            };
            if !std::mem::replace(&mut objects.reached[number], true) {
                found.reached += 1;
                let object = &objects.all[number];
                open.extend(shape_of(object).map(|shape| (object.at, shape)));
            }
        }
    }
    let lost = objects.all.into_iter().zip(objects.reached).filter(|(_, reached)| !reached);
    found.lost =
        lost.map(|(object, _)| object).filter(|object| object.type_number.is_some()).collect();
    found.dangling.sort_unstable_by_key(|dangling| dangling.at);
    Ok(found)
}
