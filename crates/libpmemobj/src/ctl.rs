//! Reading and changing settings by name: `ctl.h`, and the variable `PMEMOBJ_CONF`.
//!
//! The names are those of the manual. One table says which there are and what each does; what this
//! library does by itself is accepted and changes nothing.

use crate::error::Failure;
use crate::object::ALIGNMENT_MAX;
use crate::pool::ObjectPool;
use crate::registry::by_pop;
use crate::types::{BYTES_MAX, Pop, text_of};
use libc::{c_char, c_int, c_longlong, c_uint, c_void};
use seawall_runtime::{BLOCK_BYTES_MAX, CHUNK_BYTES};
use std::cell::Cell;
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
    numbers: [AtomicI64; NUMBERS.len()],
    lists: Mutex<Lists>,
    /// Bytes that were allocated when statistics were enabled: those are not counted.
    before: AtomicU64,
}

#[derive(Debug, Default)]
struct Lists {
    classes: Vec<ClassDescription>,
    /// Whether threads get the arena by themselves.
    arenas: Vec<bool>,
    arenas_max: c_uint,
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
    fn lists(&self) -> MutexGuard<'_, Lists> {
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
}

/// The units that an object can have.
const UNITS_MAX: u64 = 64;

/// `enum pobj_header_type`
const LEGACY: c_int = 0;
const NONE: c_int = 2;

impl ClassDescription {
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

/// The first number of a class that a program makes.
const FIRST_CLASS: u64 = 128;
const CLASSES_MAX: u64 = 254;

/// The width of a number, to C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Int,
    LongLong,
}

/// A number that can be read and set, and that changes nothing here.
#[derive(Debug)]
struct Number {
    name: &'static str,
    width: Width,
    first: i64,
    range: (i64, i64),
    /// Whether it holds for all pools, and can be set before there is one.
    is_global: bool,
}

const fn switch(name: &'static str, first: i64, is_global: bool) -> Number {
    Number { name, width: Width::Int, first, range: (0, 1), is_global }
}

const fn count(name: &'static str, first: i64) -> Number {
    Number { name, width: Width::LongLong, first, range: (0, i64::MAX), is_global: false }
}

const NUMBERS: [Number; 14] = [
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

const STATS: &str = "stats.enabled";
const COPY_ON_WRITE: &str = "copy_on_write.at_open";

/// The values that hold for all pools.
static GLOBAL: [AtomicI64; NUMBERS.len()] = {
    let mut values = [const { AtomicI64::new(0) }; NUMBERS.len()];
    let mut place = 0;
    while place < NUMBERS.len() {
        values[place] = AtomicI64::new(NUMBERS[place].first);
        place += 1;
    }
    values
};

thread_local! {
    static ARENA: Cell<u32> = const { Cell::new(0) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Get,
    Set,
    Exec,
}

fn unknown(name: &str) -> Failure {
    Failure::invalid(format!("invalid entry point \"{name}\": no such setting, or not that way"))
}

/// # Safety
/// `argument` is what the setting wants.
unsafe fn access(
    pool: Option<&'static ObjectPool>,
    how: How,
    name: &str,
    argument: *mut c_void,
) -> Result<(), Failure> {
    if argument.is_null() {
        return Err(Failure::invalid("the argument is NULL"));
    }
    if let Some(place) = NUMBERS.iter().position(|number| number.name == name) {
        // SAFETY: the caller vouches for the argument.
        return unsafe { access_number(pool, how, place, argument) };
    }
    let pool = pool.ok_or_else(|| unknown(name))?;
    let parts: Vec<&str> = name.split('.').collect();
    // SAFETY: as above.
    unsafe {
        match (how, &parts[..]) {
            (How::Get, ["stats", "heap", which]) => statistic(pool, which, name, argument),
            (_, ["heap", "alloc_class", which, "desc"]) => class(pool, how, which, argument),
            (_, ["heap", "arena" | "narenas" | "thread", ..]) => {
                arena(pool, how, &parts[1..], name, argument)
            }
            (How::Exec, ["heap", "size", "extend"]) => Err(Failure::new(
                libc::ENOTSUP,
                "a pool of one file does not grow: make a larger one",
            )),
            _ => Err(unknown(name)),
        }
    }
}

/// # Safety
/// As [`access`].
unsafe fn access_number(
    pool: Option<&'static ObjectPool>,
    how: How,
    place: usize,
    argument: *mut c_void,
) -> Result<(), Failure> {
    let number = &NUMBERS[place];
    let value = match pool {
        _ if number.is_global => &GLOBAL[place],
        Some(pool) => &pool.settings.numbers[place],
        None => return Err(unknown(number.name)),
    };
    // SAFETY: the caller vouches for the argument.
    unsafe {
        match (how, number.width) {
            (How::Get, Width::Int) => argument.cast::<c_int>().write(value.load(Relaxed) as c_int),
            (How::Get, Width::LongLong) => {
                argument.cast::<c_longlong>().write(value.load(Relaxed));
            }
            (How::Set, width) => {
                let wanted = match width {
                    Width::Int => argument.cast::<c_int>().read().into(),
                    Width::LongLong => argument.cast::<c_longlong>().read(),
                };
                set(number, value, wanted)?;
                if let Some(pool) = pool.filter(|_| number.name == STATS) {
                    pool.settings.before.store(used(pool)?.all, Relaxed);
                }
            }
            (How::Exec, _) => return Err(unknown(number.name)),
        }
    }
    Ok(())
}

fn set(number: &Number, value: &AtomicI64, wanted: i64) -> Result<(), Failure> {
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

/// Bytes of what a pool has.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    /// Of all objects.
    all: u64,
    /// Of those in blocks.
    small: u64,
    /// Of the chunks that have such a one.
    active: u64,
}

fn used(pool: &ObjectPool) -> Result<Used, Failure> {
    let mut used = Used::default();
    let mut last = None;
    let walked = pool.heap.objects(&pool.reader(), |object| {
        used.all += object.bytes;
        if object.bytes <= BLOCK_BYTES_MAX {
            used.small += object.bytes;
            let chunk = (object.at.offset() - pool.heap.data().offset()) / CHUNK_BYTES;
            used.active += if last.replace(chunk) == Some(chunk) { 0 } else { CHUNK_BYTES };
        }
    });
    walked.map_err(|error| Failure::invalid(error.to_string()))?;
    Ok(used)
}

/// # Safety
/// As [`access`].
unsafe fn statistic(
    pool: &ObjectPool,
    which: &str,
    name: &str,
    argument: *mut c_void,
) -> Result<(), Failure> {
    let Used { all, small, active } = used(pool)?;
    let place = NUMBERS.iter().position(|number| number.name == STATS).expect("there is one");
    let is_kept = (1..=2).contains(&pool.settings.numbers[place].load(Relaxed));
    let value = match which {
        "curr_allocated" if !is_kept => 0,
        "curr_allocated" => all.saturating_sub(pool.settings.before.load(Relaxed)),
        "run_allocated" => small,
        "run_active" => active,
        _ => return Err(unknown(name)),
    };
    // SAFETY: the caller vouches for the argument.
    unsafe { argument.cast::<u64>().write(value) };
    Ok(())
}

/// # Safety
/// As [`access`].
unsafe fn class(
    pool: &ObjectPool,
    how: How,
    which: &str,
    argument: *mut c_void,
) -> Result<(), Failure> {
    let mut lists = pool.settings.lists();
    let argument = argument.cast::<ClassDescription>();
    if how == How::Get {
        let number: c_uint = which.parse().map_err(|_| unknown(which))?;
        let found = lists.classes.iter().find(|class| class.number == number);
        let none = || Failure::new(libc::ENOENT, format!("no allocation class {number}"));
        // SAFETY: the caller vouches for the argument.
        unsafe { argument.write(*found.ok_or_else(none)?) };
        return Ok(());
    }
    // SAFETY: as above.
    let mut wanted = unsafe { argument.read() };
    let is_sized = (1..=BYTES_MAX).contains(&(wanted.unit_bytes as u64)) && wanted.units > 0;
    if !is_sized || !(0..3).contains(&wanted.header) {
        return Err(Failure::invalid(
            "an allocation class of no bytes, no units or no such header",
        ));
    }
    let alignment = wanted.alignment as u64;
    if alignment > ALIGNMENT_MAX {
        let text = "alignments above 4096 bytes are not supported";
        return Err(Failure::new(libc::ENOTSUP, text));
    }
    let is_aligned =
        alignment.is_power_of_two() && (wanted.unit_bytes as u64).is_multiple_of(alignment);
    if alignment != 0 && !is_aligned {
        return Err(Failure::invalid("an alignment is a power of two that divides the units"));
    }
    let is_free = |lists: &Lists, number: u64| {
        lists.classes.iter().all(|class| u64::from(class.number) != number)
    };
    let number = match which {
        "new" => (FIRST_CLASS..=CLASSES_MAX).find(|number| is_free(&lists, *number)),
        _ => which.parse().ok().filter(|number| *number <= CLASSES_MAX),
    };
    let number = number.ok_or_else(|| Failure::invalid("no such allocation class, or no more"))?;
    let is_same = |class: &ClassDescription| {
        (class.unit_bytes, class.header) == (wanted.unit_bytes, wanted.header)
            && class.alignment == wanted.alignment
    };
    if number < FIRST_CLASS || !is_free(&lists, number) || lists.classes.iter().any(is_same) {
        return Err(Failure::new(libc::EEXIST, "there is such an allocation class"));
    }
    wanted.number = number as c_uint;
    // SAFETY: as above.
    unsafe { argument.write(wanted) };
    lists.classes.push(wanted);
    Ok(())
}

/// Arenas are numbers here: each thread has free space of its own in any case.
///
/// # Safety
/// As [`access`].
unsafe fn arena(
    pool: &ObjectPool,
    how: How,
    parts: &[&str],
    name: &str,
    argument: *mut c_void,
) -> Result<(), Failure> {
    let mut lists = pool.settings.lists();
    let number = argument.cast::<c_uint>();
    let of = |text: &str| text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    // SAFETY: the caller vouches for the argument.
    unsafe {
        match (how, parts) {
            (How::Get, ["narenas", "total"]) => number.write(lists.arenas.len() as c_uint),
            (How::Get, ["narenas", "automatic"]) => {
                number.write(lists.arenas.iter().filter(|is| **is).count() as c_uint);
            }
            (How::Get, ["narenas", "max"]) => number.write(lists.arenas_max),
            (How::Set, ["narenas", "max"]) => {
                let wanted = number.read();
                if wanted < lists.arenas_max {
                    return Err(Failure::invalid("the number of arenas can only be raised"));
                }
                lists.arenas_max = wanted;
            }
            (How::Exec, ["arena", "create"]) => {
                lists.arenas.push(false);
                number.write(lists.arenas.len() as c_uint);
            }
            (How::Get, ["thread", "arena_id"]) => number.write(ARENA.get() + 1),
            (How::Set, ["thread", "arena_id"]) => {
                let wanted = number.read() as usize;
                if wanted == 0 || wanted > lists.arenas.len() {
                    return Err(Failure::new(libc::ERANGE, format!("no arena {wanted}")));
                }
                ARENA.set(wanted as u32 - 1);
            }
            (_, ["arena", which, what]) => {
                let place = of(which).filter(|place| *place < lists.arenas.len());
                let none = || Failure::new(libc::ERANGE, format!("no arena {which}"));
                let place = place.ok_or_else(none)?;
                let automatic = lists.arenas.iter().filter(|is| **is).count();
                let is_last = lists.arenas[place] && automatic == 1;
                match (how, *what) {
                    (How::Get, "automatic") => number.write(lists.arenas[place].into()),
                    (How::Set, "automatic") if number.read() == 0 && is_last => {
                        return Err(Failure::invalid("one arena must be automatic"));
                    }
                    (How::Set, "automatic") => lists.arenas[place] = number.read() != 0,
                    (How::Get, "size") => argument.cast::<usize>().write(0),
                    _ => return Err(unknown(name)),
                }
            }
            _ => return Err(unknown(name)),
        }
    }
    Ok(())
}

/// Sets what `PMEMOBJ_CONF` says, and the file that `PMEMOBJ_CONF_FILE` names: `name=value;`, with
/// `#` before what is no setting.
pub(crate) fn apply_environment(pool: &ObjectPool) -> Result<(), Failure> {
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
        apply(pool, setting)?;
    }
    Ok(())
}

fn apply(pool: &ObjectPool, setting: &str) -> Result<(), Failure> {
    let (name, text) = setting.split_once('=').ok_or_else(|| unknown(setting))?;
    if let ["heap", "alloc_class", which, "desc"] = name.split('.').collect::<Vec<_>>()[..] {
        let mut wanted = description(text).ok_or_else(|| unknown(setting))?;
        // SAFETY: it is what the setting wants.
        return unsafe { class(pool, How::Set, which, (&raw mut wanted).cast()) };
    }
    let place = NUMBERS.iter().position(|number| number.name == name);
    let place = place.ok_or_else(|| unknown(setting))?;
    let number = &NUMBERS[place];
    let wanted = value_of(text).ok_or_else(|| unknown(setting))?;
    let value = if number.is_global { &GLOBAL } else { &pool.settings.numbers };
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

/// # Safety
/// The program vouches for the name and the argument.
unsafe fn called(pop: Pop, how: How, name: *const c_char, argument: *mut c_void) -> c_int {
    // SAFETY: the caller vouches for it.
    let name = String::from_utf8_lossy(unsafe { text_of(name) }).into_owned();
    let pool = if pop.is_null() { Ok(None) } else { by_pop(pop).map(Some) };
    // SAFETY: as above.
    match pool.and_then(|pool| unsafe { access(pool, how, &name, argument) }) {
        Ok(()) => 0,
        Err(failure) => crate::base::failed(&failure, -1),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_ctl_get(
    pop: Pop,
    name: *const c_char,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: this is a call of the program.
    unsafe { called(pop, How::Get, name, argument) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_ctl_set(
    pop: Pop,
    name: *const c_char,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { called(pop, How::Set, name, argument) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_ctl_exec(
    pop: Pop,
    name: *const c_char,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { called(pop, How::Exec, name, argument) }
}
