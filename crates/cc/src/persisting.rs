//! Which instructions of instrumented code make stores durable: flushes, fences, stores past the
//! caches, and calls of functions that have some. An exploration compares them with what has run.

use crate::abi::{ENTRIES, Kind, WHAT};
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};
use object::{RelocationTarget, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// An instruction that makes stores durable, or calls a function that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistSite {
    /// The address in the module behind it.
    pub at: u64,
    /// Whether it is a call of a function of the program or of libpmem, or a jump in place of one.
    pub is_call: bool,
}

/// The kinds of instructions that a program uses for persistent memory alone.
const KINDS: [Kind; 7] = [
    Kind::Stream,
    Kind::MaskedStream,
    Kind::Direct,
    Kind::Clwb,
    Kind::ClflushOpt,
    Kind::Clflush,
    Kind::Sfence,
];
/// The beginning of the names of functions of libpmem and libpmemobj.
const LIBRARY: &[u8] = b"pmem";
/// `movl $what, WHAT`, without the operands, and `call *entry`.
const SAYS: [u8; 3] = [0xc7, 0x04, 0x25];
const CALLS: [u8; 3] = [0xff, 0x14, 0x25];
/// The bytes of both instructions.
const BYTES: usize = 11 + 7;
const NEAR_CALL: u8 = 0xe8;
const NEAR_JUMP: u8 = 0xe9;
const NEAR_BYTES: usize = 5;
/// An indirect jump in an entry of the procedure linkage table, and the bytes of an entry.
const JUMP: [u8; 2] = [0xff, 0x25];
const STUB_BYTES: usize = 16;

/// The sites of a module, in order.
pub fn persist_sites(module: &Path) -> Vec<PersistSite> {
    let bytes = fs::read(module).unwrap_or_default();
    object::File::parse(&*bytes).map_or(Vec::new(), |module| sites(&module))
}

fn sites(module: &object::File<'_>) -> Vec<PersistSite> {
    let code: Vec<(u64, &[u8])> = module
        .sections()
        .filter(|section| section.kind() == object::SectionKind::Text)
        .filter_map(|section| Some((section.address(), section.data().ok()?)))
        .collect();
    let own: Vec<u64> = code.iter().flat_map(|(at, bytes)| instructions(*at, bytes)).collect();
    let mut functions: BTreeMap<u64, u64> = BTreeMap::new();
    for symbol in module.symbols().chain(module.dynamic_symbols()) {
        if symbol.is_definition() && symbol.kind() == SymbolKind::Text {
            functions.insert(symbol.address(), symbol.address() + symbol.size());
        }
    }
    let function_of = |at: &u64| {
        let (start, end) = functions.range(..*at).next_back()?;
        (*at <= *end).then_some(*start)
    };
    let mut persisting: BTreeSet<u64> = own.iter().filter_map(function_of).collect();
    persisting.extend(stubs(module, &code));
    let calls = code.iter().flat_map(|(at, bytes)| calls(*at, bytes));
    let calls = calls.filter(|(_, to)| persisting.contains(to)).map(|(at, _)| (at, true));
    let all: BTreeMap<u64, bool> = calls.chain(own.into_iter().map(|at| (at, false))).collect();
    all.into_iter().map(|(at, is_call)| PersistSite { at, is_call }).collect()
}

/// Behind the calls of the machine for instructions of these kinds.
fn instructions(at: u64, code: &[u8]) -> impl Iterator<Item = u64> {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    let is_site = move |bytes: &[u8]| {
        let what = word(&bytes[7..11]) >> 16;
        bytes[..3] == SAYS
            && u64::from(word(&bytes[3..7])) == WHAT
            && bytes[11..14] == CALLS
            && u64::from(word(&bytes[14..18])) >= ENTRIES
            && KINDS.iter().any(|kind| *kind as u32 == what)
    };
    let found = code.windows(BYTES).enumerate().filter(move |(_, bytes)| is_site(bytes));
    found.map(move |(offset, _)| at + (offset + BYTES) as u64)
}

/// What may be near calls and jumps: the address behind each, and where it goes.
fn calls(at: u64, code: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let is_near = |bytes: &[u8]| [NEAR_CALL, NEAR_JUMP].contains(&bytes[0]);
    let calls = code.windows(NEAR_BYTES).enumerate().filter(move |(_, bytes)| is_near(bytes));
    calls.map(move |(offset, bytes)| {
        let back = at + (offset + NEAR_BYTES) as u64;
        let by = bytes[1..].try_into().map_or(0, i32::from_le_bytes);
        (back, back.wrapping_add_signed(by.into()))
    })
}

/// Where the linker has put the jumps to functions of libpmem.
fn stubs(module: &object::File<'_>, code: &[(u64, &[u8])]) -> Vec<u64> {
    let Some(symbols) = module.dynamic_symbol_table() else { return Vec::new() };
    let is_of_library = |target: RelocationTarget| match target {
        RelocationTarget::Symbol(symbol) => {
            use object::ObjectSymbolTable as _;
            let name = symbols.symbol_by_index(symbol).and_then(|it| it.name_bytes());
            name.is_ok_and(|name| name.starts_with(LIBRARY))
        }
        _ => false,
    };
    let relocations = module.dynamic_relocations().into_iter().flatten();
    let slots: BTreeSet<u64> = relocations
        .filter(|(_, relocation)| is_of_library(relocation.target()))
        .map(|(slot, _)| slot)
        .collect();
    let mut stubs = Vec::new();
    for (start, bytes) in code {
        for (number, stub) in bytes.chunks_exact(STUB_BYTES).enumerate() {
            let Some(jump) = stub.windows(6).position(|bytes| bytes[..2] == JUMP) else { continue };
            let at = start + (number * STUB_BYTES) as u64;
            let by = stub[jump + 2..jump + 6].try_into().map_or(0, i32::from_le_bytes);
            let slot = (at + jump as u64 + 6).wrapping_add_signed(by.into());
            if slots.contains(&slot) {
                stubs.push(at);
            }
        }
    }
    stubs
}
