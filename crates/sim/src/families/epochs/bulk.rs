//! Buffered strict persistency in bulk mode: epochs made by hardware, and an undo log.
//!
//! MICRO'15, section 5.2: hardware closes an epoch after a number of stores, and writes the state
//! of the processor to memory with it; before the first write of a line in an epoch its old value
//! goes to the log. A store waits for none of this. The order is: the old lines of a record are
//! durable before its header is written; all headers of an epoch are durable before its lines are
//! written in place; these and the state are durable before the epoch is named durable ([`names`]).
//! Records follow ATOM (HPCA'17): see [`own`].
//!
//! A core collects old lines in a record buffer; its few buffers bound the number of records on
//! their way. The log is a ring; a named epoch frees its records. When the ring is full, the open
//! epoch is closed, and the store waits until the oldest epoch is named.
//!
//! An epoch on which another thread depends is split after the last store that has taken effect,
//! because hardware places epochs without regard to the program; the saved state is that at this
//! store.

use super::names::{Names, Pending, UNNAMED_MAX};
use super::own::{Header, Layout, state_line};
use super::{EpochFlaw, Epochs, Mark, Message, Version};
use crate::core::Waiter;
use crate::design::Store;
use crate::engine::counters::Reason;
use crate::hw::{Event, Gate, Hw, Token};
use crate::{Cycle, Epoch, LineId};

/// The kinds of acknowledgements, numbered above the banks, with a slot in the low bits.
const OLD_LINE: u8 = 64;
const HEADER: u8 = 128;
const STATE: u8 = 192;
const SLOTS: u8 = 64;
/// How much later a state leaves its core, or names their register, where that is planted.
pub(super) const SLOW: Cycle = 2_000;

/// Sizes of the mechanism.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkConfig {
    /// The number of stores of an epoch.
    pub(crate) stores: u64,
    /// Whether old lines are logged.
    pub(crate) log: bool,
    /// The number of records in the log of a core.
    pub(crate) records: u32,
    /// The number of records of a core that can be on their way to memory.
    pub(crate) buffers: u32,
    /// The number of lines of a processor's state.
    pub(crate) state_lines: u32,
}

/// The mechanism of all cores.
pub(super) struct Bulk {
    config: BulkConfig,
    pub(super) layout: Layout,
    pub(super) names: Names,
    cores: Vec<CoreLog>,
}

/// A record on its way.
#[derive(Clone, Default)]
struct Buffer {
    is_used: bool,
    /// Whether no more lines will be added.
    is_closed: bool,
    number: u64,
    header: Header,
    /// The number of old lines without an acknowledgement.
    unacknowledged: u32,
}

/// The mechanism of one core.
#[derive(Clone)]
struct CoreLog {
    /// The number of stores that have taken effect, and of those in the open epoch.
    stores: u64,
    in_epoch: u64,
    buffers: Vec<Buffer>,
    filling: Option<usize>,
    /// The number of the next record, and of the oldest that may still be needed.
    next: u64,
    oldest: u64,
    /// By epoch in flight: the records and the state lines that are not durable, and the record
    /// behind its last one.
    unsettled: Vec<u32>,
    unsaved: Vec<u32>,
    ends: Vec<u64>,
    /// The epoch whose lines are durable, and whose state is not.
    flushed: Option<Epoch>,
    unnamed: Pending,
    /// Stores that wait for a buffer.
    waiting: Vec<Waiter>,
}

impl Bulk {
    pub(super) fn new(config: BulkConfig, cores: usize, in_flight: u32, first: LineId) -> Bulk {
        let BulkConfig { records, state_lines, buffers, .. } = config;
        let records = if config.log { records } else { 0 };
        let states = in_flight + UNNAMED_MAX + 1;
        let core = CoreLog {
            stores: 0,
            in_epoch: 0,
            buffers: vec![Buffer::default(); buffers as usize],
            filling: None,
            next: 0,
            oldest: 0,
            unsettled: vec![0; in_flight as usize],
            unsaved: vec![0; in_flight as usize],
            ends: vec![0; in_flight as usize],
            flushed: None,
            unnamed: Pending::new(),
            waiting: Vec::new(),
        };
        let layout = Layout { cores: cores as LineId, first, records, state_lines, states };
        let names = Names::new(layout.names(), cores);
        Bulk { config, layout, names, cores: (0..cores).map(|_| core.clone()).collect() }
    }

    /// The kind of acknowledgements that no bank gets.
    pub(super) const OWN: u8 = OLD_LINE;

    /// True if everything that must be durable before the epoch's lines is durable.
    pub(super) fn is_settled(&self, core: usize, epoch: Epoch) -> bool {
        let log = &self.cores[core];
        log.unsettled[epoch as usize % log.unsettled.len()] == 0
    }

    /// The epochs of a core that are done and not named.
    pub(super) fn pending(&self, core: usize) -> &Pending {
        &self.cores[core].unnamed
    }

    pub(super) fn pending_mut(&mut self, core: usize) -> &mut Pending {
        &mut self.cores[core].unnamed
    }

    /// The record behind the last one of an epoch in flight.
    pub(super) fn end_of(&self, core: usize, epoch: Epoch) -> u64 {
        let log = &self.cores[core];
        log.ends[log.slot(epoch)]
    }

    /// `stores` of `core` have taken effect.
    pub(super) fn stored(&mut self, core: usize, stores: u64) {
        self.cores[core].stores += stores;
        self.cores[core].in_epoch += stores;
    }
}

impl CoreLog {
    fn slot(&self, epoch: Epoch) -> usize {
        epoch as usize % self.ends.len()
    }

    /// The buffer to fill; opens a free one if the ring of `records` has a place.
    fn buffer(&mut self, epoch: Epoch, records: u32) -> Option<usize> {
        if self.filling.is_none() && self.next - self.oldest < records.into() {
            let free = self.buffers.iter().position(|buffer| !buffer.is_used)?;
            let (number, header) = (self.next, Header::new(epoch));
            self.buffers[free] = Buffer { is_used: true, number, header, ..Buffer::default() };
            self.next += 1;
            let slot = self.slot(epoch);
            self.unsettled[slot] += 1;
            self.filling = Some(free);
        }
        self.filling
    }
}

impl Epochs {
    /// Turns the design into one with epochs made by hardware.
    pub(crate) fn in_bulk(mut self, config: BulkConfig) -> Epochs {
        let in_flight = self.config.in_flight;
        self.bulk = Some(Bulk::new(config, self.cores.len(), in_flight, self.program_lines));
        self
    }

    /// Before a store: closes the requester's epoch if it has its number of stores.
    pub(super) fn close_if_full(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        let Some(bulk) = &self.bulk else { return Gate::Go };
        if bulk.cores[who.core].in_epoch < bulk.config.stores {
            return Gate::Go;
        }
        self.close(hw, who, now)
    }

    /// The version that the shared cache has of a line, if the line must be logged before `core`
    /// writes it in its open epoch.
    fn to_log(&self, hw: &Hw<Message>, core: usize, line: LineId) -> Option<Option<Version>> {
        self.bulk.as_ref().filter(|bulk| bulk.config.log)?;
        let prior = match self.config.flaw {
            EpochFlaw::TrustsUnnamed => self.live_in_bank(hw, line),
            _ => self.unnamed_in_bank(hw, line),
        };
        let is_logged = prior == Some(Version { core, epoch: self.cores[core].current });
        let is_left_out = prior.is_some() && self.config.flaw == EpochFlaw::LogsOnce;
        (!is_logged && !is_left_out).then_some(prior)
    }

    /// Waits until the old value of a line can be logged, if it must be.
    pub(super) fn has_room_to_log(
        &mut self,
        hw: &mut Hw<Message>,
        who: Waiter,
        line: LineId,
        now: Cycle,
    ) -> Gate {
        if self.to_log(hw, who.core, line).is_none() {
            return Gate::Go;
        }
        let epoch = self.cores[who.core].current;
        let bulk = self.bulk.as_mut().expect("it has a log");
        match bulk.cores[who.core].buffer(epoch, bulk.config.records) {
            Some(_) => Gate::Go,
            None => self.wait_for_log(hw, who, now),
        }
    }

    /// Before the first write of a line in an epoch: writes its old value to the log.
    pub(super) fn log_old(&mut self, hw: &mut Hw<Message>, core: usize, at: Store, now: Cycle) {
        let Some(prior) = self.to_log(hw, core, at.line) else { return };
        let bulk = self.bulk.as_mut().expect("it has a log");
        let slot = bulk.cores[core].filling.expect("there is room");
        let buffer = &mut bulk.cores[core].buffers[slot];
        buffer.header.push(at.line, prior.map(|version| (version.core, version.epoch)));
        buffer.unacknowledged += 1;
        let place = bulk.layout.record(core, buffer.number) + buffer.header.entries as LineId;
        let is_full = buffer.header.is_full();
        let old = *hw.data(core, at.way, at.line);
        let sent = now + hw.config.l1.latency;
        let token = Token { core: core as u8, bank: OLD_LINE + slot as u8 };
        hw.write_own(place, &old, core, sent, token);
        hw.counters.log_lines += 1;
        if is_full {
            self.close_record(hw, core, now);
        }
    }

    /// No buffer is free: waits for one or, if the ring is full, for the oldest epoch.
    fn wait_for_log(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        let core = who.core;
        let bulk = self.bulk.as_mut().expect("a log");
        let log = &mut bulk.cores[core];
        if log.next - log.oldest < bulk.config.records.into() {
            log.waiting.push(who);
            return Gate::Wait(Reason::Log);
        }
        let oldest = self.cores[core].named + 1;
        let is_alone = oldest == self.cores[core].current;
        if is_alone {
            hw.counters.log_overflows += 1;
            let gate = self.close(hw, who, now);
            debug_assert_eq!(gate, Gate::Go, "two epochs may be in flight");
        }
        let version = Version { core, epoch: oldest };
        self.ask_and_wait_for(hw, (who, Mark::Named), version, 0, now, Reason::Log)
    }

    fn close_record(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let bulk = self.bulk.as_mut().expect("a log");
        if let Some(slot) = bulk.cores[core].filling.take() {
            let buffer = &mut bulk.cores[core].buffers[slot];
            buffer.is_closed = true;
            if self.config.flaw == EpochFlaw::SendsHeadersEarly {
                let place = bulk.layout.record(core, buffer.number);
                hw.write_own(place, &buffer.header.to_line(), core, now, Token::NONE);
            }
            self.send_header(hw, core, slot, now);
        }
    }

    /// Sends the header of a closed record whose old lines are durable.
    fn send_header(&mut self, hw: &mut Hw<Message>, core: usize, slot: usize, now: Cycle) {
        let bulk = self.bulk.as_ref().expect("a log");
        let buffer = &bulk.cores[core].buffers[slot];
        if buffer.is_closed && buffer.unacknowledged == 0 {
            let place = bulk.layout.record(core, buffer.number);
            let token = Token { core: core as u8, bank: HEADER + slot as u8 };
            hw.write_own(place, &buffer.header.to_line(), core, now, token);
            hw.counters.log_records += 1;
        }
    }

    /// `core` has closed `epoch`: its last record and the state of its processor go to memory.
    pub(super) fn save_state(
        &mut self,
        hw: &mut Hw<Message>,
        core: usize,
        epoch: Epoch,
        now: Cycle,
    ) {
        if self.bulk.is_none() {
            return;
        }
        self.close_record(hw, core, now);
        let bulk = self.bulk.as_mut().expect("just seen");
        let state_lines = bulk.config.state_lines;
        let log = &mut bulk.cores[core];
        let slot = log.slot(epoch);
        log.ends[slot] = log.next;
        if self.config.flaw == EpochFlaw::TruncatesEarly {
            log.oldest = log.next;
        }
        log.unsaved[slot] = state_lines;
        log.in_epoch = 0;
        let first = bulk.layout.state(core, epoch);
        let late = u64::from(self.config.flaw == EpochFlaw::SavesStatesLate);
        let state = state_line(epoch, log.stores + late);
        let is_slow = self.config.flaw == EpochFlaw::NamesBeforeState;
        let sent = if is_slow { now + SLOW } else { now };
        for number in 0..state_lines {
            let token = Token { core: core as u8, bank: STATE + slot as u8 };
            hw.write_own(first + number, &state, core, sent + u64::from(number), token);
        }
        hw.counters.state_lines += u64::from(state_lines);
    }

    /// The lines of `epoch` are durable: reports the epoch, once its state is.
    pub(super) fn lines_durable(
        &mut self,
        hw: &mut Hw<Message>,
        core: usize,
        epoch: Epoch,
        now: Cycle,
    ) {
        let log = &mut self.bulk.as_mut().expect("in bulk mode").cores[core];
        let is_saved = log.unsaved[log.slot(epoch)] == 0;
        if is_saved || self.config.flaw == EpochFlaw::NamesBeforeState {
            return self.report(hw, core, epoch, now);
        }
        log.flushed = Some(epoch);
    }

    /// The records of `core` before `end` can be overwritten.
    pub(super) fn truncate(&mut self, hw: &mut Hw<Message>, core: usize, end: u64, now: Cycle) {
        let log = &mut self.bulk.as_mut().expect("in bulk mode").cores[core];
        log.oldest = log.oldest.max(end);
        log.waiting.drain(..).for_each(|who| hw.wake(who, now));
    }

    /// The write of `token` is durable; its core learns of it at `acknowledged`.
    pub(super) fn acknowledge(hw: &mut Hw<Message>, token: Token, acknowledged: Cycle) {
        let message = Message::Settled { core: token.core, what: token.bank };
        hw.queue.event(acknowledged, Event::Design(message));
    }

    /// True for an acknowledgement that is not meant for a bank.
    pub(super) fn is_own(token: Token) -> bool {
        token.bank >= OLD_LINE
    }

    pub(super) fn settled(&mut self, hw: &mut Hw<Message>, core: usize, what: u8, now: Cycle) {
        let slot = usize::from(what % SLOTS);
        let bulk = self.bulk.as_mut().expect("in bulk mode");
        let log = &mut bulk.cores[core];
        match what - what % SLOTS {
            OLD_LINE => {
                log.buffers[slot].unacknowledged -= 1;
                self.send_header(hw, core, slot, now);
            }
            HEADER => {
                log.buffers[slot].is_used = false;
                log.waiting.drain(..).for_each(|who| hw.wake(who, now));
                let epoch = log.slot(log.buffers[slot].header.epoch);
                log.unsettled[epoch] -= 1;
                self.start_flush(hw, core, now);
            }
            _ => {
                log.unsaved[slot] -= 1;
                let is_saved = log.unsaved[slot] == 0;
                if let Some(epoch) =
                    log.flushed.filter(|epoch| is_saved && log.slot(*epoch) == slot)
                {
                    log.flushed = None;
                    self.report(hw, core, epoch, now);
                }
            }
        }
    }
}
