//! The options with which a pool is made or opened: `struct sw_options`.

use crate::status::Failure;
use crate::types::{self, SwType};
use libc::{c_char, c_int};
use seawall_native::Domain;
use seawall_runtime::HeapOptions;
use seawall_runtime::defrag::DefragOptions;
use seawall_runtime::described::Described;
use std::ffi::CStr;

/// `struct sw_options`; what is 0 or null has its default.
#[repr(C)]
pub(crate) struct Options {
    bytes: u64,
    bytes_max: u64,
    root_bytes: u64,
    threads: u64,
    log_bytes: u64,
    layout: *const c_char,
    domain: c_int,
    in_place: c_int,
    types: *const SwType,
    type_count: usize,
    root: *const SwType,
    defragment_at: f64,
    defragment_to: f64,
    reserved: [u64; 4],
}

const BYTES: u64 = 1 << 20;
const BYTES_MAX: u64 = 1 << 30;
const ROOT_BYTES: u64 = 1 << 10;
const THREADS: u64 = 64;
const LOG_BYTES: u64 = 64 << 10;

/// What the options mean.
pub(crate) struct Wanted {
    pub(crate) heap: HeapOptions,
    pub(crate) domain: Option<Domain>,
    pub(crate) layout: String,
    /// The types of objects, if those move.
    pub(crate) described: Option<Described>,
    pub(crate) ratios: DefragOptions,
}

/// A number for the layout's name: FNV-1a of 64 bits.
fn shape_of(layout: &str) -> u64 {
    layout.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn or(value: u64, usual: u64) -> u64 {
    if value == 0 { usual } else { value }
}

/// The ratios at which a cycle begins and that it aims at; 0 has its default.
fn ratios(trigger: f64, target: f64) -> Result<DefragOptions, Failure> {
    let usual = DefragOptions::default();
    let or = |given: f64, usual: f64| if given == 0.0 { usual } else { given };
    let trigger = or(trigger, usual.trigger);
    let options = DefragOptions { trigger, target: or(target, usual.target.min(trigger)), ..usual };
    options.check()?;
    Ok(options)
}

impl Wanted {
    /// # Safety
    /// The options are null, or whole; their layout is null or a C string, and so many types are
    /// there.
    pub(crate) unsafe fn of(options: *const Options) -> Result<Wanted, Failure> {
        const NONE: Options = Options {
            bytes: 0,
            bytes_max: 0,
            root_bytes: 0,
            threads: 0,
            log_bytes: 0,
            layout: std::ptr::null(),
            domain: 0,
            in_place: 0,
            types: std::ptr::null(),
            type_count: 0,
            root: std::ptr::null(),
            defragment_at: 0.0,
            defragment_to: 0.0,
            reserved: [0; 4],
        };
        // SAFETY: the caller vouches for them.
        let given = unsafe { options.as_ref() }.unwrap_or(&NONE);
        if given.reserved != [0; 4] {
            let text = "options.reserved is not zero; begin with `struct sw_options options = {0}`";
            return Err(Failure::invalid(text));
        }
        let domain = match given.domain {
            0 => None,
            1 => Some(Domain::Page),
            2 => Some(Domain::Line),
            3 => Some(Domain::None),
            other => {
                let text = format!("options.domain is {other}; choose one of enum sw_domain");
                return Err(Failure::invalid(text));
            }
        };
        let layout = match given.layout.is_null() {
            true => String::new(),
            // SAFETY: as above.
            false => unsafe { CStr::from_ptr(given.layout) }.to_string_lossy().into_owned(),
        };
        let bytes = or(given.bytes, BYTES);
        // SAFETY: as above.
        let described = unsafe {
            let types = (given.types, given.type_count);
            types::described(given.root, types, or(given.root_bytes, ROOT_BYTES))?
        };
        // SAFETY: as above.
        let root_bytes = unsafe { given.root.as_ref() }.map_or(given.root_bytes, SwType::bytes);
        let shape = shape_of(&layout);
        let heap = HeapOptions {
            bytes,
            bytes_max: or(given.bytes_max, BYTES_MAX.max(bytes)),
            threads: or(given.threads, THREADS),
            log_bytes: or(given.log_bytes, LOG_BYTES),
            root_bytes: or(root_bytes, ROOT_BYTES),
            root_shape: described.as_ref().map_or(shape, |types| types.root_shape(shape)),
            defragment: described.is_some(),
            in_place: given.in_place != 0,
            ..HeapOptions::default()
        };
        let ratios = ratios(given.defragment_at, given.defragment_to)?;
        Ok(Wanted { heap, domain, layout, described, ratios })
    }
}
