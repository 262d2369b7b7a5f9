//! The seam: the methods by which a program reaches memory, on every machine.

use crate::layer::{Either, seam};
use crate::relocation::RelocationUnit;
use crate::{Absent, Addr, Clock, LINE_BYTES, Parking, Space, ThreadSlots, Width, ranges};

/// The fences of the seam, and the two operations on strands that are issued like fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Fence {
    /// Orders persists: the stores of this thread before it that were flushed (on hardware that
    /// tracks stores: all of them) persist before any of its stores after it.
    ///
    /// `sfence` on x86, a persist barrier, `ofence` on HOPS. It need not wait for anything.
    Order,
    /// Returns when everything that this thread stored and flushed (on hardware that tracks
    /// stores: everything it stored) is durable. A crash after the return loses none of it.
    ///
    /// `sfence` on x86, `dfence` on HOPS; where there are strands, a join and a wait.
    Drain,
    /// Begins a strand (`NewStrand` of StrandWeaver, ISCA'20): later stores of this thread need not
    /// persist after its earlier ones, even where an [`Order`](Fence::Order) stands between them.
    /// A crash may thus keep stores of the new strand and lose older ones.
    ///
    /// These orders remain: an `Order` holds inside its strand; the stores to one line persist in
    /// program order, whatever their strands, and after whatever was ordered before each of them;
    /// [`Join`](Fence::Join) orders all strands before what follows; and [`Drain`](Fence::Drain)
    /// waits for all strands. The new strand does not inherit the dependences of the old one on
    /// stores of other threads.
    ///
    /// Machines without strands do nothing, which keeps more order than was asked for. Words that a
    /// crash must find in order must not be in two strands.
    Strand,
    /// Joins the strands of this thread (`JoinStrand` of StrandWeaver): what it stored in any of
    /// them (where stores must be flushed: and flushed) persists before what it stores afterwards,
    /// in this strand and in later ones. It need not wait for anything, and makes nothing durable.
    ///
    /// An [`Order`](Fence::Order) on machines without strands.
    Join,
}

seam! {
    /// One hardware thread's view of persistent and volatile memory: what a machine implements.
    /// Programs also use [`MemoryExt`](crate::MemoryExt), which has typed accesses and the fences
    /// by name.
    ///
    /// A handle belongs to one thread (it need not be `Sync`); a machine has one for each.
    /// Addresses out of range and accesses that are not aligned to their width are bugs of the
    /// program: a machine panics on them. No method returns an error: memory does not.
    ///
    /// **What survives a crash.** Stores reach persistence in an order that the machine chooses,
    /// within what [`Fence`] says. An aligned access of up to 8 bytes is never torn. Of a longer
    /// [`write`](Memory::write) a crash may keep any of the words of 8 bytes, whatever their order
    /// in memory, and lose the others. DRAM addresses never survive
    /// and read as zero afterwards.
    ///
    /// **Doors.** What only some machines have is behind a method that returns `None` elsewhere:
    /// [`clock`](Memory::clock), [`parking`](Memory::parking), [`space`](Memory::space),
    /// [`relocation`](Memory::relocation). The choice is made at compile time where a machine
    /// always, or never, has the unit.
    pub trait Memory;

    every machine {
        /// Index of this hardware thread, from 0.
        fn thread(&self) -> usize;

        /// The slots of the threads that work with this memory, the same for all of its handles.
        /// `None` on machines that run their threads themselves.
        fn slots(&self) -> Option<&ThreadSlots>;

        /// Reads the aligned `width` at `at`, zero-extended.
        #[track_caller]
        fn load_bits(&self, at: Addr, width: Width) -> u64;

        /// Writes the low `width` of `value` at the aligned `at`.
        ///
        /// After a crash the location holds this value, an earlier one, or a later one, never a
        /// mix.
        #[track_caller]
        fn store_bits(&self, at: Addr, width: Width, value: u64);

        /// Stores `new` if the aligned 8 bytes at `at` equal `current`. Returns the old value, as
        /// `Ok` if it stored and as `Err` if not. A locked instruction: also a full fence for the
        /// visibility of this thread's stores, and on x86 an [`Order`](Fence::Order).
        #[track_caller]
        fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64>;

        /// Stores `new` in the aligned 8 bytes at `at` and returns the old value. A locked
        /// instruction.
        #[track_caller]
        fn swap(&self, at: Addr, new: u64) -> u64;

        /// Adds `by` (wrapping) to the aligned 8 bytes at `at` and returns the old value. A locked
        /// instruction.
        #[track_caller]
        fn fetch_add(&self, at: Addr, by: u64) -> u64;

        /// Starts writing the lines of `len` bytes from `at` back to persistence, and returns at
        /// once.
        ///
        /// `clwb` on x86; nothing where the hardware tracks stores. Nothing is promised until the
        /// next [`Order`](Fence::Order) or [`Drain`](Fence::Drain) of this thread. DRAM lines are
        /// ignored.
        #[track_caller]
        fn flush(&self, at: Addr, len: u64);

        /// Executes a fence.
        #[track_caller]
        fn fence(&self, fence: Fence);

        /// Counts `instructions` that touch no memory.
        fn work(&self, instructions: u32);

        /// Waits while the aligned 8 bytes at `at` equal `value`; returns the value that ended the
        /// wait.
        ///
        /// A spin loop of loads, as one operation, so that a machine may sleep instead of spinning.
        /// The caller must expect that the word has changed again since.
        #[track_caller]
        fn spin_while(&self, at: Addr, value: u64) -> u64;

        /// Reports to the outside world that operation `number` of this thread is done.
        ///
        /// Takes its turn after all earlier fences of the thread, as an output instruction would.
        /// On a machine whose [`Order`](Fence::Order) makes stores durable, nothing that was
        /// ordered before an output is lost by a crash after it.
        #[track_caller]
        fn output(&self, number: u64);
    }

    word by word {
        /// Reads `into.len()` bytes from `at`, of any alignment.
        fn read(&self, at: Addr, into: &mut [u8]);

        /// Reads the words of the line that starts at `at`, from the first to the last, each by a
        /// load of its own.
        fn load_line(&self, at: Addr) -> [u64; LINE_BYTES as usize / 8];

        /// Writes `from` at `at`, of any alignment; a crash may keep any of its words of 8 bytes.
        /// What is not a whole word, at its ends, is written by the widest aligned accesses that
        /// fit, in order of address.
        fn write(&self, at: Addr, from: &[u8]);

        /// Writes `from` at `at` past the caches where the machine can (`movnti`): needs no
        /// [`flush`](Memory::flush), is durable after the next [`Drain`](Fence::Drain), and is
        /// cheapest for whole lines that are not read soon.
        ///
        /// Other threads may see these stores later than plain stores that come after them, until
        /// the next order, drain or locked operation: order before a plain store releases a lock.
        ///
        /// The default writes and flushes, which promises the same and costs more.
        fn write_nt(&self, at: Addr, from: &[u8]);
    }

    doors {
        /// The clock of the machine, if it has one.
        fn clock(&self) -> Option<impl Clock>;

        /// The means to let a waiting thread sleep, if threads can sleep.
        fn parking(&self) -> Option<impl Parking>;

        /// The means to change how much of the address space has memory, if the machine has them.
        fn space(&self) -> Option<impl Space>;

        /// The hardware that moves objects, if the machine has it.
        fn relocation(&self) -> Option<impl RelocationUnit>;
    }
}
