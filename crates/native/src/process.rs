//! What a fork must not share: a word that tells processes apart, and addresses that are a
//! process's own.
//!
//! The word is in a page that the system hands to a child as zeros (`MADV_WIPEONFORK`), whichever
//! system call makes the child; where there is no such advice a handler of `fork` zeroes it. What
//! shares its memory with its parent, as the child of `vfork` does, is the same process here.
//!
//! A pool's mapping is not copied into a child (`MADV_DONTFORK`), so a pointer that the child has
//! kept leads nowhere (SIGSEGV). The handler of `fork` also takes these addresses, inaccessible, so
//! that nothing else is mapped there, another pool least of all.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use seawall_memory::Process;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};

/// The word, once there is one.
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());

/// The process that asks. All of its copies here are equal, and differ from those of any process
/// that it was forked from.
pub fn this_process() -> Process {
    /// The number that was given last, in this process or in one that it was forked from.
    static LAST: AtomicU64 = AtomicU64::new(0);
    let word = word();
    let mut number = word.load(Acquire);
    if number == 0 {
        let new = LAST.fetch_add(1, Relaxed) + 1;
        number = word.compare_exchange(0, new, AcqRel, Acquire).map_or_else(|other| other, |_| new);
    }
    Process::new(word, number)
}

fn word() -> &'static AtomicU64 {
    // SAFETY: null, or a word that is never freed.
    if let Some(word) = unsafe { WORD.load(Acquire).as_ref() } {
        return word;
    }
    // SAFETY: the C library forgets the handler when it unloads this code. The handler calls
    // nothing but the system.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    let new = wiped_page();
    match WORD.compare_exchange(null_mut(), new, AcqRel, Acquire) {
        // SAFETY: the page is never unmapped, nor is the one that another thread was quicker with.
        Ok(_) => unsafe { &*new },
        // SAFETY: as above.
        Err(other) => unsafe { &*other },
    }
}

/// A word that is 0 in children, at least in those of `fork`.
fn wiped_page() -> *mut AtomicU64 {
    static PLAIN: AtomicU64 = AtomicU64::new(0);
    let bytes = crate::map::page_bytes() as usize;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: no address is asked for, so that no existing mapping is replaced.
    let page = unsafe { mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE) };
    let Ok(page) = page else { return std::ptr::from_ref(&PLAIN).cast_mut() };
    #[cfg(target_os = "linux")]
    // SAFETY: this is the page that was just mapped.
    let _ = unsafe { rustix::mm::madvise(page, bytes, rustix::mm::Advice::LinuxWipeOnFork) };
    page.cast()
}

/// Addresses that children do not get, of a mapping that is there until this is dropped.
#[derive(Debug)]
pub(crate) struct NotInherited {
    place: &'static Place,
    process: Process,
}

/// In a list that is never shortened, as a fork can come between any two instructions of it.
#[derive(Debug)]
struct Place {
    is_taken: AtomicBool,
    base: AtomicUsize,
    /// 0 while the handler is to leave it alone.
    bytes: AtomicUsize,
    next: *const Place,
}

// SAFETY: `next` is set before the place is shared, and leads to one that is never freed.
unsafe impl Sync for Place {}

static PLACES: AtomicPtr<Place> = AtomicPtr::new(null_mut());

fn places() -> impl Iterator<Item = &'static Place> {
    // SAFETY: null, or a place that is never freed.
    let place = |at: *const Place| unsafe { at.as_ref() };
    std::iter::successors(place(PLACES.load(Acquire)), move |before| place(before.next))
}

impl NotInherited {
    /// Keeps a mapping of this process from its children.
    ///
    /// # Safety
    /// It is a mapping of that base and length, and nobody wants it in a child.
    pub(crate) unsafe fn new(base: *mut u8, bytes: usize) -> NotInherited {
        let process = this_process();
        let free = |place: &&Place| !place.is_taken.swap(true, AcqRel);
        let place = places().find(free).unwrap_or_else(Place::add);
        let kept = NotInherited { place, process };
        // SAFETY: the caller vouches for the mapping.
        unsafe { kept.set(base, bytes) };
        kept
    }

    /// The mapping has moved, or is longer.
    ///
    /// # Safety
    /// As for [`new`](NotInherited::new).
    pub(crate) unsafe fn set(&self, base: *mut u8, bytes: usize) {
        self.place.bytes.store(0, Release);
        self.place.base.store(base.expose_provenance(), Release);
        #[cfg(target_os = "linux")]
        // SAFETY: the caller vouches for the mapping, which stays as it is in this process.
        let _ =
            unsafe { rustix::mm::madvise(base.cast(), bytes, rustix::mm::Advice::LinuxDontFork) };
        self.place.bytes.store(bytes, Release);
    }

    /// Whether the mapping is not there: this process is a child.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.process.is_this()
    }
}

impl Drop for NotInherited {
    fn drop(&mut self) {
        if self.process.is_this() {
            self.place.bytes.store(0, Release);
            self.place.is_taken.store(false, Release);
        }
    }
}

impl Place {
    /// One more, taken.
    fn add() -> &'static Place {
        let (base, bytes, is_taken) = (AtomicUsize::new(0), AtomicUsize::new(0), true.into());
        let new = Box::leak(Box::new(Place { is_taken, base, bytes, next: std::ptr::null() }));
        let mut first = PLACES.load(Acquire);
        loop {
            new.next = first;
            match PLACES.compare_exchange(first, new, AcqRel, Acquire) {
                Ok(_) => return new,
                Err(other) => first = other,
            }
        }
    }
}

/// Runs in the child of `fork`, before that returns.
extern "C" fn in_child() {
    // SAFETY: null, or a word that is never freed.
    if let Some(word) = unsafe { WORD.load(Acquire).as_ref() } {
        word.store(0, Release);
    }
    // Elsewhere the child has got the mapping, which this replaces.
    let over = if cfg!(target_os = "linux") { free_only() } else { MapFlags::FIXED };
    for place in places() {
        let (base, bytes) = (place.base.load(Acquire), place.bytes.load(Acquire));
        if bytes > 0 {
            let at = std::ptr::with_exposed_provenance_mut(base);
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | over;
            // SAFETY: no mapping is replaced but the pool's, which nobody may use here. If it
            // fails, the addresses are free for others.
            let _ = unsafe { mmap_anonymous(at, bytes, ProtFlags::empty(), flags) };
        }
    }
}

#[cfg(target_os = "linux")]
fn free_only() -> MapFlags {
    MapFlags::FIXED_NOREPLACE
}

#[cfg(not(target_os = "linux"))]
fn free_only() -> MapFlags {
    MapFlags::empty()
}

/// What each process has for itself: the child of a fork makes another one. So nothing there is
/// waited for that a thread of the parent has locked.
pub struct OfProcess<T: 'static> {
    made: AtomicPtr<Made<T>>,
}

struct Made<T: 'static> {
    process: Process,
    value: T,
    /// That of the process from which this one was forked.
    inherited: Option<&'static Made<T>>,
}

impl<T: Send + Sync + 'static> OfProcess<T> {
    /// Nothing is made yet.
    #[allow(clippy::new_without_default, reason = "for statics, which no default makes")]
    pub const fn new() -> OfProcess<T> {
        OfProcess { made: AtomicPtr::new(null_mut()) }
    }

    #[inline]
    fn last(&self) -> Option<&'static Made<T>> {
        // SAFETY: null, or from `Box::into_raw`, and then never freed.
        unsafe { self.made.load(Acquire).as_ref() }
    }

    /// What this process has made.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        let made = self.last()?;
        made.process.is_this().then_some(&made.value)
    }

    /// The same, made by `make` if there is none.
    pub fn get_or_make(&self, make: impl Fn() -> T) -> &'static T {
        loop {
            if let Some(value) = self.get() {
                return value;
            }
            let (process, inherited) = (this_process(), self.last());
            let new = Box::into_raw(Box::new(Made { process, value: make(), inherited }));
            let before = inherited.map_or(null_mut(), |made| std::ptr::from_ref(made).cast_mut());
            if self.made.compare_exchange(before, new, AcqRel, Acquire).is_err() {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }

    /// What the processes have made from which this one was forked: it is as they had it then.
    pub fn inherited(&self) -> impl Iterator<Item = &'static T> {
        let all = std::iter::successors(self.last(), |made| made.inherited);
        all.filter(|made| !made.process.is_this()).map(|made| &made.value)
    }
}
