//! An array of strings that change places ("SS" of FFCCD, ISCA'22).
//!
//! The published program exchanges the bytes of two strings. Here two slots exchange their
//! pointers, and each string stores its new slot: one word of it is rewritten, not 128 bytes. So
//! strings stay at their addresses, and pointers to them move.
//!
//! Its planted bug: it exchanges in two transactions.

use super::directory::Directory;
use super::value::Value;
use super::{ChurnChange, ChurnStructure, Walk};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::typed::{Persist, Ptr, Session, Tx};
use seawall_runtime::{AccessError, TxError};

/// An array of strings.
pub struct Ss;

/// The array of a part.
#[derive(Clone, Copy, Persist)]
pub struct Strings<'p> {
    keys: u64,
    strings: u64,
    slots: Directory<'p, Text>,
}

/// A string, of 128 bytes in all.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Text {
    /// The slot that points to this string.
    slot: u64,
    /// The value of the key for which it was put.
    value: Value<104>,
}

type Link<'p> = Option<Ptr<'p, Text>>;

/// Sets the pointer of a slot to a string, and stores the slot in the string.
fn place<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    part: Ptr<'p, Strings<'p>>,
    slot: u64,
    link: Link<'p>,
) -> Result<(), TxError> {
    Directory::set(tx, part.at(Strings::SLOTS), slot, link)?;
    link.map_or(Ok(()), |text| tx.set(text.at(Text::SLOT), slot))
}

fn tag<'p, M: Memory>(session: &Session<'p, '_, M>, link: Link<'p>) -> Result<u64, AccessError> {
    link.map_or(Ok(0), |text| session.get(text.at(Text::VALUE).at(Value::TAG)))
}

impl ChurnStructure for Ss {
    const NAME: &'static str = "c-ss";
    const ABOUT: &'static str = "an array of strings that come, go and change places";
    const ENTRY_BYTES: u64 = 144;
    const TOUCHES: bool = true;
    type Part = Strings<'static>;

    fn empty<'p>(keys: u64) -> Strings<'p> {
        Strings { keys, strings: 0, slots: Directory::empty() }
    }

    fn put<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        part: Ptr<'p, Strings<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| {
            let text = Text { slot: change.key, value: Value::new(change.key, change.tag) };
            if let Some(old) = Directory::get(tx, part.at(Strings::SLOTS), change.key)? {
                return tx.set(old, text);
            }
            let text = tx.alloc(text)?;
            Directory::set(tx, part.at(Strings::SLOTS), change.key, Some(text))?;
            tx.update(part.at(Strings::STRINGS), |strings| strings + 1)
        })
    }

    fn remove<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        part: Ptr<'p, Strings<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| {
            let slots = part.at(Strings::SLOTS);
            let Some(text) = Directory::get(tx, slots, change.key)? else { return Ok(()) };
            Directory::set(tx, slots, change.key, None)?;
            tx.free(text)?;
            tx.update(part.at(Strings::STRINGS), |strings| strings - 1)
        })
    }

    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        part: Ptr<'p, Strings<'p>>,
        key: u64,
    ) -> Result<Option<u64>, AccessError> {
        let text = Directory::get(session, part.at(Strings::SLOTS), key)?;
        text.map(|_| tag(session, text)).transpose()
    }

    /// Exchanges the strings of two slots, either of which can be empty.
    fn touch<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        part: Ptr<'p, Strings<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        let slots = [change.key, change.dice % session.get(part.at(Strings::KEYS))?.max(1)];
        let [one, other] = slots;
        let texts = [
            Directory::get(session, part.at(Strings::SLOTS), one)?,
            Directory::get(session, part.at(Strings::SLOTS), other)?,
        ];
        if one == other || texts == [None, None] {
            return Ok(());
        }
        (change.note)(one, tag(session, texts[1])?);
        (change.note)(other, tag(session, texts[0])?);
        if change.slip {
            change.lane.transaction(session, |tx| place(tx, part, one, texts[1]))?;
            return change.lane.transaction(session, |tx| place(tx, part, other, texts[0]));
        }
        change.lane.transaction(session, |tx| {
            place(tx, part, one, texts[1])?;
            place(tx, part, other, texts[0])
        })
    }

    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        part: Ptr<'p, Strings<'p>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage> {
        let mut strings = 0;
        Directory::check(session, part.at(Strings::SLOTS), walk, |walk, slot, at| {
            walk.object("string")?;
            let Text { slot: own, value } = session.get(at)?;
            value.check()?;
            walk.ensure(own == slot, || format!("slot {slot} leads to the string of slot {own}"))?;
            strings += 1;
            walk.entry(slot, value.tag)
        })?;
        let counted = session.get(part.at(Strings::STRINGS))?;
        walk.ensure(strings == counted, || {
            format!("{strings} strings are there, {counted} are counted")
        })
    }
}
