//! Defragmentation: steps of the collector (`seawall_runtime::defrag`), in threads of the program.

use crate::pool::{OpenPool, SwPool, on_pool};
use crate::status::{Failure, Status, give};
use crate::thread;
use libc::c_int;
use seawall_lanes::{LaneGuard, LanePurpose};
use seawall_runtime::defrag::{Defragmenter, Step};
use std::sync::TryLockError;

/// `struct sw_defragmented`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Defragmented {
    state: c_int,
    reserved: c_int,
    cycles: u64,
    moved: u64,
    emptied: u64,
    returned: u64,
}

/// `enum sw_defragment_state`
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle = 0,
    Works = 1,
    Waits = 2,
}

/// Does so many steps, unless there is nothing to do, or a transaction to wait for.
fn steps(
    pool: &'static OpenPool,
    defragmenter: &mut Defragmenter,
    steps: u64,
) -> Result<State, Failure> {
    for _ in 0..steps {
        let mut lane = LaneGuard::take(&pool.lanes, LanePurpose::Call, thread::number());
        match defragmenter.step(lane.session())? {
            Step::Worked => {}
            Step::Waits => return Ok(State::Waits),
            Step::Rest | Step::Done => return Ok(State::Idle),
        }
    }
    Ok(State::Works)
}

impl OpenPool {
    fn defragment(&'static self, count: u64) -> Result<Defragmented, Failure> {
        let Some(described) = &self.described else {
            let text = "nothing moves in this pool: it was made without options.types";
            return Err(Failure::invalid(text));
        };
        let mut kept = self.defragmenter.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::new(
                Status::Busy,
                "another thread defragments this pool; one does at a time",
            ),
            TryLockError::Poisoned(_) => {
                Failure::new(Status::Damaged, "an earlier call has failed half way; open it again")
            }
        })?;
        let mut defragmenter = match kept.take() {
            Some(defragmenter) => defragmenter,
            None => Defragmenter::of_described(described, &self.heap, self.ratios)?,
        };
        let state = steps(self, &mut defragmenter, count);
        let counts = kept.insert(defragmenter).counts();
        Ok(Defragmented {
            state: state? as c_int,
            reserved: 0,
            cycles: counts.cycles,
            moved: counts.moved,
            emptied: counts.emptied,
            returned: counts.discarded,
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_defragment(
    handle: *const SwPool,
    count: u64,
    into: *mut Defragmented,
) -> Status {
    on_pool(handle, |pool| {
        // SAFETY: the program vouches for the place.
        unsafe { give(into, Defragmented::default()) };
        if thread::has_open(handle as usize) {
            return Err(Failure::misuse(
                "this thread has a transaction open in the pool, for which it would wait; end that \
                 before",
            ));
        }
        let done = pool.defragment(count)?;
        // SAFETY: as above.
        unsafe { give(into, done) };
        Ok(Status::Ok)
    })
}
