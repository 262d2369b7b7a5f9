//! Pools of a program whose types have changed since: refused, with the field that did, and left as
//! they were, however deep the type lies.

use super::NAME;
use seawall_memory::{Addr, Image, MemoryExt};
use seawall_runtime::typed::{self, Branded, Bytes, Persist, Ptr};
use seawall_runtime::{Heap, HeapError};

/// A root, what it leads to, and what that does; two types that lead to each other; a struct within
/// another, one in an array; one of which there are no objects.
macro_rules! program {
    (
        $name:ident: $leaf:ty,
        { $($near:ident: $near_type:ty)? }, { $($twin:ident: $twin_type:ty)? },
        { $($part:ident),* }, { $($unused:ident),* }
    ) => {
        mod $name {
            use super::*;
            #[derive(Clone, Copy, Persist)]
            pub(super) struct Root<'p> {
                pub(super) near: Option<Ptr<'p, Near<'p>>>,
                pub(super) unused: Option<Ptr<'p, Unused>>,
            }
            #[derive(Clone, Copy, Persist)]
            pub(super) struct Near<'p> {
                pub(super) far: Option<Ptr<'p, Far<'p>>>,
                $(pub(super) $near: $near_type,)?
            }
            #[derive(Clone, Copy, Persist)]
            pub(super) struct Far<'p> {
                pub(super) leaf: Option<Ptr<'p, Leaf>>,
                pub(super) twin: Option<Ptr<'p, Twin<'p>>>,
            }
            #[derive(Clone, Copy, Persist)]
            pub(super) struct Leaf {
                pub(super) value: $leaf,
            }
            #[derive(Clone, Copy, Persist)]
            pub(super) struct Twin<'p> {
                pub(super) back: Option<Ptr<'p, Far<'p>>>,
                pub(super) parts: [Part; 2],
                $(pub(super) $twin: $twin_type,)?
            }
            #[derive(Clone, Copy, Persist)]
            pub(super) struct Part {
                $(pub(super) $part: u32,)*
            }
            #[derive(Clone, Copy, Persist)]
            pub(super) struct Unused {
                $(pub(super) $unused: u64,)*
            }
        }
    };
}

program!(first: u64, { n: u64 }, {}, { a, b }, { x });
program!(same: u64, { n: u64 }, {}, { a, b }, { x });
program!(leaf_type: i64, { n: u64 }, {}, { a, b }, { x });
program!(leaf_bytes: [u64; 9000], { n: u64 }, {}, { a, b }, { x });
program!(near_less: u64, {}, {}, { a, b }, { x });
program!(near_other: u64, { m: u64 }, {}, { a, b }, { x });
program!(twin_more: u64, { n: u64 }, { last: Bytes<3> }, { a, b }, { x });
program!(part_order: u64, { n: u64 }, {}, { b, a }, { x });
program!(unused_more: u64, { n: u64 }, {}, { a, b }, { x, y });

/// A pool of the first program.
fn pool() -> Vec<u8> {
    let options = super::options::<first::Root<'_>>(4);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let made = typed::create::<first::Root<'_>, _, HeapError>(&image, NAME, 7, &options, |pool| {
        let mut session = pool.join(&image);
        session.transaction(|tx| {
            let part = first::Part { a: 1, b: 2 };
            let twin = tx.alloc(first::Twin { back: None, parts: [part; 2] })?;
            let leaf = Some(tx.alloc(first::Leaf { value: 5 })?);
            let far = tx.alloc(first::Far { leaf, twin: Some(twin) })?;
            tx.set(twin.at(first::Twin::BACK), Some(far))?;
            let near = Some(tx.alloc(first::Near { far: Some(far), n: 9 })?);
            tx.set(pool.root(), first::Root { near, unused: None })
        })?;
        Ok(())
    });
    made.expect("room");
    image.into_pm()
}

/// What opening it as one with a root `R` comes to; refused pools are as they were.
fn open<R: Branded>(pm: &[u8]) -> Result<(), String> {
    let bytes = pm.len() as u64;
    let dram = super::options::<first::Root<'_>>(4).dram_bytes();
    let image = Image::from_pm(pm.to_vec(), dram);
    let outcome = typed::open::<R, _, HeapError>(&image, NAME, bytes, |_| Ok(()));
    if outcome.is_err()
        && Heap::read(&image, NAME, bytes).is_ok_and(|info| info.reached_shape() > 0)
    {
        assert!(image.into_pm() == pm, "something has changed");
    }
    outcome.map_err(|error| error.to_string())
}

/// The same pool, as a program made it that did not know of a hash of all types.
fn of_earlier(pm: &[u8]) -> Vec<u8> {
    let mut pm = pm.to_vec();
    pm[120..128].fill(0);
    pm[40..48].fill(0);
    let sum = u64::from(crc32c(&pm[..192]));
    pm[40..48].copy_from_slice(&sum.to_le_bytes());
    pm
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1)))
    })
}

#[test]
fn a_type_that_has_changed_is_refused_and_named_however_deep_it_lies() {
    let pm = pool();
    for pm in [pm.clone(), of_earlier(&pm)] {
        assert_eq!(open::<first::Root<'_>>(&pm), Ok(()));
        assert_eq!(open::<same::Root<'_>>(&pm), Ok(()), "only its path is another");
        let cases = [
            (open::<leaf_type::Root<'_>>(&pm), "Leaf", "field value was u64 and is i64"),
            (open::<leaf_bytes::Root<'_>>(&pm), "Leaf", "was u64 and is [u64; 9000]"),
            (open::<near_less::Root<'_>>(&pm), "Near", "field n (u64) is gone"),
            (open::<near_other::Root<'_>>(&pm), "Near", "field n (u64) is gone"),
            (open::<twin_more::Root<'_>>(&pm), "Twin", "field last (Bytes<3>) is new"),
            (open::<part_order::Root<'_>>(&pm), "Twin", "a type within one of its fields"),
            (open::<unused_more::Root<'_>>(&pm), "Unused", "field y (u64) is new"),
        ];
        for (outcome, name, how) in cases {
            let text = outcome.expect_err(how);
            assert!(text.starts_with(&format!("type {name} has changed")), "{text}");
            assert!(text.contains(how) && text.contains("copy what it holds"), "{text}");
        }
    }
}

#[test]
fn a_root_that_has_changed_is_told_by_its_fields() {
    mod later {
        use super::*;
        #[derive(Clone, Copy, Persist)]
        pub(super) struct Root<'p> {
            pub(super) near: Option<Ptr<'p, first::Near<'p>>>,
            pub(super) unused: Option<Ptr<'p, first::Unused>>,
            pub(super) count: u64,
        }
    }
    let text = open::<later::Root<'_>>(&pool()).expect_err("a field more");
    assert!(text.starts_with("type Root has changed"), "{text}");
    assert!(text.contains("field count (u64) is new"), "{text}");
}

/// Two types of one name, and what is told apart of them.
mod twice {
    use super::*;
    pub(super) mod one {
        use super::*;
        #[derive(Clone, Copy, Persist)]
        pub(in super::super) struct Item {
            pub(in super::super) a: u64,
        }
    }
    pub(super) mod other {
        use super::*;
        #[derive(Clone, Copy, Persist)]
        pub(in super::super) struct Item {
            pub(in super::super) b: u32,
        }
    }
}

#[derive(Clone, Copy, Persist)]
#[persist(name = "Both")]
struct Both<'p> {
    x: Option<Ptr<'p, twice::one::Item>>,
    y: Option<Ptr<'p, twice::other::Item>>,
}

#[derive(Clone, Copy, Persist)]
#[persist(name = "Both")]
struct Crossed<'p> {
    x: Option<Ptr<'p, twice::other::Item>>,
    y: Option<Ptr<'p, twice::one::Item>>,
}

#[test]
fn types_of_one_name_are_told_apart_by_which_pointer_leads_to_them() {
    let image = super::made::<Both<'_>>(4, |image, pool| {
        pool.join(image).transaction(|tx| {
            let x = Some(tx.alloc(twice::one::Item { a: 1 })?);
            let y = Some(tx.alloc(twice::other::Item { b: 2 })?);
            tx.set(pool.root(), Both { x, y })
        })?;
        Ok(())
    });
    let pm = image.into_pm();
    assert_eq!(open::<Both<'_>>(&pm), Ok(()));
    let text = open::<Crossed<'_>>(&pm).expect_err("they have changed places");
    assert!(text.contains("something that the root leads to"), "{text}");
}

#[test]
fn what_is_open_is_entered_and_joined_with_its_own_types_only() {
    let pm = pool();
    let bytes = pm.len() as u64;
    let image = Image::from_pm(pm, super::options::<first::Root<'_>>(4).dram_bytes());
    let (heap, _) = Heap::open(&image, NAME, bytes).expect("whole");
    let refused = typed::enter::<leaf_type::Root<'_>, (), HeapError>(heap, &image, |_| Ok(()));
    assert!(matches!(refused, Err(HeapError::Changed { .. })), "{refused:?}");
    let refused = typed::Thread::<leaf_type::Root<'_>, _>::join(heap, &image).map(|_| ());
    assert!(matches!(refused, Err(HeapError::Changed { .. })), "{refused:?}");
    let entered = typed::enter::<same::Root<'_>, _, HeapError>(heap, &image, |pool| {
        let session = pool.join(&image);
        let near = session.get(pool.root())?.near.expect("a pointer");
        Ok(session.get(near)?.n)
    });
    assert_eq!(entered, Ok(9));
}

/// Copies the pool at `from` to a new one of other types, `steps` of its lines of work at most; and
/// gives it the name of the old one when it is whole.
fn migrate(folder: &std::path::Path, steps: &mut u32) -> Result<(), Box<dyn std::error::Error>> {
    use seawall_native::{Pool, PoolOptions};
    let mut step = || {
        *steps = steps.checked_sub(1).ok_or("power fails")?;
        Ok::<(), Box<dyn std::error::Error>>(())
    };
    let options = super::options::<leaf_type::Root<'_>>(4);
    let mapped = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let (old, new) = (folder.join("a.pool"), folder.join("a.pool.new"));
    // What an earlier try has left is begun anew.
    let _ = std::fs::remove_file(&new);
    step()?;
    let from = Pool::open(&old, &mapped, |_, _| Ok(()))?;
    let mut values = Vec::new();
    typed::open::<first::Root<'_>, (), HeapError>(&from.memory(0), NAME, from.bytes(), |pool| {
        let memory = from.memory(0);
        pool.join(&memory).for_each(|_, leaf: first::Leaf| values.push(leaf.value))?;
        Ok(())
    })?;
    step()?;
    let to = Pool::create(&new, options.pm_bytes(), &mapped)?;
    step()?;
    let copied = typed::create::<leaf_type::Root<'_>, _, Box<dyn std::error::Error>>(
        &to.memory(0),
        NAME,
        8,
        &options,
        |pool| {
            let memory = to.memory(0);
            let mut session = pool.join(&memory);
            for value in values {
                step()?;
                session.transaction(|tx| {
                    let leaf = Some(tx.alloc(leaf_type::Leaf { value: -(value as i64) })?);
                    let far = Some(tx.alloc(leaf_type::Far { leaf, twin: None })?);
                    let near = Some(tx.alloc(leaf_type::Near { far, n: 9 })?);
                    tx.set(pool.root(), leaf_type::Root { near, unused: None })
                })?;
            }
            session.retire();
            Ok(())
        },
    );
    copied?;
    step()?;
    drop(to);
    std::fs::rename(&new, &old)?;
    step()?;
    std::fs::File::open(folder)?.sync_all()?;
    Ok(())
}

#[test]
fn a_copy_to_new_types_that_is_cut_short_anywhere_is_done_again_and_loses_nothing() {
    let pm = pool();
    for cut in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        std::fs::write(&path, &pm).unwrap();
        let mut steps = cut;
        let first_try = migrate(folder.path(), &mut steps);
        assert_eq!(first_try.is_ok(), cut >= 6, "{cut}: {first_try:?}");
        let read = || std::fs::read(&path).unwrap();
        let is_old = open::<first::Root<'_>>(&read()).is_ok();
        let is_new = open::<leaf_type::Root<'_>>(&read()).is_ok();
        assert!(is_old != is_new, "{cut}: one of them, and whole");
        if is_old {
            migrate(folder.path(), &mut 100).expect("a second try");
        }
        let image = Image::from_pm(read(), super::options::<first::Root<'_>>(4).dram_bytes());
        let bytes = image.pm_bytes();
        let value = typed::open::<leaf_type::Root<'_>, _, HeapError>(&image, NAME, bytes, |pool| {
            let session = pool.join(&image);
            let near = session.get(pool.root())?.near.expect("a pointer");
            let far = session.get(near)?.far.expect("a pointer");
            let leaf = session.get(far)?.leaf.expect("a pointer");
            Ok(session.get(leaf)?.value)
        });
        assert_eq!(value, Ok(-5), "{cut}");
        assert_eq!(image.load::<u64>(Addr::pm(0)), u64::from_le_bytes(*b"SEAWALL\0"));
    }
}
