//! Finished runs in a file, so that long work that was stopped goes on where it was.
//!
//! The first line names the build that wrote it: another build may measure something else, so it is
//! refused. Each other line is a run, told by a hash of everything that it depends on.

use super::lines::{Found, Lines};
use crate::LabError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// The option that names the file.
const OPTION: &str = "--keep";
/// What the file begins with.
const BEGINNING: &str = "{\"seawall\":\"finished runs\"";

/// A result that can be kept.
pub(crate) trait Keep<P>: Sized {
    /// What is written of it; none if it says more than a line can.
    fn to_line(&self) -> Option<Value>;

    /// What came of `piece`, from what was written of it.
    fn from_line(piece: &P, line: &Value) -> Option<Self>;
}

/// Results that are records are kept as they are written.
macro_rules! kept_as_written {
    ($($Record:ty),*) => {
        $(impl<P> $crate::engine::kept::Keep<P> for $Record {
            fn to_line(&self) -> Option<serde_json::Value> {
                serde_json::to_value(self).ok()
            }

            fn from_line(_: &P, line: &serde_json::Value) -> Option<Self> {
                serde_json::from_value(line.clone()).ok()
            }
        })*
    };
}

pub(crate) use kept_as_written;

#[derive(Serialize, Deserialize)]
struct Run {
    /// For those who read the file.
    run: String,
    key: String,
    value: Value,
}

/// The file.
pub(crate) struct Kept {
    lines: Mutex<Lines>,
    found: HashMap<String, Value>,
    /// How many of those were asked for.
    taken: AtomicUsize,
}

impl Kept {
    /// Opens or starts the file.
    ///
    /// # Errors
    /// A file of something else, of another build, or one that another run has.
    pub(crate) fn open(path: &Path) -> Result<Kept, LabError> {
        let (mut lines, Found { whole, torn }) = Lines::open(path, OPTION)?;
        let other = |line: usize, what: &str| LabError::OtherFile {
            path: path.display().to_string(),
            line,
            what: what.to_owned(),
            option: OPTION,
        };
        let begun = BEGINNING.as_bytes();
        let head = match whole.is_empty() {
            true => &torn[..],
            false => whole.as_bytes(),
        };
        if !head.starts_with(&begun[..begun.len().min(head.len())]) {
            return Err(other(1, "it has no runs of seawall"));
        }
        let first = format!("{BEGINNING},\"build\":\"{}\"}}", build()?);
        let mut text = whole.lines();
        match text.next() {
            Some(line) if line != first => {
                return Err(other(1, "another build of seawall wrote it"));
            }
            _ => lines.drop_torn()?,
        }
        if whole.is_empty() {
            lines.add(&(first + "\n"))?;
        }
        let runs = text.enumerate().map(|(at, line)| {
            let run: Result<Run, _> = serde_json::from_str(line);
            run.map(|run| (run.key, run.value)).map_err(|_| other(at + 2, "it is no run"))
        });
        let found = runs.collect::<Result<_, _>>()?;
        Ok(Kept { lines: Mutex::new(lines), found, taken: AtomicUsize::new(0) })
    }

    /// What came of `piece` on `machine`, if the file had it when it was opened.
    pub(crate) fn get<P: Debug, T: Keep<P>>(&self, machine: &str, piece: &P) -> Option<T> {
        let result = T::from_line(piece, self.found.get(&key(machine, piece))?)?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(result)
    }

    /// How many runs were there already.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Writes what came of `piece`; `name` is for people.
    pub(crate) fn add<P: Debug, T: Keep<P>>(
        &self,
        machine: &str,
        piece: &P,
        name: String,
        result: &T,
    ) -> Result<(), LabError> {
        let Some(value) = result.to_line() else { return Ok(()) };
        let run = Run { run: name, key: key(machine, piece), value };
        let line = serde_json::to_string(&run).unwrap_or_default() + "\n";
        self.lines.lock().unwrap_or_else(|error| error.into_inner()).add(&line)
    }
}

/// A hash of everything that a run depends on, of which `Debug` shows all.
fn key<P: Debug>(machine: &str, piece: &P) -> String {
    let mut hasher = DefaultHasher::new();
    (machine, format!("{piece:?}")).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// A hash of the file that this code was loaded from: the program, or a library that another
/// program has loaded, as Python does.
///
/// # Errors
/// When the file cannot be read.
pub fn build() -> Result<&'static str, LabError> {
    static BUILD: OnceLock<String> = OnceLock::new();
    match BUILD.get() {
        Some(build) => Ok(build),
        None => {
            let path = file_of_this_code().map_err(LabError::file(Path::new(MAPS)))?;
            let hash = hash_of(&path)?;
            Ok(BUILD.get_or_init(|| hash))
        }
    }
}

/// Which files this process has mapped, and where.
const MAPS: &str = "/proc/self/maps";

/// The file that is mapped at the address of [`build`].
fn file_of_this_code() -> io::Result<PathBuf> {
    let here = build as *const () as u64;
    let maps = std::fs::read_to_string(MAPS)?;
    let found = maps.lines().find_map(|line| mapped_at(line, here));
    found.map_or_else(std::env::current_exe, |path| Ok(path.into()))
}

/// The path in a line of the maps, if `address` is in it.
fn mapped_at(line: &str, address: u64) -> Option<&str> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let is_in = (number(start)?..number(end)?).contains(&address);
    is_in.then(|| &rest[rest.find('/').unwrap_or(rest.len())..]).filter(|path| !path.is_empty())
}

fn hash_of(path: &Path) -> Result<String, LabError> {
    let mut file = std::fs::File::open(path).map_err(LabError::file(path))?;
    let (mut hasher, mut part) = (DefaultHasher::new(), vec![0; 1 << 20]);
    loop {
        let bytes = file.read(&mut part).map_err(LabError::file(path))?;
        if bytes == 0 {
            return Ok(format!("{:016x}", hasher.finish()));
        }
        hasher.write(&part[..bytes]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Sum(u64);

    impl Keep<u64> for Sum {
        fn to_line(&self) -> Option<Value> {
            Some(self.0.into())
        }

        fn from_line(_: &u64, line: &Value) -> Option<Sum> {
            line.as_u64().map(Sum)
        }
    }

    fn refused(path: &Path) -> String {
        Kept::open(path).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn what_was_added_is_found_again_for_its_machine_and_a_cut_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let kept = Kept::open(&path).unwrap();
        kept.add("one", &1, "first".into(), &Sum(7)).unwrap();
        kept.add("one", &2, "second".into(), &Sum(8)).unwrap();
        drop(kept);
        let bytes = std::fs::read(&path).unwrap();
        let kept = Kept::open(&path).unwrap();
        assert_eq!(kept.get("one", &1), Some(Sum(7)));
        assert_eq!(kept.get("one", &2), Some(Sum(8)));
        assert_eq!(kept.get::<_, Sum>("another", &1), None);
        drop(kept);
        for end in 0..bytes.len() {
            std::fs::write(&path, &bytes[..end]).unwrap();
            let kept = Kept::open(&path).unwrap();
            assert_eq!(kept.get::<_, Sum>("one", &2), None, "cut at {end}");
            kept.add("one", &2, "second".into(), &Sum(8)).unwrap();
            drop(kept);
            assert_eq!(Kept::open(&path).unwrap().get("one", &2), Some(Sum(8)), "cut at {end}");
        }
    }

    #[test]
    fn the_build_is_that_of_the_file_that_has_the_code() {
        let this = std::env::current_exe().unwrap();
        assert_eq!(file_of_this_code().unwrap(), this);
        assert_eq!(build().unwrap(), hash_of(&this).unwrap());
        let line = "7f10-7f20 r-xp 00000000 fe:00 12 /opt/x y/_seawall.abi3.so";
        assert_eq!(mapped_at(line, 0x7f1f), Some("/opt/x y/_seawall.abi3.so"));
        assert_eq!(mapped_at(line, 0x7f20), None);
        assert_eq!(mapped_at("7f10-7f20 r-xp 00000000 00:00 0 [vdso]", 0x7f10), None);
    }

    #[test]
    fn a_file_of_something_else_or_of_another_build_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        Kept::open(&path).unwrap().add("one", &1, "first".into(), &Sum(7)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let others = [
            ("dear reader", "no runs"),
            ("dear reader\n", "no runs"),
            (&text.replacen("\"build\":\"", "\"build\":\"0", 1), "another build"),
            (&text.replacen("\"key\"", "\"kay\"", 1), "line 2"),
        ];
        for (text, what) in others {
            std::fs::write(&path, text).unwrap();
            let message = refused(&path);
            assert!(message.contains(what) && message.contains("--keep"), "{message}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert!(refused(folder.path()).contains("no ordinary file"));
    }
}
