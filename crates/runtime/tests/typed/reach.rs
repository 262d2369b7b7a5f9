//! What can be reached, what is lost, and which pointers lead nowhere.

use super::{Account, made};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::Image;
use seawall_runtime::typed::{self, Bytes, Persist, Pool, Ptr, Reach};
use seawall_runtime::{HeapError, HeapOptions, TxError};

#[derive(Clone, Copy, Persist)]
struct Graph<'p> {
    vertices: [Option<Ptr<'p, Vertex<'p>>>; 3],
    balance: Option<Ptr<'p, i64>>,
}

#[derive(Clone, Copy, Persist)]
struct Vertex<'p> {
    name: u16,
    links: [Option<Ptr<'p, Vertex<'p>>>; 2],
    account: Option<Ptr<'p, Account>>,
}

fn empty<'p>() -> Vertex<'p> {
    Vertex { name: 0, links: [None; 2], account: None }
}

fn found(body: impl for<'p> FnOnce(&Image, Pool<'p, Graph<'p>>) -> Result<(), HeapError>) -> Reach {
    let mut reach = Reach::default();
    made::<Graph<'_>>(4, |image, pool| {
        body(image, pool)?;
        reach = pool.join(image).reach(pool.root())?;
        Ok(())
    });
    reach
}

/// A graph of vertices 0 to 39, of which the root links the first three; some are freed.
#[derive(Debug)]
struct Drawn {
    links: Vec<[Option<usize>; 2]>,
    is_freed: Vec<bool>,
}

const VERTICES: usize = 40;

impl Drawn {
    fn new(seed: u64) -> Drawn {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut link = || rng.random_bool(0.6).then(|| rng.random_range(0..VERTICES));
        let links = (0..VERTICES).map(|_| [link(), link()]).collect();
        let is_freed = (0..VERTICES).map(|_| rng.random_bool(0.1)).collect();
        Drawn { links, is_freed }
    }

    /// How many vertices are reached, lost, and linked though they are freed.
    fn expected(&self) -> (u64, usize, usize) {
        let (mut reached, mut dangling) = ([false; VERTICES], 0);
        let mut open = vec![0, 1, 2];
        while let Some(vertex) = open.pop() {
            if self.is_freed[vertex] {
                dangling += 1;
            } else if !std::mem::replace(&mut reached[vertex], true) {
                open.extend(self.links[vertex].iter().flatten());
            }
        }
        let reached = reached.iter().filter(|reached| **reached).count();
        let live = self.is_freed.iter().filter(|freed| !**freed).count();
        (reached as u64, live - reached, dangling)
    }
}

#[test]
fn random_graphs_are_reached_as_a_walk_beside_them_says() {
    for seed in 0..60 {
        let drawn = Drawn::new(seed);
        let reach = found(|image, pool| {
            pool.join(image).transaction(|tx| {
                let vertices: Vec<_> =
                    (0..VERTICES).map(|_| tx.alloc(empty())).collect::<Result<_, _>>()?;
                for (vertex, links) in vertices.iter().zip(&drawn.links) {
                    let links = links.map(|link| link.map(|vertex| vertices[vertex]));
                    tx.set(vertex.at(Vertex::LINKS), links)?;
                }
                let first = [0, 1, 2].map(|vertex| Some(vertices[vertex]));
                tx.set(pool.root().at(Graph::VERTICES), first)?;
                let freed = vertices.iter().zip(&drawn.is_freed).filter(|(_, freed)| **freed);
                freed.into_iter().try_for_each(|(vertex, _)| tx.free(*vertex))
            })?;
            Ok(())
        });
        let got = (reach.reached, reach.lost.len(), reach.dangling.len());
        assert_eq!(got, drawn.expected(), "seed {seed}: {drawn:?}");
    }
}

#[test]
fn a_pointer_into_an_object_reaches_it_and_what_lies_in_the_root_is_no_object() {
    let reach = found(|image, pool| {
        pool.join(image).transaction(|tx| {
            let account = tx.alloc(Account { owner: Bytes(*b"alice"), balance: 5 })?;
            let vertex = tx.alloc(empty())?;
            let first = pool.root().at(Graph::VERTICES).index(0);
            tx.set(first, Some(vertex))?;
            tx.set(pool.root().at(Graph::BALANCE), Some(account.at(Account::BALANCE)))
        })?;
        Ok(())
    });
    assert_eq!((reach.reached, reach.lost.len(), reach.dangling.len()), (2, 0, 0));

    #[derive(Clone, Copy, Persist)]
    struct Own<'p> {
        value: u64,
        own: Option<Ptr<'p, u64>>,
    }
    made::<Own<'_>>(4, |image, pool| {
        let mut session = pool.join(image);
        session
            .transaction(|tx| tx.set(pool.root().at(Own::OWN), Some(pool.root().at(Own::VALUE))))?;
        assert_eq!(session.reach(pool.root())?, Reach::default());
        Ok(())
    });
}

#[test]
fn objects_of_every_place_are_reached_and_those_of_bytes_are_left_out() {
    #[derive(Clone, Copy, Persist)]
    struct All<'p> {
        large: Option<Ptr<'p, [Option<Ptr<'p, u64>>; 10_000]>>,
        shelf: Option<Ptr<'p, u32>>,
    }
    let options = HeapOptions { together: true, ..super::options::<All<'_>>(8) };
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let outcome = typed::create::<All<'_>, _, HeapError>(&image, "all", 7, &options, |pool| {
        let mut session = pool.join(&image);
        session.transaction(|tx| {
            let number = tx.alloc(1u64)?;
            let mut links = [None; 10_000];
            links[9_999] = Some(number);
            let (large, (shelf, lost)) = (tx.alloc(links)?, tx.alloc_together(1u32, 2u64)?);
            tx.set(pool.root(), All { large: Some(large), shelf: Some(shelf) })?;
            Ok::<_, TxError>(lost)
        })?;
        pool.heap().join(&image).transaction(|tx| tx.alloc(100))?;
        Ok(session.reach(pool.root())?)
    });
    let reach = outcome.expect("there is room");
    assert_eq!((reach.reached, reach.lost.len(), reach.dangling.len()), (3, 1, 0));
}

#[test]
fn a_pointer_to_an_object_that_was_freed_is_told_with_its_place() {
    made::<Graph<'_>>(4, |image, pool| {
        pool.join(image).transaction(|tx| {
            let vertex = tx.alloc(empty())?;
            tx.set(pool.root().at(Graph::VERTICES).index(1), Some(vertex))?;
            tx.free(vertex)
        })?;
        let reach = pool.join(image).reach(pool.root())?;
        let [dangling] = reach.dangling[..] else { panic!("{reach:?}") };
        assert_eq!(dangling.at, pool.root().at(Graph::VERTICES).index(1).addr());
        assert!(dangling.to >= pool.heap().data());
        Ok(())
    });
}

#[test]
fn it_may_begin_anywhere_also_at_a_field() {
    made::<Graph<'_>>(4, |image, pool| {
        let mut session = pool.join(image);
        let [first, second] = session.transaction(|tx| {
            let first = tx.alloc(empty())?;
            let second = tx.alloc(Vertex { links: [Some(first), None], ..empty() })?;
            tx.set(first.at(Vertex::LINKS).index(1), Some(second))?;
            Ok::<_, TxError>([first, second])
        })?;
        assert_eq!(session.reach(pool.root())?.lost.len(), 2, "a circle that nothing leads to");
        for vertex in [first, second] {
            assert_eq!(session.reach(vertex)?.reached, 2);
        }
        // From a field of the second to the first, from that to the second, and on from all of it.
        let third = session.transaction(|tx| {
            let third = tx.alloc(empty())?;
            tx.set(second.at(Vertex::LINKS).index(1), Some(third))?;
            Ok::<_, TxError>(third)
        })?;
        assert_eq!(session.reach(second.at(Vertex::LINKS).index(0))?.reached, 3);
        assert_eq!(session.reach(third.at(Vertex::LINKS))?.reached, 0);
        Ok(())
    });
}
