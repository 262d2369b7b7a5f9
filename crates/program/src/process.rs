//! The process that runs a program on a machine: from the request to the answer.
//!
//! The program is loaded into the process and its `main` becomes the first thread of a simulation.
//! When it has ended the process has nothing left to do; its threads are not unwound.

mod callers;
mod calls;
mod counted;
mod dependence;
mod elsewhere;
mod entries;
mod events;
mod explore;
mod failure;
mod faults;
mod image;
mod keeper;
mod layout;
mod lifecycle;
mod locals;
mod machine;
mod mapped;
mod masks;
mod notified;
mod pages;
mod parts;
mod pool;
mod profile;
mod regions;
mod registers;
mod ribbon;
mod runtime;
mod sleepers;
mod stacks;
mod stored;
mod sweep;
mod system_calls;
mod threads;
mod unread;
mod unseen;
mod values;
mod watch;

use self::dependence::Records;
use self::failure::{end, fail_at, place_of};
use self::image::symbol;
use self::lifecycle::clear_counters;
use self::pages::pages;
use self::profile::Profile;
use self::ribbon::Crew;
use self::runtime::{SPACE_BYTES, THREADS_MAX, Thread, runtime};
use self::watch::Watch;
use crate::explore::{CheckLayout, Serving};
use crate::folder::FILES;
use crate::request::{
    ANSWER, Answer, Asked, Fences, From, Judge, Native, Persistent, Place, REQUEST, Ran, Request,
    Start, TIMELINE, Task, Timed, UnreadFlushes, UnseenStore,
};
use libc::{c_char, c_int, c_void};
use seawall_cc::abi;
use seawall_memory::Model;
use seawall_sim::{
    Choice, Cycle, HostSpace, Machine, Observer, Program, RunOutcome, RunTimeline, SimError,
    Simulation, UnfinishedCore,
};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

/// Where the words of the command are put.
const ARGUMENTS: u64 = 0x3f00_0000_0000;

/// The program's `main`.
type Main = extern "C" fn(c_int, *const *const c_char, *const *const c_char) -> c_int;

/// Calls `main`, and `exit` with what it returns.
type RunMain = extern "C" fn(Main, c_int, *const *const c_char, *const *const c_char) -> !;

/// A function of the program that is its check.
type CheckPool = extern "C" fn(*const c_char) -> c_int;

/// Calls that, and `exit` with what it returns.
type RunCheck = extern "C" fn(CheckPool, *const c_char) -> !;

/// Does what the request in `folder` asks for, writes the answer there, and ends.
pub fn serve(folder: &Path) -> ! {
    *runtime().answer.borrow_mut() = folder.join(ANSWER);
    let asked = std::fs::read(folder.join(REQUEST)).map_err(|error| error.to_string());
    let asked =
        asked.and_then(|bytes| serde_json::from_slice::<Asked>(&bytes).map_err(|e| e.to_string()));
    let done = asked.and_then(|Asked { mut by, task }| {
        // Who asks may have made it otherwise than as a folder of programs.
        by.folders.push(folder.to_owned());
        match &task {
            Task::Natively(_) => {}
            Task::Explore(Serving { layout: Some(layout), .. }) => {
                layout::become_a_checks();
                always_at_the_same_addresses(!layout.keeps_code);
            }
            Task::Run(_) | Task::Explore(_) => always_at_the_same_addresses(false),
        }
        keeper::keep(&by, &task.roots())
            .map_err(|error| format!("gets no process of its own: {error}"))?;
        match task {
            Task::Run(request) => run(&request).map(|ran| Answer::Ran(Box::new(ran))),
            Task::Explore(serving) => explore::serve(&serving).map(|()| Answer::Served),
            Task::Natively(Native { path, words, .. }) => {
                // Only returns if it fails.
                Err(Command::new(path).args(words).exec().to_string())
            }
        }
    });
    match done {
        Ok(answer) => end(&answer),
        Err(what) => fail_at(&what, Vec::new()),
    }
}

/// Runs a function of the image on a pool, as the check of what a crash has left, on a machine
/// without persistency; the process ends with what it returns, or with 2 and a message.
pub fn check(image: &Path, entry: &str, pool: &Path, layout: CheckLayout) -> ! {
    layout::become_a_checks();
    always_at_the_same_addresses(!layout.keeps_code);
    end_with_parent();
    runtime().tells.set(Some(|answer| {
        stacks::set_fs(runtime().host_fs.get());
        if let Answer::Failed { what, .. } = answer {
            eprintln!("the check {what}");
        }
        false
    }));
    let start = Start {
        image: image.into(),
        entry: Some(entry.into()),
        words: vec![pool.display().to_string()],
    };
    let ran = run(&Request {
        start,
        machine: CHECKED_ON.into(),
        design: "volatile".into(),
        ribbon: None,
        persistent: Persistent::Files,
        fences: Fences::Order,
        from: From::Start,
        crashes: Vec::new(),
        judge: Judge::Nobody,
        folder: PathBuf::new(),
        cycles_max: Cycle::MAX,
        has_profile: false,
        has_detail: false,
        timeline: None,
    });
    match ran {
        // SAFETY: ends the process at once; nothing of the program is to run any more.
        Ok(ran) => unsafe { libc::_exit(ran.exit_code) },
        Err(what) => fail_at(&what, Vec::new()),
    }
}

/// The machine of a check: one with many cores.
const CHECKED_ON: &str = "micro15";

/// From now on the process ends with the thread that has started it.
pub(crate) fn end_with_parent() {
    // SAFETY: changes nothing but that.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Runs this process again without randomised addresses, unless it has none; its code elsewhere
/// than that of other processes if `moves_code`.
fn always_at_the_same_addresses(moves_code: bool) {
    const NOW: libc::c_ulong = 0xffff_ffff;
    const FIXED: libc::c_int = libc::ADDR_NO_RANDOMIZE;
    // SAFETY: these calls change nothing but the layout of what is executed next.
    unsafe {
        let now = libc::personality(NOW);
        if now & FIXED != 0 && (!moves_code || layout::has_moved_code(now)) {
            return;
        }
        let more = if moves_code { layout::move_code() } else { 0 };
        if libc::personality((now | FIXED | more) as libc::c_ulong) == -1 {
            return;
        }
    }
    let mut words = std::env::args_os();
    if let (Some(_), Ok(this)) = (words.next(), std::env::current_exe()) {
        // Only returns if it fails; then addresses stay random, and results may differ a little.
        let _ = Command::new(this).args(words).exec();
    }
}

fn run(request: &Request) -> Result<Ran, String> {
    let machine = Machine::load(&request.machine).map_err(|error| error.to_string())?;
    let design = Choice::parse(&request.design).map_err(|error| error.to_string())?;
    let runtime = runtime();
    let flushers = request.ribbon.as_ref().map_or(0, |ribbon| ribbon.flushers as usize);
    let cores = machine.core.count.saturating_sub(flushers).min(THREADS_MAX);
    let crew = request.ribbon.as_ref().map(|options| Crew::new(options, cores)).transpose();
    let crew = crew.map_err(|error| error.to_string())?;
    runtime.cores.set(cores);
    runtime.slots.set(cores);
    runtime.persistent.set(request.persistent);
    runtime.fences.set(request.fences);
    if matches!(request.judge, Judge::Check { .. }) {
        *runtime.files.borrow_mut() = Some(request.folder.join(FILES));
    }
    runtime.from_threads.set(request.from == From::Threads);
    let loaded = Loaded::load(&request.start)?;
    if request.has_profile {
        let _ = runtime.profile.set(Profile::of_image());
    }
    // A check takes no time, nor does an exploration.
    if runtime.tells.get().is_none() {
        let modules = image::code().into_iter().map(|(path, base, ..)| (path, base));
        let _ = runtime.records.set(Records::of(modules));
    }
    let is_first = request.from == From::Start;

    let watch = Rc::new(RefCell::new(Watch::new(request, cores + flushers)));
    let mut programs: Vec<Program> =
        (0..cores).map(|core| of_core(core, crew.clone(), move || loaded.run(is_first))).collect();
    programs.extend(crew.iter().flat_map(Crew::flushers));
    let space = HostSpace { pm_bytes: SPACE_BYTES, dram_bytes: SPACE_BYTES };
    let is_x86 = |model: Model| model.buffers_stores() || model == Model::Strict;
    let follows = design.model().is_some_and(|model| !is_x86(model));
    runtime.unread.is_on.set(follows);
    let mut simulation = Simulation::of_host(&machine, &design, space).at_most(request.cycles_max);
    if request.judge != Judge::Nobody {
        let observer: Rc<RefCell<dyn Observer>> = watch.clone();
        simulation = simulation.watched_by(observer);
    }
    if request.has_profile {
        simulation = simulation.with_profile();
    }
    if request.has_detail {
        simulation = simulation.with_detail();
    }
    if let Some(Timed { window, bytes_max }) = request.timeline {
        simulation = simulation.with_timeline(window, bytes_max);
    }
    faults::watch();
    let before = cpu_nanoseconds();
    let outcome = simulation.run(programs);
    stacks::set_fs(runtime.host_fs.get());
    let spent = cpu_nanoseconds() - before;
    let mut outcome = match outcome {
        Err(SimError::Deadlock { cycle, cores }) => all_wait(cycle, &cores),
        other => other.map_err(|error| error.to_string())?,
    };
    let timeline = outcome.timeline.take();
    let ran = answer(&outcome, &mut watch.borrow_mut(), spent);
    let ran = Ran { ribbon: crew.and_then(|crew| crew.counts()), ..ran };
    if let Some(timeline) = timeline {
        keep(timeline, ran.cores, &request.folder)
            .map_err(|error| format!("cannot keep its timeline: {error}"))?;
    }
    Ok(ran)
}

/// What a core of the program does: `main` on the first one, then whatever threads are started.
fn of_core(core: usize, crew: Option<Rc<Crew>>, main: impl FnOnce() + 'static) -> Program {
    Box::new(move |memory| match &crew {
        // SAFETY: the handle lives as long as its fiber.
        None => unsafe { threads::run(core, memory, main) },
        Some(crew) => {
            let joined = crew.core(memory);
            if core == 0 {
                joined.join();
            }
            // SAFETY: as above.
            unsafe { threads::run(core, &joined, main) };
        }
    })
}

/// Writes the timeline of the first `cores` cores, which are those that ran a thread.
fn keep(mut timeline: RunTimeline, cores: usize, folder: &Path) -> io::Result<()> {
    timeline.cores = cores;
    timeline.stalls.retain(|stall| stall.core < cores);
    let bytes = postcard::to_allocvec(&timeline).map_err(io::Error::other)?;
    std::fs::write(folder.join(TIMELINE), bytes)
}

/// A program in this process.
#[derive(Clone, Copy)]
pub(crate) struct Loaded {
    first: First,
    count: c_int,
    arguments: *const *const c_char,
}

/// What its first thread runs.
#[derive(Clone, Copy)]
enum First {
    Main(Main, RunMain),
    Check(CheckPool, RunCheck),
}

impl First {
    fn find(entry: Option<&str>) -> Result<First, String> {
        let support = "the image has no support library";
        let Some(entry) = entry else {
            let main = symbol(c"main").ok_or("the image has no main")?;
            let run = symbol(c"sw_run_main").ok_or(support)?;
            // SAFETY: every C program's main can be called like this, and the support library
            // defines the function that does.
            return Ok(unsafe {
                let main = std::mem::transmute::<*mut c_void, Main>(main);
                First::Main(main, std::mem::transmute::<*mut c_void, RunMain>(run))
            });
        };
        let check = CString::new(entry).ok().and_then(|name| symbol(&name));
        let check = check.ok_or_else(|| {
            format!("has no function {entry} that others can see: int {entry}(const char *pool)")
        })?;
        let run = symbol(c"sw_run_check").ok_or(support)?;
        // SAFETY: the user says that the function is one of this type; and as above.
        Ok(unsafe {
            let check = std::mem::transmute::<*mut c_void, CheckPool>(check);
            First::Check(check, std::mem::transmute::<*mut c_void, RunCheck>(run))
        })
    }
}

impl Loaded {
    /// Loads the image, whose first function gets these words.
    pub(crate) fn load(start: &Start) -> Result<Loaded, String> {
        let Start { image, entry, words } = start;
        if !stacks::can_set_fs() {
            return Err("this needs a processor and a kernel with wrfsbase (Linux 5.9)".into());
        }
        map_page()
            .map_err(|error| format!("cannot map the page of the instrumented code: {error}"))?;
        *runtime().folder.borrow_mut() = image.parent().unwrap_or(Path::new("/")).into();
        load(image)?;
        let first = First::find(entry.as_deref())?;
        let arguments = put_arguments(words)
            .map_err(|error| format!("no memory for the arguments: {error}"))?;
        Ok(Loaded { first, count: words.len() as c_int, arguments })
    }

    /// Runs the program; its accesses count from now on, or from where it says so.
    pub(crate) fn run(&self, is_on: bool) -> ! {
        if is_on {
            runtime().is_on.set(true);
            clear_counters();
        }
        match self.first {
            First::Main(main, run) => run(main, self.count, self.arguments, environment()),
            // SAFETY: the table of arguments ends with a null, so that it has a first entry.
            First::Check(check, run) => run(check, unsafe { *self.arguments }),
        }
    }
}

/// Ends the process: no thread of the program can go on.
fn all_wait(cycle: Cycle, cores: &[UnfinishedCore]) -> ! {
    let threads = runtime().threads.iter().filter(|thread| thread.is_busy.get());
    let place = |thread: &Thread| {
        let core = cores.iter().find(|core| core.core == thread.number);
        Place { does: core.map(|core| core.does.clone()), ..place_of(thread) }
    };
    let places = threads.map(place).collect();
    fail_at(&format!("is deadlocked: all of its threads wait, from cycle {cycle} on"), places)
}

fn answer(outcome: &RunOutcome, watch: &mut Watch, host_nanoseconds: u64) -> Ran {
    let runtime = runtime();
    let used = runtime.threads.iter().filter(|thread| thread.has_run());
    let used: Vec<usize> = used.map(|thread| thread.number).collect();
    let mut stalls = seawall_sim::Stalls::default();
    for reason in seawall_sim::Reason::ALL {
        let all = used.iter().filter_map(|core| outcome.stalls.get(*core));
        stalls.add(reason, all.map(|stalls| stalls.get(reason)).sum());
    }
    let profile = runtime
        .profile
        .get()
        .map(|profile| profile.places(used.iter().filter_map(|core| outcome.sites.get(*core))));
    watch.end(outcome);
    let mut detail = outcome.detail.clone();
    if let Some(detail) = &mut detail {
        detail.cores.truncate(used.len());
        detail.persist_buffers.truncate(used.len());
    }
    let places = runtime.unseen.places().into_iter().take(20);
    Ran {
        exit_code: runtime.exit_code.get().unwrap_or(0),
        cycles: outcome.cycles,
        stalls,
        counters: outcome.counters.clone(),
        ribbon: None,
        cores: used.len(),
        threads: runtime.threads_started.get(),
        instructions: runtime.instructions.get(),
        crashes: watch.crashes(),
        stores_in_cuts: watch.stores_in_cuts(),
        broken: watch.broken(),
        stored: runtime.stored.each_ref().map(Cell::get),
        asked: runtime.asked.get(),
        ordinary: runtime.ordinary.get(),
        unseen: runtime.unseen.count(),
        unseen_stores: places
            .map(|(at, site)| UnseenStore {
                place: regions::describe_address(at),
                found_at: image::offset_of(site).unwrap_or(site),
            })
            .collect(),
        unread_flushes: runtime.unread.found().map(|(count, site)| UnreadFlushes {
            count,
            first: image::offset_of(site).unwrap_or(site),
        }),
        raced: runtime.patches.get(),
        touched: pages().touched(),
        profile,
        detail,
        timeline: None,
        host_nanoseconds,
    }
}

fn cpu_nanoseconds() -> u64 {
    // SAFETY: fills a structure of ours.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// Maps the page of [`abi`] and fills it.
fn map_page() -> io::Result<()> {
    stacks::map_at(abi::PAGE, abi::PAGE_BYTES as usize)?;
    let fill = |at: u64, table: &[usize]| {
        for (n, function) in table.iter().enumerate() {
            // SAFETY: the page has just been mapped, and has room for both tables.
            unsafe { std::ptr::write((at as *mut usize).add(n), *function) };
        }
    };
    fill(abi::ENTRIES, &entries::table());
    fill(abi::CALLS, &calls::table());
    Ok(())
}

fn load(image: &Path) -> Result<(), String> {
    let path = CString::new(image.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
    // SAFETY: runs the program's constructors, which are code that the user has asked to run.
    let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
    if handle.is_null() {
        // SAFETY: a string of the dynamic linker.
        let error = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(format!("the program cannot be loaded: {}", error.to_string_lossy()));
    }
    runtime().image.set(handle);
    *runtime().locals.borrow_mut() = image::thread_locals();
    Ok(())
}

/// Copies the words of the command to a fixed place, as `main` gets them.
fn put_arguments(words: &[String]) -> io::Result<*const *const c_char> {
    let bytes: usize = words.iter().map(|word| word.len() + 1).sum();
    let table = (words.len() + 1) * 8;
    let start = ARGUMENTS + layout::shift();
    stacks::map_at(start, (table + bytes).next_multiple_of(4096))?;
    let mut text = start + table as u64;
    for (n, word) in words.iter().enumerate() {
        // SAFETY: the memory has just been mapped, with room for the table and all words; the last
        // entry and the ends of the words are zero already.
        unsafe {
            std::ptr::write((start as *mut u64).add(n), text);
            std::ptr::copy_nonoverlapping(word.as_ptr(), text as *mut u8, word.len());
        }
        text += word.len() as u64 + 1;
    }
    Ok(start as *const *const c_char)
}

fn environment() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's variable.
    unsafe { environ }
}
