//! Enqueue, dequeue and peek in copy-while-locked queues (MICRO'15, Table 2, "Queue", and
//! Figure 10).
//!
//! One lock serialises all threads that share a queue, so there are many queues. A thread works
//! mostly on queues of its own, and passes entries to other threads through the others. An enqueue
//! to a full queue and a dequeue from an empty one have no effect.

use super::structures::QueueShape;
use crate::harness::history::{Contents, initial_tag};
use crate::harness::workload::Action;
use crate::shared::Change;
use crate::{Damage, Layout, Setup, Worker, Workload};
use seawall_memory::Memory;
use seawall_runtime::{Arena, pool};

/// Queues per thread, unless there are too few entries.
const QUEUES_PER_THREAD: u64 = 10;

/// Per cent of operations on the thread's own queues; the others draw any queue.
const OWN_PERCENT: u64 = 75;

/// The queue benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    queues: super::structures::Queues,
}

fn shape(setup: &Setup) -> QueueShape {
    let threads = setup.threads as u64;
    let queues = (QUEUES_PER_THREAD * threads).min(setup.entries.div_ceil(4)).max(1);
    QueueShape { threads, queues, capacity: 2 * setup.entries.div_ceil(queues) }
}

/// The queue of the next operation.
fn draw(shape: QueueShape, worker: &mut Worker) -> u64 {
    let own = shape.queues / shape.threads;
    if own > 0 && worker.below(100) < OWN_PERCENT {
        return worker.thread as u64 * own + worker.below(own);
    }
    worker.below(shape.queues)
}

impl Workload for Queue {
    const NAME: &'static str = "queue";
    const ABOUT: &'static str = "enqueue and dequeue in copy-while-locked queues";
    const ENTRIES: u64 = 8192;
    const SEARCH_PERCENT: u32 = 33;

    fn layout(setup: &Setup) -> Layout {
        let mut arena = Arena::new();
        super::structures::Queues::place(shape(setup), &mut arena);
        Layout::of(&arena)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Queue {
        let mut arena = Arena::new();
        let shape = shape(setup);
        let queues = super::structures::Queues::place(shape, &mut arena);
        for number in 0..setup.entries {
            let change = Change::of(initial_tag(number));
            queues.enqueue(memory, number % shape.queues, change).expect("room at the start");
        }
        let roots = [shape.threads, shape.queues, shape.capacity];
        pool::create(memory, Queue::NAME, setup.uuid(), arena.pm_bytes(), &roots);
        Queue { queues }
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Queue, Damage> {
        let [threads, queues, capacity, ..] = pool::open(memory, Queue::NAME, layout.pm_bytes)?;
        let mut arena = Arena::new();
        let shape = QueueShape { threads, queues, capacity }.check()?;
        let queues = super::structures::Queues::place(shape, &mut arena);
        layout.hold(&arena)?;
        queues.recover(memory)?;
        Ok(Queue { queues })
    }

    type Local<'m, M: Memory + 'm> = ();

    fn join<M: Memory>(&self, _: &M) {}

    fn step<M: Memory>(&self, memory: &M, (): &mut (), worker: &mut Worker) {
        let action = worker.action();
        let queue = draw(self.queues.shape(), worker);
        memory.work(20);
        match action {
            Action::Search => {
                self.queues.peek(memory, queue);
            }
            Action::Insert => {
                let _ = self.queues.enqueue(memory, queue, worker.change());
            }
            Action::Delete => {
                self.queues.dequeue(memory, queue, worker.change());
            }
        }
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        Ok(self.queues.contents(memory)?)
    }
}
