//! Where everything in a pool is, said a second time from `docs/format.md` and not from the code:
//! the two must agree, or one of them is wrong.

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Bytes of a chunk.
pub const CHUNK: usize = 64 << 10;
/// Bytes of block states at the start of a chunk.
pub const STATES: usize = 2 << 10;
/// The word of a thread's line with the number of its last ended transaction.
pub const ENDED_WORD: usize = 1;
/// The first of the three words of how far the logs are written.
pub const REACH_WORD: usize = 2;
/// The first of the two words with the ends of the closed halves of the log.
pub const CLOSED_WORD: usize = 5;
const HEADER: usize = 192;
const TYPE_TABLE: usize = 2048;
/// Types that a pool can have.
pub const TYPES: usize = 126;
/// Bytes of a type's name.
pub const TEXT: usize = 256;
const VALUE: u64 = (1 << 40) - 1;
/// The size classes, in bytes.
pub const SIZES: [usize; 38] = [
    32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024,
    1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6336, 7040, 7936, 9024, 10560, 12672,
    15872, 21120, 31744, 63488,
];

/// The byte offsets of the parts of a heap for one thread.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The state of the heap.
    pub state: usize,
    /// The root object.
    pub root: usize,
    /// The table of types.
    pub types: usize,
    /// The names of types.
    pub texts: usize,
    /// The line of the thread.
    pub thread: usize,
    /// The first log.
    pub logs: usize,
    /// The size of each log.
    pub log_bytes: usize,
    /// The table of chunks.
    pub table: usize,
    /// The first chunk.
    pub data: usize,
    /// The number of chunks, which is no offset.
    pub chunks: usize,
}

/// What a byte of a pool belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The header.
    Header,
    /// The state of the heap.
    State,
    /// The root object.
    Root,
    /// The table of types.
    Types,
    /// The names of types.
    Texts,
    /// The line of the thread.
    Thread,
    /// Half 0 or 1 of the log of new values, or 2: the log of old ones.
    Log(usize),
    /// The table of chunks, as far as it is in use.
    Table,
    /// A chunk.
    Chunk,
    /// Nothing: what lies between the table in use and the first chunk.
    Gap,
}

/// The word at `at`, in the order of bytes of the format.
pub fn word(pm: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*pm[at..].first_chunk().expect("inside"))
}

fn lines(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE)
}

impl Places {
    /// The places of the heap in `pm`.
    pub fn of(pm: &[u8]) -> Places {
        let root = |number: usize| word(pm, 64 + 8 * number) as usize;
        let (threads, log_bytes, chunks_max, root_bytes) = (root(1), root(2), root(3), root(5));
        let state = HEADER;
        let root = state + LINE;
        let types = root + lines(root_bytes);
        let texts = types + TYPE_TABLE;
        let thread = texts + TYPES * TEXT;
        let logs = thread + threads * LINE;
        let table = logs + 3 * threads * log_bytes;
        let data = (table + lines(8 * chunks_max)).next_multiple_of(CHUNK);
        let chunks = (word(pm, state + 8) & VALUE) as usize;
        Places { state, root, types, texts, thread, logs, log_bytes, table, data, chunks }
    }

    /// The part that the byte at `at` belongs to.
    pub fn part(&self, at: usize) -> Part {
        match at {
            at if at < self.state => Part::Header,
            at if at < self.root => Part::State,
            at if at < self.types => Part::Root,
            at if at < self.texts => Part::Types,
            at if at < self.thread => Part::Texts,
            at if at < self.logs => Part::Thread,
            at if at < self.table => Part::Log((at - self.logs) / self.log_bytes),
            at if at < self.table + 8 * self.chunks => Part::Table,
            at if at < self.data => Part::Gap,
            _ => Part::Chunk,
        }
    }

    /// The offset of a log's first byte.
    pub fn log(&self, log: usize) -> usize {
        self.logs + log * self.log_bytes
    }

    /// The line of a log that a byte is in.
    pub fn line(&self, log: usize, at: usize) -> usize {
        (at - self.log(log)) / LINE
    }

    /// Kind and number of what each chunk entry that counts says, with its chunk.
    pub fn entries(&self, pm: &[u8]) -> Vec<(usize, u64, usize)> {
        let (mut chunk, mut entries) = (0, Vec::new());
        while chunk < self.chunks {
            let value = word(pm, self.table + 8 * chunk) & VALUE;
            let (kind, number) = (value & 7, (value >> 10) as usize);
            entries.push((chunk, kind, number));
            chunk += if kind == 1 || kind == 3 { number } else { 1 };
        }
        entries
    }

    /// Where the records of a log are that recovery counts, each with its bytes; an open undo
    /// transaction is one whose number is greater than the last that ended.
    pub fn records(&self, pm: &[u8], log: usize) -> Vec<(usize, usize)> {
        let retired = word(pm, self.state) & VALUE;
        let ended = word(pm, self.thread + 8 * ENDED_WORD) & VALUE;
        let (mut at, mut records) = (0, Vec::new());
        while at < self.log_bytes {
            let start = self.log(log) + at;
            let number = self.number(pm, log, at / LINE);
            let (generation, bytes) = (number >> 24, LINE * ((number & 0xff_ffff) as usize + 1));
            let counts = match log {
                2 => generation > ended,
                half => {
                    (retired + 1..=retired + 2).contains(&generation)
                        && generation % 2 == half as u64
                }
            };
            if !counts || bytes > self.log_bytes - at {
                break;
            }
            if self.sum(pm, log, &pm[start..start + bytes]) != word(pm, start) {
                break;
            }
            records.push((start, bytes));
            at += bytes;
        }
        records
    }

    /// The three keys of a log, or of a part of one, that starts there.
    fn keys(pm: &[u8], start: usize) -> [u64; 3] {
        let pool = fold(word(pm, 48) ^ C[0], word(pm, 56) ^ C[1]);
        let first = fold(pool ^ start as u64, C[2]);
        let second = fold(first ^ C[0], C[3]);
        [first, second, fold(second ^ C[1], C[2])]
    }

    fn veil(&self, pm: &[u8], log: usize, line: usize) -> u64 {
        Places::keys(pm, self.log(log))[2] ^ (line as u64).wrapping_mul(C[1])
    }

    /// What word 2 of that line of a log is for a record of that number.
    pub fn veiled(&self, pm: &[u8], log: usize, line: usize, number: u64) -> u64 {
        number.wrapping_mul(C[0]) ^ self.veil(pm, log, line)
    }

    /// The number that word 2 of that line of a log says.
    pub fn number(&self, pm: &[u8], log: usize, line: usize) -> u64 {
        let word = word(pm, self.log(log) + line * LINE + 16);
        let newton = |x: u64, _| x.wrapping_mul(2u64.wrapping_sub(C[0].wrapping_mul(x)));
        let inverse = (0..6).fold(1, newton);
        (word ^ self.veil(pm, log, line)).wrapping_mul(inverse)
    }

    /// The sum that a record of these bytes must have in that log.
    pub fn sum(&self, pm: &[u8], log: usize, record: &[u8]) -> u64 {
        Places::sum_at(pm, self.log(log), record)
    }

    /// The same, in a log or a part of one that starts there.
    pub fn sum_at(pm: &[u8], start: usize, record: &[u8]) -> u64 {
        let [first, second, _] = Places::keys(pm, start);
        let mut record = record.to_vec();
        record[..8].fill(0);
        let (mut a, mut b) = (second, first);
        for pair in (0..record.len()).step_by(32) {
            a = fold(a ^ word(&record, pair), first ^ word(&record, pair + 8));
            b = fold(b ^ word(&record, pair + 16), second ^ word(&record, pair + 24));
        }
        fold(a ^ C[3], b ^ first)
    }
}

const C: [u64; 4] =
    [0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93];

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product % (1 << 64)) as u64 ^ (product / (1 << 64)) as u64
}

/// The checked word at `at` for `value`.
pub fn checked(at: usize, value: u64) -> u64 {
    let bytes = [(at as u64).to_le_bytes(), value.to_le_bytes()].concat();
    value | u64::from(crc32c::crc32c(&bytes) & 0xff_ffff) << 40
}
