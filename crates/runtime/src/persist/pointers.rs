//! The places of pointers in persistent types.
//!
//! A pointer's type names what it leads to, and no pointer is made from a number. So the type of
//! one object determines which types can be reached from it, and where each of them has its
//! pointers, before any object is read.

use super::{Persist, shape};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::sync::{Arc, Mutex, TryLockError};

/// Collects the pointers of one type; called by the code of `#[derive(Persist)]`.
#[derive(Debug, Default)]
pub struct Pointers {
    places: Vec<Place>,
    targets: Vec<Target>,
}

/// A pointer in values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Bytes from the start of the value.
    pub(crate) offset: u64,
    /// Bytes of the value that it leads to.
    pub(crate) bytes: u64,
}

/// A type that a pointer leads to, with the function that reports its own pointers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) shape: u64,
    pub(crate) bytes: u64,
    ask: fn(&mut Pointers, u64),
    pub(crate) name: fn(&mut String),
    pub(crate) fields: fn(&mut String),
    /// Distinguishes it from other types of the same shape, in this process.
    path: &'static str,
}

impl Target {
    fn of<'p, T: Persist<'p>>() -> Target {
        Target {
            shape: T::SHAPE,
            bytes: T::SIZE,
            ask: T::pointers_to,
            name: T::name_to,
            fields: T::fields_to,
            path: std::any::type_name::<T>(),
        }
    }
}

impl Pointers {
    /// Adds a pointer to a `T` at that offset in the value.
    pub(crate) fn add<'p, T: Persist<'p>>(&mut self, offset: u64) {
        self.places.push(Place { offset, bytes: T::SIZE });
        self.targets.push(Target::of::<T>());
    }
}

/// A type with all types that it leads to.
#[derive(Debug)]
pub(crate) struct Reached {
    /// Each once, the type itself first.
    pub(crate) types: Vec<Target>,
    /// A hash of all of them: of their shapes, and of which pointer leads to which.
    pub(crate) shape: u64,
    /// Where their pointers are.
    pub(crate) shapes: Shapes,
}

impl Reached {
    fn from_type(first: Target) -> Reached {
        let mut types = vec![first];
        let mut numbers = FxHashMap::from_iter([((first.shape, first.path), 0)]);
        let mut known = FxHashMap::default();
        let (mut parts, mut next) = (Vec::new(), 0);
        while let Some(of) = types.get(next).copied() {
            let mut pointers = Pointers::default();
            (of.ask)(&mut pointers, 0);
            parts.push(of.shape);
            for target in pointers.targets {
                let number = *numbers.entry((target.shape, target.path)).or_insert_with(|| {
                    types.push(target);
                    types.len() - 1
                });
                parts.push(number as u64);
            }
            known.entry(of.shape).or_insert_with(|| pointers.places.into());
            next += 1;
        }
        Reached { types, shape: shape::name("all", &parts), shapes: Shapes { known } }
    }
}

/// Types by their shapes and names, with what they lead to.
type Table = FxHashMap<(u64, &'static str), Arc<Reached>>;

/// Returns a type with all types that it leads to. They are followed once in a process: a root may
/// have arrays of thousands of pointers, and an exploration opens its pool thousands of times. Who
/// finds the table locked does without it: in the child of a fork it may stay so for ever.
pub(crate) fn all_from<'p, T: Persist<'p>>() -> Arc<Reached> {
    static TABLE: Mutex<Table> = Mutex::new(Table::with_hasher(FxBuildHasher));
    let first = Target::of::<T>();
    let follow = || Arc::new(Reached::from_type(first));
    let mut table = match TABLE.try_lock() {
        Ok(table) => table,
        Err(TryLockError::Poisoned(table)) => table.into_inner(),
        Err(TryLockError::WouldBlock) => return follow(),
    };
    table.entry((first.shape, first.path)).or_insert_with(follow).clone()
}

/// Types, with the places of their pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shapes {
    known: FxHashMap<u64, Arc<[Place]>>,
}

impl Shapes {
    /// These types, each by its shape.
    pub(crate) fn of(types: impl Iterator<Item = (u64, Arc<[Place]>)>) -> Shapes {
        Shapes { known: types.collect() }
    }

    /// Adds the types of `others`.
    pub(crate) fn add(&mut self, others: &Shapes) {
        self.known.extend(others.known.iter().map(|(shape, places)| (*shape, places.clone())));
    }

    /// The pointers of a type by rising offset; `None` if it is not one of these types.
    pub(crate) fn pointers(&self, shape: u64) -> Option<&Arc<[Place]>> {
        self.known.get(&shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::Ptr;

    fn pointers<'p, T: Persist<'p>>() -> Vec<(u64, u64)> {
        let all = all_from::<T>();
        let places = all.shapes.pointers(T::SHAPE).expect("the type itself");
        places.iter().map(|place| (place.offset, place.bytes)).collect()
    }

    #[test]
    fn pointers_are_found_in_arrays_and_numbers_have_none() {
        assert_eq!(pointers::<[u64; 3]>(), []);
        assert_eq!(pointers::<Ptr<'_, [u16; 5]>>(), [(0, 10)]);
        assert_eq!(pointers::<[Option<Ptr<'_, u64>>; 3]>(), [(0, 8), (8, 8), (16, 8)]);
    }

    #[test]
    fn a_type_is_followed_once_in_a_process() {
        let (first, again) = (all_from::<[Ptr<'_, u64>; 9]>(), all_from::<[Ptr<'_, u64>; 9]>());
        assert!(Arc::ptr_eq(&first, &again));
        let others = all_from::<[Ptr<'_, i64>; 9]>();
        assert_ne!(first.shape, others.shape);
        assert_eq!(first.types.len(), 2, "nine pointers lead to one type");
    }

    #[test]
    fn types_behind_pointers_are_known_and_others_not() {
        type Inner<'p> = [Ptr<'p, u8>; 2];
        let all = all_from::<Ptr<'_, Inner<'_>>>();
        let shapes = &all.shapes;
        assert_eq!(
            shapes.pointers(<Inner<'_> as Persist<'_>>::SHAPE).map(|places| places.len()),
            Some(2)
        );
        assert_eq!(shapes.pointers(u8::SHAPE).map(|places| places.len()), Some(0));
        assert_eq!(shapes.pointers(u16::SHAPE), None);
    }
}
