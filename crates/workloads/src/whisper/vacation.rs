//! STAMP's vacation on Mnemosyne, as WHISPER ran it (ASPLOS'17, Table 1): a travel agency with
//! cars, flights, rooms and customers, each a table of search trees.
//!
//! The transactions are those of STAMP ("STAMP: Stanford Transactional Applications for
//! Multi-Processing", IISWC'08) with `-n1 -q80 -u99`: 99 per cent reserve a resource for a
//! customer; of the others half delete a customer with all reservations, half add to the resources
//! or remove some. A transaction has the four epochs of its log. A customer has at most
//! [`RESERVATIONS`], so that the size of a pool is bounded: a further one cancels the oldest.
//!
//! Each table is divided into [`PARTS`] trees by key, with a lock each. The front end's work
//! follows from the published share of accesses to persistent memory, 0.36 %; it makes about half
//! of the accesses that this share requires, which would make runs slow.

use self::tree::{KEY, LEFT, RIGHT, priority};
use super::client::Client;
use super::mnemosyne::{Cursor, RedoLog, Tx};
use super::reach::{Reach, within, word};
use crate::harness::history::{Contents, initial_tag, tag};
use crate::harness::workload::{ENTRIES_MAX, THREADS_MAX};
use crate::shared::Slots;
use crate::{Damage, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, Guard, Locks, pool};
use std::collections::BTreeMap;

mod tree;

/// Cars, flights and rooms; the fourth table is that of the customers.
const RESOURCES: u64 = 3;
const TABLES: u64 = RESOURCES + 1;
const CUSTOMERS: u64 = RESOURCES;
/// Trees of a table.
const PARTS: u64 = 16;
/// The greatest number of reservations of a customer.
const RESERVATIONS: u64 = 4;

const TAG: u64 = 24;
const TOTAL: u64 = 32;
const USED: u64 = 40;
const FREE: u64 = 48;
const PRICE: u64 = 56;
/// In a customer: the newest reservation, and the number of reservations.
const LIST: u64 = 32;
const COUNT: u64 = 40;
/// A reservation: its resource, its price, the next older one.
const WHAT: u64 = 0;
const PAID: u64 = 8;
const NEXT: u64 = 16;

/// Transactions per thousand that delete a customer, and that change the resources.
const DELETIONS: u64 = 5;
const CHANGES: u64 = 5;
/// The queried share of a table, in per cent.
const QUERIED: u64 = 80;
/// The units added to a resource, and those of a resource at the start.
const ADDED: u64 = 100;

/// Function calls of the front end before, in and after a transaction.
const CALLS: u64 = 250;
const REQUEST_BYTES: u64 = 64;
const RESPONSE_BYTES: u64 = 128;

/// The application.
///
/// After a crash, tables and reservations are as the last commits left them: opening performs the
/// writes in the redo log of a committed transaction, and any other has changed nothing. Locks,
/// free nodes and the read and write sets of the transactional memory are in DRAM; opening rebuilds
/// the free lists from the nodes that the trees reach.
#[derive(Clone, Copy, Debug)]
pub struct Vacation {
    ids: u64,
    client: Client,
    log: RedoLog,
    roots: Addr,
    nodes: Slots,
    locks: Locks,
}

/// A table and a key in it, encoded as one number.
fn name(table: u64, id: u64) -> u64 {
    table << 40 | id
}

fn part(name: u64) -> u64 {
    (name >> 40) * PARTS + (name & ((1 << 40) - 1)) % PARTS
}

fn price(name: u64, tag: u64) -> u64 {
    50 + word(name, tag, 0) % 450
}

/// A transaction with its thread, the locks that it holds, and the nodes that it frees.
struct Run<'a, M: Memory> {
    vacation: &'a Vacation,
    worker: &'a Worker,
    tx: Tx<'a, M>,
    memory: &'a M,
    held: Vec<Guard>,
    freed: Vec<Addr>,
}

impl<'a, M: Memory> Run<'a, M> {
    fn begin(
        vacation: &'a Vacation,
        memory: &'a M,
        cursor: &'a mut Cursor,
        worker: &'a Worker,
    ) -> Run<'a, M> {
        let tx = Tx::begin(memory, &vacation.log, cursor, worker.flaw);
        Run { vacation, worker, tx, memory, held: Vec::new(), freed: Vec::new() }
    }

    /// Locks the trees of these names: the customer's first, the others in one go.
    fn lock(&mut self, names: &[u64]) {
        let mut parts: Vec<u64> = names.iter().map(|name| part(*name)).collect();
        parts.sort_unstable();
        parts.dedup();
        for part in parts {
            let level = self.held.len() as u64;
            self.held.push(self.vacation.locks.acquire(self.memory, part, level));
        }
    }

    fn find(&mut self, name: u64) -> Option<(Addr, Addr)> {
        tree::find(&mut self.tx, self.vacation.root(part(name)), name)
    }

    fn effect(&self, name: u64, tag: u64) {
        self.worker.history.effect(self.worker.thread, self.worker.number, name, tag);
    }

    fn tag(&self) -> u64 {
        tag(self.worker.thread, self.worker.number)
    }

    /// A new node in the tree of `name`, with only its key set.
    fn add(&mut self, name: u64) -> Addr {
        let node = self.vacation.nodes.take(self.memory).expect("nodes for all tables");
        tree::insert(&mut self.tx, self.vacation.root(part(name)), node, name);
        node
    }

    /// Moves units of a resource from free to used, or back.
    fn use_some(&mut self, node: Addr, count: i64) {
        let tag = self.tag();
        self.tx.add(node.plus(USED), count as u64);
        self.tx.add(node.plus(FREE), count.wrapping_neg() as u64);
        self.tx.store(node.plus(TAG), tag);
    }

    /// The reservations of a customer, newest first, each with its resource.
    fn reservations(&mut self, customer: Addr) -> Vec<(Addr, u64)> {
        let mut list = Vec::new();
        let mut next = self.tx.follow(customer.plus(LIST));
        while !next.is_null() {
            list.push((next, self.tx.load(next.plus(WHAT))));
            next = self.tx.follow(next.plus(NEXT));
        }
        list
    }

    /// Reserves a resource for a customer, and creates the customer if there is none.
    fn reserve(&mut self, customer: u64, resource: u64) {
        self.lock(&[customer]);
        let found = self.find(customer).map(|(_, node)| node);
        let had = found.map_or(Vec::new(), |node| self.reservations(node));
        let oldest = had.last().filter(|_| had.len() as u64 == RESERVATIONS).copied();
        let oldest_of = oldest.map(|(_, of)| of);
        self.lock(&[resource, oldest_of.unwrap_or(resource)]);
        self.vacation.calls(self.memory, resource);
        let Some((_, wanted)) = self.find(resource) else { return };
        if self.tx.load(wanted.plus(FREE)) == 0 {
            return;
        }
        let tag = self.tag();
        [customer, resource].iter().for_each(|name| self.effect(*name, tag));
        if let Some(of) = oldest_of.filter(|of| *of != resource) {
            self.effect(of, tag);
        }
        let price = self.tx.load(wanted.plus(PRICE));
        let newest = found.map_or(0, |node| self.tx.load(node.plus(LIST)));
        let node = found.unwrap_or_else(|| self.add(customer));
        let made = self.vacation.nodes.take(self.memory).expect("nodes for all reservations");
        self.tx.store(made.plus(WHAT), resource);
        self.tx.store(made.plus(PAID), price);
        self.tx.store(made.plus(NEXT), newest);
        self.use_some(wanted, 1);
        if let Some((oldest, of)) = oldest {
            let (_, given_back) = self.find(of).expect("a resource that is reserved");
            self.use_some(given_back, -1);
            self.tx.store(had[had.len() - 2].0.plus(NEXT), 0);
            self.freed.push(oldest);
        }
        let count = had.len() as u64 + u64::from(oldest.is_none());
        self.tx.store(node.plus(LIST), made.bits());
        self.tx.store(node.plus(COUNT), count);
        self.tx.store(node.plus(TAG), tag);
    }

    /// Deletes a customer and cancels the customer's reservations.
    fn delete(&mut self, customer: u64) {
        self.lock(&[customer]);
        let Some((link, node)) = self.find(customer) else { return };
        let had = self.reservations(node);
        let mut names: Vec<u64> = had.iter().map(|(_, of)| *of).collect();
        self.lock(&names);
        names.sort_unstable();
        names.dedup();
        self.effect(customer, 0);
        let tag = self.tag();
        names.iter().for_each(|name| self.effect(*name, tag));
        for (reservation, of) in had {
            let (_, resource) = self.find(of).expect("a resource that is reserved");
            self.use_some(resource, -1);
            self.freed.push(reservation);
        }
        tree::remove(&mut self.tx, link, node);
        self.freed.push(node);
    }

    /// Adds to a resource, or removes one without reservations.
    fn change(&mut self, resource: u64, adds: bool) {
        self.lock(&[resource]);
        let tag = self.tag();
        match self.find(resource) {
            Some((_, node)) if adds => {
                self.effect(resource, tag);
                self.tx.add(node.plus(TOTAL), ADDED);
                self.tx.add(node.plus(FREE), ADDED);
                self.tx.store(node.plus(TAG), tag);
            }
            None if adds => {
                self.effect(resource, tag);
                let node = self.add(resource);
                let fields = [
                    (TAG, tag),
                    (TOTAL, ADDED),
                    (USED, 0),
                    (FREE, ADDED),
                    (PRICE, price(resource, tag)),
                ];
                fields.iter().for_each(|(at, value)| self.tx.store(node.plus(*at), *value));
            }
            Some((link, node)) if self.tx.load(node.plus(USED)) == 0 => {
                self.effect(resource, 0);
                tree::remove(&mut self.tx, link, node);
                self.freed.push(node);
            }
            _ => {}
        }
    }

    /// Commits, then releases locks and frees nodes.
    fn end(self) {
        let Run { vacation, tx, memory, held, freed, .. } = self;
        tx.commit();
        held.into_iter().rev().for_each(|guard| vacation.locks.release(memory, guard));
        freed.into_iter().for_each(|node| vacation.nodes.give(memory, node));
    }
}

/// The resources and customers that a walk has found.
#[derive(Default)]
struct Found {
    used: BTreeMap<u64, u64>,
    reserved: BTreeMap<u64, u64>,
}

impl Vacation {
    fn place(threads: u64, ids: u64) -> (Vacation, Arena) {
        let mut arena = Arena::new();
        let live = (TABLES + RESERVATIONS) * ids + 2 * threads;
        let nodes = Slots::enough(live, threads);
        let vacation = Vacation {
            ids,
            client: Client::place(&mut arena, threads),
            log: RedoLog::place(&mut arena, threads),
            roots: arena.pm(TABLES * PARTS * LINE_BYTES),
            nodes: Slots::place(&mut arena, nodes, LINE_BYTES, threads),
            locks: Locks::place(&mut arena, TABLES * PARTS, threads, 2 + RESERVATIONS),
        };
        (vacation, arena)
    }

    fn root(&self, part: u64) -> Addr {
        self.roots.plus(part * LINE_BYTES)
    }

    fn calls<M: Memory>(&self, memory: &M, hash: u64) {
        self.client.calls(memory, hash, CALLS);
    }

    fn fill<M: Memory>(&self, memory: &M) {
        let mut cursor = Cursor::default();
        Reach::none(&self.nodes).rebuild(memory);
        for (number, name) in (0..).zip((0..TABLES * self.ids).map(|at| {
            let (table, id) = (at % TABLES, at / TABLES);
            name(table, id)
        })) {
            let node = self.nodes.take(memory).expect("nodes for all tables");
            let mut tx = Tx::begin(memory, &self.log, &mut cursor, crate::Flaw::None);
            tree::insert(&mut tx, self.root(part(name)), node, name);
            let tag = initial_tag(number);
            tx.store(node.plus(TAG), tag);
            if name >> 40 != CUSTOMERS {
                tx.store(node.plus(TOTAL), ADDED);
                tx.store(node.plus(FREE), ADDED);
                tx.store(node.plus(PRICE), price(name, tag));
            }
            tx.commit();
        }
    }

    /// Checks every invariant; adds names and tags to `contents` and marks all nodes in `reach`.
    fn walk<M: Memory>(
        &self,
        memory: &M,
        reach: &mut Reach<'_>,
        contents: &mut Contents,
    ) -> Result<(), Damage> {
        let mut found = Found::default();
        for number in 0..TABLES * PARTS {
            self.walk_tree(
                memory,
                number,
                reach,
                |node, key| {
                    let tag: u64 = memory.load(node.plus(TAG));
                    contents.insert(key, tag);
                    if tag == 0 { Err(Damage(format!("node {key:#x} has no tag"))) } else { Ok(()) }
                },
                &mut found,
            )?;
        }
        let reserved = found
            .reserved
            .iter()
            .find(|(name, count)| found.used.get(name).copied().unwrap_or(0) != **count);
        let used = found
            .used
            .iter()
            .find(|(name, count)| found.reserved.get(name).copied().unwrap_or(0) != **count);
        match reserved.or(used) {
            None => Ok(()),
            Some((name, _)) => {
                Err(Damage(format!("resource {name:#x} is used other than it is reserved")))
            }
        }
    }

    /// Walks a tree whose keys must be in order and whose priorities must fall.
    fn walk_tree<M: Memory>(
        &self,
        memory: &M,
        number: u64,
        reach: &mut Reach<'_>,
        mut each: impl FnMut(Addr, u64) -> Result<(), Damage>,
        found: &mut Found,
    ) -> Result<(), Damage> {
        let what = || format!("tree {number}");
        let wrong = || Damage(format!("{} is out of order", what()));
        let mut rest = vec![(memory.load::<u64>(self.root(number)), 0, u64::MAX, u64::MAX)];
        while let Some((link, low, high, above)) = rest.pop() {
            if link == 0 {
                continue;
            }
            let node = reach.reach(link, what)?;
            let key: u64 = memory.load(node.plus(KEY));
            let is_its = key >> 40 < TABLES && key & ((1 << 40) - 1) < self.ids;
            if !is_its || part(key) != number || !(low..high).contains(&key) {
                return Err(wrong());
            }
            if priority(key) > above {
                return Err(wrong());
            }
            each(node, key)?;
            self.walk_node(memory, node, key, reach, found)?;
            let sides = [LEFT, RIGHT].map(|side| memory.load::<u64>(node.plus(side)));
            rest.push((sides[0], low, key, priority(key)));
            rest.push((sides[1], key + 1, high, priority(key)));
        }
        Ok(())
    }

    fn walk_node<M: Memory>(
        &self,
        memory: &M,
        node: Addr,
        key: u64,
        reach: &mut Reach<'_>,
        found: &mut Found,
    ) -> Result<(), Damage> {
        let field = |offset| memory.load::<u64>(node.plus(offset));
        if key >> 40 != CUSTOMERS {
            found.used.insert(key, field(USED));
            if field(USED).wrapping_add(field(FREE)) != field(TOTAL) {
                return Err(Damage(format!("used and free of {key:#x} are not the total")));
            }
            return Ok(());
        }
        let (mut next, mut count) = (field(LIST), 0);
        while next != 0 {
            let at = reach.reach(next, || format!("customer {key:#x}"))?;
            *found.reserved.entry(memory.load(at.plus(WHAT))).or_default() += 1;
            next = memory.load(at.plus(NEXT));
            count += 1;
        }
        if count != field(COUNT) || count > RESERVATIONS {
            return Err(Damage(format!("customer {key:#x} has {count} reservations")));
        }
        Ok(())
    }
}

impl Workload for Vacation {
    const NAME: &'static str = "vacation";
    const ABOUT: &'static str = "STAMP's vacation on a redo log like Mnemosyne's: reservations";
    const ENTRIES: u64 = 8192;
    const SEARCH_PERCENT: u32 = 0;

    fn layout(setup: &Setup) -> Layout {
        Layout::of(&Vacation::place(setup.threads as u64, setup.entries).1)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Vacation {
        let threads = setup.threads as u64;
        let (vacation, arena) = Vacation::place(threads, setup.entries);
        vacation.fill(memory);
        let mut reach = Reach::none(&vacation.nodes);
        let walked = vacation.walk(memory, &mut reach, &mut Contents::new());
        walked.expect("tables just filled");
        reach.rebuild(memory);
        let roots = [threads, vacation.ids];
        pool::create(memory, Vacation::NAME, setup.uuid(), arena.pm_bytes(), &roots);
        vacation
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Vacation, Damage> {
        let [threads, ids, ..] = pool::open(memory, Vacation::NAME, layout.pm_bytes)?;
        let threads = within("threads", threads, 1, THREADS_MAX)?;
        let (vacation, arena) = Vacation::place(threads, within("ids", ids, 1, ENTRIES_MAX)?);
        layout.hold(&arena)?;
        vacation.log.recover(memory, arena.pm_bytes())?;
        let mut reach = Reach::none(&vacation.nodes);
        vacation.walk(memory, &mut reach, &mut Contents::new())?;
        reach.rebuild(memory);
        Ok(vacation)
    }

    type Local<'m, M: Memory + 'm> = Cursor;

    fn join<M: Memory>(&self, _: &M) -> Cursor {
        Cursor::default()
    }

    fn step<M: Memory>(&self, memory: &M, cursor: &mut Cursor, worker: &mut Worker) {
        let is_read = worker.below(100) < u64::from(worker.search_percent);
        let kind = worker.below(1000);
        let customer = name(CUSTOMERS, worker.below(self.ids));
        let id = worker.below((self.ids * QUERIED / 100).max(1));
        let resource = name(worker.below(RESOURCES), id);
        let adds = worker.below(2) == 0;
        let hash = self.client.request(memory, customer ^ resource, REQUEST_BYTES);
        self.calls(memory, hash);
        let mut run = Run::begin(self, memory, cursor, worker);
        match kind {
            _ if is_read => {
                run.lock(&[resource]);
                run.find(resource);
            }
            0..DELETIONS => run.delete(customer),
            DELETIONS.. if kind < DELETIONS + CHANGES => run.change(resource, adds),
            _ => run.reserve(customer, resource),
        }
        run.end();
        self.calls(memory, hash ^ kind);
        self.client.respond(memory, hash, RESPONSE_BYTES);
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        let mut contents = Contents::new();
        self.walk(memory, &mut Reach::none(&self.nodes), &mut contents)?;
        Ok(contents)
    }
}
