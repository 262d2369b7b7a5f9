//! A stack that links a plate before it counts it, in two transactions; and the exploration that
//! finds the crash between them. `cargo run --features explore --example find_the_bug`

use seawall::{Access, Error, Exploration, Memory, Persist, Ptr, Thread, explore};

#[derive(Clone, Copy, Persist)]
struct Stack<'p> {
    top: Option<Ptr<'p, Plate<'p>>>,
    height: u64,
}

#[derive(Clone, Copy, Persist)]
struct Plate<'p> {
    below: Option<Ptr<'p, Plate<'p>>>,
}

fn push<M: Memory>(stack: &mut Thread<'_, Stack<'_>, M>, is_broken: bool) -> Result<(), Error> {
    stack.transaction(|tx, root| {
        let below = tx.get(root.at(Stack::TOP))?;
        let plate = tx.alloc(Plate { below })?;
        tx.set(root.at(Stack::TOP), Some(plate))?;
        if is_broken { Ok(()) } else { tx.update(root.at(Stack::HEIGHT), |height| height + 1) }
    })?;
    if is_broken {
        stack.transaction(|tx, root| tx.update(root.at(Stack::HEIGHT), |height| height + 1))?;
    }
    Ok(())
}

/// How many plates there are, and how many it says.
fn heights<'p, A: Access<'p>>(
    access: &mut A,
    root: Ptr<'p, Stack<'p>>,
) -> Result<(u64, u64), A::Error> {
    let stack = access.read(root)?;
    let (mut plates, mut next) = (0, stack.top);
    while let Some(plate) = next {
        plates += 1;
        next = access.read(plate)?.below;
    }
    Ok((plates, stack.height))
}

fn explored(is_broken: bool) -> Result<seawall::Explored, seawall::ExploreError> {
    explore::<Stack, _>(
        &Exploration::default(),
        |_| Ok(()),
        move |stack| {
            for number in 0..3 {
                push(stack, is_broken)?;
                stack.output(number);
            }
            Ok(())
        },
        |stack| stack.read(|view, root| heights(view, root)),
        |(plates, height), crash| match plates == height && *plates >= crash.outputs[0] {
            true => Ok(()),
            false => Err(format!("{plates} plates, and it says {height}")),
        },
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("in one transaction: {}", explored(false)?);
    let finding = explored(true).expect_err("a crash can come between the two");
    println!("\nin two:\n{finding}");
    assert!(finding.to_string().contains("1 plates, and it says 0"));
    Ok(())
}

#[cfg(test)]
#[test]
fn it_ends_well() {
    main().unwrap();
}
