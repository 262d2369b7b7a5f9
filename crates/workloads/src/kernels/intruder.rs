//! Detection of attacks in a stream of packets, with the sharing of STAMP's "intruder" (Cao Minh et
//! al., IISWC'08): all threads take packets from one queue, assemble the fragments of a flow in one
//! map, pass whole flows through a second queue, and search them for signatures.
//!
//! Each end of the queues has a lock, held for a few instructions; a thread takes eight packets of
//! the stream at a time (the original takes one: 32 threads here then mostly wait for that lock).
//! The map is a forest, under the lock of the flow's tree. Fragments of all flows are mixed in the
//! stream, so most data that a thread accesses were written by others.
//!
//! In the pool: packets, queues, trees, lists of fragments, the data as received and as assembled,
//! signatures and findings. The whole result is the same under any schedule.

use super::forest::{Forest, TREES};
use super::sync::Team;
use crate::harness::workload::below;
use crate::{Counts, Damage, Input, Kernel, Mix, Words};
use rand_xoshiro::rand_core::Rng;
use seawall_memory::{Memory, MemoryExt};
use seawall_runtime::Arena;
use std::ops::{Range, RangeInclusive};

/// The greatest number of fragments of a flow, and words of a fragment.
const FRAGMENTS: u64 = 8;
const FRAGMENT_WORDS: u64 = 16;
const ATTACK_PERCENT: u64 = 10;
const SIGNATURES: u64 = 8;

/// Words of a packet, and offsets.
const PACKET: u64 = 8;
const FLOW: u64 = 0;
const NUMBER: u64 = 1;
const COUNT: u64 = 2;
const START: u64 = 3;
const LENGTH: u64 = 4;
/// The next fragment of its flow among those received.
const NEXT: u64 = 5;
/// In the first fragment received: the number received.
const RECEIVED: u64 = 6;

/// Words of the queues, a line each: the number taken from the stream, put into the queue of whole
/// flows, and taken out of it.
const TAKEN: u64 = 0;
const PUT: u64 = 8;
const GOT: u64 = 16;

/// The locks and what they protect.
const STREAM_LOCK: u64 = 0;
const PUT_LOCK: u64 = 1;
const GOT_LOCK: u64 = 2;
const LOCKS: u64 = 3;

/// Packets that a thread takes at a time.
const BATCH: u64 = 8;

/// The detector.
#[derive(Clone, Copy, Debug)]
pub struct Intruder {
    team: Team,
    packets: Words,
    stream: Words,
    source: Words,
    signatures: Words,
    queues: Words,
    whole: Words,
    forest: Forest,
    assembled: Words,
    found: Words,
    attacks: Words,
}

struct Traffic {
    data: Vec<u64>,
    signatures: Vec<u64>,
    /// For each packet: flow, number, count, start, length.
    packets: Vec<[u64; 5]>,
    /// The range of each flow's data.
    flows: Vec<Range<usize>>,
    stream: Vec<u64>,
}

impl Traffic {
    fn new(input: &Input) -> Traffic {
        let mut rng = input.stream(0);
        let signatures: Vec<u64> =
            (0..SIGNATURES).map(|slot| rng.next_u64() / SIGNATURES * SIGNATURES + slot).collect();
        let (mut data, mut packets, mut flows) = (Vec::new(), Vec::new(), Vec::new());
        for flow in 0..input.size {
            let count = 1 + below(&mut rng, FRAGMENTS);
            let first = data.len();
            for number in 0..count {
                let length = 1 + below(&mut rng, FRAGMENT_WORDS);
                packets.push([flow, number, count, data.len() as u64, length]);
                data.extend((0..length).map(|_| rng.next_u64()));
            }
            if below(&mut rng, 100) < ATTACK_PERCENT {
                let place = first as u64 + below(&mut rng, (data.len() - first) as u64);
                data[place as usize] = signatures[below(&mut rng, SIGNATURES) as usize];
            }
            flows.push(first..data.len());
        }
        let mut stream: Vec<u64> = (0..packets.len() as u64).collect();
        for place in (1..stream.len()).rev() {
            stream.swap(place, below(&mut rng, place as u64 + 1) as usize);
        }
        Traffic { data, signatures, packets, flows, stream }
    }
}

impl Intruder {
    fn packet<M: Memory>(&self, memory: &M, packet: u64, offset: u64) -> u64 {
        self.packets.get(memory, packet * PACKET + offset)
    }

    fn take<M: Memory>(&self, memory: &M) -> Range<u64> {
        self.team.alone(memory, STREAM_LOCK, || {
            let taken = self.queues.get(memory, TAKEN);
            let end = self.stream.count().min(taken + BATCH);
            self.queues.put(memory, TAKEN, end);
            memory.work(4);
            taken..end
        })
    }

    /// Adds a fragment to those of its flow; if it was the last to arrive, returns the first.
    fn collect<M: Memory>(&self, memory: &M, packet: u64) -> Option<u64> {
        let flow = self.packet(memory, packet, FLOW);
        let count = self.packet(memory, packet, COUNT);
        let tree = Forest::tree_of(flow, 0);
        memory.work(8);
        self.forest.lock(memory, tree);
        let node = match self.forest.find(memory, tree, flow) {
            Some(node) => node,
            None => {
                self.forest.insert(memory, tree, packet, (flow, 0));
                packet
            }
        };
        let received = self.packets.at(node * PACKET + RECEIVED);
        let now = memory.load::<u64>(received) + 1;
        memory.store(received, now);
        self.link(memory, node, packet);
        let mut list = None;
        if now == count {
            self.forest.remove(memory, tree, flow);
            list = memory.load::<u64>(self.forest.value_at(node)).checked_sub(1);
        }
        self.forest.unlock(memory, tree);
        list
    }

    /// Inserts `packet` at its place in the list of the flow of `node`.
    fn link<M: Memory>(&self, memory: &M, node: u64, packet: u64) {
        let number = self.packet(memory, packet, NUMBER);
        let mut place = self.forest.value_at(node);
        let mut next = memory.load::<u64>(place);
        while let Some(other) = next.checked_sub(1) {
            memory.work(4);
            if self.packet(memory, other, NUMBER) > number {
                break;
            }
            place = self.packets.at(other * PACKET + NEXT);
            next = memory.load(place);
        }
        self.packets.put(memory, packet * PACKET + NEXT, next);
        memory.store(place, packet + 1);
    }

    fn assemble<M: Memory>(&self, memory: &M, first: u64) {
        let mut to = self.packet(memory, first, START);
        let mut next = Some(first);
        while let Some(packet) = next {
            let from = self.packet(memory, packet, START);
            for word in from..from + self.packet(memory, packet, LENGTH) {
                self.assembled.put(memory, to, self.source.get(memory, word));
                memory.work(2);
                to += 1;
            }
            next = self.packet(memory, packet, NEXT).checked_sub(1);
        }
        self.team.alone(memory, PUT_LOCK, || {
            let put = self.queues.get(memory, PUT);
            self.whole.put(memory, put, first);
            self.queues.put(memory, PUT, put + 1);
            memory.work(4);
        });
    }

    /// Searches one whole flow, if any waits; true if it is an attack.
    fn detect<M: Memory>(&self, memory: &M) -> bool {
        let got = self.queues.get(memory, GOT);
        if got >= self.queues.get(memory, PUT) {
            return false;
        }
        let first = self.team.alone(memory, GOT_LOCK, || {
            let got = self.queues.get(memory, GOT);
            memory.work(4);
            (got < self.queues.get(memory, PUT)).then(|| {
                self.queues.put(memory, GOT, got + 1);
                self.whole.get(memory, got)
            })
        });
        let Some(first) = first else { return false };
        let mut at = self.packet(memory, first, START);
        let (mut next, mut finding) = (Some(first), 1);
        while let Some(packet) = next {
            for _ in 0..self.packet(memory, packet, LENGTH) {
                let word = self.assembled.get(memory, at);
                memory.work(8);
                if self.signatures.get(memory, word % SIGNATURES) == word {
                    finding = 2 + word % SIGNATURES;
                }
                at += 1;
            }
            next = self.packet(memory, packet, NEXT).checked_sub(1);
        }
        self.found.put(memory, self.packet(memory, first, FLOW), finding);
        finding > 1
    }
}

impl Kernel for Intruder {
    const NAME: &'static str = "intruder";
    const ABOUT: &'static str = "packets put together in a shared map, through shared queues";
    const UNIT: &'static str = "flows";
    const SIZE: u64 = 1 << 15;
    const QUICK: u64 = 1 << 11;
    const SMALL: u64 = 60;
    const SIZES: RangeInclusive<u64> = 1..=1 << 24;
    const MIX: Mix = Mix {
        program: "STAMP's intruder, -a10 -l4 -n2038 -s1",
        run: Counts {
            instructions: 12_564_659,
            heap_stores: 127_388,
            stack_loads: 666_058,
            stack_stores: 668_250,
            per_1000: 1000,
        },
        start: Some(Counts {
            instructions: 12_070_885,
            heap_stores: 152_797,
            stack_loads: 555_698,
            stack_stores: 526_863,
            per_1000: 1000,
        }),
        heap_lines: 161,
        stack_lines: 6,
        parallelism: 2650,
    };

    fn place(input: &Input, arena: &mut Arena) -> Intruder {
        let traffic = Traffic::new(input);
        let team = Team::place(input, arena, LOCKS);
        let (flows, packets) = (input.size, traffic.packets.len() as u64);
        let words = traffic.data.len() as u64;
        Intruder {
            team,
            packets: Words::place(arena, packets * PACKET),
            stream: Words::place(arena, packets),
            source: Words::place(arena, words),
            signatures: Words::place(arena, SIGNATURES),
            queues: Words::place(arena, GOT + 1),
            whole: Words::place(arena, flows),
            forest: Forest::place(arena, 1, packets),
            assembled: Words::place(arena, words),
            found: Words::place(arena, flows),
            attacks: Words::place(arena, 1),
        }
    }

    fn fill<M: Memory>(&self, memory: &M) {
        let traffic = Traffic::new(&self.team.input);
        let fill = |words: Words, values: &[u64]| {
            for (index, value) in (0..).zip(values) {
                words.put(memory, index, *value);
            }
        };
        fill(self.source, &traffic.data);
        fill(self.signatures, &traffic.signatures);
        fill(self.stream, &traffic.stream);
        for (packet, words) in (0..).zip(&traffic.packets) {
            fill(self.packets.part(packet * PACKET..(packet + 1) * PACKET), words);
        }
    }

    fn run<M: Memory>(&self, memory: &M) {
        let mut attacks = 0;
        loop {
            let taken = self.take(memory);
            if taken.is_empty() {
                break;
            }
            for place in taken {
                let packet = self.stream.get(memory, place);
                if let Some(first) = self.collect(memory, packet) {
                    self.assemble(memory, first);
                }
                attacks += u64::from(self.detect(memory));
            }
        }
        self.attacks.claim(memory, 0, attacks);
    }

    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let Traffic { data, signatures, flows, .. } = Traffic::new(&self.team.input);
        let findings: Vec<u64> = flows
            .iter()
            .map(|flow| {
                let found = |word: &&u64| signatures.contains(word);
                data[flow.clone()].iter().rev().find(found).map_or(1, |word| 2 + word % SIGNATURES)
            })
            .collect();
        let attacks = findings.iter().filter(|finding| **finding > 1).count() as u64;
        self.found.compare(memory, "finding of flow", findings)?;
        self.assembled.compare(memory, "word of the flows", data)?;
        self.attacks.compare(memory, "number of attacks", [attacks])?;
        for tree in 0..TREES {
            if !self.forest.contents(memory, tree)?.is_empty() {
                return Err(Damage(format!("tree {tree} still holds a flow")));
            }
        }
        Ok(())
    }

    fn results(&self) -> Vec<Words> {
        vec![self.found, self.assembled, self.attacks]
    }
}
