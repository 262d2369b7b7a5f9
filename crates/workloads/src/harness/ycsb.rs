//! The request mixes of YCSB, for every workload that maps keys to values.
//!
//! "Benchmarking Cloud Serving Systems with YCSB" (Cooper and others, SoCC'10, sections 4 and 5.1):
//! shares of reads, updates, inserts, scans and read-modify-writes, and the choice of keys: zipfian
//! with exponent 0.99, the latest most often, or uniform. `ycsb-a:uniform` is mix A with another
//! choice of keys.
//!
//! Records are numbered in the order of their insertion. The pool starts with half of the records
//! for which it has room; the mix `ycsb-load` starts with none. Record numbers are spread over the
//! keys by a permutation, as YCSB does by a hash: neighbours in one order are not neighbours in the
//! other. Inserts take the next record of their thread, the threads in turn; when all keys have
//! been inserted they start again, as updates. When a thread chooses among the inserted records, it
//! assumes that the other threads have progressed as far as itself, so no request depends on the
//! schedule. YCSB draws from ten thousand million items and hashes them to the existing ones; here
//! the zipfian choice is among the records themselves.

mod zipf;

use crate::harness::workload::below;
use crate::{Setup, Workload};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fmt;
use std::str::FromStr;
use zipf::Zipf;

/// The greatest number of keys of a scan; uniform from 1.
const SCAN_MAX: u64 = 100;

/// The distribution of the key of a request over the existing records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChoice {
    /// Record n with a probability proportional to n to the power -0.99.
    Zipfian,
    /// Zipfian, counted back from the latest record.
    Latest,
    /// All records with the same probability.
    Uniform,
}

impl KeyChoice {
    const ALL: [(KeyChoice, &'static str); 3] = [
        (KeyChoice::Zipfian, "zipfian"),
        (KeyChoice::Latest, "latest"),
        (KeyChoice::Uniform, "uniform"),
    ];

    fn name(self) -> &'static str {
        KeyChoice::ALL.iter().find(|(choice, _)| *choice == self).map_or("", |(_, name)| name)
    }
}

/// The shares of requests of a run, in per cent that add up to 100, and the choice of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestMix {
    /// Its name without a choice of keys.
    pub name: &'static str,
    /// What it represents, in a few words.
    pub about: &'static str,
    /// Reads of one key.
    pub reads: u64,
    /// Overwrites of the value of one key.
    pub updates: u64,
    /// New keys.
    pub inserts: u64,
    /// Reads of up to 100 keys in order.
    pub scans: u64,
    /// Reads of one key, followed by an overwrite of its value.
    pub read_modify_writes: u64,
    /// The choice of keys, except for inserts.
    pub keys: KeyChoice,
}

macro_rules! mixes {
    ($($name:literal, $shares:expr, $keys:ident, $about:literal;)*) => {
        /// The mixes of YCSB.
        pub const MIXES: &[RequestMix] = &[$({
            let [reads, updates, inserts, scans, read_modify_writes] = $shares;
            assert!(reads + updates + inserts + scans + read_modify_writes == 100);
            let keys = KeyChoice::$keys;
            let (name, about) = ($name, $about);
            RequestMix { name, about, reads, updates, inserts, scans, read_modify_writes, keys }
        }),*];
    };
}

mixes! {
    // name, [reads, updates, inserts, scans, read-modify-writes], keys, about
    "ycsb-load", [0, 0, 100, 0, 0], Uniform, "loading the database";
    "ycsb-a", [50, 50, 0, 0, 0], Zipfian, "update heavy: a session store";
    "ycsb-b", [95, 5, 0, 0, 0], Zipfian, "read mostly: photo tags";
    "ycsb-c", [100, 0, 0, 0, 0], Zipfian, "read only: a cache of profiles";
    "ycsb-d", [95, 0, 5, 0, 0], Latest, "read latest: status updates";
    "ycsb-e", [0, 0, 5, 95, 0], Zipfian, "short ranges: threaded conversations";
    "ycsb-f", [50, 0, 0, 0, 50], Zipfian, "read-modify-write: a user database";
}

/// No mix has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown mix `{0}`; the mixes are {names}, each alone or followed by :zipfian, :latest or \
     :uniform",
    names = MIXES.iter().map(|mix| mix.name).collect::<Vec<_>>().join(", ")
)]
pub struct UnknownMix(pub String);

/// A workload cannot answer these requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{workload} cannot run the mix {mix}: {why}")]
pub struct UnfitMix {
    workload: &'static str,
    mix: RequestMix,
    why: String,
}

/// The requests that a workload can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Its own operations only.
    Own,
    /// Requests about one key.
    Keys,
    /// Scans as well: its keys are in order.
    Ranges,
}

impl RequestMix {
    /// Rejects a mix that `W` cannot run.
    ///
    /// # Errors
    /// The workload, the mix, and the workloads that can run it.
    pub fn check_for<W: Workload>(self) -> Result<(), UnfitMix> {
        let able = |least: Accepts| {
            let able = crate::WORKLOADS.iter().filter(|entry| match least {
                Accepts::Ranges => entry.accepts == Accepts::Ranges,
                _ => entry.accepts != Accepts::Own,
            });
            able.map(|entry| entry.name).collect::<Vec<_>>().join(", ")
        };
        let why = match (W::ACCEPTS, self.scans) {
            (Accepts::Ranges, _) | (Accepts::Keys, 0) => return Ok(()),
            (Accepts::Keys, _) => format!(
                "it scans, and {} does not have its keys in order; choose another mix, or {}",
                W::NAME,
                able(Accepts::Ranges)
            ),
            (Accepts::Own, _) => {
                format!("it has operations of its own only; choose {}", able(Accepts::Keys))
            }
        };
        Err(UnfitMix { workload: W::NAME, mix: self, why })
    }

    /// The number of records at the start in a pool with room for `keys` keys.
    fn records(self, keys: u64) -> u64 {
        if self.inserts == 100 { 0 } else { keys / 2 }
    }

    /// The keys at the start, for keys that are partitioned into `parts` modulo their number.
    pub(crate) fn initial_keys(self, setup: &Setup, parts: u64) -> Vec<u64> {
        let keys = 2 * setup.entries;
        let of_part = |part: u64| {
            let count = (keys + parts - 1 - part) / parts;
            (0..self.records(count)).map(move |record| scatter(record, count) * parts + part)
        };
        (0..parts).flat_map(of_part).collect()
    }
}

impl fmt::Display for RequestMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if MIXES.contains(self) { Ok(()) } else { write!(f, ":{}", self.keys.name()) }
    }
}

impl FromStr for RequestMix {
    type Err = UnknownMix;

    fn from_str(text: &str) -> Result<RequestMix, UnknownMix> {
        let (name, keys) = text.split_once(':').map_or((text, None), |(n, k)| (n, Some(k)));
        let mix = MIXES.iter().find(|mix| mix.name == name);
        let keys = keys.map(|keys| KeyChoice::ALL.iter().find(|(_, name)| *name == keys));
        match (mix, keys) {
            (Some(mix), None) => Ok(*mix),
            (Some(mix), Some(Some((keys, _)))) => Ok(RequestMix { keys: *keys, ..*mix }),
            _ => Err(UnknownMix(text.to_owned())),
        }
    }
}

/// The key of a record: a permutation of the numbers below `keys`, which is not 0.
fn scatter(record: u64, keys: u64) -> u64 {
    let golden = ((u128::from(keys) * 0x9e37_79b9_7f4a_7c15) >> 64) as u64;
    let prime_to = |step: &u64| {
        let (mut high, mut low) = (keys, *step);
        while low != 0 {
            (high, low) = (low, high % low);
        }
        high == 1
    };
    let step = (golden.max(1)..).find(prime_to).unwrap_or(1);
    (u128::from(record) * u128::from(step) % u128::from(keys)) as u64
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Read,
    /// Inserts a key unless it exists.
    Insert,
    Delete,
    /// Overwrites the value of an existing key.
    Update,
    /// Inserts a key, or overwrites its value.
    Put,
    /// Reads this many keys from this one on.
    Scan(u64),
    /// Reads a key, and overwrites its value.
    ReadModifyWrite,
}

/// The requests of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    mix: RequestMix,
    /// The number of keys.
    keys: u64,
    /// The number of records that all threads insert while this one inserts one, and the index of
    /// its own among them.
    step: u64,
    own: u64,
    inserted: u64,
    zipf: Zipf,
}

impl Requests {
    /// The requests of one of `threads` threads that share `keys` keys.
    pub(crate) fn new(mix: RequestMix, keys: u64, (thread, threads): (u64, u64)) -> Requests {
        let zipf = Zipf::new(mix.records(keys).max(1));
        Requests { mix, keys, step: threads, own: thread, inserted: 0, zipf }
    }

    /// The number of records inserted so far, which can exceed the number of keys.
    fn records(&self) -> u64 {
        self.mix.records(self.keys) + self.inserted * self.step
    }

    /// The next request: its kind and its key.
    pub(crate) fn next(&mut self, rng: &mut Xoshiro256PlusPlus) -> (Op, u64) {
        let RequestMix { reads, updates, inserts, scans, .. } = self.mix;
        let share = below(rng, 100);
        let op = match share {
            _ if share < reads => Op::Read,
            _ if share < reads + updates => Op::Update,
            _ if share < reads + updates + inserts => Op::Put,
            _ if share < reads + updates + inserts + scans => Op::Scan(1 + below(rng, SCAN_MAX)),
            _ => Op::ReadModifyWrite,
        };
        let record = if op == Op::Put { self.insert() } else { self.choose(rng) };
        (op, scatter(record % self.keys, self.keys))
    }

    fn insert(&mut self) -> u64 {
        let record = self.records() + self.own;
        self.inserted += 1;
        self.zipf.resize(self.records().min(self.keys));
        record
    }

    fn choose(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let count = self.zipf.count();
        match self.mix.keys {
            KeyChoice::Uniform => below(rng, count),
            KeyChoice::Zipfian => self.zipf.rank(rng),
            KeyChoice::Latest => self.records().max(count) - 1 - self.zipf.rank(rng),
        }
    }
}

#[cfg(test)]
mod tests;
