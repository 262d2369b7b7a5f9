//! A travel agency, with the sharing of STAMP's "vacation" (Cao Minh et al., IISWC'08): tables of
//! cars, flights, rooms and customers as trees, and transactions that read several rows, reserve
//! the most expensive, close an account, or change the offer.
//!
//! Instead of transactional memory, a transaction locks all the trees that it needs, in the order
//! of their numbers, and releases them at its end (two-phase locking). While it holds them it
//! stamps itself and them with one more than their largest stamp (a Lamport clock): the order of
//! the stamps is a serial order of the run. The check replays the transactions in that order on
//! plain maps, and compares the stamp and the outcome of each, every row, and the list of every
//! customer.
//!
//! In the pool: trees, rows, lists, locks, stamps, and outcomes. Requests are random and generated
//! by the thread itself.

use super::forest::{Forest, TREES};
use super::sync::Team;
use crate::{Counts, Damage, Input, Kernel, Mix, Words};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::Arena;
use std::ops::RangeInclusive;

mod plain;

use plain::{Action, Item, Plain, Row};

/// The number of kinds to reserve, which bounds the reservations of a transaction.
const KINDS: u64 = 3;
/// Transactions per row of a table.
const TRANSACTIONS: u64 = 4;
/// The table of customers; those of the kinds follow.
const CUSTOMERS: u64 = 0;

/// Words of a row, and offsets.
const ROW: u64 = 4;
const TOTAL: u64 = 0;
const USED: u64 = 1;
const FREE: u64 = 2;
const PRICE: u64 = 3;

/// Words of a reservation, and offsets.
const RESERVATION: u64 = 4;
const KIND: u64 = 0;
const KEY: u64 = 1;
const PAID: u64 = 2;
const NEXT: u64 = 3;

/// The agency.
#[derive(Clone, Copy, Debug)]
pub struct Vacation {
    team: Team,
    size: u64,
    transactions: u64,
    forest: Forest,
    rows: Words,
    reservations: Words,
    stamps: Words,
    outcomes: Words,
}

impl Vacation {
    fn row(&self, item: Item) -> Words {
        let first = (item.kind * self.size + item.key) * ROW;
        self.rows.part(first..first + ROW)
    }

    fn node(&self, item: Item) -> u64 {
        (item.kind + 1) * self.size + item.key
    }

    fn tree(&self, item: Item) -> u64 {
        Forest::tree_of(item.key, item.kind + 1)
    }

    fn find_row<M: Memory>(&self, memory: &M, item: Item) -> Option<Words> {
        let node = self.forest.find(memory, self.tree(item), item.key)?;
        let first = memory.load::<u64>(self.forest.value_at(node));
        Some(self.rows.part(first..first + ROW))
    }

    fn insert_row<M: Memory>(&self, memory: &M, item: Item, row: Row) {
        let words = self.row(item);
        for (offset, value) in (0..).zip(row.words()) {
            words.put(memory, offset, value);
        }
        let first = (item.kind * self.size + item.key) * ROW;
        self.forest.insert(memory, self.tree(item), self.node(item), (item.key, first));
    }

    /// The head of the list of the customer; creates the customer if there is none.
    fn customer<M: Memory>(&self, memory: &M, customer: u64) -> Addr {
        let tree = Forest::tree_of(customer, CUSTOMERS);
        if self.forest.find(memory, tree, customer).is_none() {
            self.forest.insert(memory, tree, customer, (customer, 0));
        }
        self.forest.value_at(customer)
    }

    /// Locks trees, which must be in order.
    fn lock<M: Memory>(&self, memory: &M, trees: &[u64]) {
        for tree in trees {
            self.forest.lock(memory, *tree);
        }
    }

    /// Stamps the transaction and all its trees, which are locked.
    fn stamp<M: Memory>(&self, memory: &M, transaction: u64, trees: &[u64]) {
        let of = |tree: &u64| memory.load::<u64>(self.forest.stamp_at(*tree));
        let stamp = 1 + trees.iter().map(of).max().unwrap_or(0);
        for tree in trees {
            memory.store(self.forest.stamp_at(*tree), stamp);
        }
        self.stamps.put(memory, transaction, stamp);
        memory.work(10);
    }

    /// The trees that a transaction needs from the start, in order.
    fn trees_of(&self, action: &Action) -> Vec<u64> {
        let mut trees: Vec<u64> = match action {
            Action::Reserve { customer, items } => {
                let customer = Forest::tree_of(*customer, CUSTOMERS);
                items.iter().map(|item| self.tree(*item)).chain([customer]).collect()
            }
            Action::Close { customer } => vec![Forest::tree_of(*customer, CUSTOMERS)],
            Action::Update { changes } => {
                changes.iter().map(|(item, _)| self.tree(*item)).collect()
            }
        };
        sort_once(&mut trees);
        trees
    }

    fn reserve<M: Memory>(
        &self,
        memory: &M,
        transaction: u64,
        customer: u64,
        items: &[Item],
    ) -> u64 {
        let mut dearest: [Option<(u64, Words, Item)>; KINDS as usize] = [None; KINDS as usize];
        for item in items {
            let Some(row) = self.find_row(memory, *item) else { continue };
            let (free, price) = (row.get(memory, FREE), row.get(memory, PRICE));
            let best = &mut dearest[item.kind as usize];
            if free > 0 && best.is_none_or(|(other, ..)| price > other) {
                *best = Some((price, row, *item));
            }
            memory.work(8);
        }
        let mut paid = 0;
        for (price, row, item) in dearest.into_iter().flatten() {
            let list = self.customer(memory, customer);
            row.put(memory, USED, row.get(memory, USED) + 1);
            row.put(memory, FREE, row.get(memory, FREE) - 1);
            let id = transaction * KINDS + item.kind;
            let first = memory.load::<u64>(list);
            for (offset, value) in (0..).zip([item.kind, item.key, price, first]) {
                self.reservations.put(memory, id * RESERVATION + offset, value);
            }
            memory.store(list, id + 1);
            memory.work(10);
            paid += price;
        }
        paid
    }

    /// The reservations of a customer, whose tree is locked.
    fn list<M: Memory>(&self, memory: &M, customer: u64) -> Option<Vec<(Item, u64)>> {
        let tree = Forest::tree_of(customer, CUSTOMERS);
        let node = self.forest.find(memory, tree, customer)?;
        let mut next = memory.load::<u64>(self.forest.value_at(node));
        let mut list = Vec::new();
        while let Some(id) = next.checked_sub(1) {
            let word = |offset| self.reservations.get(memory, id * RESERVATION + offset);
            list.push((Item { kind: word(KIND), key: word(KEY) }, word(PAID)));
            next = word(NEXT);
            memory.work(3);
        }
        Some(list)
    }

    fn close<M: Memory>(&self, memory: &M, customer: u64, list: &[(Item, u64)]) -> u64 {
        let mut bill = 0;
        for (item, paid) in list {
            if let Some(row) = self.find_row(memory, *item) {
                row.put(memory, USED, row.get(memory, USED) - 1);
                row.put(memory, FREE, row.get(memory, FREE) + 1);
            }
            bill += paid;
            memory.work(6);
        }
        let tree = Forest::tree_of(customer, CUSTOMERS);
        self.forest.remove(memory, tree, customer);
        bill
    }

    fn update<M: Memory>(&self, memory: &M, changes: &[(Item, Option<u64>)]) -> u64 {
        let mut made = 0;
        for (item, price) in changes {
            let row = self.find_row(memory, *item);
            memory.work(6);
            match (row, price) {
                (None, None) => continue,
                (None, Some(price)) => self.insert_row(memory, *item, Row::new(*price)),
                (Some(row), Some(price)) => {
                    row.put(memory, TOTAL, row.get(memory, TOTAL) + Row::LOT);
                    row.put(memory, FREE, row.get(memory, FREE) + Row::LOT);
                    row.put(memory, PRICE, *price);
                }
                (Some(row), None) => {
                    let (total, free) = (row.get(memory, TOTAL), row.get(memory, FREE));
                    if free < Row::LOT {
                        continue;
                    }
                    row.put(memory, TOTAL, total - Row::LOT);
                    row.put(memory, FREE, free - Row::LOT);
                    if total == Row::LOT {
                        self.forest.remove(memory, self.tree(*item), item.key);
                    }
                }
            }
            made += 1;
        }
        made
    }

    fn transact<M: Memory>(&self, memory: &M, transaction: u64) {
        let action = Action::of(&self.team.input, self.size, transaction);
        memory.work(60);
        let mut trees = self.trees_of(&action);
        self.lock(memory, &trees);
        let outcome = match &action {
            Action::Reserve { customer, items } => {
                self.stamp(memory, transaction, &trees);
                self.reserve(memory, transaction, *customer, items)
            }
            Action::Close { customer } => {
                let list = self.list(memory, *customer);
                let listed = list.iter().flatten().map(|(item, _)| self.tree(*item));
                let mut more: Vec<u64> = listed.collect();
                sort_once(&mut more);
                self.lock(memory, &more);
                trees.extend(more);
                self.stamp(memory, transaction, &trees);
                list.map_or(0, |list| 1 + self.close(memory, *customer, &list))
            }
            Action::Update { changes } => {
                self.stamp(memory, transaction, &trees);
                self.update(memory, changes)
            }
        };
        self.outcomes.put(memory, transaction, outcome);
        for tree in trees.iter().rev() {
            self.forest.unlock(memory, *tree);
        }
    }

    /// Replays all transactions in the order of their stamps; returns their outcomes.
    fn replay<M: Memory>(&self, memory: &M, plain: &mut Plain) -> Result<Vec<u64>, Damage> {
        let stamp_of = |transaction| (self.stamps.get(memory, transaction), transaction);
        let mut order: Vec<(u64, u64)> = (0..self.transactions).map(stamp_of).collect();
        order.sort_unstable();
        let mut last = vec![0; ((KINDS + 1) * TREES) as usize];
        let mut outcomes = vec![0; self.transactions as usize];
        for (stamp, transaction) in order {
            let action = Action::of(&self.team.input, self.size, transaction);
            let mut trees = self.trees_of(&action);
            if let Action::Close { customer } = &action {
                let items = plain.list(*customer).iter();
                trees.extend(items.map(|(_, item, _)| self.tree(*item)));
            }
            let expected = 1 + trees.iter().map(|tree| last[*tree as usize]).max().unwrap_or(0);
            if stamp != expected {
                let text = format!("stamp of transaction {transaction} is {stamp}, not {expected}");
                return Err(Damage(text));
            }
            for tree in trees {
                last[tree as usize] = stamp;
            }
            outcomes[transaction as usize] = plain.transact(transaction, &action);
        }
        Ok(outcomes)
    }

    fn check_trees<M: Memory>(&self, memory: &M, plain: &Plain) -> Result<(), Damage> {
        for tree in 0..(KINDS + 1) * TREES {
            let (table, remainder) = (tree / TREES, tree % TREES);
            let found = self.forest.contents(memory, tree)?;
            let expected: Vec<(u64, u64)> = (remainder..self.size)
                .step_by(TREES as usize)
                .filter(|key| plain.has(table, *key))
                .map(|key| (key, table * self.size + key))
                .collect();
            if found != expected {
                return Err(Damage(format!("tree {tree} holds {found:?}, not {expected:?}")));
            }
            for (key, node) in found {
                let value = memory.load::<u64>(self.forest.value_at(node));
                if table == CUSTOMERS {
                    self.check_list(memory, key, value, plain.list(key))?;
                } else if value != ((table - 1) * self.size + key) * ROW {
                    return Err(Damage(format!("node {node} has row {value}")));
                }
            }
        }
        Ok(())
    }

    fn check_list<M: Memory>(
        &self,
        memory: &M,
        customer: u64,
        mut next: u64,
        list: &[(u64, Item, u64)],
    ) -> Result<(), Damage> {
        for (id, item, paid) in list.iter().rev() {
            let word = |offset| self.reservations.get(memory, id * RESERVATION + offset);
            let is = next == id + 1 && [KIND, KEY, PAID].map(word) == [item.kind, item.key, *paid];
            if !is {
                return Err(Damage(format!(
                    "reservation {id} of customer {customer} is not there"
                )));
            }
            next = word(NEXT);
        }
        if next != 0 {
            return Err(Damage(format!("customer {customer} has too many reservations")));
        }
        Ok(())
    }
}

fn sort_once(trees: &mut Vec<u64>) {
    trees.sort_unstable();
    trees.dedup();
}

impl Kernel for Vacation {
    const NAME: &'static str = "vacation";
    const ABOUT: &'static str = "reservations: transactions on tables that are trees";
    const UNIT: &'static str = "rows of a table";
    const SIZE: u64 = 1 << 14;
    const QUICK: u64 = 1 << 10;
    const SMALL: u64 = 60;
    const SIZES: RangeInclusive<u64> = 1..=1 << 24;
    const MIX: Mix = Mix {
        program: "STAMP's vacation, -n4 -q60 -u90 -r16384 -t4096",
        run: Counts {
            instructions: 12_136_133,
            heap_stores: 184_003,
            stack_loads: 1_092_508,
            stack_stores: 1_084_181,
            per_1000: 1280,
        },
        start: Some(Counts {
            instructions: 73_672_755,
            heap_stores: 2_113_626,
            stack_loads: 5_821_076,
            stack_stores: 5_917_896,
            per_1000: 4300,
        }),
        heap_lines: 220,
        stack_lines: 8,
        parallelism: 630,
    };

    fn place(input: &Input, arena: &mut Arena) -> Vacation {
        let team = Team::place(input, arena, 1);
        let (size, transactions) = (input.size, input.size * TRANSACTIONS);
        let forest = Forest::place(arena, KINDS + 1, (KINDS + 1) * size);
        let rows = Words::place(arena, KINDS * size * ROW);
        let reservations = Words::place(arena, transactions * KINDS * RESERVATION);
        let stamps = Words::place(arena, transactions);
        let outcomes = Words::place(arena, transactions);
        Vacation { team, size, transactions, forest, rows, reservations, stamps, outcomes }
    }

    fn fill<M: Memory>(&self, memory: &M) {
        for (item, row) in Plain::start_rows(&self.team.input, self.size) {
            self.insert_row(memory, item, row);
        }
    }

    fn run<M: Memory>(&self, memory: &M) {
        for transaction in self.team.share(memory, self.transactions) {
            self.transact(memory, transaction);
        }
    }

    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let mut plain = Plain::new(&self.team.input, self.size);
        let outcomes = self.replay(memory, &mut plain)?;
        self.outcomes.compare(memory, "outcome of transaction", outcomes)?;
        self.rows.compare(memory, "word of the rows", plain.rows())?;
        self.check_trees(memory, &plain)
    }

    fn results(&self) -> Vec<Words> {
        vec![self.outcomes, self.rows]
    }
}
