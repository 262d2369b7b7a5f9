//! The live objects of a heap while structures are checked: each belongs to one of them, once.

use crate::Damage;
use seawall_memory::{Addr, Memory};
use seawall_runtime::{AccessError, Heap, Object};

/// The live objects of a heap, of which each may be reached once.
pub(crate) struct Live {
    /// By rising address; whether it was reached.
    objects: Vec<(Object, bool)>,
    /// Those that were, and their bytes.
    pub(crate) reached: (u64, u64),
}

impl Live {
    pub(crate) fn of<M: Memory>(memory: &M, heap: &Heap) -> Result<Live, AccessError> {
        let mut objects = Vec::new();
        heap.objects(memory, |mut object| {
            object.at = heap.place_of(memory, object.at);
            objects.push((object, false));
        })?;
        objects.sort_unstable_by_key(|(object, _)| object.at);
        Ok(Live { objects, reached: (0, 0) })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Object> {
        self.objects.iter().map(|(object, _)| *object)
    }

    /// The object that starts at `at`.
    fn place(&self, at: Addr) -> Option<usize> {
        self.objects.binary_search_by_key(&at, |(object, _)| object.at).ok()
    }

    /// Whether an object of at least `bytes` bytes starts at `at`.
    pub(crate) fn has(&self, at: Addr, bytes: u64) -> bool {
        self.place(at).is_some_and(|place| bytes <= self.objects[place].0.bytes)
    }

    /// Whether an object has these bytes.
    pub(crate) fn holds(&self, at: Addr, bytes: u64) -> bool {
        let before = self.objects.partition_point(|(object, _)| object.at <= at);
        let end = at.bits().checked_add(bytes);
        before.checked_sub(1).zip(end).is_some_and(|(place, end)| {
            let (object, _) = self.objects[place];
            end <= object.at.bits() + object.bytes
        })
    }

    /// Marks the object of at least `bytes` bytes at `at`, to which `what` points.
    pub(crate) fn reach(
        &mut self,
        at: Addr,
        bytes: u64,
        what: impl Fn() -> String,
    ) -> Result<(), Damage> {
        match self.place(at).map(|place| &mut self.objects[place]) {
            Some((object, reached)) if bytes <= object.bytes => {
                if std::mem::replace(reached, true) {
                    return Err(Damage::Twice { what: what(), at });
                }
                self.reached.0 += 1;
                self.reached.1 += object.bytes;
                Ok(())
            }
            _ => Err(Damage::Pointer { what: what(), to: at.bits() }),
        }
    }
}
