//! The tables of the TPC-C-like application: the addresses of rows and index words, the content of
//! a new pool, and the invariants of any pool (after the consistency conditions of TPC-C, 3.3.2).
//!
//! Orders, their lines and the history of payments are rings: the order with number n replaces the
//! one `orders` before it in its district, so that the size of a pool is bounded.

use super::super::nstore::Blocks;
use super::super::reach::{Reach, within, word};
use crate::harness::history::{Contents, initial_tag};
use crate::harness::workload::{ENTRIES_MAX, THREADS_MAX};
use crate::{Damage, Setup};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;

pub(super) const DISTRICTS: u64 = 10;
pub(super) const LINES_MAX: u64 = 15;
/// The greatest number of orders that a district keeps.
const ORDERS_MAX: u64 = 4096;
/// Blocks of a transaction beyond the linked ones: an order, its entry among the waiting ones, and
/// two for each line.
const BLOCKS_A_THREAD: u64 = 2 * LINES_MAX + 2;

pub(super) const W_YTD: u64 = 0;
pub(super) const W_TAX: u64 = 8;

pub(super) const D_NEXT: u64 = 0;
pub(super) const D_FIRST: u64 = 8;
pub(super) const D_YTD: u64 = 16;
pub(super) const D_PAYMENTS: u64 = 24;

const CUSTOMER_BYTES: u64 = 4 * LINE_BYTES;
pub(super) const C_BALANCE: u64 = 8;
pub(super) const C_DELIVERED: u64 = 16;
pub(super) const C_PAID: u64 = 128;
pub(super) const C_TAG: u64 = 192;

const STOCK_BYTES: u64 = 5 * LINE_BYTES;
pub(super) const S_QUANTITY: u64 = 8;
pub(super) const S_DISTRICTS: u64 = 16;
pub(super) const S_TAG: u64 = 128;
pub(super) const S_YTD: u64 = 256;
pub(super) const S_ORDERS: u64 = 264;
/// The number of possible quantities, 10 to 100.
const QUANTITIES: u64 = 91;

pub(super) const BLOCK_WORDS: u64 = 12;
pub(super) const O_NUMBER: u64 = 0;
pub(super) const O_CUSTOMER: u64 = 8;
pub(super) const O_LINES: u64 = 16;
pub(super) const O_CARRIER: u64 = 24;
pub(super) const O_TAG: u64 = 32;
pub(super) const O_AMOUNT: u64 = 40;
pub(super) const L_ITEM: u64 = 8;
pub(super) const L_SUPPLIER: u64 = 16;
pub(super) const L_DELIVERED: u64 = 40;
pub(super) const L_INFORMATION: u64 = 56;

/// The parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The number of warehouses, one per thread.
    pub(super) warehouses: u64,
    /// The number of items in each warehouse.
    pub(super) items: u64,
    /// The number of customers in each district.
    pub(super) customers: u64,
    /// The number of orders kept in each district.
    pub(super) orders: u64,
}

impl Shape {
    pub(super) fn of(setup: &Setup) -> Shape {
        let warehouses = setup.threads as u64;
        let items = setup.entries.div_ceil(warehouses);
        let customers = items.div_ceil(4 * DISTRICTS);
        Shape { warehouses, items, customers, orders: items.div_ceil(128).clamp(3, ORDERS_MAX) }
    }

    pub(super) fn check(self) -> Result<Shape, Damage> {
        within("warehouses", self.warehouses, 1, THREADS_MAX)?;
        within("items", self.items, 1, 2 * ENTRIES_MAX / self.warehouses)?;
        within("customers", self.customers, 1, ENTRIES_MAX / self.warehouses)?;
        within("orders", self.orders, 3, ORDERS_MAX)?;
        Ok(self)
    }

    pub(super) const fn districts(&self) -> u64 {
        self.warehouses * DISTRICTS
    }
}

/// A line of an order to insert.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) line: u64,
    pub(super) item: u64,
    pub(super) supplier: u64,
    pub(super) tag: u64,
}

impl Line {
    pub(super) fn quantity(&self) -> u64 {
        1 + word(self.item, self.tag, 1) % 10
    }

    pub(super) fn amount(&self) -> u64 {
        1 + word(self.item, self.tag, 2) % 999
    }

    /// The words of its row, which points to its information.
    pub(super) fn words(&self, delivered: u64, information: Addr) -> [u64; 8] {
        let Line { number, item, supplier, tag, .. } = *self;
        let (quantity, amount) = (self.quantity(), self.amount());
        [number, item, supplier, quantity, amount, delivered, tag, information.bits()]
    }

    /// The words of its information, the field of variable length.
    pub(super) fn information(&self) -> [u64; BLOCK_WORDS as usize] {
        std::array::from_fn(|at| word(self.item ^ self.line << 40, self.tag, 3 + at as u64))
    }
}

/// The quantity left after an order of `ordered` units.
pub(super) fn left(quantity: u64, ordered: u64) -> u64 {
    if quantity >= ordered + 10 { quantity - ordered } else { quantity + QUANTITIES - ordered }
}

fn first_quantity(item: u64) -> u64 {
    10 + item % QUANTITIES
}

pub(super) fn payment(number: u64, customer: u64, amount: u64, tag: u64) -> [u64; 12] {
    let fields = [number, customer, amount, tag];
    std::array::from_fn(|at| match fields.get(at) {
        Some(field) => *field,
        None => word(customer, tag, at as u64),
    })
}

/// Keys of the kinds of entries in [`Contents`].
pub(super) fn stock_key(row: u64) -> u64 {
    row
}

pub(super) fn customer_key(customer: u64) -> u64 {
    1 << 48 | customer
}

/// The addresses of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    pub(super) shape: Shape,
    warehouses: Addr,
    districts: Addr,
    customers: Addr,
    stock: Addr,
    orders: Addr,
    waiting: Addr,
    lines: Addr,
    payments: Addr,
    pub(super) blocks: Blocks,
}

impl Tables {
    pub(super) fn place(arena: &mut Arena, shape: Shape) -> Tables {
        let rings = shape.districts() * shape.orders;
        let live = rings * (2 * LINES_MAX + 3) + BLOCKS_A_THREAD * shape.warehouses;
        let blocks = Blocks::enough(live, shape.warehouses);
        Tables {
            shape,
            warehouses: arena.pm(shape.warehouses * LINE_BYTES),
            districts: arena.pm(shape.districts() * LINE_BYTES),
            customers: arena.pm(shape.districts() * shape.customers * CUSTOMER_BYTES),
            stock: arena.pm(shape.warehouses * shape.items * STOCK_BYTES),
            orders: arena.pm(8 * rings),
            waiting: arena.pm(8 * rings),
            lines: arena.pm(8 * rings * LINES_MAX),
            payments: arena.pm(8 * rings),
            blocks: Blocks::place(arena, blocks, 8 * BLOCK_WORDS, shape.warehouses),
        }
    }

    pub(super) fn warehouse(&self, warehouse: u64) -> Addr {
        self.warehouses.plus(warehouse * LINE_BYTES)
    }

    pub(super) fn district(&self, district: u64) -> Addr {
        self.districts.plus(district * LINE_BYTES)
    }

    /// The number of a customer over all districts.
    pub(super) fn customer_of(&self, district: u64, customer: u64) -> u64 {
        district * self.shape.customers + customer
    }

    pub(super) fn customer(&self, customer: u64) -> Addr {
        self.customers.plus(customer * CUSTOMER_BYTES)
    }

    /// The number of a stock row over all warehouses.
    pub(super) fn stock_of(&self, warehouse: u64, item: u64) -> u64 {
        warehouse * self.shape.items + item
    }

    pub(super) fn stock(&self, row: u64) -> Addr {
        self.stock.plus(row * STOCK_BYTES)
    }

    /// The place of order or payment `number` in the rings of all districts.
    fn place_of(&self, district: u64, number: u64) -> u64 {
        district * self.shape.orders + number % self.shape.orders
    }

    /// The word that points to an order.
    pub(super) fn order(&self, district: u64, number: u64) -> Addr {
        self.orders.plus(8 * self.place_of(district, number))
    }

    /// The word that points to the entry of an order among the waiting ones.
    pub(super) fn waiting(&self, district: u64, number: u64) -> Addr {
        self.waiting.plus(8 * self.place_of(district, number))
    }

    /// The word that points to a line of an order.
    pub(super) fn line(&self, district: u64, number: u64, line: u64) -> Addr {
        self.lines.plus(8 * (self.place_of(district, number) * LINES_MAX + line))
    }

    /// The word that points to a payment.
    pub(super) fn payment(&self, district: u64, number: u64) -> Addr {
        self.payments.plus(8 * self.place_of(district, number))
    }

    pub(super) fn order_key(&self, district: u64, number: u64) -> u64 {
        2 << 48 | self.place_of(district, number)
    }

    pub(super) fn payment_key(&self, district: u64, number: u64) -> u64 {
        3 << 48 | self.place_of(district, number)
    }

    /// Fills the tables of a zeroed pool: every ring of orders is full, and a third of the orders
    /// waits.
    pub(super) fn fill<M: Memory>(&self, memory: &M) {
        let shape = self.shape;
        Reach::none(self.blocks.slots()).rebuild(memory);
        for row in 0..shape.warehouses * shape.items {
            let quantity = first_quantity(row % shape.items);
            memory.store(self.stock(row).plus(S_QUANTITY), quantity);
            memory.store(self.stock(row).plus(S_TAG), initial_tag(row));
        }
        for customer in 0..shape.districts() * shape.customers {
            memory.store(self.customer(customer).plus(C_TAG), initial_tag(customer));
        }
        for district in 0..shape.districts() {
            memory.store(self.district(district).plus(D_NEXT), shape.orders);
            let first = shape.orders - shape.orders / 3;
            memory.store(self.district(district).plus(D_FIRST), first);
            (0..shape.orders).for_each(|number| self.first_order(memory, district, number, first));
        }
    }

    fn first_order<M: Memory>(&self, memory: &M, district: u64, number: u64, first: u64) {
        let tag = initial_tag(self.place_of(district, number));
        let block = |words: &[u64]| {
            let at = self.blocks.take(memory);
            for (place, word) in (0..).zip(words) {
                memory.store(at.plus(8 * place), *word);
            }
            at
        };
        let (lines, carrier) = (5 + number % 11, if number < first { tag } else { 0 });
        let mut amount = 0;
        for line in 0..lines {
            let item = (number + line * 7) % self.shape.items;
            let line = Line { number, line, item, supplier: district / DISTRICTS, tag };
            amount += line.amount();
            let row = block(&line.words(carrier, block(&line.information())));
            memory.store(self.line(district, number, line.line), row);
        }
        let customer = self.customer_of(district, number % self.shape.customers);
        let order = [number, customer, lines, carrier, tag, amount];
        memory.store(self.order(district, number), block(&order));
        if number >= first {
            memory.store(self.waiting(district, number), block(&[number]));
        }
    }

    /// Checks every invariant; adds the entries to `contents` and marks the blocks in `reach`.
    pub(super) fn walk<M: Memory>(
        &self,
        memory: &M,
        reach: &mut Reach<'_>,
        contents: &mut Contents,
    ) -> Result<(), Damage> {
        let shape = self.shape;
        for row in 0..shape.warehouses * shape.items {
            let field = |offset| memory.load::<u64>(self.stock(row).plus(offset));
            let (quantity, taken) = (field(S_QUANTITY), field(S_YTD) % QUANTITIES);
            let is_sum =
                (quantity + taken) % QUANTITIES == first_quantity(row % shape.items) % QUANTITIES;
            if !(10..=100).contains(&quantity) || !is_sum {
                return Err(Damage(format!("quantity and year-to-date of stock {row} differ")));
            }
            contents.insert(stock_key(row), field(S_TAG));
        }
        for customer in 0..shape.districts() * shape.customers {
            let field = |offset| memory.load::<u64>(self.customer(customer).plus(offset));
            if field(C_BALANCE) != field(C_DELIVERED).wrapping_sub(field(C_PAID)) {
                return Err(Damage(format!("the balance of customer {customer} is wrong")));
            }
            contents.insert(customer_key(customer), field(C_TAG));
        }
        for warehouse in 0..shape.warehouses {
            let mut sum = 0u64;
            for district in warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS {
                let ytd: u64 = memory.load(self.district(district).plus(D_YTD));
                sum = sum.wrapping_add(ytd);
                self.walk_district(memory, district, reach, contents)?;
            }
            if memory.load::<u64>(self.warehouse(warehouse).plus(W_YTD)) != sum {
                return Err(Damage(format!("warehouse {warehouse} is not its districts' sum")));
            }
        }
        Ok(())
    }

    fn walk_district<M: Memory>(
        &self,
        memory: &M,
        district: u64,
        reach: &mut Reach<'_>,
        contents: &mut Contents,
    ) -> Result<(), Damage> {
        let field = |offset| memory.load::<u64>(self.district(district).plus(offset));
        let (next, first, payments) = (field(D_NEXT), field(D_FIRST), field(D_PAYMENTS));
        let orders = self.shape.orders;
        let oldest = next.checked_sub(orders).filter(|oldest| (*oldest..=next).contains(&first));
        let Some(oldest) = oldest else {
            return Err(Damage(format!("district {district} has orders {first} to {next}")));
        };
        for number in oldest..next {
            let tag = self.walk_order(memory, district, number, first, reach)?;
            contents.insert(self.order_key(district, number), tag);
        }
        for number in payments.saturating_sub(orders)..payments {
            let what = || format!("payment {number} of district {district}");
            let at = reach.reach(memory.load(self.payment(district, number)), what)?;
            let [_, customer, amount, tag] =
                [0, 8, 16, 24].map(|offset| memory.load::<u64>(at.plus(offset)));
            if self.is_torn(memory, at, &payment(number, customer, amount, tag)) {
                return Err(Damage(format!("{} is torn", what())));
            }
            contents.insert(self.payment_key(district, number), tag);
        }
        for number in payments..orders {
            if memory.load::<u64>(self.payment(district, number)) != 0 {
                return Err(Damage(format!("district {district} has no payment {number}")));
            }
        }
        Ok(())
    }

    /// Checks an order and its rows; returns the tag of its delivery, or else its own.
    fn walk_order<M: Memory>(
        &self,
        memory: &M,
        district: u64,
        number: u64,
        first: u64,
        reach: &mut Reach<'_>,
    ) -> Result<u64, Damage> {
        let what = || format!("order {number} of district {district}");
        let torn = || Damage(format!("{} is torn", what()));
        let order = reach.reach(memory.load(self.order(district, number)), what)?;
        let [stored, customer, lines, carrier, tag, sum] =
            [O_NUMBER, O_CUSTOMER, O_LINES, O_CARRIER, O_TAG, O_AMOUNT]
                .map(|offset| memory.load::<u64>(order.plus(offset)));
        let customers = self.customer_of(district, 0)..self.customer_of(district + 1, 0);
        let is_its = stored == number && customers.contains(&customer) && tag != 0;
        if !is_its || !(1..=LINES_MAX).contains(&lines) || (carrier != 0) != (number < first) {
            return Err(torn());
        }
        let waiting: u64 = memory.load(self.waiting(district, number));
        if number >= first {
            let at = reach.reach(waiting, what)?;
            if memory.load::<u64>(at) != number {
                return Err(torn());
            }
        } else if waiting != 0 {
            return Err(Damage(format!("{} waits and is delivered", what())));
        }
        let mut amounts = 0;
        for line in 0..LINES_MAX {
            let link: u64 = memory.load(self.line(district, number, line));
            if line >= lines && link == 0 {
                continue;
            }
            let at = reach.reach(link, what)?;
            let [item, supplier, information] = [L_ITEM, L_SUPPLIER, L_INFORMATION]
                .map(|offset| memory.load::<u64>(at.plus(offset)));
            let line = Line { number, line, item, supplier, tag };
            let information = reach.reach(information, what)?;
            let is_torn = self.is_torn(memory, at, &line.words(carrier, information))
                || self.is_torn(memory, information, &line.information());
            if line.line >= lines || is_torn {
                return Err(torn());
            }
            amounts += line.amount();
        }
        let shown = if carrier == 0 { tag } else { carrier };
        if amounts == sum { Ok(shown) } else { Err(torn()) }
    }

    fn is_torn<M: Memory>(&self, memory: &M, at: Addr, words: &[u64]) -> bool {
        let mut places = (0..).zip(words);
        places.any(|(place, word)| memory.load::<u64>(at.plus(8 * place)) != *word)
    }
}
