//! What a persistency design is.
//!
//! A design decides when a store can take effect, what a flush or a fence waits for, what happens
//! when another core requests a line, and what a battery saves. The machine calls the hooks of the
//! design; the default of a hook does nothing. A design is a *strategy*: its answers change what
//! happens. It can move lines, send messages and book resources through [`Hw`], and must not change
//! what a program sees.

use crate::caches::private::Way;
use crate::caches::shared::Slot;
use crate::core::Waiter;
use crate::hw::writes::Arriving;
use crate::hw::{Gate, Hw, Request, Token};
use crate::memory::controller::{Late, Written};
use crate::memory::versions::LineData;
use crate::noc::mesh::Tile;
use crate::relocation::{Lookup, Walk};
use crate::{Cycle, LineId};
use seawall_memory::Addr;
use seawall_memory::relocation::{Forwarding, Relocation};

/// The hooks of a persistency design.
///
/// All hooks are called at cycle `now`, in exact time order. A hook that returns [`Gate::Wait`] has
/// recorded the waiter and wakes it later with [`Hw::wake`]; the machine then repeats the request
/// from the start.
#[allow(unused_variables, reason = "the default of a hook does nothing")]
pub(crate) trait Design: Sized {
    /// The messages between the parts of the design.
    type Message: Copy;
    /// Consecutive stores to one line leave the store buffer together.
    const COALESCES: bool = true;
    /// Programs for this design contain flush instructions.
    const USES_FLUSHES: bool = false;
    /// Non-temporal stores go through a write-combining buffer. If false, they are plain stores,
    /// because hardware that tracks stores would not see them.
    const COMBINES: bool = false;
    /// Programs for this design mark the start of strands. If false, the mark is no instruction.
    const HAS_STRANDS: bool = false;
    /// Has a [relocation unit](seawall_memory::relocation::RelocationUnit): its controllers record
    /// which lines of copies have persisted. If false, programs copy in software.
    const RELOCATES: bool = false;
    /// Controllers ask the design before they take a write.
    const SEES_ARRIVALS: bool = Self::RELOCATES;
    /// Persistent memory is written only by what the design sends: a dirty persistent line that
    /// leaves the shared cache is dropped.
    const DROPS_EVICTIONS: bool = false;

    /// The store buffer of `core` is about to write `core`'s copy of `line`, with write permission.
    fn store(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, at: Store, now: Cycle) -> Gate {
        Gate::Go
    }

    /// The store has been performed, together with the stores behind it in the store buffer that
    /// coalesced with it: `stores` in all, to one line.
    fn stored(
        &mut self,
        hw: &mut Hw<Self::Message>,
        core: usize,
        at: Store,
        stores: u64,
        now: Cycle,
    ) {
    }

    /// The host is about to execute a locked instruction of `who`'s program, which may or may not
    /// store to `at`.
    fn may_store(
        &mut self,
        hw: &mut Hw<Self::Message>,
        who: Waiter,
        at: Store,
        now: Cycle,
    ) -> Gate {
        self.store(hw, who, at, now)
    }

    /// It has, in the cycle of [`may_store`](Design::may_store): the copy is about to change.
    fn stores(&mut self, hw: &mut Hw<Self::Message>, core: usize, at: Store, now: Cycle) {}

    /// The store of a locked operation of `core`'s program, for which [`store`](Design::store) was
    /// asked, is not performed: its comparison failed, or the program has ended.
    fn forgone(&mut self, hw: &mut Hw<Self::Message>, core: usize, now: Cycle) {}

    /// The program of `core` is about to run a locked operation; its store buffer is empty.
    fn locked(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A flush of `line` is at the head of `core`'s store buffer.
    fn flush(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        Gate::Go
    }

    /// The write-combining buffer of `core` sends `line` to memory now. Returns the token with
    /// which [`written`](Design::written) reports that the line is durable.
    fn combined(&mut self, hw: &mut Hw<Self::Message>, core: usize, line: LineId) -> Token {
        Token::NONE
    }

    /// An order (persist barrier, sfence, ofence) is at the head of `core`'s store buffer.
    fn order(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A new strand is at the head of `core`'s store buffer.
    fn strand(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A join of strands is at the head of `core`'s store buffer.
    fn join_strands(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A drain, for which the program of `core` waits, is at the head of its store buffer.
    fn drain(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A core requests a line that is in the shared cache.
    fn remote(&mut self, hw: &mut Hw<Self::Message>, request: &Request) -> Gate {
        Gate::Go
    }

    /// A core requests a line that is not in the shared cache: memory will be read.
    fn miss(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        Gate::Go
    }

    /// Whether `core` can fetch `line` ahead of the access that will need it.
    fn may_prefetch(&self, hw: &Hw<Self::Message>, core: usize, line: LineId) -> bool {
        true
    }

    /// Whether the line in `slot` can leave the shared cache at once, to make room for a prefetched
    /// line.
    fn may_displace(&self, hw: &Hw<Self::Message>, slot: Slot) -> bool {
        true
    }

    /// The copy of `line` in `way` of the requesting core's private caches is about to move to the
    /// shared cache. If the shared cache does not have the line and this is the last copy,
    /// [`evict`](Design::evict) follows.
    fn spill(
        &mut self,
        hw: &mut Hw<Self::Message>,
        who: Waiter,
        way: Way,
        line: LineId,
        now: Cycle,
    ) -> Gate {
        Gate::Go
    }

    /// The line in `slot` is about to leave the shared cache.
    fn evict(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, slot: Slot, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A write has arrived at the controller on tile `from` and takes its place in the order of the
    /// queue.
    fn arrived(&mut self, hw: &mut Hw<Self::Message>, token: Token, from: Tile, written: Written) {}

    /// A write reaches its controller. Called only if the design
    /// [sees that](Design::SEES_ARRIVALS).
    fn arriving(&mut self, hw: &mut Hw<Self::Message>, write: &Arriving, now: Cycle) -> Arrival {
        Arrival::USUAL
    }

    /// The write of the last call of [`arriving`](Design::arriving) contains bytes of a copy and
    /// will be durable at `durable`.
    fn persists(
        &mut self,
        hw: &mut Hw<Self::Message>,
        write: &Arriving,
        now: Cycle,
        durable: Cycle,
    ) {
    }

    /// Whether cores look up where objects have moved.
    fn forwards(&self) -> bool {
        false
    }

    /// Returns the destination of the object at `at`, as far as the hardware of `core` knows.
    fn look_up(&mut self, hw: &mut Hw<Self::Message>, core: usize, at: Addr) -> Lookup {
        Lookup::At(at, 0)
    }

    /// `core` has read what `walk` requested: the forwarding entry, or that the page has none.
    /// Returns the destination of the object at `at`.
    fn walked(&mut self, core: usize, at: Addr, walk: &Walk, entry: Option<Forwarding>) -> Addr {
        at
    }

    /// The registers of relocation hardware are set.
    fn set_relocation(&mut self, hw: &mut Hw<Self::Message>, registers: Option<Relocation>) {}

    /// A write is durable; its acknowledgement reaches the sender of the write at `acknowledged`, a
    /// little later than now.
    fn written(&mut self, hw: &mut Hw<Self::Message>, token: Token, acknowledged: Cycle) {}

    /// `core`'s program has returned and its store buffer is empty.
    fn exited(&mut self, hw: &mut Hw<Self::Message>, core: usize, now: Cycle) {}

    /// A message that the design sent to itself arrives.
    fn message(&mut self, hw: &mut Hw<Self::Message>, message: Self::Message, now: Cycle) {}

    /// The power fails: copies what a battery saves into the image of what is durable.
    fn save(&self, hw: &Hw<Self::Message>, image: &mut [LineData]) {}

    /// The number of persistent lines that the design uses itself, behind those of the program.
    fn own_lines(&self) -> LineId {
        0
    }

    /// The recovery by the hardware after power returns and before any program runs. It reads
    /// `image` alone: all persistent lines, the design's own included. Returns the number of stores
    /// of each core that are in the image.
    fn recover(&self, image: &mut [LineData]) -> Vec<u64> {
        Vec::new()
    }
}

/// A store about to be performed: the line, and the way of the storing core's L1 that has it. Of a
/// store of several words, and of a locked operation whose value is not known yet (its mask is
/// empty), the line is what counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub(crate) line: LineId,
    pub(crate) way: Way,
    pub(crate) word: u8,
    pub(crate) mask: u64,
    pub(crate) value: u64,
}

impl Store {
    /// Performs the store on the data of its line.
    #[inline]
    pub(crate) fn lay_over(&self, data: &mut LineData) {
        let word = &mut data[usize::from(self.word % 8)];
        *word = *word & !self.mask | self.value & self.mask;
    }
}

/// What becomes of a write that reaches its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The controller takes it.
    Taken(Late),
    /// It waits until the design lets it [come again](Hw::comes_again).
    Held,
}

impl Arrival {
    /// It is taken as usual.
    pub(crate) const USUAL: Arrival = Arrival::Taken(Late { by: 0, floor: 0 });
}
