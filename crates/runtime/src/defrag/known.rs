//! The places of pointers in objects, by the numbers of their types.

use super::options::DefragError;
use crate::described::Described;
use crate::heap::layout::TYPES_MAX;
use crate::heap::{Heap, type_table};
use crate::persist::pointers::{Place, Shapes, all_from};
use crate::persist::{Branded, Persist};
use seawall_memory::Memory;
use std::sync::Arc;

/// The types of a program, and their numbers in a pool.
pub(crate) struct Known {
    shapes: Shapes,
    root_shape: u64,
    root_bytes: u64,
    reached_shape: u64,
    root: Arc<[Place]>,
    /// By number; `None` for types that the program has not named.
    types: Vec<Option<Arc<[Place]>>>,
}

impl Known {
    pub(crate) fn of<R: Branded>() -> Known {
        let all = all_from::<R::In<'static>>();
        let root_shape = <R::In<'static> as Persist<'static>>::SHAPE;
        let root_bytes = <R::In<'static> as Persist<'static>>::SIZE;
        let root = all.shapes.pointers(root_shape).cloned().unwrap_or_default();
        let (shapes, reached_shape) = (all.shapes.clone(), all.shape);
        Known { shapes, root_shape, root_bytes, reached_shape, root, types: Vec::new() }
    }

    /// The types that a program has described, in this heap.
    pub(crate) fn of_described(described: &Described, heap: &Heap) -> Known {
        Known {
            shapes: described.shapes(),
            root_shape: heap.root_shape(),
            root_bytes: heap.root_bytes(),
            reached_shape: 0,
            root: described.root().into(),
            types: Vec::new(),
        }
    }

    pub(crate) fn add<T: Branded>(&mut self) {
        self.shapes.add(&all_from::<T::In<'static>>().shapes);
    }

    /// Looks up the numbers of the types in this heap.
    pub(crate) fn look_up<M: Memory>(
        &mut self,
        heap: &Heap,
        memory: &M,
    ) -> Result<(), DefragError> {
        let is_root = (heap.root_shape(), heap.root_bytes()) == (self.root_shape, self.root_bytes);
        if !is_root || ![0, self.reached_shape].contains(&heap.reached_shape) {
            let what = "the root".to_owned();
            return Err(crate::TxError::Shape { what }.into());
        }
        self.types = vec![None; TYPES_MAX as usize + 1];
        for (number, shape) in type_table::shapes(heap, memory)? {
            self.types[number as usize] = self.shapes.pointers(shape).cloned();
        }
        Ok(())
    }

    /// The pointers of the root.
    pub(crate) fn root(&self) -> &[Place] {
        &self.root
    }

    /// The pointers of objects of this type.
    #[inline]
    pub(crate) fn pointers(&self, tag: u8) -> Option<&[Place]> {
        self.types.get(tag as usize)?.as_deref()
    }

    /// Looks up the numbers again for objects of type `tag`, which the pool may not have had
    /// before.
    pub(crate) fn learn<M: Memory>(
        &mut self,
        heap: &Heap,
        memory: &M,
        tag: u8,
    ) -> Result<(), DefragError> {
        self.look_up(heap, memory)?;
        if self.pointers(tag).is_some() {
            return Ok(());
        }
        let found = heap.types(memory)?.into_iter().find(|known| known.number == tag);
        let name = found.map_or(format!("number {tag}"), |found| found.name);
        Err(DefragError::UnknownType { name })
    }
}
