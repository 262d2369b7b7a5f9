//! The settings of a pool, and of all pools.
//!
//! The names are those of PMDK's manual of `pmemobj_ctl_get`. One table says which numbers there
//! are; what this library does by itself is accepted and changes nothing. The variable
//! `PMEMOBJ_CONF`, and the file that `PMEMOBJ_CONF_FILE` names, set them at each opening.

use crate::error::Failure;
use crate::types::{ALIGNMENT_MAX, BYTES_MAX};
use libc::{c_int, c_uint};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `struct pobj_alloc_class_desc`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassDescription {
    unit_bytes: usize,
    alignment: usize,
    units: c_uint,
    header: c_int,
    number: c_uint,
}

/// The settings of a pool.
#[derive(Debug)]
pub(crate) struct Settings {
    /// One for each entry of [`NUMBERS`].
    pub(crate) numbers: [AtomicI64; NUMBERS.len()],
    lists: Mutex<Lists>,
    /// Bytes that were allocated when statistics were enabled: those are not counted.
    pub(crate) before: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct Lists {
    classes: Vec<ClassDescription>,
    /// Whether threads get the arena by themselves.
    pub(crate) arenas: Vec<bool>,
    pub(crate) arenas_max: c_uint,
}

impl Default for Settings {
    fn default() -> Settings {
        let arenas = std::thread::available_parallelism().map_or(1, usize::from);
        let lists = Lists { classes: Vec::new(), arenas: vec![true; arenas], arenas_max: 1024 };
        let numbers = std::array::from_fn(|place| AtomicI64::new(NUMBERS[place].first));
        Settings { numbers, lists: Mutex::new(lists), before: AtomicU64::new(0) }
    }
}

impl Settings {
    pub(crate) fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The allocation class of that number, if the program has made it; none if it is one that
    /// pools have by themselves.
    pub(crate) fn class(&self, number: u64) -> Result<Option<ClassDescription>, Failure> {
        let lists = self.lists();
        let found = lists.classes.iter().find(|class| u64::from(class.number) == number);
        if found.is_none() && number >= FIRST_CLASS {
            return Err(Failure::invalid(format!("no allocation class {number}")));
        }
        Ok(found.copied())
    }

    /// What the program has said of a class.
    pub(crate) fn described_class(&self, which: &str) -> Result<ClassDescription, Failure> {
        let number = class_number(which)?;
        let lists = self.lists();
        let found = lists.classes.iter().find(|class| u64::from(class.number) == number);
        let none = || Failure::new(libc::ENOENT, format!("no allocation class {number}"));
        found.copied().ok_or_else(none)
    }

    /// Adds a class, of that number or a new one; gives it with its number.
    pub(crate) fn add_class(
        &self,
        which: &str,
        wanted: ClassDescription,
    ) -> Result<ClassDescription, Failure> {
        wanted.check()?;
        let mut lists = self.lists();
        let is_free =
            |number: u64| lists.classes.iter().all(|class| u64::from(class.number) != number);
        let number = match which {
            "new" => (FIRST_CLASS..=CLASSES_MAX)
                .find(|number| is_free(*number))
                .ok_or_else(|| Failure::invalid("all numbers of allocation classes are taken"))?,
            _ => class_number(which)?,
        };
        if number < FIRST_CLASS || !is_free(number) {
            let text =
                format!("allocation class {number} is there already; \"new\" finds a number");
            return Err(Failure::new(libc::EEXIST, text));
        }
        let is_same = |class: &ClassDescription| {
            (class.unit_bytes, class.header) == (wanted.unit_bytes, wanted.header)
                && class.alignment == wanted.alignment
        };
        if let Some(same) = lists.classes.iter().find(|class| is_same(class)) {
            let text = format!("allocation class {} has that size and header", same.number);
            return Err(Failure::invalid(text));
        }
        let made = ClassDescription { number: number as c_uint, ..wanted };
        lists.classes.push(made);
        Ok(made)
    }
}

/// The units that an object can have.
const UNITS_MAX: u64 = 64;

/// `enum pobj_header_type`
const LEGACY: c_int = 0;
const NONE: c_int = 2;

impl ClassDescription {
    fn check(&self) -> Result<(), Failure> {
        let (unit, alignment) = (self.unit_bytes as u64, self.alignment as u64);
        let is_sized = (1..=BYTES_MAX).contains(&unit) && self.units > 0;
        if !is_sized || !(0..3).contains(&self.header) {
            let text = "an allocation class of no bytes, no units or no such header";
            return Err(Failure::invalid(text));
        }
        if alignment > ALIGNMENT_MAX {
            let text = "alignments above 4096 bytes are not supported";
            return Err(Failure::new(libc::ENOTSUP, text));
        }
        let is_aligned = alignment.is_power_of_two() && unit.is_multiple_of(alignment);
        if alignment != 0 && !is_aligned {
            let text = "an alignment is a power of two that divides the units";
            return Err(Failure::invalid(text));
        }
        Ok(())
    }

    /// Bytes that the program may use of an object of so many: whole units, but for the header, and
    /// at most 64 of them.
    pub(crate) fn usable(&self, bytes: u64) -> Option<u64> {
        let header = match self.header {
            LEGACY => 64,
            NONE => 0,
            _ => 16,
        };
        let unit = (self.unit_bytes as u64).max(1);
        let units = (bytes + header).div_ceil(unit);
        (units <= UNITS_MAX).then(|| (units * unit).saturating_sub(header).max(bytes))
    }

    /// What the address of an object is a multiple of.
    pub(crate) fn alignment(&self) -> u64 {
        self.alignment as u64
    }

    /// Whether objects keep the number of their type.
    pub(crate) fn has_type(&self) -> bool {
        self.header != NONE
    }
}

/// The first number of a class that a program makes: as many as PMDK's heap has by itself.
const FIRST_CLASS: u64 = 54;
const CLASSES_MAX: u64 = 254;

/// The number of a class, as a program writes it.
fn class_number(text: &str) -> Result<u64, Failure> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(unknown(text));
    }
    let outside = || {
        let text = format!("allocation class {text}: the numbers are 0 to {CLASSES_MAX}");
        Failure::new(libc::ERANGE, text)
    };
    text.parse().ok().filter(|number| *number <= CLASSES_MAX).ok_or_else(outside)
}

/// The width of a number, to C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Int,
    LongLong,
}

/// A number that can be read and set, and that changes nothing here.
#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) name: &'static str,
    pub(crate) width: Width,
    first: i64,
    range: (i64, i64),
    /// Whether it holds for all pools, and can be set before there is one.
    pub(crate) is_global: bool,
}

const fn switch(name: &'static str, first: i64, is_global: bool) -> Number {
    Number { name, width: Width::Int, first, range: (0, 1), is_global }
}

const fn count(name: &'static str, first: i64) -> Number {
    Number { name, width: Width::LongLong, first, range: (0, i64::MAX), is_global: false }
}

pub(crate) const NUMBERS: [Number; 14] = [
    switch("prefault.at_create", 0, true),
    switch("prefault.at_open", 0, true),
    switch("sds.at_create", 1, true),
    switch("copy_on_write.at_open", 0, true),
    switch("fallocate.at_create", 1, true),
    switch("tx.debug.skip_expensive_checks", 0, false),
    switch("tx.debug.verify_user_buffers", 0, false),
    Number { range: (0, BYTES_MAX as i64), ..count("tx.cache.size", 32 << 10) },
    count("tx.cache.threshold", 32 << 10),
    count("heap.size.granularity", 0),
    Number { is_global: true, ..count("heap.arenas_default_max", 1024) },
    Number { name: STATS, width: Width::Int, first: 0, range: (0, 3), is_global: false },
    Number {
        name: "heap.arenas_assignment_type",
        width: Width::Int,
        first: 0,
        range: (0, 1),
        is_global: true,
    },
    Number {
        name: "debug.heap.alloc_pattern",
        width: Width::Int,
        first: -1,
        range: (-1, 255),
        is_global: false,
    },
];

pub(crate) const STATS: &str = "stats.enabled";
const COPY_ON_WRITE: &str = "copy_on_write.at_open";

/// The values that hold for all pools.
pub(crate) static GLOBAL: [AtomicI64; NUMBERS.len()] = {
    let mut values = [const { AtomicI64::new(0) }; NUMBERS.len()];
    let mut place = 0;
    while place < NUMBERS.len() {
        values[place] = AtomicI64::new(NUMBERS[place].first);
        place += 1;
    }
    values
};

pub(crate) fn unknown(name: &str) -> Failure {
    Failure::invalid(format!("invalid entry point \"{name}\": no such setting, or not that way"))
}

pub(crate) fn set(number: &Number, value: &AtomicI64, wanted: i64) -> Result<(), Failure> {
    if number.name == COPY_ON_WRITE && wanted != 0 {
        let text = "pools that are opened without changing them are not supported";
        return Err(Failure::new(libc::ENOTSUP, text));
    }
    let (least, most) = number.range;
    if !(least..=most).contains(&wanted) {
        let text = format!("{} is {wanted}; it must be {least} to {most}", number.name);
        return Err(Failure::invalid(text));
    }
    value.store(wanted, Relaxed);
    Ok(())
}

/// The settings of a pool that is opened: what `PMEMOBJ_CONF` says, and the file that
/// `PMEMOBJ_CONF_FILE` names: `name=value;`, with `#` before what is no setting.
pub(crate) fn from_environment() -> Result<Settings, Failure> {
    let settings = Settings::default();
    let mut all = std::env::var("PMEMOBJ_CONF").unwrap_or_default();
    let named = std::env::var_os("PMEMOBJ_CONF_FILE");
    if let Some(path) = named.filter(|path| !path.is_empty()) {
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
            Failure::new(errno, format!("{}: {error}", path.display()))
        })?;
        let lines = text.lines().filter_map(|line| line.split('#').next());
        all = all + ";" + &lines.collect::<String>();
    }
    all.retain(|letter| !letter.is_whitespace());
    for setting in all.split(';').filter(|setting| !setting.is_empty()) {
        apply(&settings, setting)?;
    }
    Ok(settings)
}

/// What `PMEMOBJ_NLANES` says: threads of a new pool that can be in transactions at a time.
pub(crate) fn lanes_wanted() -> Result<Option<u64>, Failure> {
    let Ok(text) = std::env::var("PMEMOBJ_NLANES") else { return Ok(None) };
    match text.parse() {
        Ok(0) | Err(_) => {
            let text = format!("PMEMOBJ_NLANES is {text:?}; it must be a number from 1 on");
            Err(Failure::invalid(text))
        }
        Ok(lanes) => Ok(Some(lanes)),
    }
}

fn apply(settings: &Settings, setting: &str) -> Result<(), Failure> {
    let (name, text) = setting.split_once('=').ok_or_else(|| unknown(setting))?;
    if let ["heap", "alloc_class", which, "desc"] = name.split('.').collect::<Vec<_>>()[..] {
        let wanted = description(text).ok_or_else(|| unknown(setting))?;
        return settings.add_class(which, wanted).map(|_| ());
    }
    let place = NUMBERS.iter().position(|number| number.name == name);
    let place = place.ok_or_else(|| unknown(setting))?;
    let number = &NUMBERS[place];
    let wanted = value_of(text).ok_or_else(|| unknown(setting))?;
    let value = if number.is_global { &GLOBAL } else { &settings.numbers };
    set(number, &value[place], wanted)
}

/// A number, or the name of one.
fn value_of(text: &str) -> Option<i64> {
    match text {
        "thread" | "transient" | "no" | "false" => Some(0),
        "global" | "both" | "yes" | "true" => Some(1),
        "persistent" => Some(2),
        "disabled" => Some(3),
        number => number.parse().ok(),
    }
}

/// `unit_size,alignment,units_per_block,header`
fn description(text: &str) -> Option<ClassDescription> {
    let parts: Vec<&str> = text.split(',').collect();
    let [unit, alignment, units, header] = parts[..] else { return None };
    let header = match header {
        "legacy" => LEGACY,
        "compact" => 1,
        "none" => NONE,
        _ => return None,
    };
    Some(ClassDescription {
        unit_bytes: unit.parse().ok()?,
        alignment: alignment.parse().ok()?,
        units: units.parse().ok()?,
        header,
        number: 0,
    })
}
