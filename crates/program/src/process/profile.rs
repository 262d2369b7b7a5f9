//! Where in the program its cycles go: each instrumented access is a site of the machine.
//!
//! A site is where the program goes on after the access. What the support library does is told
//! apart by who called it, which is the first address on the stack that is of the program.

use crate::process::image::{self, ProgramCode};
use crate::process::runtime::{THREADS_MAX, Thread};
use crate::request::{CodeAddress, PlaceTime};
use rustc_hash::FxHashMap;
use seawall_sim::SiteTime;
use std::cell::{Cell, RefCell};

/// The sites of a run.
pub(crate) struct Profile {
    code: ProgramCode,
    /// The number of each site with its caller, 0 if there is none.
    numbers: RefCell<FxHashMap<(u64, u64), u32>>,
    /// The sites by number; 0 is none.
    sites: RefCell<Vec<(u64, u64)>>,
    /// The last one of each thread.
    last: [Cell<(u64, u64)>; THREADS_MAX],
}

impl Profile {
    /// Of the image that is loaded.
    pub(crate) fn of_image() -> Profile {
        let sites = RefCell::new(vec![(0, 0)]);
        let last = [const { Cell::new((0, 0)) }; THREADS_MAX];
        Profile { code: ProgramCode::of_image(), numbers: RefCell::default(), sites, last }
    }

    /// The thread has come to `site`, with its stack pointer at `stack`; `charge` charges what it
    /// has done since the last one.
    ///
    /// That counts for the last site. If that one is in the support library and this one is not
    /// in the same call, it was the program that did it, and it counts for the program's line.
    pub(crate) fn reach(&self, thread: &Thread, site: u64, stack: u64, charge: impl FnOnce()) {
        let next = (site, self.code.caller_of(site, stack).unwrap_or(0));
        let (last, caller) = self.last[thread.number].replace(next);
        let by_program = match next {
            _ if caller == 0 || caller == next.1 => None,
            (_, 0) => Some(next),
            _ => Some((caller, 0)),
        };
        debug_assert!(last != 0 || caller == 0, "a caller has called something");
        if let Some(place) = by_program {
            thread.machine().set_site(self.number(place));
        }
        charge();
        thread.machine().set_site(self.number(next));
    }

    /// The thread has called the machine from the support library; the first return address there
    /// is on the stack from `stack` on.
    pub(crate) fn call(&self, thread: &Thread, stack: u64, charge: impl FnOnce()) {
        match self.code.support_on(stack) {
            Some((site, above)) => self.reach(thread, site, above, charge),
            None => charge(),
        }
    }

    /// The thread is at no site.
    pub(crate) fn leave(&self, thread: &Thread) {
        self.last[thread.number].set((0, 0));
        thread.machine().set_site(0);
    }

    fn number(&self, key: (u64, u64)) -> u32 {
        let known = self.numbers.borrow().get(&key).copied();
        known.unwrap_or_else(|| self.add(key))
    }

    #[cold]
    fn add(&self, key: (u64, u64)) -> u32 {
        let mut sites = self.sites.borrow_mut();
        let number = sites.len() as u32;
        sites.push(key);
        self.numbers.borrow_mut().insert(key, number);
        number
    }

    /// What each place has taken, all cores together, in the order in which they were reached.
    pub(crate) fn places<'a>(
        &self,
        cores: impl Iterator<Item = &'a Vec<SiteTime>>,
    ) -> Vec<PlaceTime> {
        let sites = self.sites.borrow();
        let mut times = vec![SiteTime::default(); sites.len()];
        cores.for_each(|core| times.iter_mut().zip(core).for_each(|(all, one)| all.add(one)));
        let code = image::code();
        let find = |at: u64| {
            let is_in =
                |(.., first, bytes): &&(_, u64, u64, u64)| (*first..*first + *bytes).contains(&at);
            let (module, base, ..) = code.iter().find(is_in)?;
            Some(CodeAddress { module: module.clone(), offset: at - base })
        };
        let place = |((site, caller), time): (&(u64, u64), SiteTime)| PlaceTime {
            at: find(*site),
            caller: find(*caller),
            called: self.code.called_before(*caller).and_then(find),
            time,
        };
        let is_empty = |time: &SiteTime| *time == SiteTime::default();
        let all = sites.iter().zip(times).filter(|(_, time)| !is_empty(time));
        all.map(place).collect()
    }
}
