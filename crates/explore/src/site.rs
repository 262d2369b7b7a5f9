//! Where in a program a call of the seam is: a call in Rust, or an instruction of a compiled
//! program.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;

/// A line of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file, or what else is known of the place.
    pub file: String,
    /// The line, from 1; 0 if it is not known.
    pub line: u32,
    /// The lines that have called it, the innermost first, as far as they are to be shown.
    pub callers: Vec<SourceLine>,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        self.callers.iter().try_for_each(|caller| write!(f, " < {caller}"))
    }
}

/// Where a call of the seam is. Prints as `file:line`, with what has called it behind ` < `.
#[derive(Clone, Copy, Debug)]
pub enum Site {
    /// A call in Rust.
    Call(&'static Location<'static>),
    /// An instruction, by its address, or what stands for that and for what has called it: it has
    /// no name yet.
    Instruction(u64),
    /// Such an instruction whose lines are known.
    Source(u64, &'static SourceLine),
}

impl Site {
    /// What tells apart sites of one line, and sites whose line is not known.
    fn detail(self) -> u64 {
        match self {
            Site::Call(at) => at.column().into(),
            Site::Instruction(at) | Site::Source(at, _) => at,
        }
    }

    /// Of an instruction what stands for it between processes.
    pub fn instruction(self) -> Option<u64> {
        match self {
            Site::Call(_) => None,
            Site::Instruction(at) | Site::Source(at, _) => Some(at),
        }
    }

    /// The file; empty if it is not known.
    pub fn file(self) -> &'static str {
        match self {
            Site::Call(at) => at.file(),
            Site::Instruction(_) => "",
            Site::Source(_, line) => &line.file,
        }
    }

    /// The line, from 1; 0 if it is not known.
    pub fn line(self) -> u32 {
        match self {
            Site::Call(at) => at.line(),
            Site::Instruction(_) => 0,
            Site::Source(_, line) => line.line,
        }
    }

    /// In the order of the source.
    fn key(self) -> (&'static str, u32, u64) {
        (self.file(), self.line(), self.detail())
    }
}

impl PartialEq for Site {
    fn eq(&self, other: &Site) -> bool {
        match (self, other) {
            (Site::Call(one), Site::Call(other)) => std::ptr::eq(*one, *other) || one == other,
            (Site::Call(_), _) | (_, Site::Call(_)) => false,
            _ => self.detail() == other.detail(),
        }
    }
}

impl Eq for Site {}

impl PartialOrd for Site {
    fn partial_cmp(&self, other: &Site) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Site {
    fn cmp(&self, other: &Site) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Hash for Site {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Site::Call(_) => self.key().hash(state),
            _ => self.detail().hash(state),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Instruction(at) => write!(f, "the instruction at {at:#x}"),
            Site::Source(_, line) => write!(f, "{line}"),
            Site::Call(at) => write!(f, "{}:{}", at.file(), at.line()),
        }
    }
}

/// Between processes go the addresses of instructions.
impl Serialize for Site {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.instruction().unwrap_or(0))
    }
}

impl<'de> Deserialize<'de> for Site {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Site, D::Error> {
        u64::deserialize(deserializer).map(Site::Instruction)
    }
}
