//! Reads files of Perfetto, by the numbers of its `.proto` files, for tests; it shares no code with
//! what writes them. A file that is not as expected is a panic.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "it is for tests, and the names say what there is")]

use std::collections::{BTreeMap, HashMap};

/// A track and the one that it is below.
#[derive(Debug, Default)]
pub struct ReadTrack {
    pub name: String,
    pub parent: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Begin,
    End,
    Instant,
    Count,
}

/// An event, with the names of the slices that it is inside of, the outermost first.
#[derive(Clone, Debug)]
pub struct ReadEvent {
    pub at: u64,
    pub kind: Kind,
    pub track: u64,
    pub name: String,
    pub count: u64,
    pub flow: Option<u64>,
    pub ending_flow: Option<u64>,
    pub annotations: HashMap<String, u64>,
    pub inside: Vec<String>,
}

/// A slice; one that does not end goes on.
#[derive(Clone, Debug)]
pub struct Slice {
    pub track: u64,
    pub name: String,
    pub from: u64,
    pub to: Option<u64>,
    pub depth: usize,
}

/// A file.
#[derive(Debug, Default)]
pub struct Decoded {
    pub tracks: HashMap<u64, ReadTrack>,
    pub events: Vec<ReadEvent>,
    pub slices: Vec<Slice>,
}

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn number(&self) -> u64 {
        match self {
            Field::Number(number) => *number,
            Field::Bytes(_) => panic!("a number"),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        match self {
            Field::Bytes(bytes) => bytes,
            Field::Number(_) => panic!("bytes"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("text")
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("it goes on");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than 64 bits");
}

/// The fields of a message, in order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (value, rest) = bytes.split_first_chunk().expect("8 bytes");
                bytes = rest;
                Field::Number(u64::from_le_bytes(*value))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value)
            }
            way => panic!("a field of way {way}"),
        };
        all.push((tag >> 3, field));
    }
    all
}

#[derive(Default)]
struct Names {
    events: HashMap<u64, String>,
    annotations: HashMap<u64, String>,
}

impl Names {
    fn read(&mut self, interned: &[u8]) {
        for (number, entry) in fields(interned) {
            let (mut id, mut name) = (0, String::new());
            for (number, field) in fields(entry.bytes()) {
                match number {
                    1 => id = field.number(),
                    2 => name = field.text(),
                    _ => panic!("field {number} of a name"),
                }
            }
            let before = match number {
                2 => self.events.insert(id, name),
                3 => self.annotations.insert(id, name),
                _ => panic!("field {number} of interned data"),
            };
            assert!(id > 0 && before.is_none());
        }
    }
}

impl Decoded {
    pub fn of(bytes: &[u8]) -> Decoded {
        let (mut decoded, mut names) = (Decoded::default(), Names::default());
        let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
        let (mut last, mut is_cleared) = (0, false);
        for (number, packet) in fields(bytes) {
            assert_eq!(number, 1, "a trace has packets");
            let (mut at, mut event, mut flags) = (None, None, 0);
            for (number, field) in fields(packet.bytes()) {
                match number {
                    8 => at = Some(field.number()),
                    10 => assert_eq!(field.number(), 1, "one sequence"),
                    11 => event = Some(field.bytes()),
                    12 => names.read(field.bytes()),
                    13 => flags = field.number(),
                    60 => decoded.describe(field.bytes()),
                    _ => panic!("field {number} of a packet"),
                }
            }
            is_cleared |= flags == 1;
            let Some(event) = event else { continue };
            assert!(is_cleared && flags == 2, "names are known, and asked for");
            let at = at.expect("events have times");
            assert!(at >= last, "in order");
            last = at;
            decoded.happens(at, event, &names, &mut open);
        }
        decoded
    }

    fn describe(&mut self, descriptor: &[u8]) {
        let (mut uuid, mut track) = (0, ReadTrack::default());
        for (number, field) in fields(descriptor) {
            match number {
                1 => uuid = field.number(),
                2 => track.name = field.text(),
                3 => {
                    let process = fields(field.bytes());
                    let name = process.iter().find(|(number, _)| *number == 6);
                    track.name = name.expect("a name").1.text();
                }
                5 => track.parent = field.number(),
                8 | 11 | 12 => {}
                _ => panic!("field {number} of a track"),
            }
        }
        assert!(uuid > 0 && self.tracks.insert(uuid, track).is_none());
    }

    fn happens(
        &mut self,
        at: u64,
        event: &[u8],
        names: &Names,
        open: &mut HashMap<u64, Vec<usize>>,
    ) {
        let mut event = read(at, event, names);
        assert!(self.tracks.contains_key(&event.track), "{event:?}");
        let open = open.entry(event.track).or_default();
        event.inside = open.iter().map(|slice| self.slices[*slice].name.clone()).collect();
        match event.kind {
            Kind::Begin => {
                let (name, depth) = (event.name.clone(), open.len());
                open.push(self.slices.len());
                self.slices.push(Slice { track: event.track, name, from: at, to: None, depth });
            }
            Kind::End => self.slices[open.pop().expect("one is open")].to = Some(at),
            Kind::Instant | Kind::Count => {}
        }
        self.events.push(event);
    }

    /// Cycles by the names of the slices on the tracks of cores, which end and have none inside.
    pub fn core_cycles(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for slice in self.slices.iter().filter(|slice| self.is_core(slice.track)) {
            assert_eq!(slice.depth, 0, "{slice:?}");
            *sums.entry(slice.name.clone()).or_default() += slice.to.expect("it ends") - slice.from;
        }
        sums
    }

    /// Whether it is the track of a core.
    pub fn is_core(&self, track: u64) -> bool {
        self.tracks[&track].name.starts_with("core ")
    }

    /// The names of the track and of those that it is below.
    pub fn path(&self, track: u64) -> String {
        let ReadTrack { name, parent } = &self.tracks[&track];
        if *parent == 0 { name.clone() } else { format!("{}/{name}", self.path(*parent)) }
    }
}

fn read(at: u64, bytes: &[u8], names: &Names) -> ReadEvent {
    let mut event = ReadEvent {
        at,
        kind: Kind::Instant,
        track: 0,
        name: String::new(),
        count: 0,
        flow: None,
        ending_flow: None,
        annotations: HashMap::new(),
        inside: Vec::new(),
    };
    for (number, field) in fields(bytes) {
        match number {
            4 => {
                let [(1, name), (3, value)] = &fields(field.bytes())[..] else {
                    panic!("a name and a number")
                };
                let name = names.annotations[&name.number()].clone();
                event.annotations.insert(name, value.number());
            }
            9 => {
                let kinds = [Kind::Begin, Kind::End, Kind::Instant, Kind::Count];
                event.kind = kinds[field.number() as usize - 1];
            }
            10 => event.name = names.events[&field.number()].clone(),
            11 => event.track = field.number(),
            30 => event.count = field.number(),
            47 => event.flow = Some(field.number()),
            48 => event.ending_flow = Some(field.number()),
            _ => panic!("field {number} of an event"),
        }
    }
    event
}
