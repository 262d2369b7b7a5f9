//! Where in the program its cycles go: each instrumented access is a site of the machine.
//!
//! A site is where the program goes on after the access. What the support library does is told
//! apart by who called it, and each access by the user's calls that led there.

use crate::process::callers::{Chain, Frame};
use crate::process::image::{self, ProgramCode};
use crate::process::runtime::{THREADS_MAX, Thread};
use crate::request::{CodeAddress, PlaceTime};
use rustc_hash::FxHashMap;
use seawall_sim::SiteTime;
use std::cell::{Cell, RefCell};

/// The sites of a run.
pub(crate) struct Profile {
    code: ProgramCode,
    /// The number of each site, by its addresses and what stands for its chain.
    numbers: RefCell<FxHashMap<(u64, u64, u64), u32>>,
    /// The sites by number; 0 is none.
    sites: RefCell<Vec<CalledSite>>,
    /// The last one of each thread.
    last: [Cell<CalledSite>; THREADS_MAX],
}

/// Where the program goes on after an access.
#[derive(Clone, Copy, Debug, Default)]
struct CalledSite {
    site: u64,
    /// Where the program has called the support library, if the site is in that; else 0.
    caller: u64,
    /// The user's calls that led there.
    chain: Chain,
}

impl CalledSite {
    /// The instruction of the program: behind the access, or behind the call.
    fn of_program(&self) -> u64 {
        if self.caller == 0 { self.site } else { self.caller }
    }
}

impl Profile {
    /// Of the image that is loaded.
    pub(crate) fn of_image() -> Profile {
        let none = CalledSite::default();
        let last = std::array::from_fn(|_| Cell::new(none));
        let code = ProgramCode::of_image().with_callers();
        Profile { code, numbers: RefCell::default(), sites: RefCell::new(vec![none]), last }
    }

    /// The thread has come to a site; `charge` charges what it has done since the last one.
    ///
    /// That counts for the last site. If that one is in the support library and this one is not
    /// in the same call, it was the program that did it, and it counts for the program's line.
    pub(crate) fn reach(&self, thread: &Thread, frame: Frame, charge: impl FnOnce()) {
        let caller = self.code.caller_of_support(frame);
        let chain = self.code.chain(caller.unwrap_or(frame));
        let caller = caller.map_or(0, |caller| caller.site);
        let next = CalledSite { site: frame.site, caller, chain };
        let last = self.last[thread.number].replace(next);
        let by_program = match next.caller {
            _ if last.caller == 0 || last.caller == next.caller => None,
            0 => Some(next),
            _ => Some(CalledSite { site: last.caller, caller: 0, chain: last.chain }),
        };
        debug_assert!(last.site != 0 || last.caller == 0, "a caller has called something");
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
            Some(frame) => self.reach(thread, frame, charge),
            None => charge(),
        }
    }

    /// The thread is at no site.
    pub(crate) fn leave(&self, thread: &Thread) {
        self.last[thread.number].set(CalledSite::default());
        thread.machine().set_site(0);
    }

    fn number(&self, at: CalledSite) -> u32 {
        let key = (at.site, at.caller, at.chain.key());
        let known = self.numbers.borrow().get(&key).copied();
        known.unwrap_or_else(|| {
            let mut sites = self.sites.borrow_mut();
            sites.push(at);
            *self.numbers.borrow_mut().entry(key).or_insert(sites.len() as u32 - 1)
        })
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
        let place = |(at, time): (&CalledSite, SiteTime)| PlaceTime {
            at: find(at.site),
            caller: find(at.caller),
            called: self.code.called_before(at.caller).and_then(find),
            callers: {
                let calls = at.chain.calls().iter().filter(|call| **call != at.of_program());
                calls.filter_map(|call| find(*call)).collect()
            },
            time,
        };
        let is_empty = |time: &SiteTime| *time == SiteTime::default();
        let all = sites.iter().zip(times).filter(|(_, time)| !is_empty(time));
        all.map(place).collect()
    }
}
