//! The seam of seawall: what a program may ask of persistent memory, and nothing else.
//!
//! A program is written once, generic over [`Memory`], and then runs on three machines: `native`
//! (this computer), `sim` (a simulated multicore under a persistency design) and `explore` (every
//! image that a crash may leave). It never knows which one it runs on.
//!
//! It is not an allocator, a transaction system or a pool: those are programs above the seam, in
//! the crate `seawall-runtime`.
//!
//! ```
//! use seawall_memory::{Addr, Image, Memory};
//!
//! fn publish<M: Memory>(memory: &M, value: u64) {
//!     let (data, flag) = (Addr::pm(64), Addr::pm(128));
//!     memory.store(data, value);
//!     memory.flush(data, 8);
//!     memory.order(); // no crash can keep the flag and lose the value
//!     memory.store(flag, 1u64);
//!     memory.persist(flag, 8); // durable when this returns
//! }
//!
//! let image = Image::new(4096, 0);
//! publish(&image, 7);
//! assert_eq!(image.load::<u64>(Addr::pm(64)), 7);
//! ```

#![forbid(unsafe_code)]

mod addr;
mod handles;
mod image;
mod model;
mod pass;
mod purpose;
mod relocation;
mod seats;
mod word;

pub use addr::{Addr, LINE_BYTES, Line, lines_of};
pub use handles::{FlushBy, Handles, RecentStores, StoreSource};
pub use image::Image;
pub use model::{Model, UnknownModel};
pub use purpose::Purpose;
pub use relocation::{
    FILTER_BYTES, FILTERS, Forwarding, RELOCATION_PAGE, RELOCATION_SLOT, Relocation,
};
pub use seats::{Seat, SeatTaken, Seats};
pub use word::{Width, Word};

/// One hardware thread's view of persistent and volatile memory.
///
/// A handle belongs to one thread (it need not be `Sync`); machines give out one each. Addresses
/// out of range and accesses that are not aligned to their width are bugs of the program: a
/// machine panics on them. No method returns an error: memory does not.
///
/// **What survives a crash.** Stores reach persistence in an order that the machine chooses,
/// except as [`order`](Memory::order) and [`drain`](Memory::drain) say. An aligned access of up to
/// 8 bytes is never torn. A longer [`write`](Memory::write) may be torn at every 8-byte boundary.
/// DRAM addresses never survive and read as zero afterwards.
pub trait Memory {
    /// Index of this hardware thread, from 0.
    fn thread(&self) -> usize;

    /// Who works with this memory, if it is one whose threads a program begins by itself: then
    /// these are the same for all of its handles. A handle around another passes them on.
    #[inline]
    fn seats(&self) -> Option<&Seats> {
        None
    }

    /// Reads the aligned `width` at `at`, zero-extended.
    #[track_caller]
    fn load_bits(&self, at: Addr, width: Width) -> u64;

    /// Writes the low `width` of `value` at the aligned `at`.
    ///
    /// After a crash the location holds this value, an earlier one, or a later one, never a mix.
    #[track_caller]
    fn store_bits(&self, at: Addr, width: Width, value: u64);

    /// Stores `new` if the aligned 8 bytes at `at` equal `current`; gives what was there before,
    /// as `Ok` if it stored and `Err` if not. A locked instruction: also a full fence for the
    /// visibility of this thread's stores, and on x86 an [`order`](Memory::order).
    #[track_caller]
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64>;

    /// Stores `new` in the aligned 8 bytes at `at` and gives what was there. A locked instruction.
    #[track_caller]
    fn swap(&self, at: Addr, new: u64) -> u64;

    /// Adds `by` (wrapping) to the aligned 8 bytes at `at`; gives what was there. A locked
    /// instruction.
    #[track_caller]
    fn fetch_add(&self, at: Addr, by: u64) -> u64;

    /// Starts writing the lines of `len` bytes from `at` back to persistence, and returns at once.
    ///
    /// `clwb` on x86; nothing where the hardware tracks stores. Nothing is promised until the next
    /// [`order`](Memory::order) or [`drain`](Memory::drain) of this thread. DRAM lines are ignored.
    #[track_caller]
    fn flush(&self, at: Addr, len: u64);

    /// Orders persists: this thread's stores before it that were flushed (on hardware that tracks
    /// stores: all of them) persist before any of its stores after it.
    ///
    /// `sfence` on x86, a persist barrier, `ofence` on HOPS. It need not wait for anything.
    #[track_caller]
    fn order(&self);

    /// Begins a strand: what this thread stores from here on need not persist behind what it stored
    /// before, whatever [`order`](Memory::order) stands between them.
    ///
    /// After a crash stores of the new strand may be there and older ones lost. Not so: orders
    /// inside a strand hold; the stores of one line persist in their order, whichever strand they
    /// are in, and bring with them what was ordered before each;
    /// [`join_strands`](Memory::join_strands) orders all strands before what comes, and
    /// [`drain`](Memory::drain) waits for them. What the old strand had learnt of other
    /// threads' stores, and would have persisted behind, the new one has not.
    ///
    /// `NewStrand` of StrandWeaver (ISCA'20). Machines without strands do nothing, which keeps more
    /// in order than was asked for. Words that a crash has to find in order may not be in two
    /// strands.
    #[inline]
    fn strand(&self) {}

    /// Joins the strands of this thread: what it stored in any of them (where stores have to be
    /// flushed: and flushed) persists before what it stores from here on, in this strand and in
    /// those that begin later. It need not wait for anything, and makes nothing durable.
    ///
    /// `JoinStrand` of StrandWeaver. Machines without strands have one a thread, and
    /// [`order`](Memory::order) it.
    #[inline]
    #[track_caller]
    fn join_strands(&self) {
        self.order();
    }

    /// Returns when everything that this thread stored and flushed (on hardware that tracks
    /// stores: everything it stored) is durable.
    ///
    /// `sfence` on x86, `dfence` on HOPS, a join and a wait where there are strands. A crash
    /// after the return loses none of it.
    #[track_caller]
    fn drain(&self);

    /// Counts `instructions` that touch no memory.
    fn work(&self, instructions: u32);

    /// Says what the time of this thread is spent on from here on; gives what it was until here. A
    /// machine that does not account for time takes no notice, and gives back what it is told.
    #[inline]
    fn purpose(&self, purpose: Purpose) -> Purpose {
        purpose
    }

    /// The time of this thread in the machine's own unit (time-stamp counter, simulated cycle), to
    /// compare the lengths of spans; 0 for ever on a machine without time.
    #[inline]
    fn now(&self) -> u64 {
        0
    }

    /// Makes the pool at least `bytes` long, if it is not; false, and nothing changed, when there
    /// is no room. The new bytes are zero, and a crash after the return keeps them; one before it
    /// may leave a longer pool.
    fn grow(&self, bytes: u64) -> bool;

    /// Says that these bytes will be written soon, so that a machine which brings pages in as they
    /// are met may bring them all in at once. Changes nothing that a program or a crash can see.
    #[inline]
    #[track_caller]
    fn will_write(&self, at: Addr, len: u64) {
        let _ = (at, len);
    }

    /// Waits while the aligned 8 bytes at `at` equal `value`; gives what they hold then.
    ///
    /// What a spin loop of loads does, said as one thing, so that a machine may sleep instead of
    /// spinning. The caller must expect that the word has changed again since.
    #[track_caller]
    fn spin_while(&self, at: Addr, value: u64) -> u64;

    /// As [`spin_while`](Memory::spin_while), for what may take long, so that a machine with more
    /// threads than processors may let others run: whoever changes the word says so by
    /// [`wake`](Memory::wake), and changes its low 32 bits.
    #[inline]
    #[track_caller]
    fn sleep_while(&self, at: Addr, value: u64) -> u64 {
        self.spin_while(at, value)
    }

    /// The word at `at` has changed, which somebody [waits for](Memory::sleep_while).
    #[inline]
    #[track_caller]
    fn wake(&self, at: Addr) {
        let _ = at;
    }

    /// Tells the outside world that operation `number` of this thread is done.
    ///
    /// Takes its turn after all earlier fences of the thread, as an output instruction would. On a
    /// machine whose [`order`](Memory::order) makes things durable, nothing that was ordered before
    /// an output is lost by a crash after it.
    #[track_caller]
    fn output(&self, number: u64);

    /// Reads a word at its aligned address.
    #[inline]
    #[track_caller]
    fn load<W: Word>(&self, at: Addr) -> W
    where
        Self: Sized,
    {
        W::from_bits(self.load_bits(at, W::WIDTH))
    }

    /// Writes a word at its aligned address; never torn by a crash.
    #[inline]
    #[track_caller]
    fn store<W: Word>(&self, at: Addr, value: W)
    where
        Self: Sized,
    {
        self.store_bits(at, W::WIDTH, value.to_bits());
    }

    /// Reads the words of the line that starts at `at`, each as [`load`](Memory::load) does, from
    /// the first to the last.
    #[inline]
    #[track_caller]
    fn load_line(&self, at: Addr) -> [u64; LINE_BYTES as usize / 8] {
        std::array::from_fn(|word| self.load_bits(at.plus(8 * word as u64), Width::B8))
    }

    /// Reads `into.len()` bytes from `at`, of any alignment.
    #[track_caller]
    fn read(&self, at: Addr, into: &mut [u8]) {
        word::split(at, into.len(), |at, width, range| {
            let bits = self.load_bits(at, width).to_le_bytes();
            into[range.clone()].copy_from_slice(&bits[..range.len()]);
        });
    }

    /// Writes `from` at `at`, of any alignment; a crash may tear it at every 8-byte boundary.
    #[track_caller]
    fn write(&self, at: Addr, from: &[u8]) {
        word::split(at, from.len(), |at, width, range| {
            let mut bits = [0; 8];
            bits[..range.len()].copy_from_slice(&from[range]);
            self.store_bits(at, width, u64::from_le_bytes(bits));
        });
    }

    /// Writes `from` at `at` past the caches where the machine can (`movnti`): needs no
    /// [`flush`](Memory::flush), is durable after the next [`drain`](Memory::drain), and is best in
    /// whole lines that nobody reads soon.
    ///
    /// Other threads may see these stores later than plain stores that come after them, until the
    /// next order, drain or locked operation: order before a plain store gives a lock back.
    ///
    /// The default writes and flushes, which promises the same and costs more.
    #[track_caller]
    fn write_nt(&self, at: Addr, from: &[u8]) {
        self.write(at, from);
        self.flush(at, from.len() as u64);
    }

    /// Flushes `len` bytes from `at` and returns when they, and all flushed before, are durable.
    #[inline]
    #[track_caller]
    fn persist(&self, at: Addr, len: u64) {
        self.flush(at, len);
        self.drain();
    }

    /// Says that nobody needs what these bytes hold: whole pages of 4 KiB, which the machine may
    /// give to somebody else until they are [brought back](Memory::bring_back). From here on, and
    /// after a crash, each of them reads as before or as zero.
    #[inline]
    fn discard(&self, at: Addr, len: u64) {
        let _ = (at, len);
    }

    /// Discarded pages may be stored to again; false when there is no room for them any more.
    /// Changes no byte.
    #[inline]
    fn bring_back(&self, at: Addr, len: u64) -> bool {
        let _ = (at, len);
        true
    }

    /// True where hardware remembers which lines of [`relocate`](Memory::relocate)d copies have
    /// persisted.
    #[inline]
    fn relocates(&self) -> bool {
        false
    }

    /// True where hardware looks up [where objects went](Memory::forward).
    #[inline]
    fn forwards(&self) -> bool {
        false
    }

    /// Sets the registers of hardware that moves objects, for all cores: `None` when no object is
    /// on its way. What they lead to is durable before; a crash loses the registers. Elsewhere it
    /// does nothing.
    fn set_relocation(&self, registers: Option<Relocation>) {
        let _ = registers;
    }

    /// Copies `len` bytes from `from` to `to` (the `relocate` instruction of FFCCD), both multiples
    /// of 8, line by line of the copy.
    ///
    /// Where hardware [relocates](Memory::relocates) it orders nothing and needs no flush: after a
    /// crash the reached bitmap says of each line of the copy whether it has persisted, with all
    /// that the copy wrote there or with what was stored to it since. In software it writes,
    /// flushes, and orders.
    #[track_caller]
    fn relocate(&self, to: Addr, from: Addr, len: u64) {
        let mut bytes = vec![0; len as usize];
        self.read(from, &mut bytes);
        self.write(to, &bytes);
        self.flush(to, len);
        self.order();
    }

    /// Where what is at `at` goes (the `checklookup` instruction of FFCCD), whether or not it has
    /// gone yet; `at` if it stays, and on machines without such hardware.
    #[inline]
    fn forward(&self, at: Addr) -> Addr {
        at
    }
}
