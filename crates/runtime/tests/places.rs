//! Where everything in a pool is, said a second time from `docs/format.md` and not from the code:
//! the two must agree, or one of them is wrong.

pub(crate) const LINE: usize = 64;
pub(crate) const CHUNK: usize = 64 << 10;
pub(crate) const STATES: usize = 2 << 10;
pub(crate) const ENDED_WORD: usize = 1;
const HEADER: usize = 192;
const TYPE_TABLE: usize = 2048;
const VALUE: u64 = (1 << 40) - 1;
pub(crate) const SIZES: [usize; 38] = [
    32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024,
    1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6336, 7040, 7936, 9024, 10560, 12672,
    15872, 21120, 31744, 63488,
];

/// The byte offsets of the parts of a heap for one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) state: usize,
    pub(crate) root: usize,
    pub(crate) types: usize,
    pub(crate) thread: usize,
    pub(crate) logs: usize,
    pub(crate) log_bytes: usize,
    pub(crate) table: usize,
    pub(crate) data: usize,
    pub(crate) chunks: usize,
}

/// What a byte of a pool belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Header,
    State,
    Root,
    Types,
    Thread,
    /// Half 0 or 1 of the log of new values, or 2: the log of old ones.
    Log(usize),
    Table,
    Chunk,
    Gap,
}

pub(crate) fn word(pm: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*pm[at..].first_chunk().expect("inside"))
}

fn lines(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE)
}

impl Places {
    pub(crate) fn of(pm: &[u8]) -> Places {
        let root = |number: usize| word(pm, 64 + 8 * number) as usize;
        let (threads, log_bytes, chunks_max, root_bytes) = (root(1), root(2), root(3), root(5));
        let state = HEADER;
        let root = state + LINE;
        let types = root + lines(root_bytes);
        let thread = types + TYPE_TABLE;
        let logs = thread + threads * LINE;
        let table = logs + 3 * threads * log_bytes;
        let data = (table + lines(8 * chunks_max)).next_multiple_of(CHUNK);
        let chunks = (word(pm, state + 8) & VALUE) as usize;
        Places { state, root, types, thread, logs, log_bytes, table, data, chunks }
    }

    pub(crate) fn part(&self, at: usize) -> Part {
        match at {
            at if at < self.state => Part::Header,
            at if at < self.root => Part::State,
            at if at < self.types => Part::Root,
            at if at < self.thread => Part::Types,
            at if at < self.logs => Part::Thread,
            at if at < self.table => Part::Log((at - self.logs) / self.log_bytes),
            at if at < self.table + 8 * self.chunks => Part::Table,
            at if at < self.data => Part::Gap,
            _ => Part::Chunk,
        }
    }

    pub(crate) fn log(&self, log: usize) -> usize {
        self.logs + log * self.log_bytes
    }

    /// Kind and number of what each chunk entry that counts says, with its chunk.
    pub(crate) fn entries(&self, pm: &[u8]) -> Vec<(usize, u64, usize)> {
        let (mut chunk, mut entries) = (0, Vec::new());
        while chunk < self.chunks {
            let value = word(pm, self.table + 8 * chunk) & VALUE;
            let (kind, number) = (value & 7, (value >> 10) as usize);
            entries.push((chunk, kind, number));
            chunk += if kind == 1 || kind == 3 { number } else { 1 };
        }
        entries
    }

    /// Where the records of a log are that recovery counts, each with its bytes without padding;
    /// an open undo transaction is one whose number is greater than the last that ended.
    pub(crate) fn records(&self, pm: &[u8], log: usize) -> Vec<(usize, usize)> {
        let retired = word(pm, self.state) & VALUE;
        let ended = word(pm, self.thread + 8 * ENDED_WORD) & VALUE;
        let (mut at, mut records) = (0, Vec::new());
        while at + LINE <= self.log_bytes {
            let start = self.log(log) + at;
            let (size, number) = (word(pm, start) >> 32, word(pm, start + 16));
            let (generation, line) = (number >> 24, number & 0xff_ffff);
            let counts = match log {
                2 => generation > ended,
                half => {
                    (retired + 1..=retired + 2).contains(&generation)
                        && generation % 2 == half as u64
                }
            };
            let bytes = 8 * size as usize;
            if !counts || line as usize != at / LINE || bytes > self.log_bytes - at {
                break;
            }
            let sum = self.sum(pm, log, &pm[start..start + bytes]);
            if u64::from(sum) != word(pm, start) & 0xffff_ffff {
                break;
            }
            records.push((start, bytes));
            at += lines(bytes);
        }
        records
    }

    /// The checksum that a record of these bytes must have in that log.
    pub(crate) fn sum(&self, pm: &[u8], log: usize, record: &[u8]) -> u32 {
        let of_pool = crc32c::crc32c(&pm[48..64]);
        let of_log = crc32c::crc32c_append(of_pool, &(self.log(log) as u64).to_le_bytes());
        crc32c::crc32c_append(of_log ^ (record.len() / 8) as u32, &record[8..])
    }
}
