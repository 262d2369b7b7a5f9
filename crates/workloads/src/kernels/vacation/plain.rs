//! The requests of customers, and the plain computation on vectors and a map.

use super::KINDS;
use crate::Input;
use crate::harness::workload::below;
use std::collections::BTreeMap;

/// Rows that a transaction reads or changes.
const ITEMS: usize = 4;
/// Of 100 transactions, this many reserve; the others close accounts and update in equal parts.
const RESERVE_PERCENT: u64 = 90;

/// A row of one of the tables of things to reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) kind: u64,
    pub(super) key: u64,
}

/// The kind of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Of each kind, reserves the most expensive of these items that is available.
    Reserve { customer: u64, items: [Item; ITEMS] },
    /// Cancels all reservations of a customer, and deletes the customer.
    Close { customer: u64 },
    /// Adds a lot at a new price, or removes one.
    Update { changes: [(Item, Option<u64>); ITEMS] },
}

impl Action {
    pub(super) fn of(input: &Input, size: u64, transaction: u64) -> Action {
        let mut rng = input.stream(1 + transaction);
        let mut random = |n| below(&mut rng, n);
        let choice = random(200);
        let customer = random(size);
        let items = [(); ITEMS].map(|()| Item { kind: random(KINDS), key: random(size) });
        if choice < 2 * RESERVE_PERCENT {
            return Action::Reserve { customer, items };
        }
        if choice % 2 == 0 {
            return Action::Close { customer };
        }
        let changes =
            items.map(|item| (item, (random(2) == 0).then(|| Row::price_of(random(Row::PRICES)))));
        Action::Update { changes }
    }
}

/// The number of units of an item, and its price.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    total: u64,
    used: u64,
    free: u64,
    price: u64,
}

impl Row {
    /// The units added or removed at once.
    pub(super) const LOT: u64 = 100;
    const PRICES: u64 = 50;

    fn price_of(random: u64) -> u64 {
        50 + 10 * random
    }

    pub(super) fn new(price: u64) -> Row {
        Row { total: Row::LOT, used: 0, free: Row::LOT, price }
    }

    pub(super) fn words(self) -> [u64; 4] {
        [self.total, self.used, self.free, self.price]
    }
}

/// The agency on one thread.
pub(super) struct Plain {
    size: u64,
    /// The rows, each with whether its tree has it: a removed row keeps its words.
    rows: Vec<(Row, bool)>,
    customers: BTreeMap<u64, Vec<(u64, Item, u64)>>,
}

impl Plain {
    /// The rows at the start, in the order of their insertion into the trees.
    pub(super) fn start_rows(input: &Input, size: u64) -> Vec<(Item, Row)> {
        let mut rng = input.stream(0);
        let mut rows = Vec::new();
        for kind in 0..KINDS {
            for key in 0..size {
                let lots = 1 + below(&mut rng, 5);
                let price = Row::price_of(below(&mut rng, Row::PRICES));
                let total = lots * Row::LOT;
                rows.push((Item { kind, key }, Row { total, used: 0, free: total, price }));
            }
        }
        rows
    }

    pub(super) fn new(input: &Input, size: u64) -> Plain {
        let rows = Plain::start_rows(input, size);
        let rows = rows.into_iter().map(|(_, row)| (row, true)).collect();
        Plain { size, rows, customers: BTreeMap::new() }
    }

    fn index(&self, item: Item) -> usize {
        (item.kind * self.size + item.key) as usize
    }

    /// Runs the transaction; returns its outcome.
    pub(super) fn transact(&mut self, transaction: u64, action: &Action) -> u64 {
        match action {
            Action::Reserve { customer, items } => self.reserve(transaction, *customer, items),
            Action::Close { customer } => self.close(*customer),
            Action::Update { changes } => {
                changes.iter().filter(|(item, price)| self.update(*item, *price)).count() as u64
            }
        }
    }

    fn reserve(&mut self, transaction: u64, customer: u64, items: &[Item]) -> u64 {
        let mut paid = 0;
        for kind in 0..KINDS {
            let mut best: Option<(u64, Item)> = None;
            for item in items.iter().filter(|item| item.kind == kind) {
                let (row, is_there) = self.rows[self.index(*item)];
                if is_there && row.free > 0 && best.is_none_or(|(price, _)| row.price > price) {
                    best = Some((row.price, *item));
                }
            }
            if let Some((price, item)) = best {
                let index = self.index(item);
                let row = &mut self.rows[index].0;
                (row.used, row.free) = (row.used + 1, row.free - 1);
                let list = self.customers.entry(customer).or_default();
                list.push((transaction * KINDS + kind, item, price));
                paid += price;
            }
        }
        paid
    }

    fn close(&mut self, customer: u64) -> u64 {
        let Some(list) = self.customers.remove(&customer) else { return 0 };
        for (_, item, _) in &list {
            let index = self.index(*item);
            let row = &mut self.rows[index].0;
            (row.used, row.free) = (row.used - 1, row.free + 1);
        }
        1 + list.iter().map(|(_, _, paid)| paid).sum::<u64>()
    }

    /// Changes a row; returns true if there was something to change.
    fn update(&mut self, item: Item, price: Option<u64>) -> bool {
        let index = self.index(item);
        let (row, is_there) = &mut self.rows[index];
        match price {
            Some(price) if !*is_there => (*row, *is_there) = (Row::new(price), true),
            Some(price) => {
                let (total, free) = (row.total + Row::LOT, row.free + Row::LOT);
                *row = Row { total, free, price, ..*row };
            }
            None if !*is_there || row.free < Row::LOT => return false,
            None => {
                (row.total, row.free) = (row.total - Row::LOT, row.free - Row::LOT);
                *is_there = row.total > 0;
            }
        }
        true
    }

    /// All words of all rows.
    pub(super) fn rows(&self) -> Vec<u64> {
        self.rows.iter().flat_map(|(row, _)| row.words()).collect()
    }

    /// True if `table` has `key`; table 0 is that of customers.
    pub(super) fn has(&self, table: u64, key: u64) -> bool {
        match table.checked_sub(1) {
            None => self.customers.contains_key(&key),
            Some(kind) => self.rows[self.index(Item { kind, key })].1,
        }
    }

    /// The reservations of a customer, oldest first: number, item, price.
    pub(super) fn list(&self, customer: u64) -> &[(u64, Item, u64)] {
        self.customers.get(&customer).map_or(&[], Vec::as_slice)
    }
}
