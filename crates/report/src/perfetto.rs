//! Files that Perfetto opens (<https://ui.perfetto.dev>): tracks of slices, instants and counters.
//!
//! The format is Perfetto's protobuf, and what follows is the small part of it that these files
//! need: a `Trace` is a list of `TracePacket`, each a description of a track (`TrackDescriptor`) or
//! an event on one (`TrackEvent`). The numbers of the fields are those of its `.proto` files. Names
//! are written once, in the first packet, and then called by number (`InternedData`). The clock is
//! Perfetto's default one, which counts nanoseconds; here it counts whatever the caller does.
//!
//! Events of a track are given in the order of their time; those of several tracks in any order.

use std::collections::HashMap;

/// The one sequence of packets.
const SEQUENCE: u64 = 1;
/// The packet clears what has been interned; the packet needs it.
const CLEARED: u64 = 1;
const NEEDED: u64 = 2;

/// Fields of the messages, by Perfetto's names.
mod field {
    pub(super) const TRACE_PACKET: u32 = 1;

    pub(super) const PACKET_TIMESTAMP: u32 = 8;
    pub(super) const PACKET_SEQUENCE_ID: u32 = 10;
    pub(super) const PACKET_TRACK_EVENT: u32 = 11;
    pub(super) const PACKET_INTERNED_DATA: u32 = 12;
    pub(super) const PACKET_SEQUENCE_FLAGS: u32 = 13;
    pub(super) const PACKET_TRACK_DESCRIPTOR: u32 = 60;

    pub(super) const INTERNED_EVENT_NAMES: u32 = 2;
    pub(super) const INTERNED_ANNOTATION_NAMES: u32 = 3;
    pub(super) const INTERNED_ID: u32 = 1;
    pub(super) const INTERNED_NAME: u32 = 2;

    pub(super) const TRACK_UUID: u32 = 1;
    pub(super) const TRACK_NAME: u32 = 2;
    pub(super) const TRACK_PROCESS: u32 = 3;
    pub(super) const TRACK_PARENT: u32 = 5;
    pub(super) const TRACK_COUNTER: u32 = 8;
    pub(super) const TRACK_CHILD_ORDERING: u32 = 11;
    pub(super) const TRACK_RANK: u32 = 12;
    pub(super) const PROCESS_ID: u32 = 1;
    pub(super) const PROCESS_NAME: u32 = 6;
    pub(super) const COUNTER_UNIT_NAME: u32 = 6;

    pub(super) const EVENT_ANNOTATIONS: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const EVENT_NAME_ID: u32 = 10;
    pub(super) const EVENT_TRACK: u32 = 11;
    pub(super) const EVENT_COUNT: u32 = 30;
    pub(super) const EVENT_FLOWS: u32 = 47;
    pub(super) const EVENT_ENDING_FLOWS: u32 = 48;
    pub(super) const ANNOTATION_NAME_ID: u32 = 1;
    pub(super) const ANNOTATION_NUMBER: u32 = 3;
}

/// `TrackDescriptor.ChildTracksOrdering`: by rank.
const EXPLICIT: u64 = 3;

/// `TrackEvent.Type`.
#[derive(Clone, Copy)]
enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
    Count = 4,
}

/// A track of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track(u64);

/// What an event shows when it is selected: names with numbers.
pub type Annotations<'a> = &'a [(&'static str, u64)];

/// An end of an arrow between two instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The arrow of this number begins here.
    From(u64),
    /// It ends here, at the same time or later.
    To(u64),
}

/// An event that is not in its place yet.
struct Event {
    at: u64,
    /// Whether an arrow ends here: it must follow the beginning.
    is_last: bool,
    start: usize,
    end: usize,
}

/// A file in the making.
#[derive(Default)]
pub struct PerfettoTrace {
    /// The packets of the tracks.
    tracks: Vec<u8>,
    tracks_count: u64,
    /// The packets of events, in the order of the calls.
    packets: Vec<u8>,
    events: Vec<Event>,
    names: Names,
    annotations: Names,
    event: Message,
}

impl std::fmt::Debug for PerfettoTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerfettoTrace").field("events", &self.events.len()).finish_non_exhaustive()
    }
}

impl PerfettoTrace {
    /// A file without tracks.
    pub fn new() -> PerfettoTrace {
        PerfettoTrace::default()
    }

    /// Adds a track at the top, below which others are: a process, in Perfetto's words.
    pub fn process(&mut self, name: &str) -> Track {
        let mut process = Message::default();
        process.number(field::PROCESS_ID, 1);
        process.text(field::PROCESS_NAME, name);
        self.describe(|track| {
            track.message(field::TRACK_PROCESS, &process);
            track.number(field::TRACK_CHILD_ORDERING, EXPLICIT);
        })
    }

    /// Adds a track of slices and instants below another. Tracks of one name below one track are
    /// shown as one, of several rows.
    pub fn track(&mut self, name: &str, parent: Track) -> Track {
        self.below(name, parent, |_| {})
    }

    /// Adds a track of numbers, which count `unit`.
    pub fn counter(&mut self, name: &str, unit: &str, parent: Track) -> Track {
        let mut counter = Message::default();
        counter.text(field::COUNTER_UNIT_NAME, unit);
        self.below(name, parent, |track| track.message(field::TRACK_COUNTER, &counter))
    }

    fn below(&mut self, name: &str, parent: Track, more: impl FnOnce(&mut Message)) -> Track {
        let rank = self.tracks_count;
        self.describe(|track| {
            track.text(field::TRACK_NAME, name);
            track.number(field::TRACK_PARENT, parent.0);
            track.number(field::TRACK_CHILD_ORDERING, EXPLICIT);
            track.number(field::TRACK_RANK, rank);
            more(track);
        })
    }

    fn describe(&mut self, what: impl FnOnce(&mut Message)) -> Track {
        self.tracks_count += 1;
        let mut track = Message::default();
        track.number(field::TRACK_UUID, self.tracks_count);
        what(&mut track);
        let mut packet = Message::default();
        packet.number(field::PACKET_SEQUENCE_ID, SEQUENCE);
        packet.message(field::PACKET_TRACK_DESCRIPTOR, &track);
        packet.put_into(field::TRACE_PACKET, &mut self.tracks);
        Track(self.tracks_count)
    }

    /// A slice begins.
    pub fn begin(&mut self, track: Track, at: u64, name: &str, annotations: Annotations<'_>) {
        self.named(Kind::Begin, track, at, name, None, annotations);
    }

    /// The last slice that has begun on `track` and has not ended ends.
    pub fn end(&mut self, track: Track, at: u64) {
        self.start(Kind::End, track);
        self.finish(at, false);
    }

    /// Something happens that takes no time.
    pub fn instant(
        &mut self,
        track: Track,
        at: u64,
        name: &str,
        flow: Option<Flow>,
        annotations: Annotations<'_>,
    ) {
        self.named(Kind::Instant, track, at, name, flow, annotations);
    }

    /// The number of a counter is `count` from now on.
    pub fn count(&mut self, track: Track, at: u64, count: u64) {
        self.start(Kind::Count, track);
        self.event.number(field::EVENT_COUNT, count);
        self.finish(at, false);
    }

    fn named(
        &mut self,
        kind: Kind,
        track: Track,
        at: u64,
        name: &str,
        flow: Option<Flow>,
        annotations: Annotations<'_>,
    ) {
        let name = self.names.id(name);
        self.start(kind, track);
        self.event.number(field::EVENT_NAME_ID, name);
        for (name, number) in annotations {
            let mut annotation = Message::default();
            annotation.number(field::ANNOTATION_NAME_ID, self.annotations.id(name));
            annotation.number(field::ANNOTATION_NUMBER, *number);
            self.event.message(field::EVENT_ANNOTATIONS, &annotation);
        }
        match flow {
            Some(Flow::From(flow)) => self.event.fixed(field::EVENT_FLOWS, flow),
            Some(Flow::To(flow)) => self.event.fixed(field::EVENT_ENDING_FLOWS, flow),
            None => {}
        }
        self.finish(at, matches!(flow, Some(Flow::To(_))));
    }

    fn start(&mut self, kind: Kind, track: Track) {
        self.event.0.clear();
        self.event.number(field::EVENT_TYPE, kind as u64);
        self.event.number(field::EVENT_TRACK, track.0);
    }

    fn finish(&mut self, at: u64, is_last: bool) {
        let mut packet = Message::default();
        packet.number(field::PACKET_TIMESTAMP, at);
        packet.number(field::PACKET_SEQUENCE_ID, SEQUENCE);
        packet.number(field::PACKET_SEQUENCE_FLAGS, NEEDED);
        packet.message(field::PACKET_TRACK_EVENT, &self.event);
        let start = self.packets.len();
        packet.put_into(field::TRACE_PACKET, &mut self.packets);
        self.events.push(Event { at, is_last, start, end: self.packets.len() });
    }

    /// The file: names, tracks, and the events in the order of their time.
    pub fn into_bytes(mut self) -> Vec<u8> {
        let mut interned = Message::default();
        self.names.put_into(field::INTERNED_EVENT_NAMES, &mut interned);
        self.annotations.put_into(field::INTERNED_ANNOTATION_NAMES, &mut interned);
        let mut first = Message::default();
        first.number(field::PACKET_SEQUENCE_ID, SEQUENCE);
        first.number(field::PACKET_SEQUENCE_FLAGS, CLEARED);
        first.message(field::PACKET_INTERNED_DATA, &interned);
        let mut bytes = Vec::with_capacity(first.0.len() + self.tracks.len() + self.packets.len());
        first.put_into(field::TRACE_PACKET, &mut bytes);
        bytes.extend_from_slice(&self.tracks);
        // A stable sort: what happens on a track at one time stays in order.
        self.events.sort_by_key(|event| (event.at, event.is_last));
        for event in &self.events {
            bytes.extend_from_slice(&self.packets[event.start..event.end]);
        }
        bytes
    }
}

/// Names with the numbers that stand for them, from 1.
#[derive(Default)]
struct Names {
    ids: HashMap<String, u64>,
    all: Vec<String>,
}

impl Names {
    fn id(&mut self, name: &str) -> u64 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.all.push(name.to_owned());
        let id = self.all.len() as u64;
        self.ids.insert(name.to_owned(), id);
        id
    }

    fn put_into(&self, field: u32, interned: &mut Message) {
        for (id, name) in (1..).zip(&self.all) {
            let mut entry = Message::default();
            entry.number(field::INTERNED_ID, id);
            entry.text(field::INTERNED_NAME, name);
            interned.message(field, &entry);
        }
    }
}

/// A message of protobuf: fields, each with its number and the way in which it is written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    const VARINT: u32 = 0;
    const FIXED: u32 = 1;
    const BYTES: u32 = 2;

    fn varint(bytes: &mut Vec<u8>, mut value: u64) {
        while value > 0x7f {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }

    fn tag(bytes: &mut Vec<u8>, field: u32, way: u32) {
        Message::varint(bytes, (field << 3 | way).into());
    }

    fn number(&mut self, field: u32, value: u64) {
        Message::tag(&mut self.0, field, Message::VARINT);
        Message::varint(&mut self.0, value);
    }

    fn fixed(&mut self, field: u32, value: u64) {
        Message::tag(&mut self.0, field, Message::FIXED);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        Message::tag(&mut self.0, field, Message::BYTES);
        Message::varint(&mut self.0, value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    fn message(&mut self, field: u32, value: &Message) {
        self.bytes(field, &value.0);
    }

    /// Appends the message to `bytes`, as a field of the message there.
    fn put_into(&self, field: u32, bytes: &mut Vec<u8>) {
        Message::tag(bytes, field, Message::BYTES);
        Message::varint(bytes, self.0.len() as u64);
        bytes.extend_from_slice(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_seven_bits_at_a_time() {
        let mut message = Message::default();
        message.number(1, 300);
        message.text(2, "ab");
        message.fixed(47, 1);
        assert_eq!(message.0, b"\x08\xac\x02\x12\x02ab\xf9\x02\x01\0\0\0\0\0\0\0");
    }

    /// The packets of a file.
    fn packets(mut bytes: &[u8]) -> Vec<&[u8]> {
        let mut packets = Vec::new();
        while let [10, length, rest @ ..] = bytes {
            assert!(*length < 0x80, "packets of this test are short");
            let (packet, behind) = rest.split_at(usize::from(*length));
            packets.push(packet);
            bytes = behind;
        }
        assert!(bytes.is_empty());
        packets
    }

    #[test]
    fn events_are_in_the_order_of_their_time_and_arrows_end_after_they_have_begun() {
        let mut trace = PerfettoTrace::new();
        let top = trace.process("p");
        let [left, right] = ["left", "right"].map(|name| trace.track(name, top));
        trace.begin(left, 5, "a", &[("lines", 3)]);
        trace.instant(left, 9, "in", Some(Flow::To(1)), &[]);
        trace.end(left, 9);
        trace.begin(right, 1, "b", &[]);
        trace.instant(right, 9, "out", Some(Flow::From(1)), &[]);
        let bytes = trace.into_bytes();
        // Behind the names and three tracks: each packet begins with its time.
        let times: Vec<u8> = packets(&bytes)[4..].iter().map(|packet| packet[1]).collect();
        assert_eq!(times, [1, 5, 9, 9, 9]);
        let kinds: Vec<u8> = packets(&bytes)[4..].iter().map(|packet| packet[9]).collect();
        let (begin, end, instant) = (Kind::Begin as u8, Kind::End as u8, Kind::Instant as u8);
        assert_eq!(kinds, [begin, begin, end, instant, instant]);
        assert!(packets(&bytes)[7].windows(2).any(|tag| tag == [0xf9, 2]), "it begins");
        assert!(packets(&bytes)[8].windows(2).any(|tag| tag == [0x81, 3]), "it ends");
    }

    #[test]
    fn a_name_is_written_once() {
        let mut trace = PerfettoTrace::new();
        let top = trace.process("p");
        let track = trace.track("t", top);
        for at in 0..100 {
            trace.instant(track, at, "the_same_name", None, &[("the_same_number", at)]);
        }
        let bytes = trace.into_bytes();
        for name in ["the_same_name", "the_same_number"] {
            assert_eq!(bytes.windows(name.len()).filter(|at| *at == name.as_bytes()).count(), 1);
        }
    }
}
