//! Where the loaded modules of the program are.

use crate::explore::is_library;
use crate::process::callers::{CALLS_MAX, Chain, Frame};
use crate::process::locals::ThreadLocals;
use crate::process::runtime::runtime;
use crate::process::stacks;
use libc::{c_int, c_void};
use seawall_cc::{Base, UnwindRow};
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// A part of a module, as it was loaded.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Its number among those of the program.
    module: usize,
    base: u64,
    at: u64,
    bytes: u64,
    is_writable: bool,
    is_code: bool,
}

/// The modules of the program, which are in the folder of its image.
fn modules() -> Found {
    unsafe extern "C" fn each(
        info: *mut libc::dl_phdr_info,
        _: usize,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the dynamic linker passes a module, and `found` is what is below.
        let (info, found) = unsafe { (&*info, &mut *(found as *mut Found)) };
        // SAFETY: the name is a string; the headers are an array of this length.
        let (name, headers) = unsafe {
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            (CStr::from_ptr(info.dlpi_name).to_bytes(), headers)
        };
        if !name.starts_with(found.folder.as_os_str().as_bytes()) {
            return 0;
        }
        found.names.push(PathBuf::from(std::ffi::OsStr::from_bytes(name)));
        let locals = headers.iter().find(|header| header.p_type == libc::PT_TLS);
        if let Some(header) = locals {
            found.locals.push(ThreadLocals {
                module: info.dlpi_tls_modid,
                initial: info.dlpi_addr + header.p_vaddr,
                initial_bytes: header.p_filesz,
                bytes: header.p_memsz,
            });
        }
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            found.segments.push(Segment {
                module: found.names.len() - 1,
                base: info.dlpi_addr,
                at: info.dlpi_addr + header.p_vaddr,
                bytes: header.p_memsz,
                is_writable: header.p_flags & libc::PF_W != 0,
                is_code: header.p_flags & libc::PF_X != 0,
            });
        }
        0
    }
    let folder = runtime().folder.borrow().clone();
    let mut found = Found { folder, names: Vec::new(), segments: Vec::new(), locals: Vec::new() };
    // SAFETY: `each` has the right signature and gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(each), std::ptr::from_mut(&mut found).cast()) };
    found
}

fn segments() -> Vec<Segment> {
    modules().segments
}

/// The thread-local variables of all modules.
pub(crate) fn thread_locals() -> Vec<ThreadLocals> {
    modules().locals
}

struct Found {
    folder: PathBuf,
    names: Vec<PathBuf>,
    segments: Vec<Segment>,
    locals: Vec<ThreadLocals>,
}

/// The writable segments: their start and their bytes.
pub(crate) fn writable() -> Vec<(u64, u64)> {
    let writable = segments().into_iter().filter(|segment| segment.is_writable);
    writable.map(|segment| (segment.at, segment.bytes)).collect()
}

/// The offset of an address in its module, if it is in one.
pub(crate) fn offset_of(at: u64) -> Option<u64> {
    let holds = |segment: &Segment| (segment.at..segment.at + segment.bytes).contains(&at);
    segments().into_iter().find(holds).map(|segment| at - segment.base)
}

/// The code of each module: its file, where it was loaded, and its first byte and number of bytes.
pub(crate) fn code() -> Vec<(PathBuf, u64, u64, u64)> {
    let Found { segments, names, .. } = modules();
    let code = segments.into_iter().filter(|segment| segment.is_code);
    code.map(|code| (names[code.module].clone(), code.base, code.at, code.bytes)).collect()
}

/// Where the program's own code is, that of the support library, and that of others.
pub(crate) struct ProgramCode {
    own: Vec<(u64, u64)>,
    support: (u64, u64),
    /// Of libraries that are no user's sources, in order.
    libraries: Vec<(u64, u64)>,
    /// Where frames are, in order.
    rows: Vec<UnwindRow>,
}

impl ProgramCode {
    pub(crate) fn of_image() -> ProgramCode {
        let own = code().into_iter().map(|(_, _, at, bytes)| (at, at + bytes)).collect();
        let range = symbol(c"seawall_support_code").map_or((0, 0), |range| {
            // SAFETY: the support library defines an array of two addresses.
            unsafe { *(range as *const (u64, u64)) }
        });
        ProgramCode { own, support: range, libraries: Vec::new(), rows: Vec::new() }
    }

    /// The same, which knows callers and libraries, too: those of persistent memory, and the
    /// functions of the standard library of C++ that the compiler has put into the program.
    pub(crate) fn with_callers(self) -> ProgramCode {
        let (mut libraries, mut rows) = (vec![self.support], Vec::new());
        for (path, base, at, bytes) in code() {
            rows.extend(seawall_cc::unwind_rows(&path).into_iter().map(|row| UnwindRow {
                code: base + row.code.start..base + row.code.end,
                function: base + row.function,
                ..row
            }));
            if is_library(path.file_name().unwrap_or_default()) {
                libraries.push((at, at + bytes));
                continue;
            }
            let functions = seawall_cc::functions_of_cxx(&path).into_iter();
            libraries.extend(functions.map(|part| (base + part.start, base + part.end)));
        }
        // A function may be one of the support library's.
        libraries.sort_unstable();
        libraries.dedup_by(|next, before| {
            let is_inside = next.0 <= before.1;
            before.1 = before.1.max(if is_inside { next.1 } else { 0 });
            is_inside
        });
        rows.sort_by_key(|row| row.code.start);
        ProgramCode { libraries, rows, ..self }
    }

    /// How to find the frame of the instruction at `at`.
    fn row_of(&self, at: u64) -> Option<&UnwindRow> {
        let behind = self.rows.partition_point(|row| row.code.start <= at);
        self.rows[..behind].last().filter(|row| at < row.code.end)
    }

    fn is_of_library(&self, at: u64) -> bool {
        let behind = self.libraries.partition_point(|(start, _)| *start <= at);
        self.libraries[..behind].last().is_some_and(|(_, end)| at < *end)
    }

    fn is_own(&self, at: u64) -> bool {
        self.own.iter().any(|code| (code.0..code.1).contains(&at))
    }

    fn is_support(&self, at: u64) -> bool {
        (self.support.0..self.support.1).contains(&at)
    }

    /// The function of the support library that has called code of seawall, with its stack from
    /// `stack` on; `None` if the program itself has.
    pub(crate) fn support_on(&self, stack: u64) -> Option<Frame> {
        let mut code =
            words_on(stack, stacks::end_of(stack)).filter(|(_, word)| self.is_own(*word));
        let (at, site) = code.next()?;
        self.is_support(site).then_some(Frame { site, stack: at + 8, base: 0 })
    }

    /// Whether the instruction before `at` can be a call, which addresses of functions that are
    /// kept on a stack are not behind.
    fn is_behind_call(&self, at: u64) -> bool {
        if !self.is_own(at) || !self.is_own(at.wrapping_sub(7)) {
            return false;
        }
        // SAFETY: the bytes are code of the program.
        let bytes = unsafe { std::slice::from_raw_parts((at - 7) as *const u8, 7) };
        let is_indirect = |n: usize| bytes[7 - n] == 0xff && bytes[8 - n] & 0x38 == 0x10;
        bytes[2] == 0xe8 || [2, 3, 6, 7].into_iter().any(is_indirect)
    }

    /// The function of the support library that the instruction before `back` calls, as a return
    /// address in its first byte.
    pub(crate) fn called_before(&self, back: u64) -> Option<u64> {
        if !self.is_own(back) || !self.is_own(back.wrapping_sub(6)) {
            return None;
        }
        // SAFETY: the bytes are code of the program, and `near` adds what is in that code.
        let bytes = unsafe { std::slice::from_raw_parts((back - 6) as *const u8, 6) };
        let near = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().unwrap_or_default());
        let target = match bytes {
            [0xff, 0x15, slot @ ..] => self.in_slot(back.wrapping_add_signed(near(slot).into())),
            [_, 0xe8, to @ ..] => Some(back.wrapping_add_signed(near(to).into())),
            _ => None,
        };
        let target = target?;
        let target = if self.is_support(target) { target } else { self.linked(target)? };
        self.is_support(target).then_some(target + 1)
    }

    /// Where the jump at `at` goes, as the linker makes it for calls of other modules.
    fn linked(&self, at: u64) -> Option<u64> {
        if !self.is_own(at) || !self.is_own(at + 16) {
            return None;
        }
        // SAFETY: the bytes are code of the program.
        let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, 16) };
        let jump = bytes.windows(2).take(8).position(|pair| pair == [0xff, 0x25])?;
        let by = i32::from_le_bytes(bytes[jump + 2..jump + 6].try_into().ok()?);
        self.in_slot((at + jump as u64 + 6).wrapping_add_signed(by.into()))
    }

    /// The address that the linker has put there.
    fn in_slot(&self, at: u64) -> Option<u64> {
        let last = |segment: &Segment| segment.at + segment.bytes.saturating_sub(8);
        let holds = |segment: &Segment| (segment.at..=last(segment)).contains(&at);
        // SAFETY: the word is in a segment of the program that is mapped.
        segments().iter().any(holds).then(|| unsafe { std::ptr::read(at as *const u64) })
    }
}

/// Calls that are looked at for one chain: those of libraries, and those of recursion.
const CALLS_LOOKED_AT: usize = 64;
/// `leaq 128(%rsp), %rsp` behind a call of the machine in a function with a red zone, and `popfq`
/// before that in one that sets the direction.
const OVER_RED_ZONE: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0];
const RED_ZONE: u64 = 128;
const POP_FLAGS: u8 = 0x9d;

impl ProgramCode {
    /// The user's calls that led to a frame. If there are none, the frame itself.
    pub(crate) fn chain(&self, frame: Frame) -> Chain {
        self.chain_by(frame, &mut Vec::new())
    }

    /// The same; `backs` gets the return addresses on the stack, each after where it is. They are
    /// found by the unwinding tables of the code. Without one, the next word of the stack that
    /// looks like a return address is taken, and only to get out of a library.
    pub(crate) fn chain_by(&self, frame: Frame, backs: &mut Vec<(u64, u64)>) -> Chain {
        let (mut chain, end) = (Chain::default(), stacks::end_of(frame.stack));
        let (mut functions, mut next) = ([0; CALLS_MAX], Some(frame));
        for _ in 0..CALLS_LOOKED_AT {
            let Some(frame) = next.filter(|_| chain.len() < CALLS_MAX) else { break };
            // A return address may be the first byte of the next function.
            let at = frame.site.wrapping_sub(1);
            let function = self.row_of(at).map_or(at, |row| row.function);
            let is_users = self.is_own(at) && !self.is_of_library(at);
            if is_users && !functions[..chain.len()].contains(&function) {
                functions[chain.len()] = function;
                chain.add(frame.site);
            }
            let is_in_library = chain.len() == 0;
            let found = self.caller_by_table(frame, end);
            next = found.or_else(|| self.caller_on_stack(frame, end).filter(|_| is_in_library));
            backs.extend(next.map(|next| (next.stack - 8, next.site)));
        }
        if chain.len() == 0 {
            chain.add(frame.site);
        }
        chain
    }

    /// The frame that has called the support library, if `frame` is in that.
    pub(crate) fn caller_of_support(&self, frame: Frame) -> Option<Frame> {
        let end = stacks::end_of(frame.stack);
        let mut next = Some(frame).filter(|frame| self.is_support(frame.site));
        while let Some(frame) = next.filter(|frame| self.is_support(frame.site)) {
            let found = self.caller_by_table(frame, end);
            next = found.or_else(|| self.caller_on_stack(frame, end));
        }
        next
    }

    fn caller_by_table(&self, frame: Frame, end: u64) -> Option<Frame> {
        let row = self.row_of(frame.site.wrapping_sub(1))?;
        let from = match row.frame.0 {
            Base::Stack => frame.stack + self.over_red_zone(frame.site),
            Base::Frame => frame.base,
        };
        let above = from.wrapping_add_signed(row.frame.1);
        let word = |by: i64| {
            let at = above.wrapping_add_signed(by);
            ((frame.stack..end).contains(&at) && at % 8 == 0).then(|| word_at(at))
        };
        let site = word(-8).filter(|site| self.is_own(*site))?;
        let base = row.saved.map_or(Some(frame.base), word)?;
        Some(Frame { site, stack: above, base })
    }

    fn caller_on_stack(&self, frame: Frame, end: u64) -> Option<Frame> {
        let mut words = words_on(frame.stack, end);
        let (at, site) = words.find(|(_, word)| self.is_behind_call(*word))?;
        Some(Frame { site, stack: at + 8, base: 0 })
    }

    /// How far the stack pointer is below the function's own.
    fn over_red_zone(&self, site: u64) -> u64 {
        const LONGEST: usize = 1 + OVER_RED_ZONE.len();
        if !self.is_own(site) || !self.is_own(site + LONGEST as u64) {
            return 0;
        }
        // SAFETY: the bytes are code of the program.
        let bytes = unsafe { std::slice::from_raw_parts(site as *const u8, LONGEST) };
        match bytes {
            [POP_FLAGS, rest @ ..] if rest == OVER_RED_ZONE => 8 + RED_ZONE,
            [POP_FLAGS, ..] => 8,
            [first @ .., _] if first == OVER_RED_ZONE => RED_ZONE,
            _ => 0,
        }
    }
}

/// The words of the stack of a thread from `stack` on, each with where it is.
fn words_on(stack: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let last = end.min(stack + 8 * LOOKED_AT);
    (stack & !7..last).step_by(8).map(|at| (at, word_at(at)))
}

/// A word of the stack of the thread that runs.
pub(crate) fn word_at(at: u64) -> u64 {
    // SAFETY: the callers have held it against the stack pointer and the end of the stack.
    unsafe { std::ptr::read(at as *const u64) }
}

/// How many words of a stack are looked at, and how many addresses are kept.
const LOOKED_AT: u64 = 512;
const CALLERS_MAX: usize = 8;

/// The offset of `at`, and those of the addresses in code of the program that are on a stack from
/// `stack` on: what called it, as far as can be told.
pub(crate) fn callers(at: u64, stack: u64, end: u64) -> Vec<u64> {
    let segments = segments();
    let code = |at: u64| {
        let holds = |segment: &&Segment| (segment.at..segment.at + segment.bytes).contains(&at);
        let segment = segments.iter().filter(|segment| segment.is_code).find(holds)?;
        Some(at - segment.base)
    };
    let own = ProgramCode::of_image();
    let words = words_on(stack, end).filter(|(_, word)| own.is_behind_call(*word));
    let on_stack = words.filter_map(|(_, word)| code(word));
    code(at).into_iter().chain(on_stack).take(CALLERS_MAX).collect()
}

/// The address of a symbol of the program.
pub(crate) fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the image has been loaded.
    let found = unsafe { libc::dlsym(runtime().image.get(), name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
