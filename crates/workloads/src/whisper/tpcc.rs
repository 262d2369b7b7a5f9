//! TPC-C on N-store's engine, as WHISPER ran it (ASPLOS'17, Table 1): one warehouse per thread,
//! with ten districts each; new orders, payments and deliveries change them, order status and stock
//! level only read. 40 per cent of the transactions write, as in WHISPER's run (`-p0.4`).
//!
//! New orders make transactions long: for each of its 5 to 15 lines four words of a stock row
//! change and a row with a field of variable length is inserted, 17 epochs in all. The published
//! median of 197 epochs is that of a new order, so these are more than half of the writing
//! transactions here; TPC-C itself requires nearly as many payments. One line in a hundred comes
//! from another warehouse, and 15 payments in a hundred are by customers of another warehouse, as
//! in TPC-C. The share of accesses to persistent memory is unpublished; the front end executes as
//! much per access as in YCSB.

use super::client::Client;
use super::nstore::{Cursor, Tx, Wal};
use super::reach::Reach;
use crate::harness::history::{Contents, tag};
use crate::{Damage, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::{Arena, Guard, Locks, pool};
use tables::{
    C_BALANCE, C_DELIVERED, C_PAID, C_TAG, D_FIRST, D_NEXT, D_PAYMENTS, D_YTD, DISTRICTS,
    L_DELIVERED, L_INFORMATION, L_ITEM, LINES_MAX, Line, O_AMOUNT, O_CARRIER, O_CUSTOMER, O_LINES,
    S_DISTRICTS, S_ORDERS, S_QUANTITY, S_TAG, S_YTD, Shape, Tables, W_TAX, W_YTD, customer_key,
    left, payment, stock_key,
};

mod tables;

/// Per cent of the writing transactions: new orders, and payments; the others are deliveries.
const NEW_ORDERS: u64 = 66;
const PAYMENTS: u64 = 30;
/// One order line in this number is from another warehouse.
const REMOTE_LINES: u64 = 100;
/// Per cent of payments by customers of another warehouse.
const REMOTE_PAYMENTS: u64 = 15;
/// Orders that a stock level reads.
const RECENT: u64 = 5;

/// Function calls of the front end per transaction, and per row of it.
const CALLS: u64 = 30;
const CALLS_A_ROW: u64 = 28;
const REQUEST_BYTES: u64 = 192;
const RESPONSE_BYTES: u64 = 256;

/// The application.
///
/// After a crash the tables are as the last commits left them, and consistent with each other:
/// opening restores the old values in the logs of open transactions. Locks and lists of free blocks
/// are in DRAM; opening rebuilds the lists from the blocks that the tables reach.
#[derive(Clone, Copy, Debug)]
pub struct Tpcc {
    client: Client,
    wal: Wal,
    tables: Tables,
    locks: Locks,
}

/// The locked warehouses: the thread's own, and possibly another one.
struct Held {
    first: Guard,
    second: Option<Guard>,
}

/// The state of a transaction in its thread.
struct Run<'a, M: Memory> {
    memory: &'a M,
    cursor: &'a mut Cursor,
    worker: &'a mut Worker,
    /// Blocks to free when the transaction has committed.
    freed: Vec<Addr>,
}

impl<M: Memory> Run<'_, M> {
    fn effect(&self, key: u64) {
        let Worker { thread, number, history, .. } = &self.worker;
        history.effect(*thread, *number, key, tag(*thread, *number));
    }
}

impl Tpcc {
    fn place(shape: Shape) -> (Tpcc, Arena) {
        let mut arena = Arena::new();
        let threads = shape.warehouses;
        let tpcc = Tpcc {
            client: Client::place(&mut arena, threads),
            wal: Wal::place(&mut arena, threads),
            tables: Tables::place(&mut arena, shape),
            locks: Locks::place(&mut arena, threads, threads, 2),
        };
        (tpcc, arena)
    }

    fn hold<M: Memory>(&self, memory: &M, one: u64, other: u64) -> Held {
        let first = self.locks.acquire(memory, one.min(other), 0);
        let second = (one != other).then(|| self.locks.acquire(memory, one.max(other), 1));
        Held { first, second }
    }

    fn release<M: Memory>(&self, memory: &M, held: Held) {
        if let Some(second) = held.second {
            self.locks.release(memory, second);
        }
        self.locks.release(memory, held.first);
    }

    /// A warehouse that is not `home`, if there is one.
    fn other(&self, worker: &mut Worker, home: u64) -> u64 {
        let warehouses = self.tables.shape.warehouses;
        if warehouses == 1 {
            return home;
        }
        (home + 1 + worker.below(warehouses - 1)) % warehouses
    }

    /// Inserts a row: its block, then the word that points to it.
    fn insert<M: Memory>(&self, tx: &mut Tx<'_, M>, memory: &M, link: Addr, words: &[u64]) {
        let block = self.tables.blocks.take(memory);
        tx.block(block, words);
        tx.set(link, block.bits());
    }

    /// Enters an order; delivers instead if the district is full of waiting orders.
    fn new_order<M: Memory>(&self, run: &mut Run<'_, M>, home: u64) {
        let (memory, shape) = (run.memory, self.tables.shape);
        let district = home * DISTRICTS + run.worker.below(DISTRICTS);
        let customer = run.worker.below(shape.customers);
        let lines = (5 + run.worker.below(LINES_MAX - 4)).min(shape.items);
        let start = run.worker.below(shape.items);
        let is_remote = run.worker.below(REMOTE_LINES) < lines;
        let other = if is_remote { self.other(run.worker, home) } else { home };
        let held = self.hold(memory, home, other);
        let number: u64 = memory.load(self.tables.district(district).plus(D_NEXT));
        if memory.load::<u64>(self.tables.waiting(district, number)) != 0 {
            self.release(memory, held);
            self.delivery(run, home);
            return;
        }
        let tag = tag(run.worker.thread, run.worker.number);
        let line = |line| Line {
            number,
            line,
            item: (start + line * (shape.items / lines)) % shape.items,
            supplier: if line + 1 == lines { other } else { home },
            tag,
        };
        let lines: Vec<Line> = (0..lines).map(line).collect();
        run.effect(self.tables.order_key(district, number));
        for line in &lines {
            run.effect(stock_key(self.tables.stock_of(line.supplier, line.item)));
        }
        self.insert_order(run, district, self.tables.customer_of(district, customer), &lines);
        self.release(memory, held);
    }

    fn insert_order<M: Memory>(
        &self,
        run: &mut Run<'_, M>,
        district: u64,
        customer: u64,
        lines: &[Line],
    ) {
        let (memory, tables) = (run.memory, &self.tables);
        let (number, tag) = (lines[0].number, lines[0].tag);
        let old: Addr = memory.load(tables.order(district, number));
        let old_lines: u64 = memory.load(old.plus(O_LINES));
        run.freed.push(old);
        for line in 0..old_lines {
            let row: Addr = memory.load(tables.line(district, number, line));
            run.freed.extend([row, memory.load(row.plus(L_INFORMATION))]);
        }
        memory.load::<u64>(tables.warehouse(district / DISTRICTS).plus(W_TAX));
        let amount = lines.iter().map(Line::amount).sum();
        let mut tx = Tx::begin(memory, &self.wal, run.cursor, run.worker.flaw);
        tx.add(tables.district(district).plus(D_NEXT), 1);
        let order = [number, customer, lines.len() as u64, 0, tag, amount];
        self.insert(&mut tx, memory, tables.order(district, number), &order);
        self.insert(&mut tx, memory, tables.waiting(district, number), &[number]);
        for line in lines {
            self.client.calls(memory, tag ^ line.line, CALLS_A_ROW);
            let stock = tables.stock(tables.stock_of(line.supplier, line.item));
            let quantity: u64 = memory.load(stock.plus(S_QUANTITY));
            for word in 0..3 {
                memory.load::<u64>(stock.plus(S_DISTRICTS + 8 * (3 * (district % 4) + word)));
            }
            tx.set(stock.plus(S_QUANTITY), left(quantity, line.quantity()));
            tx.add(stock.plus(S_YTD), line.quantity());
            tx.add(stock.plus(S_ORDERS), 1);
            tx.set(stock.plus(S_TAG), tag);
            let link = tables.line(district, number, line.line);
            let information = tables.blocks.take(memory);
            tx.block(information, &line.information());
            self.insert(&mut tx, memory, link, &line.words(0, information));
        }
        for line in lines.len() as u64..old_lines {
            tx.set(tables.line(district, number, line), 0);
        }
        tx.commit();
    }

    /// A customer pays in the home warehouse.
    fn payment<M: Memory>(&self, run: &mut Run<'_, M>, home: u64) {
        let (memory, tables) = (run.memory, &self.tables);
        let district = home * DISTRICTS + run.worker.below(DISTRICTS);
        let is_remote = run.worker.below(100) < REMOTE_PAYMENTS;
        let other = if is_remote { self.other(run.worker, home) } else { home };
        let of = other * DISTRICTS + run.worker.below(DISTRICTS);
        let customer = tables.customer_of(of, run.worker.below(tables.shape.customers));
        let amount = 1 + run.worker.below(5000);
        let held = self.hold(memory, home, other);
        let at = tables.district(district);
        let number: u64 = memory.load(at.plus(D_PAYMENTS));
        run.effect(customer_key(customer));
        run.effect(tables.payment_key(district, number));
        let link = tables.payment(district, number);
        let old: Addr = memory.load(link);
        run.freed.extend((!old.is_null()).then_some(old));
        let tag = tag(run.worker.thread, run.worker.number);
        let row = tables.customer(customer);
        let mut tx = Tx::begin(memory, &self.wal, run.cursor, run.worker.flaw);
        tx.add(tables.warehouse(home).plus(W_YTD), amount);
        tx.add(at.plus(D_YTD), amount);
        self.client.calls(memory, tag, CALLS_A_ROW);
        tx.add(row.plus(C_BALANCE), amount.wrapping_neg());
        tx.add(row.plus(C_PAID), amount);
        tx.set(row.plus(C_TAG), tag);
        self.client.calls(memory, tag, CALLS_A_ROW);
        tx.add(at.plus(D_PAYMENTS), 1);
        self.insert(&mut tx, memory, link, &payment(number, customer, amount, tag));
        tx.commit();
        self.release(memory, held);
    }

    /// Delivers the oldest waiting order of each district.
    fn delivery<M: Memory>(&self, run: &mut Run<'_, M>, home: u64) {
        let (memory, tables) = (run.memory, &self.tables);
        let held = self.hold(memory, home, home);
        let mut waiting = Vec::new();
        for district in home * DISTRICTS..(home + 1) * DISTRICTS {
            let number: u64 = memory.load(tables.district(district).plus(D_FIRST));
            if number < memory.load(tables.district(district).plus(D_NEXT)) {
                let order: Addr = memory.load(tables.order(district, number));
                waiting.push((district, number, order));
            }
        }
        for (district, number, order) in &waiting {
            run.effect(tables.order_key(*district, *number));
            run.effect(customer_key(memory.load(order.plus(O_CUSTOMER))));
        }
        if !waiting.is_empty() {
            let mut tx = Tx::begin(memory, &self.wal, run.cursor, run.worker.flaw);
            let tag = tag(run.worker.thread, run.worker.number);
            for (district, number, order) in waiting {
                run.freed.push(memory.load(tables.waiting(district, number)));
                tx.set(tables.waiting(district, number), 0);
                tx.set(tables.district(district).plus(D_FIRST), number + 1);
                tx.set(order.plus(O_CARRIER), tag);
                for line in 0..memory.load(order.plus(O_LINES)) {
                    let line: Addr = memory.load(tables.line(district, number, line));
                    tx.set(line.plus(L_DELIVERED), tag);
                }
                self.client.calls(memory, tag, CALLS_A_ROW);
                let row = tables.customer(memory.load(order.plus(O_CUSTOMER)));
                let amount = memory.load(order.plus(O_AMOUNT));
                tx.add(row.plus(C_BALANCE), amount);
                tx.add(row.plus(C_DELIVERED), amount);
                tx.set(row.plus(C_TAG), tag);
            }
            tx.commit();
        }
        self.release(memory, held);
    }

    /// Order status reads the last order of a district, stock level the stock of the last few.
    fn look<M: Memory>(&self, run: &mut Run<'_, M>, home: u64) {
        let (memory, tables) = (run.memory, &self.tables);
        let district = home * DISTRICTS + run.worker.below(DISTRICTS);
        let recent = if run.worker.below(2) == 0 { 1 } else { RECENT };
        let held = self.hold(memory, home, home);
        let next: u64 = memory.load(tables.district(district).plus(D_NEXT));
        for number in next - recent.min(tables.shape.orders)..next {
            let order: Addr = memory.load(tables.order(district, number));
            for line in 0..memory.load(order.plus(O_LINES)) {
                let line: Addr = memory.load(tables.line(district, number, line));
                let item: u64 = memory.load(line.plus(L_ITEM));
                let stock = tables.stock(tables.stock_of(home, item));
                memory.load::<u64>(stock.plus(S_QUANTITY));
            }
            self.client.calls(memory, number, CALLS_A_ROW);
        }
        self.release(memory, held);
    }
}

impl Workload for Tpcc {
    const NAME: &'static str = "tpcc";
    const ABOUT: &'static str = "TPC-C on an engine like N-store's: orders, payments, deliveries";
    const ENTRIES: u64 = 8192;
    const SEARCH_PERCENT: u32 = 60;

    fn layout(setup: &Setup) -> Layout {
        Layout::of(&Tpcc::place(Shape::of(setup)).1)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Tpcc {
        let shape = Shape::of(setup);
        let (tpcc, arena) = Tpcc::place(shape);
        tpcc.tables.fill(memory);
        memory.flush(Addr::NULL, arena.pm_bytes());
        let mut reach = Reach::none(tpcc.tables.blocks.slots());
        let walked = tpcc.tables.walk(memory, &mut reach, &mut Contents::new());
        walked.expect("tables just filled");
        reach.rebuild(memory);
        let roots = [shape.warehouses, shape.items, shape.customers, shape.orders];
        pool::create(memory, Tpcc::NAME, setup.uuid(), arena.pm_bytes(), &roots);
        tpcc
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Tpcc, Damage> {
        let [warehouses, items, customers, orders, ..] =
            pool::open(memory, Tpcc::NAME, layout.pm_bytes)?;
        let shape = Shape { warehouses, items, customers, orders }.check()?;
        let (tpcc, arena) = Tpcc::place(shape);
        layout.hold(&arena)?;
        tpcc.wal.recover(memory, arena.pm_bytes())?;
        let mut reach = Reach::none(tpcc.tables.blocks.slots());
        tpcc.tables.walk(memory, &mut reach, &mut Contents::new())?;
        reach.rebuild(memory);
        Ok(tpcc)
    }

    type Local<'m, M: Memory + 'm> = Cursor;

    fn join<M: Memory>(&self, memory: &M) -> Cursor {
        self.wal.join(memory)
    }

    fn step<M: Memory>(&self, memory: &M, cursor: &mut Cursor, worker: &mut Worker) {
        let home = worker.thread as u64 % self.tables.shape.warehouses;
        let is_read = worker.below(100) < u64::from(worker.search_percent);
        let kind = worker.below(100);
        let hash = self.client.request(memory, kind ^ worker.number, REQUEST_BYTES);
        self.client.calls(memory, hash, CALLS);
        let mut run = Run { memory, cursor, worker, freed: Vec::new() };
        match kind {
            _ if is_read => self.look(&mut run, home),
            0..NEW_ORDERS => self.new_order(&mut run, home),
            NEW_ORDERS.. if kind < NEW_ORDERS + PAYMENTS => self.payment(&mut run, home),
            _ => self.delivery(&mut run, home),
        }
        for block in run.freed {
            self.tables.blocks.give(memory, block);
        }
        self.client.respond(memory, hash, RESPONSE_BYTES);
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        let mut contents = Contents::new();
        self.tables.walk(memory, &mut Reach::none(self.tables.blocks.slots()), &mut contents)?;
        Ok(contents)
    }
}
