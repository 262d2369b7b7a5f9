//! Threads that transfer money: none is lost. `cargo run --example bank`

use seawall::{Error, Memory, Options, Persist, Thread};

const ACCOUNTS: usize = 64;

#[derive(Clone, Copy, Persist)]
struct Bank {
    cents: [i64; ACCOUNTS],
}

/// For a thread of any machine.
fn transfer<M: Memory>(
    bank: &mut Thread<'_, Bank, M>,
    (from, to): (usize, usize),
    amount: i64,
) -> Result<bool, Error> {
    bank.transaction(|tx, root| {
        let accounts = root.at(Bank::CENTS);
        if from == to || tx.get(accounts.index(from))? < amount {
            return Ok(false);
        }
        tx.update(accounts.index(from), |cents| cents - amount)?;
        tx.update(accounts.index(to), |cents| cents + amount)?;
        Ok(true)
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let pool = seawall::open::<Bank>(folder.path().join("bank.pool"), Options::default())?;
    pool.transaction(|tx, root| tx.set(root, Bank { cents: [1000; ACCOUNTS] }))?;
    let done: Result<Vec<u32>, Error> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let pool = &pool;
                scope.spawn(move || {
                    pool.work(|bank| {
                        let mut done = 0;
                        for step in 0..1000 {
                            let pair = (step * 7 + thread) % ACCOUNTS;
                            let is_done = transfer(bank, (pair, step % ACCOUNTS), 10)?;
                            done += u32::from(is_done);
                        }
                        Ok(done)
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    let cents = pool.read(|view, root| view.get(root.at(Bank::CENTS)))?;
    println!("{} transfers; {} cents", done?.iter().sum::<u32>(), cents.iter().sum::<i64>());
    assert_eq!(cents.iter().sum::<i64>(), 1000 * ACCOUNTS as i64);
    Ok(())
}

#[cfg(test)]
#[test]
fn it_ends_well() {
    main().unwrap();
}
