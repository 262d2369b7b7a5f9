//! TPC-C on the dictionary of Redis: each row of a table is a hash of its columns, as in the driver
//! for Redis of py-tpcc ("redisdriver.py"), which stores rows with HMSET under the table's name and
//! the primary key, and updates single columns with HSET.
//!
//! The mix is TPC-C's own (section 5.2.3): 45 % new orders, 43 % payments, and 4 % each of order
//! status, delivery and stock level. Columns have the sizes of the specification (section 1.3),
//! numbers those of their usual digits. A transaction is one of the dictionary's undo log, as
//! MULTI and EXEC are one step of Redis. The driver's sets for secondary indexes are in volatile
//! memory, as the sorted set of YCSB is. Each thread is a server with one warehouse, so there are
//! no remote ones.
//!
//! Orders, their lines and payments are rings, so that the size of a pool is bounded: an order
//! replaces that with the same number modulo the ring's size in its district.

use super::hashes::{Columns, Hashes};
use crate::harness::history::Contents;
use crate::harness::workload::Action;
use crate::whisper::redis::{Dictionary, Server, Stored};
use crate::whisper::share::Share;
use crate::whisper::undo::UndoTx;
use crate::{Damage, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, Memory};

const DISTRICTS: u64 = 10;
const LINES_MAX: u64 = 15;
/// Customers of a district for each of 40 items, and orders for each of 64.
const ITEMS_A_CUSTOMER: u64 = 40;
const ITEMS_AN_ORDER: u64 = 64;
/// Per cent of the transactions that change something: 45, 43 and 4 of 92.
const NEW_ORDERS: u64 = 49;
const PAYMENTS: u64 = 47;
/// Orders whose lines a stock level reads.
const RECENT: u64 = 20;
/// One payment in ten changes the customer's data: bad credit.
const BAD_CREDIT: u64 = 10;

// The columns of each table, in the order of the specification.
const WAREHOUSE: &[u64] = &[4, 10, 20, 20, 20, 2, 9, 6, 12];
const DISTRICT: &[u64] = &[2, 4, 10, 20, 20, 20, 2, 9, 6, 12, 7];
const CUSTOMER: &[u64] = &[4, 2, 4, 12, 2, 12, 20, 20, 20, 2, 9, 16, 19, 2, 8, 6, 9, 9, 4, 4, 400];
const STOCK: &[u64] = &[6, 4, 3, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 6, 4, 4, 48];
const ORDER: &[u64] = &[7, 4, 2, 4, 19, 2, 2, 1];
const NEW_ORDER: &[u64] = &[7, 2, 4];
const LINE: &[u64] = &[7, 2, 4, 2, 6, 4, 19, 2, 7, 24];
const HISTORY: &[u64] = &[4, 2, 4, 2, 4, 19, 7, 24];

// Columns that change.
const W_YTD: usize = 8;
const D_YTD: usize = 9;
const D_NEXT: usize = 10;
const C_BALANCE: usize = 16;
const C_PAID: usize = 17;
const C_PAYMENTS: usize = 18;
const C_DELIVERIES: usize = 19;
const C_DATA: usize = 20;
const S_QUANTITY: usize = 2;
const S_YTD: usize = 13;
const S_ORDERS: usize = 14;
const O_CARRIER: usize = 5;
const L_DELIVERED: usize = 6;

/// The sizes of the tables of a warehouse, and where their rows begin among its keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    threads: u64,
    items: u64,
    customers: u64,
    orders: u64,
}

impl Rows {
    fn of_items(threads: u64, items: u64) -> Rows {
        let customers = items.div_ceil(ITEMS_A_CUSTOMER);
        Rows { threads, items, customers, orders: items.div_ceil(ITEMS_AN_ORDER).max(4) }
    }

    /// Rows of each table of a warehouse, in the order of their keys, and their columns.
    fn counts(&self) -> [(u64, &'static [u64]); 8] {
        let orders = DISTRICTS * self.orders;
        [
            (1, WAREHOUSE),
            (DISTRICTS, DISTRICT),
            (DISTRICTS * self.customers, CUSTOMER),
            (self.items, STOCK),
            (orders, ORDER),
            (orders, NEW_ORDER),
            (orders * LINES_MAX, LINE),
            (orders, HISTORY),
        ]
    }

    /// Rows of a warehouse.
    fn count(&self) -> u64 {
        self.history(DISTRICTS, 0)
    }

    fn warehouse(&self) -> u64 {
        0
    }

    fn district(&self, district: u64) -> u64 {
        1 + district
    }

    fn customer(&self, district: u64, customer: u64) -> u64 {
        self.district(DISTRICTS) + district * self.customers + customer
    }

    fn stock(&self, item: u64) -> u64 {
        self.customer(DISTRICTS, 0) + item
    }

    fn order(&self, district: u64, number: u64) -> u64 {
        self.stock(self.items) + district * self.orders + number % self.orders
    }

    fn new_order(&self, district: u64, number: u64) -> u64 {
        self.order(DISTRICTS, 0) + district * self.orders + number % self.orders
    }

    fn line(&self, district: u64, number: u64, line: u64) -> u64 {
        let order = district * self.orders + number % self.orders;
        self.new_order(DISTRICTS, 0) + order * LINES_MAX + line
    }

    fn history(&self, district: u64, number: u64) -> u64 {
        self.line(DISTRICTS, 0, 0) + district * self.orders + number % self.orders
    }
}

impl Columns for Rows {
    const NAME: &'static str = "redis-tpcc";
    const ABOUT: &'static str = "TPC-C on the dictionary of redis: a hash for each row";
    const LOG_ENTRIES: u64 = 2048;
    const SPARE: u64 = 2048;

    /// The share has as many keys as rows.
    fn of(share: Share) -> Rows {
        let mut items = 1;
        let rows = |items| Rows::of_items(share.threads, items).count();
        let each = share.keys / share.threads;
        let (mut low, mut high) = (1, each);
        while low <= high {
            items = low + (high - low) / 2;
            match rows(items).cmp(&each) {
                std::cmp::Ordering::Equal => break,
                std::cmp::Ordering::Less => low = items + 1,
                std::cmp::Ordering::Greater => high = items - 1,
            }
        }
        Rows::of_items(share.threads, items)
    }

    fn room(share: Share) -> u64 {
        share.each()
    }

    fn bytes(&self, key: u64) -> &'static [u64] {
        let row = key / self.threads;
        let mut end = 0;
        let of = self.counts().into_iter().find(|(rows, _)| {
            end += rows;
            row < end
        });
        of.map_or(HISTORY, |(_, columns)| columns)
    }

    fn tables(&self, _: Share) -> Vec<(u64, &'static [u64])> {
        self.counts().to_vec()
    }
}

type Tables = Dictionary<Hashes<Rows>>;
type Cursors = <Hashes<Rows> as Stored>::Cursors;

/// The benchmark of TPC-C with a hash for each row.
#[derive(Clone, Copy, Debug)]
pub struct RedisTpcc {
    tables: Tables,
    rows: Rows,
}

/// The volatile state of a server: the numbers of its orders and payments, district by district.
#[derive(Debug, Default)]
pub struct Warehouse {
    server: Server<Cursors>,
    next: [u64; DISTRICTS as usize],
    delivered: [u64; DISTRICTS as usize],
    payments: [u64; DISTRICTS as usize],
}

/// A transaction of a server.
struct Run<'a, M: Memory> {
    tables: &'a Tables,
    rows: Rows,
    tx: UndoTx<'a, M>,
    thread: u64,
    tag: u64,
}

impl<M: Memory> Run<'_, M> {
    fn key(&self, row: u64) -> u64 {
        row * self.rows.threads + self.thread
    }

    fn entry(&self, row: u64) -> Option<Addr> {
        self.tables.entry(self.tx.memory(), self.key(row))
    }

    fn note(&self, worker: &Worker, row: u64, tag: u64) {
        worker.history.effect(worker.thread, worker.number, self.key(row), tag);
    }

    fn set(&mut self, server: &mut Server<Cursors>, worker: &Worker, row: u64, fields: &[usize]) {
        let (key, Some(entry)) = (self.key(row), self.entry(row)) else { return };
        self.note(worker, row, self.tag);
        for field in fields {
            let what = (key, *field, self.tag);
            self.tables.stored.set(&mut self.tx, &mut server.cursors, entry, what);
        }
    }

    /// Inserts a row, in the place of an older one.
    fn insert(&mut self, server: &mut Server<Cursors>, worker: &Worker, row: u64) {
        let key = self.key(row);
        if self.entry(row).is_some() {
            self.tables.remove(&mut self.tx, key);
        }
        self.note(worker, row, self.tag);
        self.tables.insert(&mut self.tx, server, (key, self.tag));
    }

    fn remove(&mut self, worker: &Worker, row: u64) {
        if self.entry(row).is_some() {
            self.note(worker, row, 0);
            let key = self.key(row);
            self.tables.remove(&mut self.tx, key);
        }
    }

    fn read(&self, row: u64) {
        if let Some(entry) = self.entry(row) {
            self.tables.stored.read(self.tx.memory(), entry);
        }
    }
}

impl RedisTpcc {
    fn share(setup: &Setup) -> Share {
        let threads = setup.threads as u64;
        let rows = Rows::of_items(threads, setup.entries.div_ceil(threads));
        Share { threads, keys: rows.count() * threads }
    }

    fn run<'a, M: Memory>(&'a self, memory: &'a M, worker: &Worker, hash: u64) -> Run<'a, M> {
        let thread = worker.thread as u64;
        let tx = self.tables.begin(memory, thread, (hash, worker.flaw));
        Run { tables: &self.tables, rows: self.rows, tx, thread, tag: worker.change().tag }
    }

    fn new_order<M: Memory>(&self, memory: &M, at: &mut Warehouse, worker: &mut Worker, hash: u64) {
        let rows = self.rows;
        let district = worker.below(DISTRICTS);
        let customer = worker.below(rows.customers);
        let lines = (5 + worker.below(LINES_MAX - 4)).min(rows.items);
        let first = worker.below(rows.items);
        let number = at.next[district as usize];
        at.next[district as usize] += 1;
        let mut run = self.run(memory, worker, hash);
        let Warehouse { server, .. } = at;
        for row in [rows.warehouse(), rows.district(district), rows.customer(district, customer)] {
            run.read(row);
        }
        run.set(server, worker, rows.district(district), &[D_NEXT]);
        run.insert(server, worker, rows.order(district, number));
        run.insert(server, worker, rows.new_order(district, number));
        for line in 0..LINES_MAX {
            let row = rows.line(district, number, line);
            if line >= lines {
                run.remove(worker, row);
                continue;
            }
            let item = (first + line * (rows.items / lines)) % rows.items;
            run.read(rows.stock(item));
            run.set(server, worker, rows.stock(item), &[S_QUANTITY, S_YTD, S_ORDERS]);
            run.insert(server, worker, row);
        }
        run.tx.commit();
    }

    fn payment<M: Memory>(&self, memory: &M, at: &mut Warehouse, worker: &mut Worker, hash: u64) {
        let rows = self.rows;
        let district = worker.below(DISTRICTS);
        let customer = rows.customer(district, worker.below(rows.customers));
        let is_bad = worker.below(BAD_CREDIT) == 0;
        let number = at.payments[district as usize];
        at.payments[district as usize] += 1;
        let mut run = self.run(memory, worker, hash);
        let Warehouse { server, .. } = at;
        for row in [rows.warehouse(), rows.district(district), customer] {
            run.read(row);
        }
        run.set(server, worker, rows.warehouse(), &[W_YTD]);
        run.set(server, worker, rows.district(district), &[D_YTD]);
        let changed = [C_BALANCE, C_PAID, C_PAYMENTS, C_DATA];
        run.set(server, worker, customer, &changed[..if is_bad { 4 } else { 3 }]);
        run.insert(server, worker, rows.history(district, number));
        run.tx.commit();
    }

    /// Delivers the oldest new order of each district.
    fn delivery<M: Memory>(&self, memory: &M, at: &mut Warehouse, worker: &mut Worker, hash: u64) {
        let rows = self.rows;
        let customer = worker.below(rows.customers);
        let mut run = self.run(memory, worker, hash);
        let Warehouse { server, next, delivered, .. } = at;
        for district in 0..DISTRICTS {
            let (next, number) = (next[district as usize], &mut delivered[district as usize]);
            *number = (*number).max(next.saturating_sub(rows.orders));
            if *number == next {
                continue;
            }
            run.remove(worker, rows.new_order(district, *number));
            run.read(rows.order(district, *number));
            run.set(server, worker, rows.order(district, *number), &[O_CARRIER]);
            for line in 0..LINES_MAX {
                run.set(server, worker, rows.line(district, *number, line), &[L_DELIVERED]);
            }
            let customer = rows.customer(district, customer);
            run.set(server, worker, customer, &[C_BALANCE, C_DELIVERIES]);
            *number += 1;
        }
        run.tx.commit();
    }

    /// Order status reads the last order of a district, stock level the lines of the last few.
    fn look<M: Memory>(&self, memory: &M, at: &Warehouse, worker: &mut Worker, hash: u64) {
        let rows = self.rows;
        let district = worker.below(DISTRICTS);
        let is_status = worker.below(2) == 0;
        let recent = if is_status { 1 } else { RECENT.min(rows.orders) };
        let next = at.next[district as usize];
        let run = self.run(memory, worker, hash);
        for number in next.saturating_sub(recent)..next {
            if is_status {
                run.read(rows.order(district, number));
            }
            for line in 0..LINES_MAX {
                run.read(rows.line(district, number, line));
                if let Some(entry) = run.entry(rows.stock(line % rows.items)).filter(|_| !is_status)
                {
                    let key = run.key(rows.stock(line % rows.items));
                    self.tables.stored.get(memory, entry, (key, S_QUANTITY));
                }
            }
        }
    }
}

impl Workload for RedisTpcc {
    const NAME: &'static str = Rows::NAME;
    const ABOUT: &'static str = Rows::ABOUT;
    const ENTRIES: u64 = 8192;
    const SEARCH_PERCENT: u32 = 8;

    fn layout(setup: &Setup) -> Layout {
        Layout::of(&Tables::place(RedisTpcc::share(setup)).1)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> RedisTpcc {
        let share = RedisTpcc::share(setup);
        let rows = Rows::of(share);
        let filled = rows.stock(rows.items);
        let keys = (0..filled * share.threads).map(|key| (key, crate::history::initial_tag(key)));
        RedisTpcc { tables: Tables::create_with(memory, setup, share, keys), rows }
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<RedisTpcc, Damage> {
        let tables = Tables::open(memory, layout)?;
        let rows = Rows::of(tables.share);
        if rows.count() * rows.threads != tables.share.keys {
            return Err(Damage(format!("no warehouse has {} rows", tables.share.keys)));
        }
        Ok(RedisTpcc { tables, rows })
    }

    type Local<'m, M: Memory + 'm> = Warehouse;

    fn join<M: Memory>(&self, _: &M) -> Warehouse {
        Warehouse::default()
    }

    fn step<M: Memory>(&self, memory: &M, at: &mut Warehouse, worker: &mut Worker) {
        let hash = self.tables.request(memory, worker.number, 192);
        match (worker.action(), worker.below(100)) {
            (Action::Search, _) => self.look(memory, at, worker, hash),
            (_, part) if part < NEW_ORDERS => self.new_order(memory, at, worker, hash),
            (_, part) if part < NEW_ORDERS + PAYMENTS => self.payment(memory, at, worker, hash),
            _ => self.delivery(memory, at, worker, hash),
        }
        self.tables.respond(memory, hash, 256);
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        self.tables.contents(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::History;
    use seawall_memory::Image;
    use std::sync::Arc;

    #[test]
    fn the_rows_of_all_tables_are_numbered_without_a_gap_and_known_by_their_count() {
        for items in [1, 7, 40, 41, 129, 4000] {
            let rows = Rows::of_items(3, items);
            let share = Share { threads: 3, keys: 3 * rows.count() };
            assert_eq!(Rows::of(share).items, items);
            let mut all = (0..rows.count()).map(|row| rows.bytes(3 * row).len());
            let lines = all.clone().filter(|columns| *columns == LINE.len()).count() as u64;
            assert_eq!(lines, DISTRICTS * rows.orders * LINES_MAX);
            let stock = all.clone().filter(|columns| *columns == STOCK.len()).count() as u64;
            assert_eq!(stock, items);
            let last = all.next_back();
            assert_eq!(last, Some(HISTORY.len()));
        }
    }

    #[test]
    fn transactions_leave_every_row_whole_also_when_rings_have_gone_round() {
        let setup = Setup { entries: 64, ..Setup::of::<RedisTpcc>(2) };
        let layout = RedisTpcc::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let tpcc = RedisTpcc::create(&image, &setup);
        let history = Arc::new(History::new());
        let before = tpcc.contents(&image).unwrap();
        let mut worker = Worker::new(&setup, 1, history.clone());
        let mut at = tpcc.join(&image);
        while worker.number < 400 {
            tpcc.step(&image, &mut at, &mut worker);
            worker.number += 1;
        }
        assert!(at.next.iter().any(|next| *next > tpcc.rows.orders));
        let after = tpcc.contents(&image).unwrap();
        history.explain(&before, &after, &[0, 400]).unwrap();
        let crashed = Image::from_pm(image.into_pm(), layout.dram_bytes);
        let opened = RedisTpcc::open(&crashed, layout).unwrap();
        assert_eq!(opened.contents(&crashed).unwrap(), after);
    }
}
