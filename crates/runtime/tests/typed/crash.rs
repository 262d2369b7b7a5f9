//! With crashes: types get their numbers and typed objects are linked, whole or not at all.

use super::{Account, NAME, Node, Root, made, options};
use crate::steps::models_and_kinds;
use seawall_explore::{CrashImage, CrashPoint, Model, Schedule, Search, check, record, search};
use seawall_memory::Memory;
use seawall_runtime::typed::{self, Bytes, Pool, Session, Tx};
use seawall_runtime::{AccessError, HeapError, HeapFlaw, Logging, TxError};

/// The stack from its top, the balance, the count; what can be seen of a state.
type State = (Vec<u16>, Option<i64>, u32);

fn push<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    pool: Pool<'p, Root<'p>>,
    value: u16,
) -> Result<(), TxError> {
    let below = tx.get(pool.root().at(Root::TOP))?;
    let node = tx.alloc(Node { value, below })?;
    tx.set(pool.root().at(Root::TOP), Some(node))?;
    tx.update(pool.root().at(Root::COUNT), |count| count + 1)
}

fn pop<'p, M: Memory>(tx: &mut Tx<'p, '_, '_, M>, pool: Pool<'p, Root<'p>>) -> Result<(), TxError> {
    if let Some(node) = tx.get(pool.root().at(Root::TOP))? {
        let below = tx.get(node.at(Node::BELOW))?;
        tx.set(pool.root().at(Root::TOP), below)?;
        tx.free(node)?;
        tx.update(pool.root().at(Root::COUNT), |count| count - 1)?;
    }
    Ok(())
}

/// Step `step` of the script, which has [`STEPS`].
fn run<'p, M: Memory>(
    session: &mut Session<'p, '_, M>,
    pool: Pool<'p, Root<'p>>,
    kind: Logging,
    step: u64,
) -> Result<(), TxError> {
    let outcome = session.transaction_with(kind, |tx| match step {
        0 => push(tx, pool, 1),
        1 => {
            tx.alloc(0u32)?;
            Err(TxError::Types)
        }
        2 => {
            push(tx, pool, 2)?;
            let account = tx.alloc(Account { owner: Bytes(*b"alice"), balance: 5 })?;
            tx.set(pool.root().at(Root::ACCOUNT), Some(account))
        }
        3 => pop(tx, pool),
        _ => {
            let account = tx.get(pool.root())?.account.expect("it is there");
            tx.update(account.at(Account::BALANCE), |balance| balance + 1)
        }
    });
    if outcome == Err(TxError::Types) { Ok(()) } else { outcome }
}

const STEPS: u64 = 5;

fn states() -> Vec<State> {
    vec![
        (vec![], None, 0),
        (vec![1], None, 1),
        (vec![1], None, 1),
        (vec![2, 1], Some(5), 2),
        (vec![1], Some(5), 1),
        (vec![1], Some(6), 1),
    ]
}

/// What the heap holds, if every object is found by its type and linked once.
fn read<'p, M: Memory>(
    session: &mut Session<'p, '_, M>,
    pool: Pool<'p, Root<'p>>,
) -> Result<State, String> {
    let text = |error: AccessError| error.to_string();
    let root = session.get(pool.root()).map_err(text)?;
    let (mut linked, mut values, mut next) = (Vec::new(), Vec::new(), root.top);
    while let Some(ptr) = next {
        let node = session.get(ptr).map_err(text)?;
        linked.push(ptr);
        values.push(node.value);
        next = node.below;
    }
    let mut nodes = Vec::new();
    session.for_each(|ptr, _: Node<'_>| nodes.push(ptr)).map_err(text)?;
    let mut accounts = Vec::new();
    session.for_each(|ptr, _: Account| accounts.push(ptr)).map_err(text)?;
    linked.sort_by_key(|ptr| ptr.addr());
    if linked != nodes || root.account.as_slice() != accounts {
        return Err(format!("linked are {linked:?}, found {nodes:?} and {accounts:?}"));
    }
    let mut objects = 0;
    pool.heap().objects(session.memory(), |_| objects += 1).map_err(text)?;
    if objects != nodes.len() + accounts.len() {
        return Err(format!("{objects} objects are live"));
    }
    let reach = session.reach(pool.root()).map_err(text)?;
    if reach.reached != objects as u64 || !reach.dangling.is_empty() {
        return Err(format!("of {objects} objects {reach:?}"));
    }
    let balance = root.account.map(|account| session.get(account).map_err(text)).transpose()?;
    Ok((values, balance.map(|account| account.balance), root.count))
}

/// The error of the body of a recovery; the pool's own errors are texts too.
struct Text(String);

impl From<HeapError> for Text {
    fn from(error: HeapError) -> Text {
        Text(error.to_string())
    }
}

fn explore(kind: Logging, model: Model, flaw: HeapFlaw) -> Result<(), String> {
    let bytes = options::<Root<'_>>(4).pm_bytes();
    let image = made::<Root<'_>>(4, |_, _| Ok(()));
    let image = super::restarted::<Root<'_>>(image);
    let trace = record(image, &Schedule::default(), move |memory| {
        typed::open_flawed::<Root<'_>, _, HeapError>(memory, NAME, bytes, flaw, |pool| {
            let mut session = pool.join(memory);
            for step in 0..STEPS {
                run(&mut session, pool, kind, step)?;
                memory.output(step);
            }
            Ok(())
        })
        .expect("room");
    })
    .expect("it ends");
    let recover = |image: &CrashImage| {
        typed::open::<Root<'_>, _, Text>(image, NAME, bytes, |pool| {
            read(&mut pool.join(image), pool).map_err(Text)
        })
        .map_err(|Text(text)| text)
    };
    let states = states();
    let judge = |found: &State, point: &CrashPoint| {
        let done = point.outputs[0] as usize;
        let next = (done + 1).min(states.len() - 1);
        let is_right = states[done..=next].contains(found);
        if is_right { Ok(()) } else { Err(format!("{done} steps were done, found {found:?}")) }
    };
    let outcome = search(&trace, &Search::new(model), &check(recover, judge));
    outcome.finding.map_or(Ok(()), |finding| Err(finding.to_string()))
}

#[test]
fn no_crash_loses_a_type_or_half_an_object_under_any_model() {
    for (model, kind) in models_and_kinds() {
        explore(kind, model, HeapFlaw::None)
            .unwrap_or_else(|finding| panic!("{kind:?}: {finding}"));
    }
}

#[test]
fn a_type_that_is_not_logged_is_caught() {
    for kind in [Logging::Redo, Logging::Undo] {
        let found = explore(kind, Model::Px86, HeapFlaw::UnloggedType);
        assert!(found.is_err(), "{kind:?}");
    }
}
