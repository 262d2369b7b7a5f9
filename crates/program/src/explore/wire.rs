//! What a server of an exploration is asked, and what it answers.

use crate::request::{Fences, From, Place, Start};
use seawall_explore::{Schedule, Trace};
use seawall_memory::{Addr, Fence, Width};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// What a server serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Serving {
    /// What is run.
    pub(crate) start: Start,
    /// What a fence asks.
    pub(crate) fences: Fences,
    /// When recording begins.
    pub(crate) from: From,
    /// The folder of its pools, and what is in it before each run.
    pub(crate) folder: PathBuf,
    pub(crate) template: PathBuf,
    /// What the program reads from standard input.
    pub(crate) input: Option<PathBuf>,
    /// The file for what it prints.
    pub(crate) said: PathBuf,
    /// The pages of pools that are persistent memory, in order.
    pub(crate) pages: Vec<PoolPage>,
    /// Where a check has its memory.
    pub(crate) layout: Option<CheckLayout>,
    /// Bytes of other memory that it may touch.
    pub(crate) dram_bytes: u64,
    /// Seconds of processor time that a run may take.
    pub(crate) seconds: u64,
}

/// Where a check has its memory: mappings, heap and stacks elsewhere than the program had them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckLayout {
    /// Whether its code is where the program had it: it is of the same file, which the system
    /// always loads at one place.
    pub keeps_code: bool,
}

/// A page of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct PoolPage {
    /// The file, from the folder of the run on if it is in it.
    pub(crate) file: PathBuf,
    /// Bytes from its start.
    pub(crate) offset: u64,
}

/// One thing to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Record a run.
    Record(Schedule),
    /// Run on pools with these words.
    Recover(Vec<(Addr, u64)>),
}

/// What a server answers.
#[derive(Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The program is loaded: where its modules are.
    Ready(Vec<Module>),
    /// A task is done.
    Done(Box<Done>),
}

/// A module of the program, as it was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Module {
    pub(crate) path: PathBuf,
    pub(crate) base: u64,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// What came of a task.
#[derive(Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) end: End,
    /// The recorded run.
    pub(crate) trace: Option<Trace>,
    /// What recovery did.
    pub(crate) accesses: Vec<Access>,
    /// The user's calls, innermost first, of those sites of either that stand for several.
    pub(crate) chains: Vec<(u64, Vec<u64>)>,
    /// Threads that the program has started, `main` included, at one time.
    pub(crate) threads: usize,
    /// Pages that it stored to and that are not in the list.
    pub(crate) missing: Vec<PoolPage>,
    /// Bytes of memory that is not persistent.
    pub(crate) dram_bytes: u64,
    /// Words of persistent memory that changed unseen: where, and the instruction that found it,
    /// from the start of its module; 0 if it was found at the end.
    pub(crate) unseen: Vec<(String, u64)>,
    /// The end of what it printed.
    pub(crate) said: String,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    /// With this exit code.
    Exit(i32),
    /// It did this.
    Failed(String, Vec<Place>),
    /// By this signal.
    Signal(i32),
}

/// An access of recovery to persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Access {
    /// The instruction.
    pub(crate) site: u64,
    pub(crate) did: Did,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Did {
    Read(Addr, Width, u64),
    Wrote(Addr, Width, u64),
    /// The bits of a mask, of a word.
    WroteBits(Addr, u64, u64),
    /// Past the caches: so many bytes of this value.
    Streamed(Addr, u8, u64),
    /// Past the caches: a line, as one.
    StreamedLine(Addr, [u64; 8]),
    /// What comes until the end is one store, of so many words.
    BeganWrite(u64),
    EndedWrite,
    Locked(Addr, u64),
    /// A locked instruction on memory that is not persistent.
    LockedElsewhere,
    Flushed(Addr),
    Fenced(Fence),
}

/// Bytes that an answer may have.
const FRAME_MAX: u64 = 1 << 32;
/// Bytes that there is room for at first.
const FRAME_USUAL: usize = 32 << 10;

/// Writes a message with its length, in one piece.
pub(crate) fn write_frame(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(FRAME_USUAL);
    bytes.extend([0; 8]);
    let mut bytes = postcard::to_extend(message, bytes).map_err(io::Error::other)?;
    let length = bytes.len() as u64 - 8;
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    to.write_all(&bytes)?;
    to.flush()
}

/// Reads a message; `None` at the end.
pub(crate) fn read_frame<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 8];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u64::from_le_bytes(length);
    if length > FRAME_MAX {
        return Err(io::Error::other("a message that is too long"));
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other)
}
