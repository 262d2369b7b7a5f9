//! Prefetches of the [stream prefetcher](super::stream_prefetcher) as fills of the shared cache.

use crate::caches::coherence::evict;
use crate::core::Waiter;
use crate::design::Design;
use crate::hw::Hw;
use crate::{Cycle, LineId};

/// Prefetches ahead of `line`, which `who` received at `now`.
pub(crate) fn run_ahead<D: Design>(
    design: &D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    line: LineId,
    now: Cycle,
) {
    for ahead in hw.prefetchers[who.core].asked(line) {
        let is_there = !hw.lines.has(ahead) || hw.llc.find(ahead).is_some();
        if !is_there && design.may_prefetch(hw, who.core, ahead) {
            fetch(design, hw, who.core, ahead, now);
        }
    }
}

/// Fetches an absent line into the shared cache, if a place is free or can be freed.
fn fetch<D: Design>(design: &D, hw: &mut Hw<D::Message>, core: usize, line: LineId, now: Cycle) {
    let (place, victim) = hw.llc.victim(line);
    if let Some(slot) = victim {
        if hw.still_coming(slot, hw.queue.now()).is_some() || !design.may_displace(hw, slot) {
            return;
        }
        evict(hw, slot, now);
    }
    hw.counters.prefetched_lines += 1;
    let (bank, home) = (hw.llc.bank(line), hw.home_tile(line));
    let asked = hw.mesh.control(core, home, now + hw.private[core].miss_latency());
    let missed = hw.look_up(bank, asked);
    let controller = hw.memory_tile(line);
    let asked = hw.mesh.control(home, controller, missed);
    let read = hw.memory.read(line, asked);
    let ready = hw.mesh.data(controller, home, read);
    hw.llc.fill(place, line, ready);
}
