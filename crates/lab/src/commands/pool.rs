//! What is in a pool file, without changing a byte of it.
//!
//! Its header is judged first, and says how much of the file is in use. That is read into memory
//! and opened there, so recovery runs and leaves the file as it is. The file is locked, because a
//! file that a program changes cannot be judged. Then every structure is looked at whose type the
//! pool describes; of the others it is said that nobody has looked.

use clap::Args;
use seawall_collections::fields;
use seawall_memory::Image;
use seawall_native::{PoolError, PoolFile};
use seawall_report::{Experiment, Files, Form, Progress, Report, json_lines};
use seawall_runtime::pool::{self, Header, HeaderError};
use seawall_runtime::{AccessError, CHUNK_BYTES, Heap, HeapError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The largest heap that is examined: all of it is held in memory.
pub const EXAMINED_BYTES_MAX: u64 = 16 << 30;
/// Bytes that say how many are in use.
const HEAD_BYTES: u64 = 4096;

/// Why a file cannot be examined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExamineError {
    /// It cannot be read, or is no pool file.
    #[error(transparent)]
    File(PoolError),
    /// A program works on it.
    #[error(
        "{path}: in use by another process; end that first, or let it make a copy between two \
         transactions: one that is made while it works is torn"
    )]
    InUse {
        /// The file.
        path: String,
    },
    /// It does not fit in memory.
    #[error("{path}: {bytes} bytes in use; at most {EXAMINED_BYTES_MAX} can be examined")]
    TooLarge {
        /// The file.
        path: String,
        /// Those of it that are in use.
        bytes: u64,
    },
    /// It is not a pool, or one of another version.
    #[error("{path}: {source}")]
    NotAPool {
        /// The file.
        path: String,
        /// What it is instead.
        source: HeaderError,
    },
}

impl From<PoolError> for ExamineError {
    fn from(error: PoolError) -> ExamineError {
        match error {
            PoolError::InUse { path } => ExamineError::InUse { path },
            other => ExamineError::File(other),
        }
    }
}

/// Which pool file to examine.
#[derive(Clone, Debug, Args)]
pub struct ExamineOptions {
    /// Pool file
    pub file: PathBuf,
    /// Write what was found to this file, as one JSON record [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Whether only the verdict is wanted.
    #[arg(skip)]
    pub is_brief: bool,
}

impl Experiment for ExamineOptions {
    type Plan = ExamineOptions;
    type Report = Examined;
    type Error = ExamineError;

    fn plan(&self) -> Result<ExamineOptions, ExamineError> {
        Ok(self.clone())
    }

    fn files(&self, _: &ExamineOptions) -> Files {
        Files::without_partial().reads("the pool file", &self.file).results(Form::Json, &self.json)
    }

    fn run(
        plan: ExamineOptions,
        _: &Progress,
        _: &Arc<AtomicBool>,
    ) -> Result<Examined, ExamineError> {
        Ok(Examined { report: examine(&plan.file)?, is_brief: plan.is_brief })
    }
}

/// A report, and how much of it is to be printed.
#[derive(Clone, Debug)]
pub struct Examined {
    report: PoolReport,
    is_brief: bool,
}

impl Report for Examined {
    fn text(&self) -> String {
        if self.is_brief { self.report.verdict() } else { self.report.to_string() }
    }

    fn found(&self) -> bool {
        self.report.is_damaged()
    }

    fn json(&self) -> String {
        json_lines([&self.report])
    }
}

/// What a pool file holds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PoolReport {
    pub file: PathBuf,
    /// Its size in bytes.
    pub file_bytes: u64,
    /// What is damaged, if anything is; what else is said is as far as it could be read.
    pub damage: Option<String>,
    /// What its header says.
    #[serde(flatten)]
    pub header: Option<HeaderReport>,
    /// What the heap in it holds.
    pub heap: Option<HeapReport>,
}

/// What the header of a pool says.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct HeaderReport {
    /// The name of the layout.
    pub name: String,
    pub kind: &'static str,
    /// Its unique number, in hexadecimal digits.
    pub uuid: String,
    /// Bytes when it was made.
    pub made_bytes: u64,
}

/// What a heap holds, after what recovery would do.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct HeapReport {
    /// Threads that may use it at once.
    pub threads: u64,
    /// Bytes of each half of a thread's log.
    pub log_bytes: u64,
    /// Bytes that it may grow to.
    pub bytes_max: u64,
    /// Bytes of the root object.
    pub root_bytes: u64,
    /// Committed transactions that opening it will replay.
    pub to_replay: u64,
    /// Transactions that opening it will undo.
    pub to_undo: u64,
    /// Chunks of 64 KiB.
    pub chunks: u64,
    /// Bytes of the chunks that hold objects.
    pub footprint: u64,
    pub objects: u64,
    /// Bytes of their blocks.
    pub live: u64,
    /// Bytes of pages in use for each live byte.
    pub fragmentation: f64,
    /// Objects that were looked at, as their types are described.
    pub objects_seen: u64,
    /// Whether the root was.
    pub root_seen: bool,
    /// The objects of each type.
    pub types: Vec<TypeReport>,
}

/// The live objects of one type.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct TypeReport {
    /// The number of the type; none for objects that were allocated as bytes.
    pub number: Option<u8>,
    /// What it is called in Rust; none for objects that were allocated as bytes.
    pub name: Option<String>,
    /// Its fields as they are declared.
    pub fields: Option<String>,
    /// Bytes of a value.
    pub size: Option<u64>,
    /// How many there are.
    pub objects: u64,
    /// Bytes of their blocks.
    pub bytes: u64,
}

/// Examines the pool file at `path`, which stays as it is.
///
/// # Errors
/// When it cannot be read, is in use, or is not a pool of this version. Damage is no error: the
/// report names it.
pub fn examine(path: &Path) -> Result<PoolReport, ExamineError> {
    let opened = PoolFile::read(path)?;
    let (file, file_bytes) = (path.to_owned(), opened.bytes()?);
    let head = Image::from_pm(read(&opened, HEAD_BYTES)?, 0);
    let report = PoolReport { file, file_bytes, damage: None, header: None, heap: None };
    let header = match pool::read(&head, file_bytes) {
        Err(source @ (HeaderError::NotAPool(_) | HeaderError::Version { .. })) => {
            return Err(ExamineError::NotAPool { path: path.display().to_string(), source });
        }
        Err(damage) => return Ok(PoolReport { damage: Some(damage.to_string()), ..report }),
        Ok(header) => header,
    };
    let is_heap = Heap::is_described_by(&header);
    let report = PoolReport { header: Some(HeaderReport::of(&header, is_heap)), ..report };
    if !is_heap {
        return Ok(report);
    }
    let heap = match Heap::bytes_used(&head, file_bytes) {
        Ok(used) => examine_heap(read(&opened, used)?, &header.name),
        Err(damage) => Err(damage),
    };
    Ok(match heap {
        Ok(heap) => PoolReport { heap: Some(heap), ..report },
        Err(damage) => PoolReport { damage: Some(damage.to_string()), ..report },
    })
}

/// The first `bytes` of a file, or all if it has no more.
fn read(file: &PoolFile, bytes: u64) -> Result<Vec<u8>, ExamineError> {
    let bytes = bytes.min(file.bytes()?);
    if bytes > EXAMINED_BYTES_MAX {
        return Err(ExamineError::TooLarge { path: file.name(), bytes });
    }
    let mut pm = vec![0; bytes as usize];
    let read = file.file().read_exact_at(&mut pm, 0);
    read.map_err(|source| PoolError::System { path: file.name(), action: "read it", source })?;
    Ok(pm)
}

fn examine_heap(pm: Vec<u8>, name: &str) -> Result<HeapReport, HeapError> {
    let bytes = pm.len() as u64;
    let image = Image::from_pm(pm, 0);
    let dram_bytes = Heap::read(&image, name, bytes)?.dram_bytes() + fields::DRAM_BYTES;
    let image = Image::from_pm(image.into_pm(), dram_bytes);
    let (heap, recovered) = Heap::open(&image, name, bytes)?;
    let stats = heap.stats(&image)?;
    let seen = fields::inspect(&mut heap.join(&image))?;
    Ok(HeapReport {
        threads: heap.threads(),
        log_bytes: heap.log_bytes(),
        bytes_max: heap.pm_bytes_max(),
        root_bytes: heap.root_bytes(),
        to_replay: recovered.replayed,
        to_undo: recovered.rolled_back,
        chunks: stats.bytes / CHUNK_BYTES,
        footprint: stats.footprint,
        objects: stats.objects,
        live: stats.live,
        fragmentation: stats.fragmentation(),
        objects_seen: seen.seen,
        root_seen: seen.has_root,
        types: types_of(&heap, &image)?,
    })
}

/// What objects there are: of each type that the heap knows, and last of those without one.
fn types_of(heap: &Heap, image: &Image) -> Result<Vec<TypeReport>, AccessError> {
    let known = heap.types(image)?.into_iter().map(|known| TypeReport {
        number: Some(known.number),
        name: Some(known.name),
        fields: Some(known.fields),
        size: Some(known.bytes),
        ..TypeReport::default()
    });
    let mut types: BTreeMap<u8, TypeReport> = BTreeMap::new();
    types.extend(known.filter_map(|known| Some((known.number?, known))));
    let mut untyped = TypeReport::default();
    heap.objects(image, |object| {
        let of_type = match object.type_number {
            Some(number) => types
                .entry(number)
                .or_insert_with(|| TypeReport { number: Some(number), ..TypeReport::default() }),
            None => &mut untyped,
        };
        of_type.objects += 1;
        of_type.bytes += object.bytes;
    })?;
    let untyped = Some(untyped).filter(|untyped| untyped.objects > 0);
    Ok(types.into_values().chain(untyped).collect())
}

impl HeaderReport {
    fn of(header: &Header, is_heap: bool) -> HeaderReport {
        HeaderReport {
            name: header.name.clone(),
            kind: if is_heap { "heap" } else { "workload" },
            uuid: format!("{:032x}", header.uuid),
            made_bytes: header.bytes,
        }
    }
}

impl PoolReport {
    /// True if something in it is damaged.
    pub fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    /// The verdict, in a line.
    pub fn verdict(&self) -> String {
        let file = self.file.display();
        match (&self.damage, &self.heap) {
            (Some(damage), _) => format!("{file}: DAMAGED: {damage}\n"),
            (None, None) => format!(
                "{file}: the header is sound; `seawall run WORKLOAD --recover` checks the rest\n"
            ),
            (None, Some(heap)) => {
                let pending = match heap.to_replay + heap.to_undo {
                    0 => String::new(),
                    _ => format!(
                        "; opening it will replay {} transactions and undo {}",
                        heap.to_replay, heap.to_undo
                    ),
                };
                match self.unseen(heap) {
                    None => format!("{file}: sound{pending}\n"),
                    Some(unseen) => {
                        format!("{file}: the heap is sound{pending}; not looked at: {unseen}\n")
                    }
                }
            }
        }
    }

    /// What of a heap was not looked at, and who can.
    fn unseen(&self, heap: &HeapReport) -> Option<String> {
        let root = (!heap.root_seen).then(|| "the root".to_owned());
        let objects = (heap.objects_seen < heap.objects).then(|| {
            let unseen = heap.objects - heap.objects_seen;
            format!("what is in {unseen} of {} objects", heap.objects)
        });
        let parts: Vec<String> = root.into_iter().chain(objects).collect();
        let name = self.header.as_ref().map_or("", |header| &header.name);
        let who = match name {
            "libseawall" => "its program, by sw_map_check and sw_omap_check".into(),
            _ if seawall_any::workload(name).is_ok() => {
                format!("`seawall run {name} --recover {}`", self.file.display())
            }
            _ => "its program".into(),
        };
        (!parts.is_empty()).then(|| format!("{}; {who} can", parts.join(" and ")))
    }
}

impl fmt::Display for PoolReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verdict())?;
        let mut row = |name: &str, value: String| writeln!(f, "{name:14}{value}");
        if let Some(header) = &self.header {
            row("name", format!("{} ({})", header.name, header.kind))?;
            row("uuid", header.uuid.clone())?;
            row("bytes", format!("{} (made with {})", self.file_bytes, header.made_bytes))?;
        }
        let Some(heap) = &self.heap else { return Ok(()) };
        row("grows to", format!("{} bytes", heap.bytes_max))?;
        row("threads", format!("{}, each with 3 logs of {} bytes", heap.threads, heap.log_bytes))?;
        row("root", format!("{} bytes", heap.root_bytes))?;
        row("chunks", format!("{} of 64 KiB, {} bytes in use", heap.chunks, heap.footprint))?;
        row("live", format!("{} objects in {} bytes", heap.objects, heap.live))?;
        row("looked at", format!("{} of these objects", heap.objects_seen))?;
        row("fragmentation", format!("{:.2}", heap.fragmentation))?;
        for of_type in &heap.types {
            let row_name = of_type.number.map_or("bytes".into(), |number| format!("type {number}"));
            let name = of_type.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
            row(
                &row_name,
                format!("{name}{} objects in {} bytes", of_type.objects, of_type.bytes),
            )?;
            if let Some(fields) = of_type.fields.as_ref().filter(|fields| !fields.is_empty()) {
                row("", fields.clone())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
