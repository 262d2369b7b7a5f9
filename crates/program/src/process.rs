//! The process that runs a program on a machine: from the request to the answer.
//!
//! The program is loaded into the process and its `main` becomes the first thread of a simulation.
//! When it has ended the process has nothing left to do; its threads are not unwound.

use crate::failure::{end, fail_at, place_of};
use crate::image::symbol;
use crate::lifecycle::clear_counters;
use crate::pages::pages;
use crate::request::{
    ANSWER, Answer, Asked, From, Judge, REQUEST, Ran, Request, SPACE_BYTES, UnseenStore,
};
use crate::runtime::{THREADS_MAX, runtime};
use crate::watch::Watch;
use crate::{calls, entries, explore, faults, image, regions, stacks, threads};
use libc::{c_char, c_int, c_void};
use seawall_cc::abi;
use seawall_sim::{
    Choice, Cycle, HostSpace, Machine, Observer, Program, RunOutcome, SimError, Simulation,
};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// Where the words of the command are put.
const ARGUMENTS: u64 = 0x3f00_0000_0000;

/// The program's `main`.
type Main = extern "C" fn(c_int, *const *const c_char, *const *const c_char) -> c_int;

/// Calls `main`, and `exit` with what it returns.
type RunMain = extern "C" fn(Main, c_int, *const *const c_char, *const *const c_char) -> !;

/// Runs the program that the request in `folder` names, writes the answer there, and ends.
pub fn serve(folder: &Path) -> ! {
    always_at_the_same_addresses();
    *runtime().answer.borrow_mut() = folder.join(ANSWER);
    let asked = std::fs::read(folder.join(REQUEST)).map_err(|error| error.to_string());
    let asked =
        asked.and_then(|bytes| serde_json::from_slice::<Asked>(&bytes).map_err(|e| e.to_string()));
    let done = asked.and_then(|asked| match asked {
        Asked::Run(request) => {
            end_with_parent();
            run(&request).map(|ran| Answer::Ran(Box::new(ran)))
        }
        Asked::Explore(serving) => explore::serve(&serving).map(|()| Answer::Served),
    });
    match done {
        Ok(answer) => end(&answer),
        Err(what) => fail_at(&what, Vec::new()),
    }
}

/// From now on the process ends with the thread that has started it.
pub(crate) fn end_with_parent() {
    // SAFETY: changes nothing but that.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Runs this process again without randomised addresses, unless it has none.
fn always_at_the_same_addresses() {
    const NOW: libc::c_ulong = 0xffff_ffff;
    const FIXED: libc::c_int = libc::ADDR_NO_RANDOMIZE;
    // SAFETY: these calls change nothing but the layout of what is executed next.
    unsafe {
        let now = libc::personality(NOW);
        if now & FIXED != 0 || libc::personality((now | FIXED) as libc::c_ulong) == -1 {
            return;
        }
    }
    let mut words = std::env::args_os();
    if let (Some(_), Ok(this)) = (words.next(), std::env::current_exe()) {
        use std::os::unix::process::CommandExt as _;
        // Only returns if it fails; then addresses stay random, and results may differ a little.
        let _ = std::process::Command::new(this).args(words).exec();
    }
}

fn run(request: &Request) -> Result<Ran, String> {
    let machine = Machine::load(&request.machine).map_err(|error| error.to_string())?;
    let design = Choice::parse(&request.design).map_err(|error| error.to_string())?;
    let runtime = runtime();
    let cores = machine.core.count.min(THREADS_MAX);
    runtime.cores.set(cores);
    runtime.slots.set(cores);
    runtime.persistent.set(request.persistent);
    runtime.fences.set(request.fences);
    runtime.from_threads.set(request.from == From::Threads);
    let loaded = Loaded::load(&request.image, &request.arguments)?;
    let is_first = request.from == From::Start;

    let watch = Rc::new(RefCell::new(Watch::new(request, cores)));
    let mut programs: Vec<Program> = vec![Box::new(move |memory| {
        let call = move || loaded.run(is_first);
        // SAFETY: the handle lives as long as its fiber.
        unsafe { threads::run(0, memory, call) };
    })];
    for core in 1..cores {
        programs.push(Box::new(move |memory| {
            // SAFETY: as above.
            unsafe { threads::run(core, memory, || {}) };
        }));
    }
    let space = HostSpace { pm_bytes: SPACE_BYTES, dram_bytes: SPACE_BYTES };
    let mut simulation = Simulation::of_host(&machine, &design, space).at_most(request.cycles_max);
    if request.judge != Judge::Nobody {
        let observer: Rc<RefCell<dyn Observer>> = watch.clone();
        simulation = simulation.watched_by(observer);
    }
    faults::watch();
    let before = cpu_nanoseconds();
    let outcome = simulation.run(programs);
    stacks::set_fs(runtime.host_fs.get());
    let spent = cpu_nanoseconds() - before;
    let outcome = match outcome {
        Err(SimError::Deadlock { cycle, .. }) => all_wait(cycle),
        other => other.map_err(|error| error.to_string())?,
    };
    Ok(answer(&outcome, &mut watch.borrow_mut(), spent))
}

/// A program in this process.
#[derive(Clone, Copy)]
pub(crate) struct Loaded {
    main: Main,
    run_main: RunMain,
    count: c_int,
    arguments: *const *const c_char,
}

impl Loaded {
    /// Loads the image, whose `main` gets these words.
    pub(crate) fn load(image: &Path, words: &[String]) -> Result<Loaded, String> {
        if !stacks::can_set_fs() {
            return Err("this needs a processor and a kernel with wrfsbase (Linux 5.9)".into());
        }
        map_page()
            .map_err(|error| format!("cannot map the page of the instrumented code: {error}"))?;
        *runtime().folder.borrow_mut() = image.parent().unwrap_or(Path::new("/")).into();
        load(image)?;
        let main = symbol(c"main").ok_or("the image has no main")?;
        let run_main = symbol(c"sw_run_main").ok_or("the image has no support library")?;
        // SAFETY: every C program's main can be called like this, and the support library defines
        // the function that does.
        let (main, run_main) = unsafe {
            let main = std::mem::transmute::<*mut c_void, Main>(main);
            (main, std::mem::transmute::<*mut c_void, RunMain>(run_main))
        };
        let arguments = put_arguments(words)
            .map_err(|error| format!("no memory for the arguments: {error}"))?;
        Ok(Loaded { main, run_main, count: words.len() as c_int, arguments })
    }

    /// Runs the program; its accesses count from now on, or from where it says so.
    pub(crate) fn run(&self, is_on: bool) -> ! {
        if is_on {
            runtime().is_on.set(true);
            clear_counters();
        }
        (self.run_main)(self.main, self.count, self.arguments, environment())
    }
}

/// Ends the process: no thread of the program can go on.
fn all_wait(cycle: Cycle) -> ! {
    let threads = runtime().threads.iter().filter(|thread| thread.is_busy.get());
    let places = threads.map(place_of).collect();
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
    watch.end(outcome);
    let places = runtime.unseen.places().into_iter().take(20);
    Ran {
        exit_code: runtime.exit_code.get().unwrap_or(0),
        cycles: outcome.cycles,
        stalls,
        counters: outcome.counters.clone(),
        cores: used.len(),
        threads: runtime.threads_started.get(),
        instructions: runtime.instructions.get(),
        crashes: watch.crashes(),
        stores_in_cuts: watch.stores_in_cuts(),
        broken: watch.broken(),
        stored: runtime.stored.each_ref().map(Cell::get),
        unseen: runtime.unseen.count(),
        unseen_stores: places
            .map(|(at, site)| UnseenStore {
                place: regions::describe_address(at),
                found_at: image::offset_of(site).unwrap_or(site),
            })
            .collect(),
        raced: runtime.patches.get(),
        touched: pages().touched(),
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
fn map_page() -> std::io::Result<()> {
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
fn put_arguments(words: &[String]) -> std::io::Result<*const *const c_char> {
    let bytes: usize = words.iter().map(|word| word.len() + 1).sum();
    let table = (words.len() + 1) * 8;
    stacks::map_at(ARGUMENTS, (table + bytes).next_multiple_of(4096))?;
    let mut text = ARGUMENTS + table as u64;
    for (n, word) in words.iter().enumerate() {
        // SAFETY: the memory has just been mapped, with room for the table and all words; the last
        // entry and the ends of the words are zero already.
        unsafe {
            std::ptr::write((ARGUMENTS as *mut u64).add(n), text);
            std::ptr::copy_nonoverlapping(word.as_ptr(), text as *mut u8, word.len());
        }
        text += word.len() as u64 + 1;
    }
    Ok(ARGUMENTS as *const *const c_char)
}

fn environment() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's variable.
    unsafe { environ }
}
