//! Where in the program its cycles go: each instrumented access is a site of the machine.
//!
//! A site is where the program goes on after the access. What the support library does is told
//! apart by who called it, which is the first address on the stack that is of the program.

use crate::image::{self, ProgramCode};
use crate::request::{Instruction, PlaceTime};
use crate::runtime::Thread;
use rustc_hash::FxHashMap;
use seawall_sim::SiteTime;
use std::cell::RefCell;

/// The sites of a run.
pub(crate) struct Profile {
    code: ProgramCode,
    /// The number of each site with its caller, 0 if there is none.
    numbers: RefCell<FxHashMap<(u64, u64), u32>>,
    /// The sites by number; 0 is none.
    sites: RefCell<Vec<(u64, u64)>>,
}

impl Profile {
    /// Of the image that is loaded.
    pub(crate) fn of_image() -> Profile {
        let sites = RefCell::new(vec![(0, 0)]);
        Profile { code: ProgramCode::of_image(), numbers: RefCell::default(), sites }
    }

    /// The thread goes on at `site`, with its stack pointer at `stack`.
    pub(crate) fn at(&self, thread: &Thread, site: u64, stack: u64) {
        let own = self.code.own(site, stack);
        let key = (site, if own == site { 0 } else { own });
        let known = self.numbers.borrow().get(&key).copied();
        let number = known.unwrap_or_else(|| self.add(key));
        thread.machine().set_site(number);
    }

    /// The thread has called the machine from code of the support library, whose return address
    /// is the first of that code from `stack` on.
    pub(crate) fn at_call(&self, thread: &Thread, stack: u64) {
        if let Some((site, stack)) = self.code.support_on(stack) {
            self.at(thread, site, stack);
        }
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
            Some(Instruction { module: module.clone(), offset: at - base })
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
