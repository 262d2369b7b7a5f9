//! The page through which instrumented code reaches the machine that runs it.
//!
//! The page is at one fixed address below 2 GiB, so that an instruction can name it without a
//! register and without a relocation, in every module of a program alike. The process that runs the
//! program maps it and fills its entries before the program is loaded.
//!
//! Before an access, instrumented code does this, all registers and flags being those of the
//! program before and after:
//!
//! ```text
//! movq  %rdi, SAVED             # the entry restores it
//! leaq  8(%rax,%rbx,4), %rdi    # the address, if the kind has one
//! movl  $(kind << 16 | bytes), WHAT
//! call  *ENTRIES+8*entry        # entry: which registers must be preserved
//! ```
//!
//! In a function with a red zone `leaq -128(%rsp), %rsp` comes before the call and its opposite
//! after it.

/// The address of the page.
pub const PAGE: u64 = 0x5ea0_0000;
/// The bytes of the page.
pub const PAGE_BYTES: u64 = 0x1000;

/// 8 bytes: `%rdi` of the program while an entry is called.
pub const SAVED: u64 = PAGE;
/// 4 bytes: what the access is, a [`Kind`] above 16 bits of length in bytes.
pub const WHAT: u64 = PAGE + 0x08;
/// 8 bytes: instructions that the program has executed since it was last set to 0.
pub const INSTRUCTIONS: u64 = PAGE + 0x10;
/// 8 bytes: loads from the frames of functions that no other function can reach, as above.
pub const STACK_LOADS: u64 = PAGE + 0x18;
/// 8 bytes: stores to such frames.
pub const STACK_STORES: u64 = PAGE + 0x20;
/// 8 bytes: which elements a masked access selects, one bit each.
pub const MASK: u64 = PAGE + 0x28;
/// 8 bytes: the flags before a string instruction, if its length has [`DIRECTED`].
pub const FLAGS: u64 = PAGE + 0x30;
/// 8 bytes each: the entries, see [`entry`].
pub const ENTRIES: u64 = PAGE + 0x100;
/// 8 bytes each: the functions that the support library calls, in the order of `support/page.h`.
pub const CALLS: u64 = PAGE + 0x200;

/// Which vector registers may hold something that the program still needs.
///
/// All of them are scratch registers for a called function, so that a function needs only those
/// that it names itself, and those that it may pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vectors {
    /// None.
    None = 0,
    /// The low 128 bits of registers 0 to 15.
    Sse = 1,
    /// 256 bits of registers 0 to 15.
    Avx = 2,
    /// All registers, with those of masks.
    Avx512 = 3,
}

/// The number of the entry that preserves these vector registers, and the flags if `flags`. General
/// registers are always preserved.
pub const fn entry(flags: bool, vectors: Vectors) -> u64 {
    flags as u64 | (vectors as u64) << 1
}

/// The number of entries.
pub const ENTRY_COUNT: u64 = 8;

/// What an instruction is about to do. Its length in bytes is 0 where there is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Reads memory.
    Load = 0,
    /// Writes memory; the value is read back later.
    Store = 1,
    /// Reads memory, and writes it by the same instruction, without a lock.
    Modify = 2,
    /// A locked instruction (`lock`, or `xchg` with memory) that stores whatever it finds.
    Locked = 3,
    /// A store past the caches (`movnti`, `movntdq`, `movntps` ..).
    Stream = 4,
    /// `clwb`.
    Clwb = 5,
    /// `clflushopt`.
    ClflushOpt = 6,
    /// `clflush`.
    Clflush = 7,
    /// `sfence`.
    Sfence = 8,
    /// `mfence`.
    Mfence = 9,
    /// `lfence`.
    Lfence = 10,
    /// `pause`.
    Pause = 11,
    /// A string instruction; the length is that of its element, and the address is not set. Its
    /// registers say the rest.
    RepMovs = 12,
    /// As above.
    RepStos = 13,
    /// `movs` without a prefix.
    Movs = 14,
    /// `stos` without a prefix.
    Stos = 15,
    /// Any other string instruction that reads memory (`cmps`, `scas`, `lods`): the registers say
    /// where; how much it reads is not known before.
    Scan = 16,
    /// The instruction `syscall`.
    Syscall = 17,
    /// As `Load`, of the elements that [`MASK`] selects. The length of these three kinds is a
    /// [`masked_length`].
    MaskedLoad = 18,
    /// As `Store`, of such elements.
    MaskedStore = 19,
    /// As `Stream`, of such elements.
    MaskedStream = 20,
    /// One instruction with several accesses, which follow, each [`SAME`].
    Several = 21,
    /// A store past the caches that is whole whatever happens (`movdir64b`).
    Direct = 22,
    /// A locked instruction that stores if it finds what `%rax` has (`lock cmpxchg`).
    Compare = 23,
    /// As above, what `%rdx` and `%rax` have (`lock cmpxchg8b`, `cmpxchg16b`).
    ComparePair = 24,
    /// What is stored until [`Kind::EndCopy`] is one write, as far as anybody may rely on: a
    /// function of the C library begins to copy or to fill, or the compiler has written a copy as
    /// several instructions. Not an instruction of the program.
    BeginCopy = 25,
    /// Ends what `BeginCopy` began.
    EndCopy = 26,
    /// Nothing but the [steps](crate::dependence) of its record.
    Flow = 27,
}

/// The operands of the `nopl` that mean [`Kind::BeginCopy`] and [`Kind::EndCopy`], as the support
/// library writes them.
pub const COPY_MARKS: [&str; 2] = ["0x5ea00b01", "0x5ea00b02"];

/// Set in [`WHAT`] beside a kind: the access is of the same instruction as the one before it, which
/// has not run yet.
pub const SAME: u32 = 1 << 31;
/// Set in the length of a string instruction of a function that sets the direction flag: which way
/// it goes is in [`FLAGS`].
pub const DIRECTED: u16 = 1 << 15;
/// Set in the length of a masked access: the selected elements are together in memory.
pub const PACKED: u16 = 1 << 15;

/// The length of a masked access: its bytes if all elements were selected, up to 64, and those of
/// an element.
pub const fn masked_length(bytes: u16, element: u16) -> u16 {
    element << 8 | bytes
}

impl Kind {
    /// What goes to [`WHAT`].
    pub const fn what(self, bytes: u16) -> u32 {
        (self as u32) << 16 | bytes as u32
    }
}
