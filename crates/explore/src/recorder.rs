//! Records runs that start from the same memory.
//!
//! An exploration makes thousands of short runs. Copying a pool of a megabyte for each would take
//! longer than the run, so the memory of one run is put back and serves the next. Runs may be made
//! by several threads of the host at once.

use crate::run::{RunError, Shared, drive};
use crate::schedule::Schedule;
use crate::trace::Trace;
use crate::traced::Traced;
use crate::words::Words;
use seawall_fiber::Fiber;
use seawall_memory::{Addr, Image};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory, and runs of programs that start from it.
pub struct Recorder {
    pm: Arc<[u8]>,
    dram: Vec<u8>,
    /// Bytes that persistent memory may grow to.
    room: u64,
    /// Memory as it was at the start, left by runs before: as much as ran at once.
    spare: Mutex<Vec<Regions>>,
}

/// What a run leaves: the state of its threads, and whether they came to their end.
type Ran = (Rc<Shared>, Vec<Fiber>, Result<(), RunError>);

/// Persistent and volatile memory.
pub(crate) struct Regions {
    pub(crate) pm: Words,
    pub(crate) dram: Words,
}

impl Recorder {
    /// Records runs that start from this memory.
    pub fn new(start: Image) -> Recorder {
        let room = start.pm_bytes_max();
        let (pm, dram) = start.into_parts();
        Recorder { pm: pm.into(), dram, room, spare: Mutex::default() }
    }

    /// Runs `program` once for each thread, each with its own handle.
    ///
    /// # Errors
    /// When the run does not end, or a thread panics.
    pub fn record<P>(&self, schedule: &Schedule, program: P) -> Result<Trace, RunError>
    where
        P: Fn(&Traced<'_>) + Clone + 'static,
    {
        let (shared, fibers, result) = self.run(schedule, program, |_| None)?;
        shared.close();
        drop(fibers);
        let trace = shared.trace.replace(Trace::empty(schedule.threads));
        result.map(|()| {
            self.put_back(shared, &trace);
            trace
        })
    }

    /// Has the memory of one run of so many threads ready. A process that forks does this before.
    pub fn get_ready(&self, threads: usize) {
        let ready = self.regions();
        self.spare().push(ready);
        seawall_fiber::prepare(threads);
    }

    /// As [`record`](Recorder::record), for programs whose threads cannot be unwound: when the run
    /// is over, or cannot go on, `leave` is called, which ends the process. If it does not, what
    /// the threads hold is lost. Threads of which `bell` names a word begin when that is set.
    ///
    /// # Errors
    /// When the run cannot begin.
    pub fn record_and_leave<P, T>(
        &self,
        schedule: &Schedule,
        program: P,
        bell: impl Fn(usize) -> Option<Addr>,
        leave: impl FnOnce(Result<Trace, RunError>) -> T,
    ) -> Result<T, RunError>
    where
        P: Fn(&Traced<'_>) + Clone + 'static,
    {
        let (shared, fibers, result) = self.run(schedule, program, bell)?;
        let trace = shared.trace.replace(Trace::empty(schedule.threads));
        std::mem::forget(fibers);
        Ok(leave(result.map(|()| trace)))
    }

    /// Runs the threads to their end, or as far as they go.
    fn run<P>(
        &self,
        schedule: &Schedule,
        program: P,
        bell: impl Fn(usize) -> Option<Addr>,
    ) -> Result<Ran, RunError>
    where
        P: Fn(&Traced<'_>) + Clone + 'static,
    {
        if schedule.threads == 0 {
            return Err(RunError::NoThreads);
        }
        let mut trace = Trace::new(schedule.threads, self.pm.clone(), self.dram.len() as u64);
        trace.room = self.room;
        let shared = Rc::new(Shared::new(self.regions(), trace, schedule));
        let bells = (0..schedule.threads).filter_map(|thread| Some((thread, bell(thread)?)));
        bells.for_each(|(thread, at)| shared.begins_by(thread, at));
        let fiber = |thread| {
            let (shared, program) = (shared.clone(), program.clone());
            let fiber =
                Fiber::new(move |pause| program(&Traced::new(shared.clone(), thread, pause)));
            fiber.map_err(|error| RunError::Stack { thread, why: error.to_string() })
        };
        let fibers: Result<Vec<Fiber>, RunError> = (0..schedule.threads).map(fiber).collect();
        let mut fibers = fibers?;
        let result = drive(&shared, &mut fibers, schedule);
        Ok((shared, fibers, result))
    }

    fn regions(&self) -> Regions {
        let spare = self.spare().pop();
        spare.unwrap_or_else(|| Regions {
            pm: Words::with_room(&self.pm, self.room),
            dram: Words::from_bytes(&self.dram),
        })
    }

    /// Takes back what the run stored.
    fn put_back(&self, shared: Rc<Shared>, trace: &Trace) {
        let Ok(Shared { pm, dram, dram_writer, .. }) = Rc::try_unwrap(shared) else { return };
        for store in trace.stores.iter().rev() {
            pm.set_word(store.change.word, store.change.old);
        }
        pm.set_bytes(self.pm.len() as u64);
        for word in dram_writer.into_inner().into_keys() {
            let bytes = &self.dram[8 * word as usize..];
            let (mut old, len) = ([0; 8], bytes.len().min(8));
            old[..len].copy_from_slice(&bytes[..len]);
            dram.set_word(word as u32, u64::from_le_bytes(old));
        }
        debug_assert!(pm.begins_as(&self.pm) && dram.begins_as(&self.dram));
        self.spare().push(Regions { pm, dram });
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Regions>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `program` once for each thread, each with its own handle, from the memory in `start`.
///
/// # Errors
/// When the run does not end, or a thread panics.
pub fn record<P>(start: Image, schedule: &Schedule, program: P) -> Result<Trace, RunError>
where
    P: Fn(&Traced<'_>) + Clone + 'static,
{
    Recorder::new(start).record(schedule, program)
}
