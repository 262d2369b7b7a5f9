//! Objects of described types in transactions: allocate, free, read, write.

use super::{Described, DescribedError, Kind};
use crate::alloc::chunk::UNTYPED;
use crate::defrag::scope::View;
use crate::persist::pointers::Place;
use crate::{Logging, Tx, TxError};
use seawall_memory::{Addr, Memory};

/// The bytes of a pointer.
const POINTER: u64 = 8;

/// An object that was found.
struct Found<'d> {
    /// The address by which the program knows it.
    known: Addr,
    /// Where its bytes are.
    start: Addr,
    bytes: u64,
    pointers: &'d [Place],
    /// Whether it can move.
    moves: bool,
}

impl<'d> Found<'d> {
    /// Where `bytes` bytes at `offset` are, and the pointers among them.
    fn range(&self, offset: u64, bytes: u64) -> Result<(Addr, &'d [Place]), DescribedError> {
        let (at, size) = (self.known, self.bytes);
        let end = offset.checked_add(bytes).filter(|end| *end <= size);
        let end = end.ok_or(DescribedError::Outside { at, offset, bytes, size })?;
        let first = self.pointers.partition_point(|place| place.offset + POINTER <= offset);
        let behind = self.pointers.partition_point(|place| place.offset < end);
        let within = self.pointers.get(first..behind).unwrap_or_default();
        let is_cut = |place: &&Place| place.offset < offset || place.offset + POINTER > end;
        match within.iter().find(is_cut) {
            Some(place) => Err(DescribedError::Cut { at, pointer: place.offset }),
            None => Ok((self.start.plus(offset), within)),
        }
    }
}

/// The pointer at that place among bytes from `offset` of an object.
fn pointer_in(bytes: &mut [u8], place: Place, offset: u64) -> &mut [u8; POINTER as usize] {
    let pointer = bytes[(place.offset - offset) as usize..].first_chunk_mut();
    pointer.expect("a pointer that is there whole")
}

impl Described {
    /// Finds the object that starts at `at`, or bytes of one that stays.
    fn find<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        at: Addr,
        writes: bool,
    ) -> Result<Found<'_>, DescribedError> {
        let (heap, memory) = (tx.session.heap, tx.session.memory);
        if at == heap.root() {
            let (bytes, pointers) = (heap.root_bytes(), self.root());
            return Ok(Found { known: at, start: at, bytes, pointers, moves: false });
        }
        let session = &*tx.session;
        let start = if writes { session.place_to_write(at) } else { session.place_to_read(at) };
        match tx.object(start) {
            Ok((block, UNTYPED)) => {
                let (bytes, pointers) = (block.bytes(), &[][..]);
                Ok(Found { known: at, start, bytes, pointers, moves: false })
            }
            Ok((_, tag)) => {
                let Kind { entry, pointers, .. } = self.described(tx, at, tag)?;
                Ok(Found { known: at, start, bytes: entry.size, pointers, moves: true })
            }
            // In the middle of an object of bytes, whose pointers nobody knows; those of the root
            // are known from its start.
            Err(TxError::NoObject { .. })
                if !heap.layout.is_root(at, 1) && self.stays(&heap, memory, at)? =>
            {
                let end = tx.session.layout().pm_bytes(tx.session.chunks());
                let bytes = end.saturating_sub(at.offset());
                Ok(Found { known: at, start: at, bytes, pointers: &[], moves: false })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn described<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        at: Addr,
        tag: u8,
    ) -> Result<&Kind, DescribedError> {
        if let Some(kind) = self.known(tag) {
            return Ok(kind);
        }
        tx.session.with_chunk_lock(|session| self.look_up(&session.heap, session.memory))?;
        if let Some(kind) = self.known(tag) {
            return Ok(kind);
        }
        let types = tx.session.heap.types(tx.session.memory)?;
        let found = types.into_iter().find(|info| info.number == tag);
        let name = found.map_or(format!("number {tag}"), |info| info.name);
        Err(DescribedError::Unknown { at, name })
    }

    /// The bytes of an object of that type: its place among those that were described.
    pub fn bytes_of(&self, place: usize) -> Option<u64> {
        self.types.get(place).map(|kind| kind.entry.size)
    }

    /// Allocates an object of a type, with that content or all zero.
    ///
    /// The first object of a type in a heap costs a small transaction of its own, which numbers the
    /// type and stays if this one does not commit.
    ///
    /// # Errors
    /// As [`typed::Tx::alloc`](crate::typed::Tx::alloc). What fails may leave an object that the
    /// transaction allocates: [nest](Tx::nested) the call.
    ///
    /// # Panics
    /// When there is no such type, or the content has not the bytes of one.
    pub fn alloc<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        place: usize,
        content: Option<&[u8]>,
    ) -> Result<Addr, TxError> {
        let Kind { entry, pointers, .. } = &self.types[place];
        let tag = self.number(tx.session, place)?;
        let at = tx.alloc_tagged(entry.size, false, tag)?;
        let zeros = || vec![0; entry.size as usize];
        let mut bytes = content.map_or_else(zeros, <[u8]>::to_vec);
        assert_eq!(bytes.len() as u64, entry.size, "the content of a {}", self.types[place].name);
        name_pointers(tx, &mut bytes, pointers, 0);
        tx.fill(at, &bytes)?;
        Ok(at)
    }

    /// Frees an object when the transaction commits. No pointer may lead to it then.
    ///
    /// # Errors
    /// [`TxError::NoObject`] when none starts there, or it was freed before.
    pub fn free<M: Memory>(&self, tx: &mut Tx<'_, '_, M>, at: Addr) -> Result<(), TxError> {
        let (block, _) = tx.object(tx.session.place_to_write(at))?;
        tx.free_block(block);
        Ok(())
    }

    /// Reads bytes of an object, as the transaction sees them; pointers as it knows the objects
    /// that they lead to.
    ///
    /// # Errors
    /// When the object or the bytes are not there, or a pointer is read in part.
    pub fn read<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        at: Addr,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), DescribedError> {
        let found = self.find(tx, at, false)?;
        let (from, pointers) = found.range(offset, into.len() as u64)?;
        check_data(tx, from, into.len() as u64)?;
        tx.read(from, into);
        for place in pointers {
            let pointer = pointer_in(into, *place, offset);
            let bits = u64::from_le_bytes(*pointer);
            *pointer = loaded(tx, found.start.plus(place.offset), bits).to_le_bytes();
        }
        Ok(())
    }

    /// Writes bytes of an object. They are there with the commit, or not at all.
    ///
    /// # Errors
    /// As [`read`](Described::read), and as [`Tx::write`].
    pub fn write<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        at: Addr,
        offset: u64,
        from: &[u8],
    ) -> Result<(), DescribedError> {
        let found = self.find(tx, at, true)?;
        let bytes = from.len() as u64;
        let (to, pointers) = found.range(offset, bytes)?;
        check_data(tx, to, bytes)?;
        if tx.kind() == Logging::Undo {
            keep_old(tx, &found, pointers);
            if bytes > POINTER {
                tx.add(&[(to, bytes)])?;
            }
        }
        if pointers.is_empty() {
            return Ok(tx.write(to, from)?);
        }
        let mut named = from.to_vec();
        name_pointers(tx, &mut named, pointers, offset);
        Ok(tx.write(to, &named)?)
    }

    /// The address of bytes that stay where they are and have no pointers, for stores past
    /// [`write`](Described::write).
    ///
    /// # Errors
    /// [`DescribedError::Moves`], and as [`read`](Described::read).
    pub fn fixed<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        at: Addr,
        offset: u64,
        bytes: u64,
    ) -> Result<Addr, DescribedError> {
        let found = self.find(tx, at, true)?;
        let (to, pointers) = found.range(offset, bytes)?;
        if found.moves || !pointers.is_empty() {
            return Err(DescribedError::Moves { at });
        }
        check_data(tx, to, bytes)?;
        Ok(to)
    }
}

fn check_data<M: Memory>(tx: &Tx<'_, '_, M>, at: Addr, bytes: u64) -> Result<(), DescribedError> {
    if bytes == 0 || tx.is_data(at, bytes) {
        return Ok(());
    }
    Err(crate::AccessError::NoData { at, bytes }.into())
}

/// A pointer that was loaded from `field`, as this transaction knows its object.
fn loaded<M: Memory>(tx: &Tx<'_, '_, M>, field: Addr, bits: u64) -> u64 {
    let is_in_place = || tx.session.buffers.words.places.find(field).is_none();
    tx.session.loaded(field, bits, is_in_place)
}

/// Fixes up pointers before their old values are logged, so that a rollback restores no old
/// address.
fn keep_old<M: Memory>(tx: &Tx<'_, '_, M>, found: &Found<'_>, pointers: &[Place]) {
    if tx.session.scope.view == View::New {
        for place in pointers {
            let field = found.start.plus(place.offset);
            loaded(tx, field, tx.load(field));
        }
    }
}

/// Makes the pointers among bytes from `offset` of an object those that the pool gets.
fn name_pointers<M: Memory>(tx: &Tx<'_, '_, M>, bytes: &mut [u8], pointers: &[Place], offset: u64) {
    for place in pointers {
        let pointer = pointer_in(bytes, *place, offset);
        *pointer = tx.session.stored(u64::from_le_bytes(*pointer)).to_le_bytes();
    }
}
