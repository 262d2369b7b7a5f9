//! The way of a flushed line to memory, as `clwb` and the designs of users share it.

use super::{Hw, Token};
use crate::Cycle;
use crate::caches::shared::Slot;

impl<M: Copy> Hw<M> {
    /// Sends the line in `slot` to memory for `core`, from the cache where it is dirty. Returns
    /// whether it is dirty anywhere, in which case `core` receives the acknowledgement, and when
    /// the flush has reached the line's bank.
    pub(crate) fn flush(&mut self, core: usize, slot: Slot, now: Cycle) -> (bool, Cycle) {
        let (bank, home) = (self.llc.bank(slot), self.home_tile(slot));
        let asked = now + self.look_in(core, slot);
        let at_bank = match self.owner(slot) {
            Some((owner, way)) if self.private[owner].copy(way).is_dirty() => {
                self.clean(owner, way, slot);
                if owner == core {
                    self.mesh.data(owner, home, asked)
                } else {
                    let snooped = self.mesh.control(core, home, asked);
                    let snooped = self.mesh.control(home, owner, snooped);
                    self.mesh.data(owner, home, snooped + self.private[owner].latency(way))
                }
            }
            None if self.config.llc.directory_only && self.llc.entry(slot).dirty => {
                self.send_shared(core, slot, asked)
            }
            _ => self.mesh.control(core, home, asked),
        };
        let is_dirty = self.llc.entry(slot).dirty;
        if is_dirty {
            self.counters.flushes += 1;
            let found = self.look_up(bank, at_bank);
            self.write_back(slot, home, found, Token::of(core, bank));
        }
        (is_dirty, at_bank)
    }

    /// Several cores share the line in `slot`, which one of them wrote: one sends it to its home,
    /// which holds no data.
    fn send_shared(&mut self, core: usize, slot: Slot, asked: Cycle) -> Cycle {
        let (home, sharers) = (self.home_tile(slot), self.llc.entry(slot).sharers);
        if sharers >> core & 1 == 1 {
            return self.mesh.data(core, home, asked);
        }
        let other = sharers.trailing_zeros() as usize;
        let snooped = self.mesh.control(core, home, asked);
        let snooped = self.mesh.control(home, other, snooped);
        self.mesh.data(other, home, snooped + self.look_in(other, slot))
    }
}
