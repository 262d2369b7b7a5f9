//! The header of a pool, at offset 0, written last and checked first.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | magic `SEAWALL` and a zero byte |
//! | 8..16 | version of this format |
//! | 16..32 | name of the layout (the workload), zero-padded ASCII |
//! | 32..40 | bytes of the pool |
//! | 40..48 | CRC-32C of the header with this field zero |
//! | 48..64 | UUID: identifies this pool |
//! | 64..192 | 16 root words: the parameters of the structure |
//!
//! All fields are little-endian 8-byte words. A crash before [`create`] returns leaves either a
//! pool that [`open`] refuses or a whole one. Bytes of a pool are untrusted: they cause no panic
//! and no read out of range.

use seawall_memory::{Addr, Memory, MemoryExt};

/// Bytes of the header: three cache lines.
pub const HEADER_BYTES: u64 = 192;
/// The number of root words, for the layout's use.
pub const ROOTS: usize = 16;
/// The version of the format that this program writes and reads.
pub const VERSION: u64 = 3;

const MAGIC: u64 = u64::from_le_bytes(*b"SEAWALL\0");
/// Whether a file that begins with `head` is a pool, sound or not, of any version.
pub const fn is_magic(head: [u8; 8]) -> bool {
    u64::from_le_bytes(head) == MAGIC
}

const NAME_BYTES: usize = 16;
const WORDS: usize = HEADER_BYTES as usize / 8;
const CHECKSUM: usize = 5;
const UUID: usize = 6;
const FIRST_ROOT: usize = 8;

/// Why a pool cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Too short, or without the magic.
    #[error(
        "not a seawall pool ({0}); give the path of a pool that seawall made, \
         or make a new one"
    )]
    NotAPool(String),
    /// Written by another version of the format.
    #[error(
        "the pool has format version {found}, this program reads {VERSION}; \
         open it with the seawall that made it"
    )]
    Version {
        /// The version in the header.
        found: u64,
    },
    /// The checksum of the header is wrong.
    #[error(
        "the pool's header is damaged: its checksum is {found:#010x}, its bytes \
         give {computed:#010x}; restore the file from a copy"
    )]
    Checksum {
        /// The checksum in the header.
        found: u64,
        /// The checksum of the bytes.
        computed: u64,
    },
    /// Another program's pool.
    #[error("the pool belongs to workload `{found}`, not to `{wanted}`; open it as `{found}`")]
    Name {
        /// The name in the header.
        found: String,
        /// The requested name.
        wanted: String,
    },
    /// The pool is shorter than its header says.
    #[error(
        "the pool is truncated: its header says {header} bytes, it has {actual}; \
         restore the file from a copy"
    )]
    Truncated {
        /// Bytes by the header.
        header: u64,
        /// Actual bytes.
        actual: u64,
    },
}

/// Writes the header of a pool of `bytes` bytes. Call it last: what the structure wrote before
/// becomes durable first, and the pool is valid when this returns.
///
/// # Panics
/// When the name is empty or longer than 16 bytes, or there are more than [`ROOTS`] roots.
pub fn create<M: Memory>(memory: &M, name: &str, uuid: u128, bytes: u64, roots: &[u64]) {
    assert!(roots.len() <= ROOTS, "{} root words, at most {ROOTS}", roots.len());
    assert!((1..=NAME_BYTES).contains(&name.len()), "layout name `{name}`: 1 to 16 bytes");
    memory.drain();
    let mut words = [0; WORDS];
    words[0] = MAGIC;
    words[1] = VERSION;
    let mut padded = [0; NAME_BYTES];
    padded[..name.len()].copy_from_slice(name.as_bytes());
    words[2] = u64::from_le_bytes(*padded.first_chunk().expect("8 of 16 bytes"));
    words[3] = u64::from_le_bytes(*padded.last_chunk().expect("8 of 16 bytes"));
    words[4] = bytes;
    (words[UUID], words[UUID + 1]) = (uuid as u64, (uuid >> 64) as u64);
    words[FIRST_ROOT..FIRST_ROOT + roots.len()].copy_from_slice(roots);
    words[CHECKSUM] = checksum(&words);
    for (index, word) in words.iter().enumerate() {
        memory.store(Addr::pm(8 * index as u64), *word);
    }
    memory.persist(Addr::NULL, HEADER_BYTES);
}

/// Reads the header of a pool of `bytes` bytes and returns its root words.
///
/// # Errors
/// When it is not a pool, of another version, of another layout, damaged or truncated.
pub fn open<M: Memory>(memory: &M, name: &str, bytes: u64) -> Result<[u64; ROOTS], HeaderError> {
    let header = read(memory, bytes)?;
    if header.name != name {
        return Err(HeaderError::Name { found: header.name, wanted: name.to_owned() });
    }
    Ok(header.roots)
}

/// The header of a pool, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name of the layout.
    pub name: String,
    /// The number that identifies the pool.
    pub uuid: u128,
    /// Bytes of the pool at its creation.
    pub bytes: u64,
    /// The root words.
    pub roots: [u64; ROOTS],
}

/// The UUID in the header, unchecked: to compare the open pool with another.
pub fn uuid<M: Memory>(memory: &M) -> u128 {
    let word = |word: usize| u128::from(memory.load::<u64>(Addr::pm(8 * word as u64)));
    word(UUID) | word(UUID + 1) << 64
}

/// Whether the pool has no header, nor a part of one.
pub(crate) fn is_blank<M: Memory>(memory: &M) -> bool {
    (0..WORDS as u64).all(|word| memory.load::<u64>(Addr::pm(8 * word)) == 0)
}

/// Returns the name of the layout of a pool of `bytes` bytes.
///
/// # Errors
/// As [`open`], except that any name will do.
pub fn name<M: Memory>(memory: &M, bytes: u64) -> Result<String, HeaderError> {
    read(memory, bytes).map(|header| header.name)
}

/// Reads and checks the header of a pool of `bytes` bytes.
///
/// # Errors
/// As [`open`], except that any name will do.
pub fn read<M: Memory>(memory: &M, bytes: u64) -> Result<Header, HeaderError> {
    if bytes < HEADER_BYTES {
        return Err(HeaderError::NotAPool(format!("{bytes} bytes are too few for a header")));
    }
    let words: [u64; WORDS] = std::array::from_fn(|index| memory.load(Addr::pm(8 * index as u64)));
    match (words[0], words[1]) {
        (MAGIC, VERSION) => {}
        (MAGIC, found) => return Err(HeaderError::Version { found }),
        (0, _) => {
            let why = "it starts with zeros: empty, or its creation was cut short";
            return Err(HeaderError::NotAPool(why.to_owned()));
        }
        (other, _) => {
            return Err(HeaderError::NotAPool(format!("it starts with {other:#018x}")));
        }
    }
    let computed = checksum(&words);
    if words[CHECKSUM] != computed {
        return Err(HeaderError::Checksum { found: words[CHECKSUM], computed });
    }
    if words[4] > bytes {
        return Err(HeaderError::Truncated { header: words[4], actual: bytes });
    }
    let padded: Vec<u8> = words[2..4].iter().flat_map(|word| word.to_le_bytes()).collect();
    let name = String::from_utf8_lossy(&padded).trim_end_matches('\0').escape_debug().to_string();
    let roots = *words[FIRST_ROOT..].first_chunk().expect("the roots end the header");
    let uuid = u128::from(words[UUID]) | u128::from(words[UUID + 1]) << 64;
    Ok(Header { name, uuid, bytes: words[4], roots })
}

fn checksum(words: &[u64; WORDS]) -> u64 {
    let mut words = *words;
    words[CHECKSUM] = 0;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    u64::from(crc32c::crc32c(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;

    fn pool() -> Image {
        let image = Image::new(4096, 0);
        create(&image, "hash", 5, 4096, &[7, 8]);
        image
    }

    #[test]
    fn the_roots_come_back() {
        let roots = open(&pool(), "hash", 4096).expect("a whole pool");
        assert_eq!(roots[..3], [7, 8, 0]);
        assert_eq!(name(&pool(), 4096).as_deref(), Ok("hash"));
        assert_eq!((uuid(&pool()), read(&pool(), 4096).map(|header| header.uuid)), (5, Ok(5)));
    }

    #[test]
    fn each_way_to_be_wrong_has_its_own_message() {
        let message = |image: &Image, bytes| open(image, "hash", bytes).unwrap_err().to_string();
        let image = pool();
        assert!(open(&image, "queue", 4096).unwrap_err().to_string().contains("workload `hash`"));
        assert!(message(&image, 1000).contains("says 4096 bytes, it has 1000"));
        assert!(message(&image, 100).contains("not a seawall pool"));
        image.store(Addr::pm(64), 9u64);
        assert!(message(&image, 4096).contains("checksum"));
        image.store(Addr::pm(8), 99u64);
        assert!(message(&image, 4096).contains("version 99, this program reads 3"));
        image.store(Addr::pm(0), 0u64);
        assert!(message(&image, 4096).contains("cut short"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..256), magic: bool,
        ) {
            let mut bytes = bytes;
            if magic && bytes.len() >= 16 {
                bytes[..8].copy_from_slice(b"SEAWALL\0");
                bytes[8..16].copy_from_slice(&VERSION.to_le_bytes());
            }
            let len = bytes.len() as u64;
            prop_assert!(open(&Image::from_pm(bytes, 0), "hash", len).is_err());
        }

        #[test]
        fn a_flipped_bit_anywhere_in_the_header_is_noticed(bit in 0usize..192 * 8) {
            let mut bytes = pool().into_pm();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(open(&Image::from_pm(bytes, 0), "hash", 4096).is_err());
        }
    }
}
