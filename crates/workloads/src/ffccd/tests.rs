//! Each structure compared with a map of the standard library, and in its own phases.

use super::adapter::RootOf;
use super::phases::Step;
use super::{ChurnStructure, Churned};
use crate::harness::history::{Contents, History};
use crate::{Setup, Worker, Workload};
use seawall_memory::Image;
use seawall_runtime::typed::Thread;
use std::sync::Arc;

/// A structure with one thread, and a map with the same entries.
struct Beside<'m, S> {
    churned: Churned<S>,
    image: &'m Image,
    thread: Thread<'m, RootOf<S>, Image>,
    worker: Worker,
    history: Arc<History>,
    seen: usize,
    map: Contents,
}

fn setup<S: ChurnStructure>(entries: u64, seed: u64) -> (Setup, Image) {
    let setup = Setup { entries, seed, ..Setup::of::<Churned<S>>(1) };
    let layout = Churned::<S>::layout(&setup);
    (setup, Image::new(layout.pm_bytes, layout.dram_bytes))
}

impl<'m, S: ChurnStructure> Beside<'m, S> {
    fn new((setup, image): &'m (Setup, Image)) -> Beside<'m, S> {
        let churned = Churned::<S>::create(image, setup);
        let map = churned.contents(image).expect("just made");
        let history = Arc::new(History::new());
        let worker = Worker::new(setup, 0, history.clone());
        let thread = churned.join(image).thread;
        Beside { churned, image, thread, worker, history, seen: 0, map }
    }

    fn run(&mut self, step: Step) -> Option<u64> {
        let dice = self.worker.below(u64::MAX);
        let found = self.churned.run(&mut self.thread, step, dice, &self.worker);
        self.worker.number += 1;
        for effect in &self.history.effects()[self.seen..] {
            match effect.tag {
                0 => self.map.remove(&effect.key),
                tag => self.map.insert(effect.key, tag),
            };
            self.seen += 1;
        }
        found.unwrap_or_else(|damage| panic!("{}: {damage}", S::NAME))
    }

    /// Compares all entries, and checks all invariants.
    fn check(&self) {
        // On a copy: the check joins with the thread's number.
        let contents = self.churned.contents(&self.image.clone());
        let contents = contents.unwrap_or_else(|damage| panic!("{}: {damage}", S::NAME));
        assert!(contents == self.map, "{}: other entries than the map", S::NAME);
    }
}

/// Random steps, with more puts and more removes in turn; also of existing and of absent keys.
fn does_what_a_map_does<S: ChurnStructure>() {
    for (entries, seed) in [(1, 1), (9, 2), (60, 3), (700, 4)] {
        let pool = setup::<S>(entries, seed);
        let mut beside = Beside::<S>::new(&pool);
        for number in 0..2500 {
            let key = beside.worker.below(entries);
            let puts = if number / (2 * entries + 20) % 2 == 0 { 2 } else { 6 };
            let step = match beside.worker.below(10) {
                0 => Step::Get(key),
                1 => Step::Touch(key),
                choice if choice < puts + 2 => Step::Put(key),
                _ => Step::Remove(key),
            };
            let expected = beside.map.get(&key).copied();
            let found = beside.run(step);
            if matches!(step, Step::Get(_)) {
                assert_eq!(found, expected, "{}: key {key}", S::NAME);
            }
            if number % (10 + entries / 4) == 0 {
                beside.check();
            }
        }
        for key in 0..entries {
            beside.run(Step::Remove(key));
        }
        beside.check();
        assert_eq!(beside.map, Contents::new());
    }
}

/// All entries are removed and put back in ascending and in descending order: each order rebalances
/// on one side only.
fn survives_sorted_keys<S: ChurnStructure>() {
    let pool = setup::<S>(300, 5);
    let mut beside = Beside::<S>::new(&pool);
    for round in 0..4 {
        let key = |at| if round % 2 == 0 { at } else { 299 - at };
        for at in 0..300 {
            beside.run(Step::Remove(key(at)));
            if at % 10 == 0 {
                beside.check();
            }
        }
        for at in 0..300 {
            beside.run(Step::Put(key(at)));
            if at % 10 == 0 {
                beside.check();
            }
        }
    }
}

macro_rules! each {
    ($($name:ident: $ChurnStructure:ty;)*) => { $(
        mod $name {
            #[test]
            fn does_what_a_map_does() {
                super::does_what_a_map_does::<$ChurnStructure>();
            }

            #[test]
            fn survives_sorted_keys() {
                super::survives_sorted_keys::<$ChurnStructure>();
            }
        }
    )* };
}
each! {
    ll: crate::ffccd::ll::Ll;
    avl: crate::ffccd::avl::Avl;
    ss: crate::ffccd::ss::Ss;
    bt: crate::ffccd::bt::Bt;
    rb: crate::ffccd::rb::Rb;
    bztree: crate::ffccd::bztree::BzTree;
    fptree: crate::ffccd::fptree::FpTree;
    echo: crate::ffccd::echo::Echo;
    pmemkv: crate::ffccd::pmemkv::PmemKv;
    redis: crate::ffccd::redis::Redis;
}
