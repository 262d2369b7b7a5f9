//! The process that serves an exploration: it forks for each run.

use super::machine::{Recording, bell};
use super::space::{Space, space};
use super::template::Template;
use crate::explore::client::THREADS;
use crate::explore::wire::{Done, End, Module, Reply, Serving, Task, read_frame, write_frame};
use crate::folder::PARTS;
use crate::process::failure::place_of;
use crate::process::runtime::{OneThread, runtime};
use crate::process::{Loaded, end_with_parent};
use crate::process::{faults, image, regions, stacks, threads};
use crate::request::{Answer, From, PAGE, Persistent};
use crate::spawn::tail;
use libc::c_int;
use seawall_explore::{Recorder, RunError, Schedule, Trace};
use seawall_memory::{Image, Memory as _};
use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cores that a program is told of, which tell it how many threads to start.
const CORES: usize = 4;
/// A run may take so many times longer by the clock than of the processor.
const PATIENCE: u64 = 10;

/// What a run needs to answer.
struct Telling {
    told: File,
    said: std::path::PathBuf,
}

static TELLING: OneThread<Telling> = OneThread(OnceCell::new());

/// Serves until nothing more is asked.
pub(crate) fn serve(serving: &Serving) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let (mut asked, mut told) = take_streams(serving).map_err(failed)?;
    // SAFETY: nothing else runs yet. Memory of all threads then comes from one place, which grows
    // in larger steps.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    let runtime = runtime();
    runtime.cores.set(CORES);
    runtime.persistent.set(Persistent::Files);
    runtime.fences.set(serving.fences);
    *runtime.files.borrow_mut() = Some(serving.folder.clone());
    runtime.from_threads.set(serving.from == From::Threads);
    let loaded = Loaded::load(&serving.start)?;
    stacks::prepare(1).map_err(failed)?;
    faults::watch();
    let module = |(path, base, at, bytes)| Module { path, base, at, bytes };
    let modules = image::code().into_iter().map(module).collect();
    write_frame(&mut told, &Reply::Ready(modules)).map_err(failed)?;
    let mut templates =
        PARTS.map(|part| Template::new(&serving.template.join(part), &serving.folder.join(part)));
    let pm_bytes = (serving.pages.len() as u64 * PAGE).max(PAGE);
    let recorder = Recorder::new(Image::new(pm_bytes, serving.dram_bytes));
    recorder.get_ready(THREADS);
    Space::set_up(serving);
    let emptied = File::create(&serving.said).map_err(failed)?;
    while let Some(task) = read_frame::<Task>(&mut asked).map_err(failed)? {
        for template in &mut templates {
            template.restore().map_err(failed)?;
        }
        emptied.set_len(0).map_err(failed)?;
        if let Some(end) =
            in_a_fork(|| begin(serving, &recorder, loaded, task, &told)).map_err(failed)?
        {
            let done = Done { said: said(&serving.said), ..Done::only(end) };
            write_frame(&mut told, &Reply::Done(Box::new(done))).map_err(failed)?;
        }
    }
    Ok(())
}

/// Runs `body` in a copy of this process; returns how it ended, if it has not answered itself.
fn in_a_fork(body: impl FnOnce() -> String) -> io::Result<Option<End>> {
    // SAFETY: this process has one thread that runs.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        end_with_parent();
        let what = body();
        crate::process::failure::fail_at(&what, Vec::new())
    }
    let mut status = 0;
    // SAFETY: waits for the child.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(match status {
        0 => None,
        _ if libc::WIFSIGNALED(status) => Some(End::Signal(libc::WTERMSIG(status))),
        _ => Some(End::Failed("ended without an answer".into(), Vec::new())),
    })
}

/// Takes the streams of questions and answers, and gives the program others.
fn take_streams(serving: &Serving) -> io::Result<(File, File)> {
    let keep = |fd: c_int| {
        // SAFETY: makes a copy of a stream of this process.
        match unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 100) } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: the copy is ours.
            copy => Ok(unsafe { File::from_raw_fd(copy) }),
        }
    };
    let kept = (keep(0)?, keep(1)?);
    let null = Path::new("/dev/null");
    let input = File::open(serving.input.as_deref().unwrap_or(null))?;
    let said = File::options().create(true).append(true).open(&serving.said)?;
    for (file, fd) in [(&input, 0), (&said, 1), (&said, 2)] {
        // SAFETY: replaces a stream of this process.
        if unsafe { libc::dup2(file.as_raw_fd(), fd) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(kept)
}

/// Begins a task, in a process of its own; only returns what keeps it from beginning.
fn begin(
    serving: &Serving,
    recorder: &Recorder,
    loaded: Loaded,
    task: Task,
    told: &File,
) -> String {
    limit(serving.seconds);
    // SAFETY: the copy has an input of its own; if it has none, there is nothing to read.
    unsafe { libc::lseek(0, 0, libc::SEEK_SET) };
    let Ok(told) = told.try_clone() else { return "has no way to answer".into() };
    let _ = TELLING.0.set(Telling { told, said: serving.said.clone() });
    runtime().tells.set(Some(tell));
    let schedule = match task {
        Task::Record(schedule) => schedule,
        Task::Recover(words) => {
            space().recovers(words);
            of_recovery()
        }
    };
    runtime().slots.set(schedule.threads);
    let is_on = serving.from == From::Start;
    let program = move |memory: &seawall_explore::Traced<'_>| {
        let machine = Recording::new(memory);
        // SAFETY: the handle lives as long as its fiber.
        unsafe { threads::run(memory.thread(), &machine, || loaded.run(is_on)) };
    };
    // But for `main`, threads begin when they are started.
    let bell = |thread: usize| (thread > 0).then(|| bell(thread));
    match recorder.record_and_leave(&schedule, program, bell, over) {
        Ok(what) => what,
        Err(error) => error.to_string(),
    }
}

/// The turns of the threads of a recovery: each until it waits or ends.
fn of_recovery() -> Schedule {
    Schedule {
        threads: THREADS,
        turns: seawall_explore::Turns::Priorities(0),
        steps: u64::MAX,
        ..Schedule::default()
    }
}

/// Whether the process has run for too long: it ends at its next access to memory.
static IS_LATE: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_late() -> bool {
    IS_LATE.load(Ordering::Relaxed)
}

/// Ends this process if it takes too long, by force a little later.
fn limit(seconds: u64) {
    extern "C" fn late(_: c_int) {
        IS_LATE.store(true, Ordering::Relaxed);
    }
    let limit = libc::rlimit { rlim_cur: seconds, rlim_max: seconds + 1 };
    // SAFETY: all of it concerns this process alone; the handler only sets a flag.
    unsafe {
        libc::signal(libc::SIGXCPU, late as extern "C" fn(c_int) as libc::sighandler_t);
        libc::setrlimit(libc::RLIMIT_CPU, &raw const limit);
        libc::alarm(u32::try_from(seconds * PATIENCE).unwrap_or(u32::MAX));
    }
}

/// The threads cannot go on.
fn over(result: Result<Trace, RunError>) -> String {
    stacks::set_fs(runtime().host_fs.get());
    let what = match result {
        Ok(_) => "ended without exit".into(),
        Err(RunError::Deadlock(_)) => "is deadlocked: all of its threads wait".into(),
        Err(error) => error.to_string(),
    };
    let threads = runtime().threads.iter().filter(|thread| thread.is_busy.get());
    crate::process::failure::fail_at(&what, threads.map(place_of).collect())
}

/// The program has exited, and this is its run.
pub(crate) fn exited(trace: impl FnOnce() -> Trace) -> ! {
    let code = runtime().exit_code.get().unwrap_or(0);
    let trace = (!space().is_recovery()).then(trace);
    let done = Done { trace, ..done(End::Exit(code)) };
    let is_told = answer(done);
    // SAFETY: ends the process at once; nothing of the program is to run any more.
    unsafe { libc::_exit(if is_told { 0 } else { 2 }) }
}

/// It cannot go on.
fn tell(failed: &Answer) -> bool {
    stacks::set_fs(runtime().host_fs.get());
    let end = match failed {
        Answer::Failed { what, places } => End::Failed(what.clone(), places.clone()),
        _ => End::Failed("ended in another way than it was asked".into(), Vec::new()),
    };
    answer(done(end))
}

fn answer(mut done: Done) -> bool {
    let events = done.trace.iter().flat_map(|trace| trace.events());
    let events = events.filter_map(|event| event.at.instruction());
    let accesses = done.accesses.iter().map(|access| access.site);
    done.chains = space().chains(events.chain(accesses));
    let mut told = &TELLING.0.get().expect("a task has begun").told;
    write_frame(&mut told, &Reply::Done(Box::new(done))).is_ok()
}

/// What is known of the run of this process.
fn done(end: End) -> Done {
    let runtime = runtime();
    let places = runtime.unseen.places();
    let unseen = places.into_iter().map(|(at, site)| {
        (regions::describe_address(at), image::offset_of(site).unwrap_or_default())
    });
    Done {
        end,
        trace: None,
        accesses: space().accesses(),
        chains: Vec::new(),
        threads: runtime.threads.iter().filter(|thread| thread.has_run()).count(),
        missing: space().missing(),
        dram_bytes: space().used_dram(),
        unseen: unseen.collect(),
        said: said(&TELLING.0.get().expect("a task has begun").said),
    }
}

impl Done {
    /// An end of which nothing else is known.
    fn only(end: End) -> Done {
        Done {
            end,
            trace: None,
            accesses: Vec::new(),
            chains: Vec::new(),
            threads: 0,
            missing: Vec::new(),
            dram_bytes: 0,
            unseen: Vec::new(),
            said: String::new(),
        }
    }
}

fn said(path: &Path) -> String {
    if path.metadata().is_ok_and(|file| file.len() == 0) {
        return String::new();
    }
    tail(path).unwrap_or_default()
}
