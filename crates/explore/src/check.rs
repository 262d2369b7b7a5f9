//! The check of a program after a crash: recovery, and whether what it found is right.
//!
//! The two are apart because the first is a function of the image alone: it runs once for all
//! images in which it reads the same, and the second runs again when more was promised.

use crate::crashed::CrashImage;
use crate::walk::CrashPoint;
use std::hash::Hash;

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
    fn recover(&self, image: &CrashImage) -> Result<Self::Found, String>;

    /// Parts that can be checked apart: the image is right if every part is. Lines that only
    /// different parts read then vary on their own, so the states add up instead of multiplying.
    fn parts(&self) -> usize {
        1
    }

    /// As [`recover`](Check::recover), but looks only at one part, from 0, of what recovery left.
    ///
    /// # Errors
    /// What is wrong with that part.
    fn recover_part(&self, image: &CrashImage, _part: usize) -> Result<Self::Found, String> {
        self.recover(image)
    }

    /// Compares what recovery found with what must have survived a crash at that point: a function
    /// of the operations done and promised there, not of the event. It is also asked about runs
    /// without some of their flushes and fences, to see whether they are needed.
    ///
    /// # Errors
    /// What is lost, or there but should not be.
    fn judge(&self, found: &Self::Found, point: &CrashPoint) -> Result<(), String>;

    /// Whether recovery is cut short from now on, so that what it says is no finding: somebody has
    /// stopped it, or its time is over.
    fn is_cut(&self) -> bool {
        false
    }
}

macro_rules! through {
    ($Pointer:ty) => {
        impl<C: Check + ?Sized> Check for $Pointer {
            type Found = C::Found;

            fn recover(&self, image: &CrashImage) -> Result<C::Found, String> {
                (**self).recover(image)
            }

            fn parts(&self) -> usize {
                (**self).parts()
            }

            fn recover_part(&self, image: &CrashImage, part: usize) -> Result<C::Found, String> {
                (**self).recover_part(image, part)
            }

            fn judge(&self, found: &C::Found, point: &CrashPoint) -> Result<(), String> {
                (**self).judge(found, point)
            }

            fn is_cut(&self) -> bool {
                (**self).is_cut()
            }
        }
    };
}

through!(&C);
through!(Box<C>);

/// A [`Check`] made of two functions.
pub fn check<F, R, J>(recover: R, judge: J) -> impl Check<Found = F>
where
    F: Eq + Hash,
    R: Fn(&CrashImage) -> Result<F, String>,
    J: Fn(&F, &CrashPoint) -> Result<(), String>,
{
    Both { recover, judge }
}

struct Both<R, J> {
    recover: R,
    judge: J,
}

impl<F, R, J> Check for Both<R, J>
where
    F: Eq + Hash,
    R: Fn(&CrashImage) -> Result<F, String>,
    J: Fn(&F, &CrashPoint) -> Result<(), String>,
{
    type Found = F;

    fn recover(&self, image: &CrashImage) -> Result<F, String> {
        (self.recover)(image)
    }

    fn judge(&self, found: &F, point: &CrashPoint) -> Result<(), String> {
        (self.judge)(found, point)
    }
}

/// A check without its type, so that the search is compiled once, and not for each check. What
/// recovery finds is interned: equal findings have the same number.
pub(crate) trait Findings {
    /// See [`Check::parts`]; one at least.
    fn parts(&self) -> usize;

    /// Runs recovery on the image, and looks at a part of what it left.
    fn recover(&self, image: &CrashImage, part: usize) -> u32;

    /// Recovery panicked instead.
    fn panicked(&self, panic: &str) -> u32;

    /// What is wrong with a finding after a crash at that point.
    fn judge(&self, found: u32, point: &CrashPoint) -> Result<(), String>;

    /// See [`Check::is_cut`].
    fn is_cut(&self) -> bool;
}
