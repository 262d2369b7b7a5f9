//! The fuzz target `moves`: scripts on a heap whose objects move.
//!
//! The bytes say what is done with a list, between which steps of a cycle, and where a process
//! ends; the next one may go on with another protocol. A model has the same list in a vector.

use crate::fuzz::FuzzInput;
use crate::script::Meant;
use seawall_memory::Image;
use seawall_runtime::defrag::{DefragError, DefragOptions, Defragmenter, Step};
use seawall_runtime::typed::{self, Persist, Ptr, Session, Tx};
use seawall_runtime::{AccessError, Heap, HeapError, HeapOptions, Logging, TxError};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const NAME: &str = "moves";

#[derive(Clone, Copy, Debug, Persist)]
struct Chain<'p> {
    first: Option<Ptr<'p, Ring<'p>>>,
}

#[derive(Clone, Copy, Debug, Persist)]
struct Ring<'p> {
    value: u64,
    next: Option<Ptr<'p, Ring<'p>>>,
    filling: [u64; 22],
}

type Root<'p> = Ptr<'p, Chain<'p>>;
type Thread<'m> = typed::Thread<'m, Chain<'static>, Image>;

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Commit,
    Abort,
    Panic,
}

fn ring<'p>(value: u64, next: Option<Ptr<'p, Ring<'p>>>) -> Ring<'p> {
    Ring { value, next, filling: [value * 3; 22] }
}

fn options() -> HeapOptions {
    HeapOptions {
        bytes: 6 << 16,
        bytes_max: 6 << 16,
        threads: 1,
        log_bytes: 8 << 10,
        defragment: true,
        ..typed::options::<Chain<'_>>()
    }
}

fn defragmenter(data: &mut FuzzInput<'_>) -> Defragmenter {
    let names =
        ["espresso", "sfccd", "ffccd", "espresso-published", "sfccd-published", "ffccd-published"];
    let how: DefragOptions = names[data.below(names.len())].parse().expect("a way");
    let trigger = 1.01 + f64::from(data.byte() % 4) * 0.2;
    let how = DefragOptions { trigger, target: 1.0, ..how };
    Defragmenter::of::<Chain<'_>>(how).expect("good options")
}

/// A list in a pool, and what it must hold.
struct Held {
    expected: Vec<u64>,
    number: u64,
}

impl Held {
    /// A transaction; true if it is to be seen.
    fn ended(
        thread: &mut Thread<'_>,
        kind: Logging,
        end: End,
        body: impl for<'p> Fn(&mut Tx<'p, '_, '_, Image>, Root<'p>) -> Result<(), TxError>,
    ) -> bool {
        let run = || {
            thread.enter(|session, root| {
                session.transaction_with(kind, |tx| {
                    body(tx, root)?;
                    match end {
                        End::Commit => Ok(()),
                        End::Abort => Err(TxError::Types),
                        End::Panic => resume_unwind(Box::new(Meant)),
                    }
                })
            })
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => true,
            Ok(Err(TxError::Full { .. } | TxError::TooLarge { .. })) => false,
            Ok(Err(TxError::Types)) if end == End::Abort => false,
            Err(panic) if end == End::Panic && panic.is::<Meant>() => false,
            Ok(Err(error)) => panic!("{error}"),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn push(&mut self, thread: &mut Thread<'_>, kind: Logging, end: End, count: u64) {
        self.number += count;
        let values = self.number - count..self.number;
        let is_seen = Held::ended(thread, kind, end, |tx, root| {
            for value in values.clone() {
                let next = tx.get(root.at(Chain::FIRST))?;
                let ring = tx.alloc(ring(value, next))?;
                tx.set(root.at(Chain::FIRST), Some(ring))?;
            }
            Ok(())
        });
        if is_seen {
            self.expected.extend(values);
        }
    }

    /// Gives all rings from some place on new values, as many as a log can hold.
    fn change(&mut self, thread: &mut Thread<'_>, kind: Logging, end: End, from: usize) {
        self.number += 1;
        let (number, places) = (self.number << 32, from..from + 12);
        let is_seen = Held::ended(thread, kind, end, |tx, root| {
            let (mut place, mut next) = (0, tx.get(root.at(Chain::FIRST))?);
            while let Some(ptr) = next.filter(|_| place < places.end) {
                next = tx.get(ptr)?.next;
                if places.contains(&place) {
                    tx.set(ptr, ring(number + place as u64, next))?;
                }
                place += 1;
            }
            Ok(())
        });
        if is_seen {
            for (place, value) in self.expected.iter_mut().rev().enumerate() {
                if places.contains(&place) {
                    *value = number + place as u64;
                }
            }
        }
    }

    /// Removes all but each `step`th ring, in one transaction each.
    fn thin(&mut self, thread: &mut Thread<'_>, kind: Logging, step: usize) {
        let keeps = |place: usize| place.is_multiple_of(step);
        let thinned = thread.enter::<_, HeapError>(|session, root| {
            let (mut place, mut link) = (0, root.at(Chain::FIRST));
            while let Some(ptr) = session.get(link)? {
                if keeps(place) {
                    link = ptr.at(Ring::NEXT);
                } else {
                    session.transaction_with::<_, TxError>(kind, |tx| {
                        let next = tx.get(ptr)?.next;
                        tx.set(link, next)?;
                        tx.free(ptr)
                    })?;
                }
                place += 1;
            }
            Ok(())
        });
        assert_eq!(thinned, Ok(()));
        let count = self.expected.len();
        let mut place = count;
        self.expected.retain(|_| {
            place -= 1;
            keeps(place)
        });
    }

    fn check(&self, thread: &mut Thread<'_>) {
        let found = thread.enter(|session, root| {
            let found = walk(session, root)?;
            let reach = session.reach(root)?;
            assert_eq!(reach.reached, found.len() as u64);
            assert!(reach.lost.is_empty() && reach.dangling.is_empty(), "{reach:?}");
            Ok::<_, HeapError>(found)
        });
        assert!(found.as_ref() == Ok(&self.expected), "{found:?}, not {:?}", self.expected);
    }

    fn act(
        &mut self,
        data: &mut FuzzInput<'_>,
        thread: &mut Thread<'_>,
        collector: &mut Defragmenter,
    ) {
        let kind = if data.byte().is_multiple_of(2) { Logging::Redo } else { Logging::Undo };
        let end = match data.byte() % 8 {
            0 => End::Abort,
            1 => End::Panic,
            _ => End::Commit,
        };
        match data.byte() % 16 {
            0..=3 => self.push(thread, kind, end, 1 + data.below(24) as u64),
            4 | 5 => self.change(thread, kind, end, data.below(64)),
            6 | 7 => self.thin(thread, kind, 2 + data.below(6)),
            8 => self.check(thread),
            9 => thread.untyped().retire(),
            _ => steps(thread, collector, 1 + data.below(12)),
        }
    }
}

fn steps(thread: &mut Thread<'_>, collector: &mut Defragmenter, count: usize) {
    for _ in 0..count {
        match thread.defragment(collector) {
            Ok(Step::Worked | Step::Done) => {}
            Ok(Step::Rest) => break,
            Ok(Step::Waits) => panic!("there is no other thread to wait for"),
            Err(DefragError::Heap(TxError::Full { .. })) => break,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The values, the last first.
fn walk<'p>(session: &Session<'p, '_, Image>, root: Root<'p>) -> Result<Vec<u64>, AccessError> {
    let (mut values, mut next) = (Vec::new(), session.get(root)?.first);
    while let Some(ptr) = next {
        let found = session.get(ptr)?;
        assert_eq!(found.filling, [found.value * 3; 22]);
        values.push(found.value);
        next = found.next;
    }
    values.reverse();
    Ok(values)
}

fn made(options: &HeapOptions) -> (Image, Heap) {
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let created =
        typed::create::<Chain<'_>, _, HeapError>(&image, NAME, 7, options, |pool| Ok(pool.heap()));
    let heap = created.expect("good options");
    (image, heap)
}

fn restarted(image: Image, options: &HeapOptions) -> (Image, Heap) {
    let image = Image::from_pm(image.into_pm(), options.dram_bytes());
    let opened = typed::open::<Chain<'_>, _, HeapError>(&image, NAME, options.pm_bytes(), |pool| {
        Ok(pool.heap())
    });
    let heap = opened.expect("a whole heap");
    (image, heap)
}

/// Runs the script, held to the model; gives how many pages were emptied.
fn run(data: &[u8]) -> u64 {
    let (mut data, options) = (FuzzInput(data), options());
    let (mut image, mut heap) = made(&options);
    let (mut held, mut emptied) = (Held { expected: Vec::new(), number: 0 }, 0);
    while !data.0.is_empty() {
        let mut collector = defragmenter(&mut data);
        let mut thread = Thread::join(heap, &image).expect("the same root");
        for _ in 0..data.below(64) {
            held.act(&mut data, &mut thread, &mut collector);
        }
        held.check(&mut thread);
        drop(thread);
        emptied += collector.counts().emptied;
        (image, heap) = restarted(image, &options);
        held.check(&mut Thread::join(heap, &image).expect("the same root"));
    }
    emptied
}

/// A script of changes, steps of cycles and restarts, held to a model.
pub fn moves(data: &[u8]) {
    run(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_scripts_empty_pages() {
        let emptied = (0..200).map(|number| run(&crate::fuzz::input(3, number)));
        let scripts = emptied.filter(|pages| *pages > 0).count();
        assert!(scripts > 50, "{scripts} of 200 scripts emptied a page");
    }
}
