//! Memory controllers with their write-pending queues, and the values of memory.
//!
//! A write is visible to reads from the moment it leaves the last-level cache (the controller
//! answers from its queue), but it is durable only when it is in the cells, or under ADR when the
//! queue has accepted it. The values are stored the other way round: memory holds the newest value,
//! and each write that is not durable yet keeps the value that it replaced. So the image at any
//! cycle is memory with those writes undone, newest first, and a run without crashes pays nothing.
//!
//! Persistent lines are in the banks of a controller, or in Optane-like DIMMs with a queue each
//! ([`optane`](crate::memory::optane)), which are distributed over the controllers.

use crate::config::{DeviceConfig, Machine};
use crate::engine::calendar::Calendar;
use crate::memory::optane::{DimmTraffic, XpDimms};
use crate::memory::versions::{LineData, Values, Version};
use crate::timeline::{QueueEntry, WriteQueue};
use crate::{Cycle, LineId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A controller with its channel, banks and queue.
struct Controller {
    channel: Calendar,
    banks: Vec<Calendar>,
    /// When each entry of the write-pending queue leaves it.
    queue: Vec<Cycle>,
    /// When every persistent write that has arrived is durable.
    settled: Cycle,
    /// Persistent writes that arrive from now on start no earlier; if acceptance makes them
    /// durable, they are accepted no earlier either.
    floor: Cycle,
}

/// A write on its way to the cells.
struct Pending {
    line: LineId,
    replaced: Version,
    durable_at: Cycle,
    /// The write of the same line that was sent before, if it was not durable then.
    older: Option<u64>,
    /// Whether it carries bytes of a copy to memory: the pending bit of the queue's entry.
    has_copy: bool,
}

/// The whole memory.
pub(crate) struct Memory {
    controllers: Vec<Controller>,
    bank_mask: usize,
    /// For how long an access keeps its bank busy, if not as long as it takes.
    bank_cycles: Option<Cycle>,
    queue_entries: usize,
    line_cycles: u64,
    post: u64,
    nvm: DeviceConfig,
    dram: DeviceConfig,
    /// The DIMMs of the persistent lines, if these are not in the controllers' banks.
    dimms: Option<XpDimms>,
    pm_lines: LineId,
    adr: bool,
    pending: VecDeque<Pending>,
    dropped: u64,
    /// The number of the newest pending write of each line that has one.
    newest: FxHashMap<LineId, u64>,
    last_write: LastWrites,
}

/// When the newest write of a line is in the cells, of the lines for which that is yet to come, and
/// of some others.
#[derive(Default)]
struct LastWrites {
    done: FxHashMap<LineId, Cycle>,
    /// The number of lines from which on it is worth while to look for those that can go.
    full: usize,
}

impl LastWrites {
    const FULL: usize = 256;

    /// That of a line, which a write at `now` will change.
    fn of(&mut self, line: LineId, now: Cycle) -> &mut Cycle {
        if self.done.len() >= self.full {
            self.done.retain(|_, done| *done > now);
            self.full = (2 * self.done.len()).max(LastWrites::FULL);
        }
        self.done.entry(line).or_insert(0)
    }
}

/// How much later than usual a write is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Late {
    /// The delay in cycles from its arrival on, also while it waits for an entry of the queue.
    pub(crate) by: Cycle,
    /// The earliest cycle.
    pub(crate) floor: Cycle,
}

/// When a write was accepted by the controller, and when its line is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// When the write-pending queue accepted it.
    pub(crate) accepted: Cycle,
    /// When no crash can lose it any more.
    pub(crate) durable: Cycle,
    /// When its place in the queue is free again.
    pub(crate) left: Cycle,
}

impl Memory {
    /// A memory whose first `pm_lines` lines are persistent. With `adr` a write is durable once its
    /// controller's queue has accepted it.
    pub(crate) fn new(machine: &Machine, pm_lines: LineId, adr: bool) -> Memory {
        let config = &machine.memory;
        let controller = || Controller {
            channel: Calendar::default(),
            banks: vec![Calendar::default(); config.banks],
            queue: Vec::with_capacity(config.write_queue),
            settled: 0,
            floor: 0,
        };
        Memory {
            controllers: (0..config.controllers).map(|_| controller()).collect(),
            bank_mask: config.banks - 1,
            bank_cycles: config.bank_cycles,
            queue_entries: config.write_queue,
            line_cycles: config.line_cycles,
            post: config.post,
            nvm: config.nvm,
            dram: config.dram.unwrap_or(config.nvm),
            dimms: XpDimms::new(config),
            pm_lines,
            adr,
            pending: VecDeque::new(),
            dropped: 0,
            newest: FxHashMap::default(),
            last_write: LastWrites::default(),
        }
    }

    /// The controller of a line.
    #[inline]
    pub(crate) fn home(&self, line: LineId) -> usize {
        match &self.dimms {
            Some(dimms) if line < self.pm_lines => {
                dimms.home(line.into()) & (self.controllers.len() - 1)
            }
            _ => spread(line) as usize & (self.controllers.len() - 1),
        }
    }

    /// The traffic of the DIMMs, if there are any.
    pub(crate) fn dimm_traffic(&self) -> DimmTraffic {
        self.dimms.as_ref().map_or_else(DimmTraffic::default, XpDimms::traffic)
    }

    /// The queue in which writes of a line wait.
    pub(crate) fn write_queue(&self, line: LineId) -> WriteQueue {
        match &self.dimms {
            Some(dimms) if line < self.pm_lines => WriteQueue::Dimm(dimms.home(line.into())),
            _ => WriteQueue::Controller(self.home(line)),
        }
    }

    fn place(&self, line: LineId) -> (usize, usize, DeviceConfig) {
        let bank = (spread(line) >> 8) as usize & self.bank_mask;
        let device = if line < self.pm_lines { self.nvm } else { self.dram };
        (self.home(line), bank, device)
    }

    /// The line of a write that was sent and has not arrived.
    pub(crate) fn line_of(&self, number: u64) -> LineId {
        self.pending[(number - self.dropped) as usize].line
    }

    /// Reads a line whose request reaches the controller at `at`; returns when the line leaves it.
    pub(crate) fn read(&mut self, line: LineId, at: Cycle) -> Cycle {
        if let Some(dimms) = &mut self.dimms
            && line < self.pm_lines
        {
            return dimms.read(line.into(), at);
        }
        let (home, bank, device) = self.place(line);
        let controller = &mut self.controllers[home];
        let start = controller.banks[bank].book(at, self.bank_cycles.unwrap_or(device.read));
        let moved = controller
            .channel
            .book(start + device.read.saturating_sub(self.line_cycles), self.line_cycles);
        (start + device.read).max(moved + self.line_cycles)
    }

    /// Sends a line to be written over memory's present value. The new value counts as memory's at
    /// once, and as durable from the cycle that [`write_arrives`](Memory::write_arrives) returns
    /// later. Returns the write's number.
    pub(crate) fn write_sent(&mut self, line: LineId, replaced: Version) -> u64 {
        let (number, durable_at, has_copy) = (self.next_number(), Cycle::MAX, false);
        let older = self.newest.insert(line, number);
        self.pending.push_back(Pending { line, replaced, durable_at, older, has_copy });
        number
    }

    /// The number of the next write.
    pub(crate) fn next_number(&self) -> u64 {
        self.dropped + self.pending.len() as u64
    }

    /// Marks write `number`, which has not arrived, as carrying bytes of a copy.
    pub(crate) fn carries_copy(&mut self, number: u64) {
        self.pending[(number - self.dropped) as usize].has_copy = true;
    }

    /// True if write `number`, which is not durable yet, carries bytes of a copy.
    pub(crate) fn has_copy(&self, number: u64) -> bool {
        self.pending[(number - self.dropped) as usize].has_copy
    }

    fn pending(&self, number: u64) -> Option<&Pending> {
        self.pending.get(number.checked_sub(self.dropped)? as usize)
    }

    /// The write of the same line that was sent before write `number`, and when it is durable,
    /// `Cycle::MAX` if it has not arrived; `None` if it has been durable for long.
    pub(crate) fn before(&self, number: u64) -> Option<(u64, Cycle)> {
        let older = self.pending(number)?.older?;
        Some((older, self.pending(older)?.durable_at))
    }

    /// Write `number` reaches its controller at `now`; versions that no crash needs are released.
    pub(crate) fn write_arrives(
        &mut self,
        number: u64,
        now: Cycle,
        late: Late,
        values: &mut Values,
    ) -> Written {
        let at = (number - self.dropped) as usize;
        let line = self.pending[at].line;
        let written = match &mut self.dimms {
            Some(_) if line < self.pm_lines => self.write_to_dimm(line, now, late),
            _ => self.write_to_bank(line, now, late),
        };
        if line < self.pm_lines {
            let controller = self.home(line);
            let settled = &mut self.controllers[controller].settled;
            *settled = (*settled).max(written.durable);
        }
        self.pending[at].durable_at = written.durable;
        self.forget(now, values);
        written
    }

    /// A write of a line in a DIMM reaches its controller.
    fn write_to_dimm(&mut self, line: LineId, now: Cycle, late: Late) -> Written {
        let order = self.controllers[self.home(line)].floor;
        let late = if late.by == 0 { 0 } else { now + self.post + late.by }.max(late.floor);
        let floors = if self.adr { (order.max(late), 0) } else { (late, order) };
        let dimms = self.dimms.as_mut().expect("the caller has looked");
        let taken = dimms.write_behind(line.into(), now, floors);
        let durable = if self.adr { taken.accepted } else { taken.in_dimm };
        Written { accepted: taken.accepted, durable, left: taken.left }
    }

    /// A write of a line in a controller's banks reaches the controller.
    fn write_to_bank(&mut self, line: LineId, now: Cycle, late: Late) -> Written {
        let (home, bank, device) = self.place(line);
        let controller = &mut self.controllers[home];
        let order = if line < self.pm_lines { controller.floor } else { 0 };
        let free = controller.accept(now, self.queue_entries);
        let accepted = (free.max(now + late.by) + self.post).max(late.floor);
        let accepted = if self.adr { accepted.max(order) } else { accepted };
        // Writes of one line never pass each other.
        let last = self.last_write.of(line, now);
        let floor = (*last + 1).saturating_sub(device.write);
        let line_cycles = device.write_line_cycles.unwrap_or(self.line_cycles);
        let moved = controller.channel.book(accepted.max(floor).max(order), line_cycles);
        let start = controller.banks[bank].book(moved, self.bank_cycles.unwrap_or(device.write));
        let done = start + device.write;
        controller.queue.push(done);
        *last = done;
        Written { accepted, durable: if self.adr { accepted } else { done }, left: done }
    }

    /// When every persistent write that has arrived at this controller is durable.
    pub(crate) fn settled(&self, controller: usize) -> Cycle {
        self.controllers[controller].settled
    }

    /// A marker arrives in the queue of this controller at `now`: no persistent write behind it
    /// starts before `floor`. It occupies an entry of the queue until then. Under ADR the queue
    /// accepts writes in order, and a marker needs no entry; nor does it in a DIMM's queue, which
    /// is in order too. Returns the entry, if it takes one.
    pub(crate) fn mark(&mut self, number: usize, now: Cycle, floor: Cycle) -> Option<QueueEntry> {
        let controller = &mut self.controllers[number];
        controller.floor = controller.floor.max(floor);
        if self.adr || self.dimms.is_some() {
            return None;
        }
        let accepted = controller.accept(now, self.queue_entries);
        controller.queue.push(floor.max(now));
        let (queue, left) = (WriteQueue::Controller(number), floor.max(accepted));
        Some(QueueEntry { queue, line: None, core: None, arrived: now, accepted, left })
    }

    /// When the newest write of the line will be durable; `None` if no write is on its way,
    /// `Cycle::MAX` if it has not reached its controller.
    pub(crate) fn durable_at(&self, line: LineId, now: Cycle) -> Option<Cycle> {
        let newest = self.pending(*self.newest.get(&line)?)?;
        (newest.durable_at > now).then_some(newest.durable_at)
    }

    fn forget(&mut self, now: Cycle, values: &mut Values) {
        while self.pending.front().is_some_and(|write| write.durable_at <= now) {
            let write = self.pending.pop_front().expect("just seen");
            if self.newest.get(&write.line) == Some(&self.dropped) {
                self.newest.remove(&write.line);
            }
            self.dropped += 1;
            values.release(write.replaced);
        }
    }

    /// Turns `image`, the persistent lines with every write that has been sent, into the image that
    /// a crash at the end of cycle `at`, not before the present, leaves.
    pub(crate) fn take_back(&self, image: &mut [LineData], at: Cycle, values: &Values) {
        for write in self.pending.iter().rev() {
            if write.durable_at > at && write.line < self.pm_lines {
                image[write.line as usize] = *values.version(write.replaced);
            }
        }
    }
}

impl Controller {
    fn accept(&mut self, now: Cycle, entries: usize) -> Cycle {
        if self.queue.len() < entries {
            return now;
        }
        self.queue.retain(|leaves| *leaves > now);
        if self.queue.len() < entries {
            return now;
        }
        let (at, leaves) =
            self.queue.iter().copied().enumerate().min_by_key(|(_, leaves)| *leaves).expect("full");
        self.queue.swap_remove(at);
        leaves
    }
}

/// Hashes line numbers so that strides do not collide in one bank, set or controller.
#[inline]
pub(crate) fn spread(line: LineId) -> u64 {
    (u64::from(line) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rig {
        memory: Memory,
        values: Values,
    }

    impl Rig {
        fn new(adr: bool) -> Rig {
            Rig::of(&Machine::load("micro15").unwrap(), adr)
        }

        fn of(machine: &Machine, adr: bool) -> Rig {
            let values = Values::new(vec![[0; 8]; 4096]);
            Rig { memory: Memory::new(machine, 4096, adr), values }
        }

        fn send(&mut self, line: LineId, value: u64) -> u64 {
            let version = self.values.differ(line);
            *self.values.version_mut(version) = [value; 8];
            self.values.swap(line, version);
            self.memory.write_sent(line, version)
        }

        fn arrives(&mut self, number: u64, now: Cycle) -> Written {
            self.memory.write_arrives(number, now, Late::default(), &mut self.values)
        }

        fn image(&self, at: Cycle) -> Vec<LineData> {
            let mut image = self.values.all_shared().to_vec();
            self.memory.take_back(&mut image, at, &self.values);
            image
        }
    }

    #[test]
    fn a_lone_read_and_write_take_the_latency_of_the_device() {
        let mut rig = Rig::new(false);
        assert_eq!(rig.memory.read(7, 1000), 1240);
        let number = rig.send(8, 1);
        assert_eq!(
            rig.arrives(number, 5000),
            Written { accepted: 5000, durable: 5360, left: 5360 }
        );
    }

    #[test]
    fn peak_write_bandwidth_is_the_smaller_of_channel_and_banks() {
        let cycles_a_line = |banks: usize, bank_cycles: Option<u64>| {
            let mut machine = Machine::load("micro15").unwrap();
            (machine.memory.banks, machine.memory.bank_cycles) = (banks, bank_cycles);
            let mut rig = Rig::of(&machine, false);
            let lines: Vec<LineId> = (0..4096).filter(|line| rig.memory.home(*line) == 0).collect();
            let mut last = 0;
            for line in &lines {
                let number = rig.send(*line, 1);
                last = last.max(rig.arrives(number, 0).durable);
            }
            last as f64 / lines.len() as f64
        };
        // The channel takes a line every 24 cycles. Banks are busy for a whole write of 360 cycles,
        // if nothing else is said.
        for (banks, bank_cycles, expected) in
            [(16, None, 24.0), (32, Some(110), 24.0), (2, Some(110), 55.0), (2, None, 180.0)]
        {
            let found = cycles_a_line(banks, bank_cycles);
            let most = expected * 1.125;
            assert!((expected..most).contains(&found), "{banks}, {bank_cycles:?}: {found}");
        }
    }

    #[test]
    fn a_late_write_waits_for_its_delay_and_for_a_free_entry_at_the_same_time() {
        let mut rig = Rig::new(false);
        let late = Late { by: 1_000_000, floor: 0 };
        let written: Vec<Written> = (0..1000)
            .map(|line| {
                let number = rig.send(line, 1);
                rig.memory.write_arrives(number, 0, late, &mut rig.values)
            })
            .collect();
        let last = written.iter().map(|written| written.durable).max().unwrap();
        assert!((1_000_000..1_100_000).contains(&last), "{last}");
    }

    #[test]
    fn persistent_lines_are_written_at_their_own_pace_where_there_is_one_and_read_at_the_channel_s()
    {
        let machine = Machine::load("asap22").unwrap();
        assert_eq!(
            (machine.memory.nvm.write_line_cycles, machine.memory.line_cycles),
            (Some(56), 20)
        );
        let mut alike = machine.clone();
        alike.memory.nvm.write_line_cycles = None;
        for (machine, pace) in [(machine, 56), (alike, 20)] {
            let mut rig = Rig::of(&machine, false);
            let is_here = |line: &LineId| rig.memory.home(*line) == 0;
            let lines: Vec<LineId> = (0..4096).filter(is_here).collect();
            let mut last = 0;
            for line in &lines {
                let number = rig.send(*line, 1);
                last = last.max(rig.arrives(number, 0).durable);
            }
            let per_line = last as f64 / lines.len() as f64;
            let expected = pace as f64..pace as f64 + 2.0;
            assert!(expected.contains(&per_line), "{per_line} cycles a line written");
            let mut rig = Rig::of(&machine, false);
            let read = lines.iter().map(|line| rig.memory.read(*line, 0)).max().unwrap();
            let per_line = read as f64 / lines.len() as f64;
            assert!(per_line < 30.0, "{per_line} cycles a line read");
        }
    }

    #[test]
    fn the_image_has_what_was_durable_at_that_cycle_and_nothing_later() {
        for adr in [false, true] {
            let mut rig = Rig::new(adr);
            let first = rig.send(3, 1);
            let second = rig.send(3, 2);
            assert_eq!(rig.values.shared(3), &[2; 8], "reads see the newest");
            assert_eq!(rig.image(99)[3], [0; 8], "nothing has arrived");
            let first = rig.arrives(first, 100).durable;
            assert_eq!(first, if adr { 100 } else { 460 });
            assert_eq!(rig.image(first)[3], [1; 8]);
            let second = rig.arrives(second, 101).durable;
            assert!(first < second);
            assert_eq!(rig.image(first.max(101))[3], [if adr { 2 } else { 1 }; 8]);
            assert_eq!(rig.image(second)[3], [2; 8]);
        }
    }

    #[test]
    fn writes_behind_a_marker_start_when_those_before_it_are_durable() {
        let mut rig = Rig::new(false);
        let lines: Vec<LineId> = (0..4096).filter(|line| rig.memory.home(*line) == 0).collect();
        let write = |rig: &mut Rig, line: usize, now| {
            let number = rig.send(lines[line], 1);
            rig.arrives(number, now).durable
        };
        let before = (0..4).map(|line| write(&mut rig, line, 100)).max().unwrap();
        assert_eq!(rig.memory.settled(0), before);
        rig.memory.mark(0, 101, before);
        let behind: Vec<Cycle> = (4..8).map(|line| write(&mut rig, line, 102)).collect();
        assert!(behind.iter().all(|durable| *durable >= before + 360), "{before}, {behind:?}");
        assert_eq!(rig.memory.settled(0), *behind.iter().max().unwrap());
    }

    #[test]
    fn a_full_queue_makes_writes_wait_at_the_door() {
        let mut rig = Rig::new(true);
        let lines: Vec<LineId> = (0..4096).filter(|line| rig.memory.home(*line) == 0).collect();
        let accepted: Vec<Cycle> = lines[..100]
            .iter()
            .map(|line| {
                let number = rig.send(*line, 1);
                rig.arrives(number, 0).accepted
            })
            .collect();
        assert!(accepted[..64].iter().all(|at| *at == 0));
        assert!(accepted[64..].iter().all(|at| *at > 0));
    }
}
