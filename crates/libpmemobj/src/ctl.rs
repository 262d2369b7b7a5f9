//! Reading and changing settings by name, and statistics: the calls of `ctl.h`.

use crate::error::Failure;
use crate::pool::ObjectPool;
use crate::registry::by_pop;
use crate::settings::{ClassDescription, GLOBAL, NUMBERS, STATS, Settings, Width, set, unknown};
use crate::types::{Pop, text_of};
use libc::{c_char, c_int, c_longlong, c_uint, c_void};
use seawall_runtime::{BLOCK_BYTES_MAX, CHUNK_BYTES};
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

thread_local! {
    static ARENA: Cell<u32> = const { Cell::new(0) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Get,
    Set,
    Exec,
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
            (_, ["heap", "alloc_class", which, "desc"]) => {
                class(&pool.settings, how, which, argument)
            }
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
    settings: &Settings,
    how: How,
    which: &str,
    argument: *mut c_void,
) -> Result<(), Failure> {
    let argument = argument.cast::<ClassDescription>();
    // SAFETY: the caller vouches for the argument.
    unsafe {
        match how {
            How::Get => argument.write(settings.described_class(which)?),
            _ => argument.write(settings.add_class(which, argument.read())?),
        }
    }
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
