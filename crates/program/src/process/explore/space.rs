//! Where the pages of a program are on the recording machine, and what recovery does to those that
//! are persistent.

use super::chains::Chains;
use crate::explore::wire::{Access, Did, PoolPage, Serving};
use crate::process::failure::fail;
use crate::process::image::ProgramCode;
use crate::process::pages::pages;
use crate::process::pool::Pool;
use crate::process::regions;
use crate::process::runtime::{OneThread, runtime};
use crate::request::PAGE;
use rustc_hash::FxHashMap;
use seawall_memory::Addr;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Accesses of one recovery to what a crash may have changed, at most.
const ACCESSES_MAX: usize = 1 << 20;
/// Accesses that there is room for at first: to copy them as they become more costs new pages.
const ACCESSES_USUAL: usize = 1 << 10;

/// The memory of the program of this process.
pub(crate) struct Space {
    folder: PathBuf,
    listed: FxHashMap<PoolPage, u64>,
    dram_bytes: u64,
    seconds: u64,
    /// The start of each known page on the machine.
    known: RefCell<FxHashMap<u64, Addr>>,
    /// The page that was asked for last, and its start on the machine.
    last: Cell<(u64, Addr)>,
    next_dram: Cell<u64>,
    /// Pages of pools that are not in the list, and those of them that were stored to.
    unlisted: RefCell<FxHashMap<u64, PoolPage>>,
    missing: RefCell<BTreeSet<PoolPage>>,
    code: ProgramCode,
    /// The user's calls that led to accesses.
    chains: RefCell<Chains>,
    recovery: OnceCell<Recovery>,
}

/// A recovery: the words that the crash left, and what was done since.
struct Recovery {
    words: Vec<(Addr, u64)>,
    /// Whether they are of this line.
    lines: Vec<bool>,
    accesses: RefCell<Vec<Access>>,
}

static SPACE: OneThread<Space> = OneThread(OnceCell::new());

/// The space of this process, which has been set up.
pub(crate) fn space() -> &'static Space {
    SPACE.0.get().expect("a run has a space")
}

/// Whether this process is a recovery.
pub(crate) fn is_recovery() -> bool {
    SPACE.0.get().is_some_and(Space::is_recovery)
}

/// Whether this process is a run of an exploration.
pub(crate) fn is_run() -> bool {
    SPACE.0.get().is_some_and(|space| !space.is_recovery())
}

/// The name of a file: from the folder of the run on, if it is in it.
pub(crate) fn name(path: &Path) -> PathBuf {
    space().name(path)
}

/// Whether this run stores to this file, or one before it has.
pub(crate) fn is_stored_to(path: &Path) -> bool {
    let file = space().name(path);
    may_have_changed(path) || space().missing.borrow().iter().any(|page| page.file == file)
}

/// Whether a run has stored to this file.
pub(crate) fn may_have_changed(path: &Path) -> bool {
    let file = space().name(path);
    space().listed.keys().any(|page| page.file == file)
}

/// Gives a pool that has just been mapped the words that the crash left of it.
pub(crate) fn overlay(pool: &Pool) {
    let Some(Recovery { words, .. }) = SPACE.0.get().and_then(|space| space.recovery.get()) else {
        return;
    };
    let file = space().name(&pool.path);
    let of_file = space().listed.iter().filter(|(page, _)| page.file == file);
    let offsets: FxHashMap<u64, u64> = of_file.map(|(page, n)| (*n, page.offset)).collect();
    let there = pool.there();
    for (at, value) in words {
        let Some(offset) = offsets.get(&(at.offset() / PAGE)) else { continue };
        let offset = offset + at.offset() % PAGE;
        if there.contains(&offset) {
            // SAFETY: an aligned word of the mapping, which is private and writable, and which the
            // program does not know yet.
            unsafe { std::ptr::write((pool.at + offset - pool.offset) as *mut u64, *value) };
        }
    }
    // Known, so that they do not count as written by somebody else.
    pages().as_it_is(|pages| {
        for offset in offsets.values().filter(|offset| there.contains(offset)) {
            pages.page(runtime().thread(), pool.at + offset - pool.offset);
        }
    });
}

impl Recovery {
    /// Whether a crash may have changed the line of a word.
    fn varies(&self, at: Addr) -> bool {
        self.lines.get((at.offset() / 64) as usize).is_some_and(|varies| *varies)
    }
}

impl Space {
    /// Sets up the space of this process, and of all that it forks.
    pub(crate) fn set_up(serving: &Serving) {
        let space = Space {
            folder: serving.folder.clone(),
            listed: serving.pages.iter().cloned().zip(0..).collect(),
            dram_bytes: serving.dram_bytes,
            seconds: serving.seconds,
            known: RefCell::default(),
            last: Cell::new((u64::MAX, Addr::pm(0))),
            // The first page is the machine's.
            next_dram: Cell::new(PAGE),
            unlisted: RefCell::default(),
            missing: RefCell::default(),
            code: ProgramCode::of_image().with_callers(),
            chains: RefCell::default(),
            recovery: OnceCell::new(),
        };
        assert!(SPACE.0.set(space).is_ok(), "a process has one space");
        runtime().locate.set(Some(|frame| {
            let space = self::space();
            space.chains.borrow_mut().key(&space.code, frame)
        }));
    }

    /// The run of this process is a recovery on pools with these words.
    pub(crate) fn recovers(&self, words: Vec<(Addr, u64)>) {
        let line = |(at, _): &(Addr, u64)| (at.offset() / 64) as usize;
        let mut lines = vec![false; words.iter().map(line).max().map_or(0, |last| last + 1)];
        words.iter().for_each(|word| lines[line(word)] = true);
        let accesses = RefCell::new(Vec::with_capacity(ACCESSES_USUAL));
        let recovery = Recovery { words, lines, accesses };
        assert!(self.recovery.set(recovery).is_ok(), "a process makes one recovery");
    }

    /// The user's calls of those of these sites that stand for several.
    pub(crate) fn chains(&self, sites: impl Iterator<Item = u64>) -> Vec<(u64, Vec<u64>)> {
        let (chains, mut found, mut last) = (self.chains.borrow(), BTreeMap::new(), None);
        for site in sites.filter(|site| last.replace(*site) != Some(*site)) {
            if let Some(chain) = chains.get(site) {
                found.entry(site).or_insert_with(|| chain.calls().to_vec());
            }
        }
        found.into_iter().collect()
    }

    /// The instruction that the running thread has come to; its caller's, if it is one of a
    /// library; with several calls of the user, what stands for them.
    pub(crate) fn site(&self) -> u64 {
        runtime().thread().named.get()
    }

    /// The name of a file: from the folder of the run on, if it is in it.
    fn name(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.folder).unwrap_or(path).into()
    }

    /// Makes a page known; returns its start on the machine.
    pub(crate) fn add(&self, page: u64, is_pm: bool) -> Addr {
        let of_pool = is_pm.then(|| self.page_of_pool(page)).flatten();
        if is_pm && of_pool.is_none() {
            fail("declares memory persistent that is no file's: its check could not open it");
        }
        let listed = of_pool.as_ref().and_then(|page| self.listed.get(page));
        let at = match (listed, of_pool.clone()) {
            (Some(number), _) => Addr::pm(number * PAGE),
            (None, of_pool) => {
                if let Some(of_pool) = of_pool {
                    self.unlisted.borrow_mut().insert(page, of_pool);
                }
                self.new_dram()
            }
        };
        self.known.borrow_mut().insert(page, at);
        at
    }

    fn new_dram(&self) -> Addr {
        let at = self.next_dram.get();
        if at + PAGE > self.dram_bytes {
            fail(&format!(
                "touches more than {} KiB of memory: give it less to do",
                self.dram_bytes / 1024
            ));
        }
        self.next_dram.set(at + PAGE);
        Addr::dram(at)
    }

    fn page_of_pool(&self, page: u64) -> Option<PoolPage> {
        let pool = regions::pool_at(page)?;
        Some(PoolPage { file: self.name(&pool.path), offset: pool.offset_of(page) })
    }

    /// Where an address is on the machine; its page is known.
    #[inline]
    pub(crate) fn place(&self, at: u64) -> Addr {
        let page = at / PAGE * PAGE;
        let (last, start) = self.last.get();
        if last == page {
            return start.plus(at % PAGE);
        }
        let start = self.known.borrow().get(&page).copied();
        let start = start.expect("a page is known before it is used");
        self.last.set((page, start));
        start.plus(at % PAGE)
    }

    /// The program stores to an address.
    pub(crate) fn note_store(&self, at: u64) {
        if let Some(page) = self.unlisted.borrow().get(&(at / PAGE * PAGE)) {
            self.missing.borrow_mut().insert(page.clone());
        }
    }

    /// Whether an address is of a pool's page that nothing is known to store to.
    pub(crate) fn is_unlisted(&self, at: u64) -> bool {
        self.unlisted.borrow().contains_key(&(at / PAGE * PAGE))
    }

    /// Recovery did this.
    #[inline]
    pub(crate) fn log(&self, did: Did) {
        let Some(recovery) = self.recovery.get() else { return };
        let is_wanted = match did {
            Did::Read(at, ..) => at.is_pm() && recovery.varies(at),
            Did::Wrote(at, ..)
            | Did::WroteBits(at, ..)
            | Did::Streamed(at, ..)
            | Did::StreamedLine(at, _)
            | Did::Locked(at, _)
            | Did::Flushed(at) => at.is_pm(),
            Did::Fenced(_) | Did::LockedElsewhere | Did::BeganWrite(_) | Did::EndedWrite => true,
        };
        if is_wanted {
            let site = self.site();
            let mut accesses = recovery.accesses.borrow_mut();
            accesses.push(Access { site, did });
            if accesses.len() > ACCESSES_MAX {
                drop(accesses);
                fail("accesses persistent memory too often: it does not end");
            }
        }
    }

    /// Seconds that the run may take.
    pub(crate) fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Whether the run is a recovery.
    pub(crate) fn is_recovery(&self) -> bool {
        self.recovery.get().is_some()
    }

    /// What recovery did.
    pub(crate) fn accesses(&self) -> Vec<Access> {
        self.recovery.get().map_or_else(Vec::new, |recovery| recovery.accesses.take())
    }

    pub(crate) fn missing(&self) -> Vec<PoolPage> {
        self.missing.borrow().iter().cloned().collect()
    }

    pub(crate) fn used_dram(&self) -> u64 {
        self.next_dram.get()
    }
}
