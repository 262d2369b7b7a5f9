//! seawall beside other embedded stores of Rust: the same keys and values, in one process, on the
//! same file system, in alternating rounds. See `README.md` in this package.

mod kill;
mod measure;
mod report;
mod store;
mod stores;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use measure::Sizes;
use seawall_bench_common::JsonFile;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use store::Contender;
use stores::CONTENDERS;

/// Measures seawall, redb, LMDB, fjall and sled in alternating rounds, and prints medians and
/// ratios.
#[derive(Parser, Debug)]
#[command(version, after_help = "Exit code: 0 when everything was measured, 2 when not.")]
struct Args {
    /// Folder for the stores; its file system is part of the result
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
    /// Entries that a store has before it is measured
    #[arg(long, default_value_t = 100_000)]
    keys: usize,
    /// Operations of each thread in a round; scans and large transactions less often
    #[arg(long, default_value_t = 4000)]
    ops: usize,
    /// Rounds that count
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Most threads: 2 measures with one and with two
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=2))]
    threads: u64,
    /// Only these stores, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Small numbers, to see that it runs
    #[arg(long)]
    quick: bool,
    /// Kills a process of each store instead, and counts what is left of what it committed
    #[arg(long)]
    kill: bool,
    /// Also writes all numbers to this file, as JSON Lines
    #[arg(long)]
    json: Option<PathBuf>,
    #[arg(long, hide = true, requires = "store")]
    die_in: Option<usize>,
    #[arg(long, hide = true)]
    store: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if let (Some(index), Some(folder)) = (args.die_in, &args.store) {
        return kill::die(&CONTENDERS[index], folder);
    }
    ensure!(args.rounds > 0, "--rounds 0: a median needs at least one round");
    ensure!(args.ops > 0, "--ops 0: a round needs at least one operation");
    ensure!(args.keys > measure::SCANNED, "--keys {}: a scan needs more", args.keys);
    let chosen = chosen(&args.only)?;
    let folder = tempfile::Builder::new().prefix("seawall-stores-").tempdir_in(&args.dir);
    let folder = folder.with_context(|| {
        format!("cannot make a folder in {}; choose another one with --dir", args.dir.display())
    })?;
    let json = args.json.as_deref().map(JsonFile::create).transpose()?;
    let mut records = vec![report::host(folder.path())];
    println!("{}\n", report::host_line(folder.path()));
    if args.kill {
        let left = kill::run(&chosen, folder.path())?;
        print!("{}", kill::table(&left));
        records.extend(kill::records(&left));
    } else {
        let measured = measured(args, &chosen, folder.path())?;
        print!("{}", report::tables(&measured));
        records.extend(report::records(&measured));
    }
    json.map_or(Ok(()), |json| json.finish(&records))
}

fn measured(
    args: &Args,
    chosen: &[&'static Contender],
    folder: &Path,
) -> Result<Vec<measure::Measured>> {
    let quick = Sizes { keys: 2000, operations: 200 };
    let sizes = Sizes { keys: args.keys, operations: args.ops };
    let (sizes, rounds) = if args.quick { (quick, 1) } else { (sizes, args.rounds) };
    println!(
        "medians of {rounds} rounds in turns; {} keys of 8 bytes, values of 64; {} operations\n",
        sizes.keys, sizes.operations
    );
    let mut all = Vec::new();
    for threads in 1..=args.threads as usize {
        all.extend(measure::run(chosen, folder, &sizes, threads, rounds)?);
    }
    Ok(all)
}

/// The contenders of the stores that are named, or all.
fn chosen(names: &[String]) -> Result<Vec<&'static Contender>> {
    let is_of = |name: &str, contender: &Contender| contender.store.eq_ignore_ascii_case(name);
    for name in names {
        if !CONTENDERS.iter().any(|contender| is_of(name, contender)) {
            let mut known: Vec<&str> = CONTENDERS.iter().map(|contender| contender.store).collect();
            known.sort_unstable();
            known.dedup();
            bail!("--only {name}: no such store; there are {}", known.join(", "));
        }
    }
    let is_chosen = |contender: &&Contender| {
        names.is_empty() || names.iter().any(|name| is_of(name, contender))
    };
    Ok(CONTENDERS.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_store_lists_the_known_ones() {
        let error = chosen(&["lsm".to_string()]).err().unwrap().to_string();
        assert!(error.contains("lsm") && error.contains("LMDB"), "{error}");
        assert_eq!(chosen(&["lmdb".to_string()]).unwrap().len(), 2);
        assert_eq!(chosen(&[]).unwrap().len(), CONTENDERS.len());
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
