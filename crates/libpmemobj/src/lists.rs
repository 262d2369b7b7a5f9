//! Lists that change atomically with respect to crashes: `lists_atomic_base.h`.
//!
//! A list is a ring: each element has the OIDs of the next and of the one before, at an offset that
//! the program gives, and the head has that of the first and a mutex, which these calls take.

use crate::error::Failure;
use crate::locks::{TxLock, lock_for_tx, unlock_for_tx};
use crate::object::{self, Construct, PoolTx, Wanted};
use crate::pool::ObjectPool;
use crate::registry::by_pop;
use crate::types::{BYTES_MAX, Constructor, OID_BYTES, Oid, Pop};
use libc::{c_int, c_void};
use seawall_memory::Addr;
use seawall_runtime::Logging;

/// A list: its head, and where the links are in an element.
#[derive(Clone, Copy)]
struct List<'p> {
    pool: &'p ObjectPool,
    head: Addr,
    links: u64,
}

/// Where an element is put.
#[derive(Clone, Copy)]
struct Place {
    /// The null OID: the end of the list that `is_before` says.
    beside: Oid,
    is_before: bool,
}

impl<'p> List<'p> {
    fn of(pool: &'p ObjectPool, head: *mut c_void, links: usize) -> Result<List<'p>, Failure> {
        let head = pool.address_of(head.cast(), OID_BYTES + 64);
        let head =
            head.ok_or_else(|| Failure::invalid("the head of the list is not in the pool"))?;
        if links as u64 > BYTES_MAX {
            return Err(Failure::invalid("pe_offset is larger than any object"));
        }
        Ok(List { pool, head, links: links as u64 })
    }

    fn lock(&self) -> TxLock {
        TxLock::Mutex(self.pool.place(self.head.plus(OID_BYTES)).cast())
    }

    fn load(&self, tx: &PoolTx<'_>, at: Addr) -> Result<Oid, Failure> {
        if at.offset() > self.pool.bytes - OID_BYTES {
            return Err(Failure::invalid("a link of the list leads out of the pool"));
        }
        let mut bytes = [0; OID_BYTES as usize];
        tx.read(at, &mut bytes);
        let word = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().expect("8"));
        Ok(Oid { pool: word(0), offset: word(8) })
    }

    /// The address of an element's link to the next.
    fn next(&self, element: Oid) -> Addr {
        Addr::pm(element.offset.wrapping_add(self.links))
    }

    fn before(&self, element: Oid) -> Addr {
        self.next(element).plus(OID_BYTES)
    }

    fn first(&self, tx: &PoolTx<'_>) -> Result<Oid, Failure> {
        self.load(tx, self.head)
    }

    fn insert(&self, tx: &mut PoolTx<'_>, element: Oid, place: Place) -> Result<(), Failure> {
        let first = self.first(tx)?;
        let to_it = element.bytes();
        if first.is_null() {
            if !place.beside.is_null() {
                return Err(Failure::invalid("the list is empty, and has no such element"));
            }
            let own = both(element, element);
            return store(tx, &[(self.next(element), &own), (self.head, &to_it)]);
        }
        let is_at_end = place.beside.is_null();
        let next = match (is_at_end, place.is_before) {
            (true, _) => first,
            (false, true) => place.beside,
            (false, false) => self.load(tx, self.next(place.beside))?,
        };
        let before = self.load(tx, self.before(next))?;
        let own = both(next, before);
        let links: [Link<'_>; 4] = [
            (self.next(element), &own),
            (self.next(before), &to_it),
            (self.before(next), &to_it),
            (self.head, &to_it),
        ];
        let is_first = place.is_before && (is_at_end || place.beside == first);
        store(tx, if is_first { &links } else { &links[..3] })
    }

    fn remove(&self, tx: &mut PoolTx<'_>, element: Oid) -> Result<(), Failure> {
        let next = self.load(tx, self.next(element))?;
        let before = self.load(tx, self.before(element))?;
        let first = self.first(tx)?;
        let none = both(Oid::NULL, Oid::NULL);
        if next == element {
            return store(tx, &[(self.next(element), &none), (self.head, &Oid::NULL.bytes())]);
        }
        let (to_next, to_before) = (next.bytes(), before.bytes());
        let links: [Link<'_>; 4] = [
            (self.next(before), &to_next),
            (self.before(next), &to_before),
            (self.next(element), &none),
            (self.head, &to_next),
        ];
        store(tx, if first == element { &links } else { &links[..3] })
    }
}

/// Where links are, and what they become.
type Link<'a> = (Addr, &'a [u8]);

/// Both links of an element, as they lie in it.
fn both(next: Oid, before: Oid) -> [u8; 2 * OID_BYTES as usize] {
    let mut bytes = [0; 2 * OID_BYTES as usize];
    let (first, second) = bytes.split_at_mut(OID_BYTES as usize);
    first.copy_from_slice(&next.bytes());
    second.copy_from_slice(&before.bytes());
    bytes
}

/// Stores links; the old values of all are logged with one fence.
fn store(tx: &mut PoolTx<'_>, links: &[Link<'_>]) -> Result<(), Failure> {
    Ok(tx.write_all(links.iter().copied())?)
}

/// Runs a transaction with the locks of these lists held, in the order of their addresses.
fn locked<T, const N: usize>(
    pool: &'static ObjectPool,
    mut lists: [List<'_>; N],
    logging: Logging,
    body: impl FnMut(&mut PoolTx<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    lists.sort_unstable_by_key(|list| list.head);
    let is_new = |place: &usize| *place == 0 || lists[*place].head != lists[*place - 1].head;
    for place in (0..N).filter(is_new) {
        let errno = lock_for_tx(pool, lists[place].lock());
        if errno != 0 {
            let held = (0..place).filter(is_new);
            held.for_each(|place| unlock_for_tx(pool, lists[place].lock()));
            return Err(Failure::new(errno, "the mutex of the list cannot be locked"));
        }
    }
    let outcome = pool.atomically(logging, body);
    (0..N).rev().filter(is_new).for_each(|place| unlock_for_tx(pool, lists[place].lock()));
    outcome
}

fn in_pool(pool: &ObjectPool, oid: Oid) -> Result<(), Failure> {
    if oid.is_null() || oid.pool != pool.uuid {
        return Err(Failure::invalid("the element is not in the pool of the list"));
    }
    object::find(pool, oid.offset).map(|_| ())
}

fn place_of(pool: &ObjectPool, beside: Oid, before: c_int) -> Result<Place, Failure> {
    if !beside.is_null() {
        in_pool(pool, beside)?;
    }
    Ok(Place { beside, is_before: before != 0 })
}

fn ended(outcome: Result<(), Failure>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(failure) => crate::base::failed(&failure, -1),
    }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_list_insert(
    pop: Pop,
    links: usize,
    head: *mut c_void,
    beside: Oid,
    before: c_int,
    oid: Oid,
) -> c_int {
    ended(by_pop(pop).and_then(|pool| {
        let list = List::of(pool, head, links)?;
        let place = place_of(pool, beside, before)?;
        in_pool(pool, oid)?;
        locked(pool, [list], Logging::Undo, |tx| list.insert(tx, oid, place))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_list_insert_new(
    pop: Pop,
    links: usize,
    head: *mut c_void,
    beside: Oid,
    before: c_int,
    bytes: usize,
    type_number: u64,
    constructor: Constructor,
    argument: *mut c_void,
) -> Oid {
    let construct = Construct { with: constructor, argument };
    let wanted = Wanted::new(bytes, type_number, 0);
    let outcome = by_pop(pop).and_then(|pool| {
        let list = List::of(pool, head, links)?;
        let place = place_of(pool, beside, before)?;
        wanted.check()?;
        if (links as u64).saturating_add(2 * OID_BYTES) > wanted.bytes {
            return Err(Failure::invalid("the element has no room for its links"));
        }
        locked(pool, [list], Logging::Undo, |tx| {
            let at = object::allocate(pool, tx, wanted)?;
            construct.call(pool, at)?;
            let oid = pool.oid(at);
            list.insert(tx, oid, place)?;
            Ok(oid)
        })
    });
    outcome.unwrap_or_else(|failure| crate::base::failed(&failure, Oid::NULL))
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_list_remove(
    pop: Pop,
    links: usize,
    head: *mut c_void,
    oid: Oid,
    free: c_int,
) -> c_int {
    ended(by_pop(pop).and_then(|pool| {
        let list = List::of(pool, head, links)?;
        in_pool(pool, oid)?;
        locked(pool, [list], Logging::Undo, |tx| {
            list.remove(tx, oid)?;
            if free != 0 { Ok(tx.free(object::find(pool, oid.offset)?.block)?) } else { Ok(()) }
        })
    }))
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_list_move(
    pop: Pop,
    old_links: usize,
    old_head: *mut c_void,
    new_links: usize,
    new_head: *mut c_void,
    beside: Oid,
    before: c_int,
    oid: Oid,
) -> c_int {
    ended(by_pop(pop).and_then(|pool| {
        let old = List::of(pool, old_head, old_links)?;
        let new = List::of(pool, new_head, new_links)?;
        let place = place_of(pool, beside, before)?;
        in_pool(pool, oid)?;
        if beside == oid {
            return Err(Failure::invalid("an element is not moved beside itself"));
        }
        // What the second step changes follows from the first: old values of both in one record.
        locked(pool, [old, new], Logging::Redo, |tx| {
            old.remove(tx, oid)?;
            new.insert(tx, oid, place)
        })
    }))
}
