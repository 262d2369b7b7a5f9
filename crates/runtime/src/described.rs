//! Objects whose types a program describes when it runs: for languages whose structs no derive
//! macro sees.
//!
//! A description says how many bytes an object has and where its pointers are. It gives the object
//! a number in the table of types, as a struct that derives `Persist` has, so that
//! [`defrag`](crate::defrag) moves it and updates its pointers. What [`typed`](crate::typed) leaves
//! to the compiler is checked here at each access: that an object starts there, that the bytes are
//! within it, and that pointers are read and written whole.
//!
//! Pointers are 8 bytes at multiples of 8. They lead to the start of an object, and are valid until
//! the transaction ends that loaded them.

mod access;

use crate::alloc::chunk::{self, Chunk, UNTYPED};
use crate::alloc::size_class::STATE_BYTES;
use crate::heap::layout::TYPES_MAX;
use crate::heap::type_table::{self, Entry, Listed, SIZE_LIMIT};
use crate::persist::pointers::{Place, Shapes};
use crate::persist::shape;
use crate::typed::types;
use crate::{AccessError, Heap, HeapError, Session, TxError};
use seawall_memory::{Addr, Memory, MemoryExt};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A type: what a program says of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name, 1 to 64 bytes.
    pub name: String,
    /// Bytes of an object, at least 1 and less than 16 MiB.
    pub bytes: u64,
    /// The offsets of its pointers, by rising offset, multiples of 8.
    pub pointers: Vec<u64>,
}

/// The most bytes of a name.
const NAME_MAX: usize = 64;

/// Why descriptions are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// A name that is empty, too long, or has braces.
    #[error("type {name:?}: a name has 1 to 64 bytes and no braces")]
    Name {
        /// The name.
        name: String,
    },
    /// A size that no object has.
    #[error("type {name} of {bytes} bytes; it must have at least 1 and less than 16 MiB")]
    Bytes {
        /// The type.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// A pointer where none can be.
    #[error(
        "type {name}: a pointer at {offset}; pointers are at multiples of 8, within the object's \
         {bytes} bytes, named once each by rising offset"
    )]
    Pointer {
        /// The type.
        name: String,
        /// Where the pointer is.
        offset: u64,
        /// The bytes of the type.
        bytes: u64,
    },
    /// Two types of one name.
    #[error("two types are called {name}; give each a name of its own")]
    Twice {
        /// The name.
        name: String,
    },
    /// More types than a heap can tell apart.
    #[error("{count} types; a heap has at most {}", TYPES_MAX)]
    Many {
        /// How many there are.
        count: usize,
    },
}

/// Why an object cannot be accessed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribedError {
    /// An error of the transaction.
    #[error(transparent)]
    Tx(#[from] TxError),
    /// Bytes that are not within the object.
    #[error("{bytes} bytes at {offset} of the object at {at}, which has {size}")]
    Outside {
        /// The object.
        at: Addr,
        /// Where the bytes begin in it.
        offset: u64,
        /// How many they are.
        bytes: u64,
        /// Its size.
        size: u64,
    },
    /// A part of a pointer.
    #[error("a part of the pointer at {pointer} of the object at {at}; access all 8 bytes of it")]
    Cut {
        /// The object.
        at: Addr,
        /// Where the pointer is in it.
        pointer: u64,
    },
    /// An object whose type the program has not described.
    #[error("the object at {at} is of type {name}, which the program has not described")]
    Unknown {
        /// The object.
        at: Addr,
        /// The type.
        name: String,
    },
    /// An object that can move, where one is needed that stays.
    #[error("the object at {at} can move; it is accessed by transactions only")]
    Moves {
        /// The object.
        at: Addr,
    },
}

impl From<AccessError> for DescribedError {
    fn from(error: AccessError) -> DescribedError {
        DescribedError::Tx(error.into())
    }
}

/// A type with what the heap keeps of it.
#[derive(Debug)]
struct Kind {
    name: String,
    entry: Entry,
    pointers: Arc<[Place]>,
}

impl Kind {
    fn of(given: &Description) -> Result<Kind, DescriptionError> {
        let Description { name, bytes, pointers } = given;
        let (name, bytes) = (name.clone(), *bytes);
        if name.is_empty() || name.len() > NAME_MAX || name.contains(['{', '}']) {
            return Err(DescriptionError::Name { name });
        }
        if bytes == 0 || bytes >= SIZE_LIMIT {
            return Err(DescriptionError::Bytes { name, bytes });
        }
        let mut least = 0;
        for offset in pointers.iter().copied() {
            if offset < least || !offset.is_multiple_of(8) || bytes < 8 || offset > bytes - 8 {
                return Err(DescriptionError::Pointer { name, offset, bytes });
            }
            least = offset + 8;
        }
        let mut parts = vec![bytes];
        parts.extend(pointers);
        let shape = shape::name(&name, &[shape::name("described", &parts)]);
        let pointers = pointers.iter().map(|offset| Place { offset: *offset, bytes: 8 }).collect();
        Ok(Kind { name, entry: Entry { shape, size: bytes }, pointers })
    }

    /// What the heap keeps for people.
    fn text(&self) -> String {
        let pointers = self.pointers.iter().map(|place| format!("{}: pointer", place.offset));
        let fields = pointers.collect::<Vec<_>>().join(", ");
        type_table::text_with(self.name.clone(), &fields)
    }
}

/// The types of a program. Threads share it.
#[derive(Debug)]
pub struct Described {
    root: Kind,
    types: Box<[Kind]>,
    /// The number of each type in the heap; 0 while it is not known.
    numbers: Box<[AtomicU8]>,
    /// By number: the place of the type in `types`, plus 1.
    places: Box<[AtomicU8]>,
}

impl Described {
    /// The types of objects, and that of the root.
    ///
    /// # Errors
    /// When a description is none.
    pub fn new(root: &Description, types: &[Description]) -> Result<Described, DescriptionError> {
        if types.len() > TYPES_MAX as usize {
            return Err(DescriptionError::Many { count: types.len() });
        }
        let root = Kind::of(root)?;
        let types = types.iter().map(Kind::of).collect::<Result<Box<[Kind]>, _>>()?;
        let mut names = HashSet::new();
        if let Some(twice) = types.iter().find(|kind| !names.insert(&kind.name)) {
            return Err(DescriptionError::Twice { name: twice.name.clone() });
        }
        let numbers = types.iter().map(|_| AtomicU8::new(0)).collect();
        let places = (0..=UNTYPED).map(|_| AtomicU8::new(0)).collect();
        Ok(Described { root, types, numbers, places })
    }

    /// A number for the root's type, and for `layout`: for
    /// [`HeapOptions::root_shape`](crate::HeapOptions::root_shape).
    pub fn root_shape(&self, layout: u64) -> u64 {
        shape::name("root", &[self.root.entry.shape, layout])
    }

    /// Refuses a heap that has a type of one of these names with another size or other pointers; to
    /// be called before threads use it.
    ///
    /// # Errors
    /// [`HeapError::Changed`].
    pub fn check<M: Memory>(&self, heap: &Heap, memory: &M) -> Result<(), HeapError> {
        let there = heap.types(memory).map_err(TxError::from)?;
        let shapes = type_table::shapes(heap, memory).map_err(TxError::from)?;
        for kind in &self.types {
            let name = kind.name.escape_debug().to_string();
            let of_name: Vec<_> = there.iter().filter(|info| info.name == name).collect();
            let is_same = |number| shapes.contains(&(number, kind.entry.shape));
            let Some(was) = of_name.first() else { continue };
            if !of_name.iter().any(|info| is_same(info.number)) {
                let pointers: Vec<_> = kind.pointers.iter().map(|place| place.offset).collect();
                let how = format!(
                    "it had {} bytes with pointers at [{}], and has {} with pointers at \
                     {pointers:?}",
                    was.bytes,
                    was.fields.replace(": pointer", ""),
                    kind.entry.size,
                );
                return Err(HeapError::Changed { name: kind.name.clone(), how });
            }
        }
        self.look_up(heap, memory).map_err(TxError::from)?;
        Ok(())
    }

    /// Notes the numbers of these types.
    fn look_up<M: Memory>(&self, heap: &Heap, memory: &M) -> Result<(), AccessError> {
        for (place, kind) in self.types.iter().enumerate() {
            if let Listed::As(number) = type_table::search(memory, heap, kind.entry)? {
                self.note(place, number);
            }
        }
        Ok(())
    }

    fn note(&self, place: usize, number: u8) {
        self.numbers[place].store(number, Relaxed);
        self.places[number as usize].store(place as u8 + 1, Relaxed);
    }

    /// The number of a type in the heap, which gets one if it has none.
    fn number<M: Memory>(&self, session: &mut Session<'_, M>, place: usize) -> Result<u8, TxError> {
        match self.numbers[place].load(Relaxed) {
            0 => {
                let kind = &self.types[place];
                let number = types::number_of(session, kind.entry, &|| kind.text())?;
                self.note(place, number);
                Ok(number)
            }
            number => Ok(number),
        }
    }

    fn known(&self, tag: u8) -> Option<&Kind> {
        let place = self.places[tag as usize].load(Relaxed).checked_sub(1)?;
        self.types.get(place as usize)
    }

    /// The places of pointers by the shapes of types.
    pub(crate) fn shapes(&self) -> Shapes {
        let all = self.types.iter().chain([&self.root]);
        Shapes::of(all.map(|kind| (kind.entry.shape, kind.pointers.clone())))
    }

    /// The pointers of the root.
    pub(crate) fn root(&self) -> &[Place] {
        &self.root.pointers
    }

    /// Whether what is at that address stays there: the root, objects that were allocated as bytes,
    /// and what is no data.
    ///
    /// # Errors
    /// When the heap's tables are damaged.
    pub fn stays<M: Memory>(&self, heap: &Heap, memory: &M, at: Addr) -> Result<bool, AccessError> {
        let layout = &heap.layout;
        if layout.is_root(at, 1) {
            return Ok(true);
        }
        let count = heap.chunks(memory)?;
        let Some(chunk) = layout.chunk_of(at).filter(|chunk| *chunk < count) else {
            return Ok(true);
        };
        match chunk::load_within(memory, layout, chunk, count)? {
            Chunk::Small(class) => {
                let start = layout.chunk(chunk);
                let Some(into) = (at.offset() - start.offset()).checked_sub(STATE_BYTES) else {
                    return Ok(false);
                };
                let block = class.block_of(into);
                if block >= class.blocks() {
                    return Ok(false);
                }
                Ok(chunk::tag(memory.load::<u8>(start.plus(block))) == Some(UNTYPED))
            }
            Chunk::Large(_, tag) => Ok(tag == UNTYPED),
            // The later chunks of a large object, and what is free.
            _ => Ok(!heap.moves()),
        }
    }
}
