//! The check of a program after a crash: recovery, and whether what it found is right.
//!
//! The two are apart because the first is a function of the image alone: it runs once for all
//! images in which it reads the same, and the second runs again when more was promised.

use crate::crashed::CrashImage;
use crate::walk::CrashPoint;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::cell::RefCell;
use std::hash::{BuildHasher, Hash};

/// Checks whether what survived is right: runs recovery on an image, and judges what it found.
pub trait Check {
    /// What recovery finds: whatever the judgement needs.
    type Found: Eq + Hash;

    /// Runs recovery, and looks at what it left.
    ///
    /// It must be a function of the image and of nothing else: it runs once for all images in which
    /// it reads the same.
    ///
    /// # Errors
    /// What is wrong with the image, whatever was promised.
    fn recover(&self, image: &CrashImage<'_>) -> Result<Self::Found, String>;

    /// Parts that can be checked apart: the image is right if every part is. Lines that only
    /// different parts read then vary on their own, so the states add up instead of multiplying.
    fn parts(&self) -> usize {
        1
    }

    /// As [`recover`](Check::recover), but looks only at one part, from 0, of what recovery left.
    ///
    /// # Errors
    /// What is wrong with that part.
    fn recover_part(&self, image: &CrashImage<'_>, _part: usize) -> Result<Self::Found, String> {
        self.recover(image)
    }

    /// Compares what recovery found with what must have survived a crash at that point: a function
    /// of the operations done and promised there, not of the event.
    ///
    /// # Errors
    /// What is lost, or there but should not be.
    fn judge(&self, found: &Self::Found, point: &CrashPoint) -> Result<(), String>;
}

/// A boxed check of any type.
impl<C: Check + ?Sized> Check for Box<C> {
    type Found = C::Found;

    fn recover(&self, image: &CrashImage<'_>) -> Result<C::Found, String> {
        (**self).recover(image)
    }

    fn parts(&self) -> usize {
        (**self).parts()
    }

    fn recover_part(&self, image: &CrashImage<'_>, part: usize) -> Result<C::Found, String> {
        (**self).recover_part(image, part)
    }

    fn judge(&self, found: &C::Found, point: &CrashPoint) -> Result<(), String> {
        (**self).judge(found, point)
    }
}

/// A [`Check`] made of two functions.
pub fn check<F, R, J>(recover: R, judge: J) -> impl Check<Found = F>
where
    F: Eq + Hash,
    R: Fn(&CrashImage<'_>) -> Result<F, String>,
    J: Fn(&F, &CrashPoint) -> Result<(), String>,
{
    Both(recover, judge)
}

struct Both<R, J>(R, J);

impl<F, R, J> Check for Both<R, J>
where
    F: Eq + Hash,
    R: Fn(&CrashImage<'_>) -> Result<F, String>,
    J: Fn(&F, &CrashPoint) -> Result<(), String>,
{
    type Found = F;

    fn recover(&self, image: &CrashImage<'_>) -> Result<F, String> {
        self.0(image)
    }

    fn judge(&self, found: &F, point: &CrashPoint) -> Result<(), String> {
        self.1(found, point)
    }
}

/// A check without its type, so that the search is compiled once, and not for each check. What
/// recovery finds is interned: equal findings have the same number.
pub(crate) trait Findings {
    /// See [`Check::parts`]; one at least.
    fn parts(&self) -> usize;

    /// Runs recovery on the image, and looks at a part of what it left.
    fn recover(&self, image: &CrashImage<'_>, part: usize) -> u32;

    /// Recovery panicked instead.
    fn panicked(&self, panic: &str) -> u32;

    /// What is wrong with a finding after a crash at that point.
    fn judge(&self, found: u32, point: &CrashPoint) -> Result<(), String>;
}

/// What a check has found, each different finding once.
pub(crate) struct Interned<'c, C: Check> {
    check: &'c C,
    found: RefCell<Vec<Result<C::Found, String>>>,
    by_hash: RefCell<FxHashMap<u64, Vec<u32>>>,
}

impl<'c, C: Check> Interned<'c, C> {
    pub(crate) fn new(check: &'c C) -> Interned<'c, C> {
        Interned { check, found: RefCell::default(), by_hash: RefCell::default() }
    }

    fn intern(&self, result: Result<C::Found, String>) -> u32 {
        let hash = FxBuildHasher.hash_one(&result);
        let (mut found, mut by_hash) = (self.found.borrow_mut(), self.by_hash.borrow_mut());
        let same = by_hash.entry(hash).or_default();
        if let Some(known) = same.iter().find(|known| found[**known as usize] == result) {
            return *known;
        }
        same.push(found.len() as u32);
        found.push(result);
        found.len() as u32 - 1
    }
}

impl<C: Check> Findings for Interned<'_, C> {
    fn parts(&self) -> usize {
        self.check.parts().max(1)
    }

    fn recover(&self, image: &CrashImage<'_>, part: usize) -> u32 {
        self.intern(self.check.recover_part(image, part))
    }

    fn panicked(&self, panic: &str) -> u32 {
        self.intern(Err(format!("recovery panicked: {panic}")))
    }

    fn judge(&self, found: u32, point: &CrashPoint) -> Result<(), String> {
        match &self.found.borrow()[found as usize] {
            Ok(found) => self.check.judge(found, point),
            Err(message) => Err(message.clone()),
        }
    }
}
