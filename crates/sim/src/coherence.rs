//! What happens when a core wants a line: the MESI directory protocol over the mesh.
//!
//! A request is followed to its end at the cycle in which it is made: state changes at once, and
//! the time it takes is the sum of its path, with every link, port, channel and bank booked. A
//! line whose fill is under way stays with the core that asked until the cycle after it has come
//! (others ask again then), so that the access it was fetched for is always done.

use crate::cache::{NO_CORE, NO_LINE, Place, Slot, State, Way};
use crate::counters::Reason;
use crate::designs::Design;
use crate::hw::{Gate, Hw, Request, Waiter};
use crate::streamer::run_ahead;
use crate::{Cycle, LineId};

/// A line that has been granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) way: Way,
    pub(crate) ready: Cycle,
    pub(crate) source: Reason,
}

/// Where data comes from and when it is at the requester.
struct Answer {
    ready: Cycle,
    source: Reason,
    state: State,
}

/// Fetches `line` for `who`, at `now`, to read or to write.
///
/// # Errors
/// When it cannot be had now: with the cycle to ask again, or waiting for the design to wake `who`.
pub(crate) fn acquire<D: Design>(
    design: &mut D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    line: LineId,
    writes: bool,
    now: Cycle,
) -> Result<Fill, Gate> {
    let fill = grant(design, hw, who, line, writes, now)?;
    if !hw.streamers.is_empty() {
        run_ahead(design, hw, who, line, now);
    }
    Ok(fill)
}

fn grant<D: Design>(
    design: &mut D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    line: LineId,
    writes: bool,
    now: Cycle,
) -> Result<Fill, Gate> {
    let slot = hw.llc.find(line);
    if let Some(slot) = slot {
        if let Some((owner, way)) = hw.owner(slot) {
            let ready = hw.l1[owner].copy(way).ready;
            if ready >= turn(hw, who, now) {
                return Err(Gate::At(ready + 1, Reason::LoadRemote));
            }
        }
        pass(design.remote(hw, &Request { who, line, slot, now }))?;
    } else {
        pass(design.miss(hw, who, line, now))?;
    }
    let present = hw.l1[who.core].find(line);
    let way = match present {
        Some(way) => way,
        None => make_room(design, hw, who, line, now)?,
    };
    if slot.is_some() {
        if present.is_none() {
            spill(hw, who.core, way, now);
        }
        return Ok(fill_from_cache(hw, who.core, line, way, writes, now));
    }
    let (place, victim) = choose_victim(design, hw, who, line, now)?;
    spill(hw, who.core, way, now);
    if let Some(victim) = victim {
        evict(hw, victim, now);
    }
    Ok(fill_from_memory(hw, who.core, line, way, place, now))
}

/// The cycle whose turn this is. A load may start later, when its address has come, but what it
/// takes away it takes now.
fn turn<M: Copy>(hw: &Hw<M>, who: Waiter, now: Cycle) -> Cycle {
    if who.is_program { now.min(hw.cores[who.core].clock) } else { now }
}

fn pass(gate: Gate) -> Result<(), Gate> {
    if gate == Gate::Go { Ok(()) } else { Err(gate) }
}

/// A way of `core`'s L1 that `line` may go into; what is in it may be spilled now.
fn make_room<D: Design>(
    design: &mut D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    line: LineId,
    now: Cycle,
) -> Result<Way, Gate> {
    let core = who.core;
    let (way, victim) = hw.l1[core].victim(line);
    if victim == NO_LINE {
        return Ok(way);
    }
    let first = may_spill(design, hw, who, way, victim, now);
    if first == Gate::Go {
        return Ok(way);
    }
    let mut refused = first;
    for (way, victim) in hw.l1[core].victims(line).skip(1) {
        match (may_spill(design, hw, who, way, victim, now), refused) {
            (Gate::Go, _) => return Ok(way),
            (Gate::At(at, reason), Gate::At(before, _)) if at < before => {
                refused = Gate::At(at, reason);
            }
            (gate @ Gate::Wait(_), Gate::At(..)) => refused = gate,
            _ => {}
        }
    }
    Err(refused)
}

/// May the copy in `way` leave the L1 of who asks?
fn may_spill<D: Design>(
    design: &mut D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    way: Way,
    line: LineId,
    now: Cycle,
) -> Gate {
    let ready = hw.l1[who.core].copy(way).ready;
    if ready > turn(hw, who, now) {
        return Gate::At(ready, Reason::LoadMemory);
    }
    design.spill(hw, who, way, line, now)
}

/// Empties a way: dirty data goes to the shared cache, the directory forgets the copy.
fn spill<M: Copy>(hw: &mut Hw<M>, core: usize, way: Way, now: Cycle) {
    let line = hw.l1[core].line(way);
    if line == NO_LINE {
        return;
    }
    if hw.l1[core].copy(way).is_dirty() {
        let tile = hw.home_tile(line);
        hw.mesh.data(core, tile, now);
        hw.clean(core, way, line);
    }
    let entry = hw.llc.entry_mut(line);
    entry.sharers &= !(1 << core);
    if usize::from(entry.owner) == core {
        entry.owner = NO_CORE;
    }
    hw.invalidate(core, line, way, now);
}

/// A place in the shared cache that `line` may go into, and the line that has to leave it.
fn choose_victim<D: Design>(
    design: &mut D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    line: LineId,
    now: Cycle,
) -> Result<(Place, Option<Slot>), Gate> {
    let (place, victim) = hw.llc.victim(line);
    let Some(slot) = victim else { return Ok((place, None)) };
    if let Some(ready) = hw.still_coming(slot, turn(hw, who, now)) {
        return Err(Gate::At(ready + 1, Reason::LoadMemory));
    }
    pass(design.evict(hw, who, slot, now))?;
    Ok((place, Some(slot)))
}

/// Takes a line out of the shared cache: copies are recalled, dirty data goes to memory.
pub(crate) fn evict<M: Copy>(hw: &mut Hw<M>, slot: Slot, now: Cycle) {
    hw.recall(slot, now);
    hw.leave(slot, now);
}

fn fill_from_memory<M: Copy>(
    hw: &mut Hw<M>,
    core: usize,
    line: LineId,
    way: Way,
    place: Place,
    now: Cycle,
) -> Fill {
    hw.counters.l1_misses += 1;
    hw.counters.llc_misses += 1;
    let (bank, home) = (hw.llc.bank(line), hw.home_tile(line));
    let asked = hw.mesh.control(core, home, now + hw.config.l1.latency);
    let missed = hw.look_up(bank, asked);
    let controller = hw.memory_tile(line);
    let asked = hw.mesh.control(home, controller, missed);
    let read = hw.memory.read(line, asked);
    let at_bank = hw.mesh.data(controller, home, read);
    let ready = hw.mesh.data(home, core, at_bank);
    hw.llc.fill(place, line, at_bank);
    hw.own(core, way, line);
    let source = Reason::LoadMemory;
    hw.l1[core].fill(way, line, State::Exclusive, (ready, source));
    Fill { way, ready, source }
}

fn fill_from_cache<M: Copy>(
    hw: &mut Hw<M>,
    core: usize,
    line: LineId,
    way: Way,
    writes: bool,
    now: Cycle,
) -> Fill {
    let slot = line;
    hw.counters.l1_misses += 1;
    hw.llc.touch(slot);
    let (bank, home) = (hw.llc.bank(line), hw.home_tile(line));
    let asked = hw.mesh.control(core, home, now + hw.config.l1.latency);
    let found = hw.look_up(bank, asked).max(hw.llc.entry(slot).ready);
    let answer = match hw.owner(slot) {
        Some(owner) => forward(hw, core, owner, slot, writes, found),
        None => from_bank(hw, core, slot, writes, found),
    };
    if answer.state == State::Exclusive {
        hw.own(core, way, slot);
    } else {
        hw.llc.entry_mut(slot).sharers |= 1 << core;
    }
    hw.l1[core].fill(way, line, answer.state, (answer.ready, answer.source));
    Fill { way, ready: answer.ready, source: answer.source }
}

/// Another core may write the line: it sends the data, and its dirty data to the bank as well.
fn forward<M: Copy>(
    hw: &mut Hw<M>,
    core: usize,
    (owner, way): (usize, Way),
    slot: Slot,
    writes: bool,
    found: Cycle,
) -> Answer {
    hw.counters.cache_to_cache += 1;
    let home = hw.home_tile(slot);
    let asked = hw.mesh.control(home, owner, found);
    let sent = asked + hw.config.l1.latency;
    let ready = hw.mesh.data(owner, core, sent);
    if hw.l1[owner].copy(way).is_dirty() {
        hw.mesh.data(owner, home, sent);
        hw.clean(owner, way, slot);
    }
    let state = if writes {
        hw.invalidate(owner, slot, way, asked);
        hw.llc.entry_mut(slot).sharers = 0;
        State::Exclusive
    } else {
        hw.l1[owner].copy_mut(way).state = State::Shared;
        State::Shared
    };
    hw.llc.entry_mut(slot).owner = NO_CORE;
    Answer { ready, source: Reason::LoadRemote, state }
}

/// The bank has the newest data; to write, other copies are invalidated and acknowledge.
fn from_bank<M: Copy>(
    hw: &mut Hw<M>,
    core: usize,
    slot: Slot,
    writes: bool,
    found: Cycle,
) -> Answer {
    let home = hw.home_tile(slot);
    let sharers = hw.llc.entry(slot).sharers;
    let has_copy = sharers >> core & 1 == 1;
    let mut ready =
        if has_copy { hw.mesh.control(home, core, found) } else { hw.mesh.data(home, core, found) };
    let source = Reason::LoadLlc;
    if !writes {
        let state = if sharers == 0 { State::Exclusive } else { State::Shared };
        return Answer { ready, source, state };
    }
    let mut others = sharers & !(1 << core);
    while others != 0 {
        let other = others.trailing_zeros() as usize;
        others &= others - 1;
        let told = hw.mesh.control(home, other, found);
        let way = hw.l1[other].find(slot).expect("directory is exact");
        hw.invalidate(other, slot, way, told);
        ready = ready.max(hw.mesh.control(other, core, told + 1));
    }
    Answer { ready, source, state: State::Exclusive }
}
