//! What the process knows of the program that it runs: its threads, its pages, and whether its
//! accesses are simulated now.
//!
//! All threads of the program are fibers of one OS thread, and only one of them runs. So the state
//! is a static of cells; an operation of the machine may run other threads before it returns, and
//! nothing may be borrowed across it.

use crate::process::callers::Frame;
use crate::process::dependence::{Data, Records};
use crate::process::locals::ThreadLocals;
use crate::process::machine::Machine;
use crate::process::profile::Profile;
use crate::process::stacks;
use crate::process::stored::{Pending, Stored};
use crate::process::unread::Unread;
use crate::process::unseen::Unseen;
use crate::request::{Answer, Asks, Fences, Persistent};
use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;

/// The support library's `sw_syscall`: number and arguments to result.
pub(crate) type SystemCall = extern "C" fn(u64, u64, u64, u64, u64, u64, u64) -> i64;

/// Gives an answer; false if that fails.
pub(crate) type Tell = fn(&Answer) -> bool;

/// From where a thread is to what stands for the user's calls that led there.
pub(crate) type Locate = fn(Frame) -> u64;

/// Most bytes of each kind of memory that a program may touch.
pub(crate) const SPACE_BYTES: u64 = 8 << 30;

/// The most threads of a program: one for each core of the largest machine.
pub(crate) const THREADS_MAX: usize = 64;

/// A locked instruction that the program was about to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locked {
    pub(crate) at: u64,
    pub(crate) bytes: usize,
    /// Whether it stores: it does not if it is a compare that fails.
    pub(crate) stores: bool,
}

/// A word of the host that shows a thread another value than the newest, for one load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch {
    pub(crate) at: u64,
    pub(crate) mask: u64,
    pub(crate) newest: u64,
}

/// A thread that sleeps until another one wakes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sleeper {
    /// The word that it sleeps on.
    pub(crate) at: u64,
    pub(crate) thread: usize,
}

/// A thread of the program, on a core of the machine.
pub(crate) struct Thread {
    pub(crate) number: usize,
    /// The base of `%fs`: where the thread's own variables are.
    pub(crate) fs: Cell<u64>,
    pub(crate) machine: Cell<Option<&'static dyn Machine>>,
    pub(crate) pending: Cell<Option<Pending>>,
    /// The stores before it, of the same instruction.
    pub(crate) pending_too: RefCell<Vec<Pending>>,
    pub(crate) locked: Cell<Option<Locked>>,
    /// The words of the locked instruction before it ran.
    pub(crate) found: Cell<[u64; 2]>,
    pub(crate) patches: RefCell<Vec<Patch>>,
    /// Words of the load that is going on: address, bits, value.
    pub(crate) loaded: RefCell<Vec<(u64, u64, u64)>>,
    /// SiteLines of the store that is being finished.
    pub(crate) stored: RefCell<Vec<Stored>>,
    /// Instructions that the machine has issued for accesses and that the program's count has not
    /// reached yet.
    pub(crate) ahead: Cell<u64>,
    /// How many calls deep it is in code whose accesses are not simulated.
    pub(crate) in_host: Cell<u32>,
    /// When its data are known.
    pub(crate) data: Data,
    /// What it runs when it is next woken.
    pub(crate) start: Cell<Option<(extern "C" fn(u64) -> u64, u64)>>,
    pub(crate) is_busy: Cell<bool>,
    /// The stack pointer of its fiber, while it is on the stack of the program.
    pub(crate) base: Cell<u64>,
    /// Where the program goes on after the access.
    pub(crate) site: Cell<u64>,
    /// Its stack pointer there.
    pub(crate) stack: Cell<u64>,
    /// What stands in a finding for the calls that led there. A store is finished when its thread
    /// has gone on, and its frame may be gone.
    pub(crate) named: Cell<u64>,
}

impl Thread {
    fn new(number: usize) -> Thread {
        Thread {
            number,
            fs: Cell::new(0),
            machine: Cell::new(None),
            pending: Cell::new(None),
            pending_too: RefCell::default(),
            locked: Cell::new(None),
            found: Cell::new([0; 2]),
            patches: RefCell::default(),
            loaded: RefCell::default(),
            stored: RefCell::default(),
            ahead: Cell::new(0),
            data: Data::default(),
            in_host: Cell::new(0),
            start: Cell::new(None),
            is_busy: Cell::new(false),
            base: Cell::new(0),
            site: Cell::new(0),
            stack: Cell::new(0),
            named: Cell::new(0),
        }
    }

    /// It has come to an instruction.
    #[inline]
    pub(crate) fn comes_to(&self, frame: Frame) {
        self.site.set(frame.site);
        self.is_in(frame);
    }

    /// It is in this call, whatever its last instruction was.
    #[inline]
    pub(crate) fn is_in(&self, frame: Frame) {
        if let Some(locate) = runtime().locate.get() {
            self.named.set(locate(frame));
        }
    }

    /// Whether the program has ever run on it.
    pub(crate) fn has_run(&self) -> bool {
        self.fs.get() != 0
    }

    #[inline]
    pub(crate) fn machine(&self) -> &'static dyn Machine {
        self.machine.get().expect("a thread that runs is on a core")
    }

    /// Performs an operation of the machine; other threads may run meanwhile.
    #[inline]
    pub(crate) fn through<T>(&self, operation: impl FnOnce(&dyn Machine) -> T) -> T {
        let result = operation(self.machine());
        let runtime = runtime();
        if runtime.running.replace(self.number) != self.number {
            stacks::set_fs(self.fs.get());
        }
        result
    }
}

/// The state of the process.
pub(crate) struct Runtime {
    /// Whether accesses are simulated.
    pub(crate) is_on: Cell<bool>,
    /// The cores of the machine that a program can use: what it is told.
    pub(crate) cores: Cell<usize>,
    /// Threads that can run at a time.
    pub(crate) slots: Cell<usize>,
    /// The thread whose `%fs` is set.
    pub(crate) running: Cell<usize>,
    pub(crate) threads: [Thread; THREADS_MAX],
    pub(crate) persistent: Cell<Persistent>,
    pub(crate) fences: Cell<Fences>,
    /// Whether measuring begins with the first thread that the program starts.
    pub(crate) from_threads: Cell<bool>,
    pub(crate) unseen: Unseen,
    pub(crate) unread: Unread,
    /// Those that sleep, in the order in which they came.
    pub(crate) sleepers: RefCell<Vec<Sleeper>>,
    /// Where its cycles go, if that is asked for.
    pub(crate) profile: OnceCell<Profile>,
    /// What it says of the flow of its data, if it does and that takes time.
    pub(crate) records: OnceCell<Records>,
    pub(crate) exit_code: Cell<Option<i32>>,
    pub(crate) threads_started: Cell<u64>,
    /// Instructions of the program that have been charged.
    pub(crate) instructions: Cell<u64>,
    pub(crate) patches: Cell<u64>,
    /// Words stored, to all memory and to persistent memory.
    pub(crate) stored: [Cell<u64>; 2],
    pub(crate) asked: Cell<Asks>,
    /// Stores past the caches to persistent memory that were ordinary ones.
    pub(crate) ordinary: Cell<u64>,
    pub(crate) host_fs: Cell<u64>,
    pub(crate) system_call: Cell<Option<SystemCall>>,
    /// The loaded image.
    pub(crate) image: Cell<*mut libc::c_void>,
    /// The folder of the image and of the libraries that come with it.
    pub(crate) folder: RefCell<PathBuf>,
    /// The files of a run whose crashes are tried: what it may store to.
    pub(crate) files: RefCell<Option<PathBuf>>,
    /// How thread-local variables begin.
    pub(crate) locals: RefCell<Vec<ThreadLocals>>,
    /// Where the answer goes.
    pub(crate) answer: RefCell<PathBuf>,
    /// Who answers instead, where many runs are asked for.
    pub(crate) tells: Cell<Option<Tell>>,
    /// What a finding names, where there are findings.
    pub(crate) locate: Cell<Option<Locate>>,
}

/// A static of the one OS thread that runs the program.
pub(crate) struct OneThread<T>(pub(crate) std::cell::OnceCell<T>);

// SAFETY: only the first OS thread of the process uses it: the others sleep, and exist for their
// thread-local variables alone.
unsafe impl<T> Sync for OneThread<T> {}

static RUNTIME: OneThread<Runtime> = OneThread(std::cell::OnceCell::new());

/// The state of this process.
#[inline]
pub(crate) fn runtime() -> &'static Runtime {
    RUNTIME.0.get_or_init(|| Runtime {
        is_on: Cell::new(false),
        running: Cell::new(0),
        threads: std::array::from_fn(Thread::new),
        cores: Cell::new(1),
        slots: Cell::new(1),
        persistent: Cell::new(Persistent::Files),
        fences: Cell::new(Fences::Order),
        from_threads: Cell::new(false),
        unseen: Unseen::default(),
        unread: Unread::default(),
        sleepers: RefCell::default(),
        profile: OnceCell::new(),
        records: OnceCell::new(),
        exit_code: Cell::new(None),
        threads_started: Cell::new(1),
        instructions: Cell::new(0),
        patches: Cell::new(0),
        stored: [const { Cell::new(0) }; 2],
        asked: Cell::default(),
        ordinary: Cell::new(0),
        host_fs: Cell::new(stacks::fs()),
        system_call: Cell::new(None),
        image: Cell::new(std::ptr::null_mut()),
        folder: RefCell::default(),
        files: RefCell::default(),
        locals: RefCell::default(),
        answer: RefCell::default(),
        tells: Cell::new(None),
        locate: Cell::new(None),
    })
}

impl Runtime {
    /// The program flushes a line of persistent memory.
    pub(crate) fn count_flush(&self) {
        let Asks { flushes, fences } = self.asked.get();
        self.asked.set(Asks { flushes: flushes + 1, fences });
    }

    pub(crate) fn count_fence(&self) {
        let Asks { flushes, fences } = self.asked.get();
        self.asked.set(Asks { flushes, fences: fences + 1 });
    }

    pub(crate) fn count_ordinary(&self, is_one: bool) {
        self.ordinary.set(self.ordinary.get() + u64::from(is_one));
    }

    /// Words are about to be stored to a page.
    #[inline]
    pub(crate) fn count_stores(&self, words: u64, is_pm: bool) {
        self.stored[0].set(self.stored[0].get() + words);
        self.stored[1].set(self.stored[1].get() + words * u64::from(is_pm));
    }

    #[inline]
    pub(crate) fn thread(&self) -> &Thread {
        &self.threads[self.running.get()]
    }
}
