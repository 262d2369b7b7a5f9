//! The places of pointers in persistent types.
//!
//! A pointer's type names what it leads to, and no pointer is made from a number. So the type of
//! one object determines which types can be reached from it, and where each of them has its
//! pointers, before any object is read.

use super::{Persist, shape};
use rustc_hash::FxHashMap;

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

/// Returns a type with all types that it leads to, each once, and a hash of all of them: of their
/// shapes, and of which pointer leads to which.
pub(crate) fn all_from<'p, T: Persist<'p>>() -> (Vec<Target>, u64) {
    let mut all = vec![Target::of::<T>()];
    let mut numbers = FxHashMap::from_iter([((T::SHAPE, all[0].path), 0)]);
    let (mut parts, mut next) = (Vec::new(), 0);
    while next < all.len() {
        let mut pointers = Pointers::default();
        (all[next].ask)(&mut pointers, 0);
        parts.push(all[next].shape);
        for target in pointers.targets {
            let number = *numbers.entry((target.shape, target.path)).or_insert_with(|| {
                all.push(target);
                all.len() - 1
            });
            parts.push(number as u64);
        }
        next += 1;
    }
    (all, shape::name("all", &parts))
}

/// A type and all types that it leads to, with the places of their pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shapes {
    known: FxHashMap<u64, Box<[Place]>>,
}

impl Shapes {
    pub(crate) fn reached_from<'p, T: Persist<'p>>() -> Shapes {
        let mut known = FxHashMap::default();
        let mut open = vec![Target::of::<T>()];
        while let Some(target) = open.pop() {
            if known.contains_key(&target.shape) {
                continue;
            }
            let mut pointers = Pointers::default();
            (target.ask)(&mut pointers, 0);
            open.append(&mut pointers.targets);
            known.insert(target.shape, pointers.places.into());
        }
        Shapes { known }
    }

    /// These types, each by its shape.
    pub(crate) fn of(types: impl Iterator<Item = (u64, Box<[Place]>)>) -> Shapes {
        Shapes { known: types.collect() }
    }

    /// Adds the types of `others`.
    pub(crate) fn add(&mut self, others: Shapes) {
        self.known.extend(others.known);
    }

    /// The pointers of a type by rising offset; `None` if it is not one of these types.
    pub(crate) fn pointers(&self, shape: u64) -> Option<&[Place]> {
        self.known.get(&shape).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::Ptr;

    fn pointers<'p, T: Persist<'p>>() -> Vec<(u64, u64)> {
        let shapes = Shapes::reached_from::<T>();
        let places = shapes.pointers(T::SHAPE).expect("the type itself");
        places.iter().map(|place| (place.offset, place.bytes)).collect()
    }

    #[test]
    fn pointers_are_found_in_arrays_and_numbers_have_none() {
        assert_eq!(pointers::<[u64; 3]>(), []);
        assert_eq!(pointers::<Ptr<'_, [u16; 5]>>(), [(0, 10)]);
        assert_eq!(pointers::<[Option<Ptr<'_, u64>>; 3]>(), [(0, 8), (8, 8), (16, 8)]);
    }

    #[test]
    fn types_behind_pointers_are_known_and_others_not() {
        type Inner<'p> = [Ptr<'p, u8>; 2];
        let shapes = Shapes::reached_from::<Ptr<'_, Inner<'_>>>();
        assert_eq!(shapes.pointers(<Inner<'_> as Persist<'_>>::SHAPE).map(<[Place]>::len), Some(2));
        assert_eq!(shapes.pointers(u8::SHAPE), Some(&[][..]));
        assert_eq!(shapes.pointers(u16::SHAPE), None);
    }
}
