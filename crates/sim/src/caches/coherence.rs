//! The path of a core's request for a line: the MESI directory protocol over the mesh.
//!
//! A request is followed to its end at the cycle in which it is made: state changes at once, and
//! its latency is the sum along its path, with every link, port, channel and bank booked. A line
//! whose fill is under way stays with the requester until the cycle after its arrival (other
//! requests are repeated then), so that the access for which it was fetched is always performed.
//!
//! A line in the core's second level comes back from there; its home is asked only for a write to a
//! copy without write permission. If the shared cache is a directory alone, the data of a line come
//! from a core that has it, and the last copy that leaves goes to memory.

use crate::caches::prefetching::run_ahead;
use crate::caches::private::{State, Way};
use crate::caches::shared::{NO_CORE, NO_LINE, Place, Slot};
use crate::core::Waiter;
use crate::design::Design;
use crate::engine::counters::Reason;
use crate::hw::{Gate, Hw, Request};
use crate::{Cycle, LineId};

/// A line that has been granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) way: Way,
    pub(crate) ready: Cycle,
    pub(crate) source: Reason,
}

/// Where the data come from, and when they arrive at the requester.
struct Answer {
    ready: Cycle,
    source: Reason,
    state: State,
}

/// Fetches `line` for `who`, at `now`, to read or to write.
///
/// # Errors If the line is not available now: the cycle in which to repeat the request, or a wait
/// until the design wakes `who`.
pub(crate) fn acquire<D: Design>(
    design: &mut D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    line: LineId,
    writes: bool,
    now: Cycle,
) -> Result<Fill, Gate> {
    let looked = now + hw.look_in(who.core, line);
    if let Some(fill) = promote(design, hw, who, line, writes, now)? {
        return Ok(fill);
    }
    let fill = grant(design, hw, who, line, writes, (now, looked))?;
    if !hw.prefetchers.is_empty() {
        run_ahead(design, hw, who, line, now);
    }
    Ok(fill)
}

/// Moves `line` from the requester's second level into its first, if it is there. Returns the fill,
/// if no other cache must be asked.
fn promote<D: Design>(
    design: &mut D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    line: LineId,
    writes: bool,
    now: Cycle,
) -> Result<Option<Fill>, Gate> {
    let core = who.core;
    let Some(far) = hw.private[core].find_far(line) else { return Ok(None) };
    let room = make_room(design, hw, who, line, now)?;
    hw.counters.l2_hits += 1;
    let came = now + hw.private[core].latency(far);
    let source = Reason::LoadL2;
    let mut copy = hw.private[core].take(far);
    (copy.ready, copy.source) = (came, source);
    empty(hw, core, room, now);
    hw.put(core, room.way, line, copy);
    let fill = Fill { way: room.way, ready: came, source };
    Ok((!writes || copy.state == State::Exclusive).then_some(fill))
}

/// Requests `line` from its home, after the requester's own look-up missed at `looked`.
fn grant<D: Design>(
    design: &mut D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    line: LineId,
    writes: bool,
    (now, looked): (Cycle, Cycle),
) -> Result<Fill, Gate> {
    let slot = hw.llc.find(line);
    if let Some(slot) = slot {
        if let Some((owner, way)) = hw.owner(slot) {
            let ready = hw.private[owner].copy(way).ready;
            let made = turn(hw, who, now);
            if ready >= made || hw.patience.lets_pass(who, line, made) {
                let again = ready.max(made) + 1;
                hw.patience.refused(who, line, made, again);
                return Err(Gate::At(again, Reason::LoadRemote));
            }
        }
        let gate = design.remote(hw, &Request { who, line, slot, now });
        hw.patience.answered(who, line, gate == Gate::Go);
        pass(gate)?;
    } else {
        pass(design.miss(hw, who, line, now))?;
        hw.patience.answered(who, line, true);
    }
    let present = hw.private[who.core].find_near(line);
    let room = match present {
        Some(way) => Room { way, far: None },
        None => make_room(design, hw, who, line, now)?,
    };
    if slot.is_some() {
        if present.is_none() {
            empty(hw, who.core, room, now);
        }
        return Ok(fill_from_cache(hw, who.core, line, room.way, writes, looked));
    }
    let (place, victim) = choose_victim(design, hw, who, line, now)?;
    empty(hw, who.core, room, now);
    // The victim may have left just now, with its last copy.
    if let Some(victim) = victim.filter(|victim| hw.llc.find(*victim).is_some()) {
        evict(hw, victim, now);
    }
    // A copy of a whole line needs write permission only.
    let is_fetched = !(D::RELOCATES && writes && hw.cores[who.core].buffer.overwrites(line));
    Ok(fill_from_memory(hw, who.core, line, (room.way, place, is_fetched), looked))
}

/// The cycle of this turn. A load can start later, when its address has arrived, but it invalidates
/// other copies now.
fn turn<M: Copy>(hw: &Hw<M>, who: Waiter, now: Cycle) -> Cycle {
    if who.is_program { now.min(hw.cores[who.core].clock) } else { now }
}

fn pass(gate: Gate) -> Result<(), Gate> {
    if gate == Gate::Go { Ok(()) } else { Err(gate) }
}

/// A way of the first level, and where its victim goes: a way of the second, if there is one.
#[derive(Clone, Copy)]
struct Room {
    way: Way,
    far: Option<Way>,
}

/// Picks an L1 way of the requester for `line`; the evictions that it needs are permitted at `now`.
fn make_room<D: Design>(
    design: &mut D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    line: LineId,
    now: Cycle,
) -> Result<Room, Gate> {
    let best = hw.private[who.core].victim(line);
    if best.1 == NO_LINE {
        return Ok(Room { way: best.0, far: None });
    }
    if hw.config.l2.is_none() {
        let mut may = |hw: &mut _, victim| may_spill(design, hw, who, victim, now);
        let way = match may(hw, best) {
            Ok(way) => way,
            Err(first) => {
                let others = hw.private[who.core].victims(line);
                first_that_may(&others[1..], first, |victim| may(hw, victim))?
            }
        };
        return Ok(Room { way, far: None });
    }
    let come = |victim: (Way, LineId)| pass(has_come(hw, who, victim.0, now)).map(|()| victim);
    let (way, victim) = match come(best) {
        Ok(best) => best,
        Err(first) => first_that_may(&hw.private[who.core].victims(line)[1..], first, come)?,
    };
    let far = make_far_room(design, hw, who, line, victim, now)?;
    Ok(Room { way, far: Some(far) })
}

/// Picks a way of the second level for `victim`, which leaves the first for `line`. For one victim
/// the design makes at most one line free: the oldest.
fn make_far_room<D: Design>(
    design: &mut D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    line: LineId,
    victim: LineId,
    now: Cycle,
) -> Result<Way, Gate> {
    let caches = &hw.private[who.core];
    let is_exchange = |far: &Way| caches.is_place_of(*far, victim);
    if let Some(far) = caches.find_far(line).filter(is_exchange) {
        return Ok(far);
    }
    let (best, below) = caches.far_victim(victim);
    if below == NO_LINE {
        return Ok(best);
    }
    let asked = is_free(design, hw, who.core, below)
        .then(|| may_spill(design, hw, who, (best, below), now));
    if let Some(Ok(far)) = asked {
        return Ok(far);
    }
    let victims = hw.private[who.core].far_victims(victim);
    let others = victims.into_iter().filter(|(way, _)| asked.is_none() || *way != best);
    let (mut others, held): (Vec<_>, Vec<_>) =
        others.partition(|(_, line)| is_free(design, hw, who.core, *line));
    others.extend(held.first());
    let mut may = |victim| may_spill(design, hw, who, victim, now);
    match asked {
        Some(Err(first)) => first_that_may(&others, first, may),
        _ => may(others[0]).or_else(|first| first_that_may(&others[1..], first, may)),
    }
}

/// Whether `line` can leave the machine at once when `core` loses its copy.
fn is_free<D: Design>(design: &D, hw: &Hw<D::Message>, core: usize, line: LineId) -> bool {
    !hw.is_last_copy(core, line) || design.may_displace(hw, line)
}

/// The first evictable victim; otherwise the earliest retry, or a wait until the design wakes the
/// requester.
fn first_that_may<T>(
    victims: &[(Way, LineId)],
    first: Gate,
    mut may: impl FnMut((Way, LineId)) -> Result<T, Gate>,
) -> Result<T, Gate> {
    let mut refused = first;
    for victim in victims {
        match (may(*victim), refused) {
            (Ok(room), _) => return Ok(room),
            (Err(Gate::At(at, reason)), Gate::At(before, _)) if at < before => {
                refused = Gate::At(at, reason);
            }
            (Err(gate @ Gate::Wait(_)), Gate::At(..)) => refused = gate,
            _ => {}
        }
    }
    Err(refused)
}

/// A copy whose fill is under way cannot leave.
fn has_come<M: Copy>(hw: &Hw<M>, who: Waiter, way: Way, now: Cycle) -> Gate {
    let ready = hw.private[who.core].copy(way).ready;
    if ready > turn(hw, who, now) { Gate::At(ready, Reason::LoadMemory) } else { Gate::Go }
}

/// Whether the copy of `line` in `way` can leave the requester's private caches.
fn may_spill<D: Design>(
    design: &mut D,
    hw: &mut Hw<D::Message>,
    who: Waiter,
    (way, line): (Way, LineId),
    now: Cycle,
) -> Result<Way, Gate> {
    pass(has_come(hw, who, way, now))?;
    pass(design.spill(hw, who, way, line, now))?;
    if hw.is_last_copy(who.core, line) {
        pass(design.evict(hw, who, line, now))?;
    }
    Ok(way)
}

/// Empties a way of the first level.
fn empty<M: Copy>(hw: &mut Hw<M>, core: usize, room: Room, now: Cycle) {
    if hw.private[core].line(room.way) == NO_LINE {
        return;
    }
    match room.far {
        None => spill(hw, core, room.way, now),
        Some(far) => {
            spill(hw, core, far, now);
            let line = hw.private[core].line(room.way);
            let copy = hw.private[core].take(room.way);
            hw.put(core, far, line, copy);
        }
    }
}

/// Evicts a copy from the private caches: dirty data go to the shared cache, and the directory
/// removes the sharer.
fn spill<M: Copy>(hw: &mut Hw<M>, core: usize, way: Way, now: Cycle) {
    let line = hw.private[core].line(way);
    if line == NO_LINE {
        return;
    }
    let is_last = hw.is_last_copy(core, line);
    if hw.private[core].copy(way).is_dirty() || is_last && hw.llc.entry(line).dirty {
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
    if is_last {
        hw.leave(line, now);
    }
}

/// Picks a place in the shared cache for `line`, and the line that must leave it.
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

/// Evicts a line from the shared cache: copies are recalled, dirty data go to memory.
pub(crate) fn evict<M: Copy>(hw: &mut Hw<M>, slot: Slot, now: Cycle) {
    hw.recall(slot, now);
    hw.leave(slot, now);
}

fn fill_from_memory<M: Copy>(
    hw: &mut Hw<M>,
    core: usize,
    line: LineId,
    (way, place, is_fetched): (Way, Place, bool),
    looked: Cycle,
) -> Fill {
    hw.counters.l1_misses += 1;
    hw.counters.llc_misses += 1;
    let (bank, home) = (hw.llc.bank(line), hw.home_tile(line));
    let asked = hw.mesh.control(core, home, looked);
    let missed = hw.look_up(bank, asked);
    let (at_bank, ready) = if is_fetched {
        let controller = hw.memory_tile(line);
        let asked = hw.mesh.control(home, controller, missed);
        let read = hw.memory.read(line, asked);
        let at_bank = hw.mesh.data(controller, home, read);
        (at_bank, hw.mesh.data(home, core, at_bank))
    } else {
        (missed, hw.mesh.control(home, core, missed))
    };
    hw.llc.fill(place, line, at_bank);
    hw.own(core, way, line);
    let source = Reason::LoadMemory;
    hw.private[core].fill(way, line, State::Exclusive, (ready, source));
    Fill { way, ready, source }
}

fn fill_from_cache<M: Copy>(
    hw: &mut Hw<M>,
    core: usize,
    line: LineId,
    way: Way,
    writes: bool,
    looked: Cycle,
) -> Fill {
    let slot = line;
    hw.counters.l1_misses += 1;
    hw.llc.touch(slot);
    let (bank, home) = (hw.llc.bank(line), hw.home_tile(line));
    let asked = hw.mesh.control(core, home, looked);
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
    hw.private[core].fill(way, line, answer.state, (answer.ready, answer.source));
    Fill { way, ready: answer.ready, source: answer.source }
}

/// The core with write permission sends the data; its dirty data go to the bank as well, if the
/// bank holds data.
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
    let sent = asked + hw.private[owner].latency(way);
    let ready = hw.mesh.data(owner, core, sent);
    if hw.private[owner].copy(way).is_dirty() {
        if !hw.config.llc.directory_only {
            hw.mesh.data(owner, home, sent);
        }
        hw.clean(owner, way, slot);
    }
    let state = if writes {
        hw.invalidate(owner, slot, way, asked);
        hw.llc.entry_mut(slot).sharers = 0;
        State::Exclusive
    } else {
        hw.private[owner].copy_mut(way).state = State::Shared;
        State::Shared
    };
    hw.llc.entry_mut(slot).owner = NO_CORE;
    Answer { ready, source: Reason::LoadRemote, state }
}

/// The core with the lowest number among `cores`.
fn lowest(cores: u64) -> Option<usize> {
    (cores != 0).then_some(cores.trailing_zeros() as usize)
}

/// The bank, or a core that shares the line, has the newest data; for a write, other copies are
/// invalidated and acknowledge it.
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
    let (mut ready, source) = match lowest(sharers & !(1 << core)) {
        _ if has_copy => (hw.mesh.control(home, core, found), Reason::LoadLlc),
        Some(other) if hw.config.llc.directory_only => {
            hw.counters.cache_to_cache += 1;
            let asked = hw.mesh.control(home, other, found);
            let sent = (asked + hw.look_in(other, slot)).max(hw.came(other, slot));
            (hw.mesh.data(other, core, sent), Reason::LoadRemote)
        }
        _ => (hw.mesh.data(home, core, found), Reason::LoadLlc),
    };
    if !writes {
        let state = if sharers == 0 { State::Exclusive } else { State::Shared };
        return Answer { ready, source, state };
    }
    let mut others = sharers & !(1 << core);
    while let Some(other) = lowest(others) {
        others &= others - 1;
        let told = hw.mesh.control(home, other, found);
        let way = hw.private[other].find(slot).expect("directory is exact");
        hw.invalidate(other, slot, way, told);
        ready = ready.max(hw.mesh.control(other, core, told + 1));
    }
    Answer { ready, source, state: State::Exclusive }
}
