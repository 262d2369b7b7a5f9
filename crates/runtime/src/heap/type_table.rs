//! The table of types of a heap: which number stands for which shape.
//!
//! Every live object has the number of its type, 1 to 126, in the state of its block (127 is an
//! object that was allocated as bytes). The heap's table says which shape a number means, 16 bytes
//! each, all zeros where there is none yet:
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | shape, not 0 |
//! | 8..16 | checked word: size in bytes (high 24 of 40 bits), the shape's 16-bit pieces xored |
//!
//! so a flipped bit of either word is detected. Another table, 256 bytes each, has the type's name
//! and fields for people: a checked word (bytes of the text, and its CRC-32C), and the text, cut to
//! fit.
//!
//! The root's type and the structs that it leads to get the first numbers when the heap is created.
//! Any other type gets the first free number when its first object is allocated, under the chunk
//! lock, by a log record of its own: the number stays if the transaction around it does not commit,
//! and recovery replays the record as any other. A number is never taken away.

use super::{Heap, checked_word};
use crate::AccessError;
use crate::heap::layout::{Layout, TEXT_BYTES, TYPES_MAX};
use crate::persist::pointers::all_from;
use crate::persist::{Branded, Persist};
use rustc_hash::FxHashSet;
use seawall_memory::{Addr, Memory, MemoryExt};

/// The first size, in bytes, that does not fit an entry.
pub(crate) const SIZE_LIMIT: u64 = 1 << 24;
const FOLD_BITS: u32 = 16;

/// The maximum bytes of a text; its length takes 8 bits.
const TEXT_MAX: usize = TEXT_BYTES as usize - 8;
/// The delimiters of the fields.
const OPEN: &str = " { ";
const CLOSE: &str = " }";
/// The end of a text that was cut.
pub(crate) const CUT: &str = "..";

/// A type of objects in a heap.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeInfo {
    /// Its number in this heap, as [`Object`](crate::Object) has it.
    pub number: u8,
    /// The hash of its name and fields ([`Persist::SHAPE`]).
    pub shape: u64,
    /// Bytes of a value.
    pub bytes: u64,
    /// Its name in Rust: `Node`, `Pair<u64, 4>`.
    pub name: String,
    /// Its fields as they are declared: `value: i64, next: Option<Ptr<Node>>`; empty if it has
    /// none. Ends in `..` if not all fitted the 248 bytes that a pool keeps of name and fields.
    pub fields: String,
}

impl Heap {
    /// Lists the types of the heap by rising number. No transaction may be in progress.
    ///
    /// # Errors
    /// When the table of types is damaged.
    pub fn types<M: Memory>(&self, memory: &M) -> Result<Vec<TypeInfo>, AccessError> {
        let mut types = Vec::new();
        for number in 1..=TYPES_MAX {
            let Some(entry) = Entry::load(memory, self.layout.type_entry(number))? else {
                continue;
            };
            let text = load_text(memory, self.layout.type_text(number))?;
            let (name, fields) = split(&text);
            let Entry { shape, size: bytes } = entry;
            types.push(TypeInfo { number: number as u8, shape, bytes, name, fields });
        }
        Ok(types)
    }
}

/// Returns the number and shape of each type of the heap.
pub(crate) fn shapes<M: Memory>(heap: &Heap, memory: &M) -> Result<Vec<(u8, u64)>, AccessError> {
    let entry = |number| Entry::load(memory, heap.layout.type_entry(number));
    let shape = |number| Ok(entry(number)?.map(|entry| (number as u8, entry.shape)));
    (1..=TYPES_MAX).filter_map(|number| shape(number).transpose()).collect()
}

/// Returns shape, name and fields of each type, by rising number. Leaves out entries with a wrong
/// checksum: a crash may have torn them, or a thread may be writing them.
pub(crate) fn described<M: Memory>(memory: &M, layout: &Layout) -> Vec<(u64, String, String)> {
    let describe = |number| {
        let entry = Entry::load(memory, layout.type_entry(number)).ok()??;
        let text = load_text(memory, layout.type_text(number)).ok()?;
        let (name, fields) = split(&text);
        Some((entry.shape, name, fields))
    };
    (1..=TYPES_MAX).filter_map(describe).collect()
}

/// Gives the first numbers of a new heap to the root's struct and to those that the root leads to,
/// so that a program with other types learns what has changed, even of types without objects.
pub(crate) fn name_all<R: Branded, M: Memory>(memory: &M, layout: &Layout) {
    let all = all_from::<R::In<'static>>();
    let texts = all.types.iter().map(|target| (target, text_by(target.name, target.fields)));
    let structs = texts.filter(|(target, text)| text.contains(OPEN) && target.bytes < SIZE_LIMIT);
    let mut named = FxHashSet::default();
    let first = structs.filter(|(target, _)| named.insert(target.shape));
    for (number, (target, text)) in (1..=TYPES_MAX).zip(first) {
        let (at, text_at) = (layout.type_entry(number), layout.type_text(number));
        let entry = Entry { shape: target.shape, size: target.bytes };
        let words = (0..).map(|word| at.plus(8 * word)).zip(entry.encode(at));
        let text = (0..).map(|word| text_at.plus(8 * word)).zip(encode_text(text_at, &text));
        words.chain(text).for_each(|(at, word)| memory.store(at, word));
        memory.flush(at, 16);
        memory.flush(text_at, TEXT_BYTES);
    }
}

/// Splits a text into name and fields.
fn split(text: &str) -> (String, String) {
    let (name, fields) = text.split_once(OPEN).unwrap_or((text, ""));
    (name.to_owned(), fields.strip_suffix(CLOSE).unwrap_or(fields).to_owned())
}

/// Returns the text of `T`: its name and fields, as a pool keeps them.
pub(crate) fn text_of<'p, T: Persist<'p>>() -> String {
    text_by(T::name_to, T::fields_to)
}

fn text_by(name_to: fn(&mut String), fields_to: fn(&mut String)) -> String {
    let (mut name, mut fields) = (String::new(), String::new());
    name_to(&mut name);
    fields_to(&mut fields);
    text_with(name, &fields)
}

/// The text of a name and fields.
pub(crate) fn text_with(name: String, fields: &str) -> String {
    let mut text = name;
    if !fields.is_empty() {
        text.extend([OPEN, fields, CLOSE]);
    }
    if text.len() > TEXT_MAX {
        text.truncate(text.floor_char_boundary(TEXT_MAX - CUT.len()));
        text.push_str(CUT);
    }
    text
}

/// Encodes a text for the address `at`.
pub(crate) fn encode_text(at: Addr, text: &str) -> [u64; TEXT_BYTES as usize / 8] {
    let mut bytes = [0; TEXT_BYTES as usize];
    bytes[8..8 + text.len()].copy_from_slice(text.as_bytes());
    let value = (text.len() as u64) << 32 | u64::from(crc32c::crc32c(&bytes[8..]));
    let (words, _) = bytes.as_chunks();
    let mut words: [u64; TEXT_BYTES as usize / 8] =
        std::array::from_fn(|word| u64::from_le_bytes(words[word]));
    words[0] = checked_word::encode(at, value);
    words
}

fn load_text<M: Memory>(memory: &M, at: Addr) -> Result<String, AccessError> {
    let mut bytes = [0; TEXT_BYTES as usize];
    memory.read(at, &mut bytes);
    let value = checked_word::load(memory, at).unwrap_or(0);
    let length = (value >> 32) as usize;
    let is_sound = value as u32 == crc32c::crc32c(&bytes[8..]) && length <= TEXT_MAX;
    let text = is_sound.then(|| str::from_utf8(&bytes[8..8 + length]).ok()).flatten();
    text.map(|text| text.escape_debug().to_string()).ok_or_else(|| AccessError::Damaged {
        what: format!("the name of a type at {at} does not add up"),
    })
}

/// A type's entry in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) shape: u64,
    pub(crate) size: u64,
}

impl Entry {
    pub(crate) fn of<'p, T: Persist<'p>>() -> Entry {
        const { assert!(T::SIZE < SIZE_LIMIT, "a persistent type is smaller than 16 MiB") };
        Entry { shape: T::SHAPE, size: T::SIZE }
    }

    pub(crate) fn encode(self, at: Addr) -> [u64; 2] {
        let halves = self.shape ^ self.shape >> 32;
        let fold = (halves ^ halves >> 16) & ((1 << FOLD_BITS) - 1);
        [self.shape, checked_word::encode(at.plus(8), self.size << FOLD_BITS | fold)]
    }

    /// Loads the entry at `at`; `None` if it was never written.
    fn load<M: Memory>(memory: &M, at: Addr) -> Result<Option<Entry>, AccessError> {
        let words = [memory.load(at), memory.load(at.plus(8))];
        if words == [0, 0] {
            return Ok(None);
        }
        let size = checked_word::decode(at.plus(8), words[1]).map_or(0, |value| value >> FOLD_BITS);
        let entry = Entry { shape: words[0], size };
        if entry.encode(at) != words || entry.shape == 0 {
            let what = format!("the entry of a type at {at} does not add up");
            return Err(AccessError::Damaged { what });
        }
        Ok(Some(entry))
    }
}

/// What the table says of a type.
pub(crate) enum Listed {
    /// It has this number.
    As(u8),
    /// It has none; the first free number, if there is one.
    Not(Option<u8>),
    /// A type of its shape has this size, which is not its own.
    WithSize(u64),
}

/// Looks a type up.
pub(crate) fn search<M: Memory>(
    memory: &M,
    heap: &Heap,
    wanted: Entry,
) -> Result<Listed, AccessError> {
    for number in 1..=TYPES_MAX {
        match Entry::load(memory, heap.layout.type_entry(number))? {
            None => return Ok(Listed::Not(Some(number as u8))),
            Some(entry) if entry == wanted => return Ok(Listed::As(number as u8)),
            Some(entry) if entry.shape == wanted.shape => return Ok(Listed::WithSize(entry.size)),
            Some(_) => {}
        }
    }
    Ok(Listed::Not(None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::{Bytes, Ptr};
    use proptest::prelude::*;
    use seawall_memory::Image;

    proptest! {
        #[test]
        fn an_entry_comes_back_and_a_flipped_bit_is_damage(
            shape in 1u64.., size in 0..SIZE_LIMIT, bit in 0u32..128,
        ) {
            let (image, at) = (Image::new(128, 0), Addr::pm(64));
            let entry = Entry { shape, size };
            let words = entry.encode(at);
            let store = |words: [u64; 2]| {
                image.store(at, words[0]);
                image.store(at.plus(8), words[1]);
            };
            store(words);
            prop_assert_eq!(Entry::load(&image, at), Ok(Some(entry)));
            let mut flipped = words;
            flipped[bit as usize / 64] ^= 1 << (bit % 64);
            store(flipped);
            prop_assert!(Entry::load(&image, at).is_err());
        }

        #[test]
        fn a_text_comes_back_and_a_flipped_bit_is_damage(
            text in "[a-z<>, ]{1,248}", bit in 0u64..8 * TEXT_BYTES,
        ) {
            let (image, at) = (Image::new(512, 0), Addr::pm(256));
            for (word, value) in (0..).zip(encode_text(at, &text)) {
                image.store(at.plus(8 * word), value);
            }
            prop_assert_eq!(load_text(&image, at), Ok(text));
            let byte = at.plus(bit / 8);
            image.store(byte, image.load::<u8>(byte) ^ 1 << (bit % 8));
            prop_assert!(load_text(&image, at).is_err());
        }
    }

    #[test]
    fn what_has_no_fields_is_called_by_its_name_alone() {
        assert_eq!(text_of::<[[bool; 2]; 3]>(), "[[bool; 2]; 3]");
        assert_eq!(text_of::<Option<Ptr<'_, [f32; 4]>>>(), "Option<Ptr<[f32; 4]>>");
        assert_eq!(text_of::<Bytes<13>>(), "Bytes<13>");
    }
}
