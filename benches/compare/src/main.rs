//! seawall and libpmemobj side by side: the same operations, in one process, on the same file
//! system, in alternating rounds. See `README.md` in this package.

#![deny(unsafe_code)]

mod child;
mod contender;
mod counts;
mod floor;
mod fragmentation;
mod groups;
mod host;
mod keys;
mod ours;
mod pmdk;
mod replacement;
mod report;
mod rounds;
mod targets;
mod theirs;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use groups::{KINDS, Kind, Sizes};
use rounds::Measured;
use seawall_bench_common::JsonFile;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use targets::Comparison;

const FULL_KEYS: usize = 1_000_000;
const FULL_OBJECTS: u64 = 1_000_000;

/// Measures seawall and libpmemobj side by side, in alternating rounds, and prints medians and
/// ratios.
#[derive(Parser, Debug)]
#[command(version, after_help = "Exit code: 0 when everything was measured, 2 when not.")]
struct Args {
    /// Folder for the pools of both sides; its file system is part of the result
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
    /// Operations of each thread in a round
    #[arg(long, default_value_t = 10_000)]
    ops: u64,
    /// Rounds that count
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Most threads: 2 measures with one and with two in the same rounds. With --replacement the
    /// numbers of threads, up to 16, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1",
        value_parser = clap::value_parser!(u64).range(1..=replacement::THREADS_MAX))]
    threads: Vec<u64>,
    /// Keys of the maps
    #[arg(long, default_value_t = 200_000)]
    keys: usize,
    /// A million keys, and a million objects in the pool that is reopened
    #[arg(long)]
    full: bool,
    /// Only these groups, separated by commas (--list shows all)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Lists the groups
    #[arg(long)]
    list: bool,
    /// Also writes all numbers to this file, as JSON Lines
    #[arg(long)]
    json: Option<PathBuf>,
    /// Measures a heap that grows and shrinks instead; this many objects stay
    #[arg(long, value_name = "OBJECTS", num_args = 0..=1, default_missing_value = "50000",
        value_parser = clap::value_parser!(u64).range(100..=fragmentation::OBJECTS_MAX))]
    fragmentation: Option<u64>,
    /// Measures programs of libpmemobj on Debian's library and on ours instead
    #[arg(long)]
    replacement: bool,
    #[arg(long, hide = true)]
    count: bool,
    #[arg(long, hide = true, requires = "pool")]
    die_in: Option<child::Side>,
    #[arg(long, hide = true)]
    pool: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match child::with_environment().and_then(|()| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if let (Some(side), Some(pool)) = (args.die_in, &args.pool) {
        return die(side, pool);
    }
    if args.list {
        for kind in KINDS {
            println!("{:12} {}", kind.name, kind.about);
        }
        return Ok(());
    }
    ensure!(args.ops > 0, "--ops 0: a round needs at least one operation");
    ensure!(args.rounds > 0, "--rounds 0: a median needs at least one round");
    let most = args.threads.iter().max().copied().unwrap_or(1);
    let keys_min = 8 * most as usize;
    ensure!(args.keys >= keys_min, "--keys {}: the maps need at least {keys_min}", args.keys);
    let kinds = chosen(&args.only)?;
    let folder = tempfile::Builder::new().prefix("seawall-compare-").tempdir_in(&args.dir);
    let folder = folder.with_context(|| {
        format!("cannot make a folder in {}; choose another one with --dir", args.dir.display())
    })?;
    if let Some(objects) = args.fragmentation {
        return fragment(args, objects, folder.path());
    }
    if args.replacement {
        return replace(args, folder.path());
    }
    ensure!(most <= 2, "--threads {most}: more than 2 are only for --replacement");
    if args.count {
        return count(args, &kinds, folder.path());
    }
    compare(args, &kinds, folder.path())
}

/// The groups that are named, or all.
fn chosen(names: &[String]) -> Result<Vec<&'static Kind>> {
    let mut kinds = Vec::new();
    for name in names {
        let Some(kind) = KINDS.iter().find(|kind| kind.name == name) else {
            let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            bail!("--only {name}: no such group; there are {}", known.join(", "));
        };
        kinds.push(kind);
    }
    Ok(if names.is_empty() { KINDS.iter().collect() } else { kinds })
}

fn sizes<'a>(args: &Args, folder: &'a Path) -> Sizes<'a> {
    Sizes {
        folder,
        operations: args.ops,
        keys: if args.full { FULL_KEYS } else { args.keys },
        objects: if args.full { FULL_OBJECTS } else { FULL_OBJECTS / 10 },
        threads: args.threads.iter().max().map_or(1, |&most| most as usize),
        is_theirs_only: args.count,
    }
}

fn measure(
    kind: &'static Kind,
    sizes: &Sizes<'_>,
    threads: &[usize],
    rounds: usize,
) -> Result<Vec<Measured>> {
    let group = kind.make(sizes);
    let mut group = group.with_context(|| format!("cannot set up {}", kind.name))?;
    let threads = if kind.has_threads { threads } else { &[1] };
    let measured = rounds::run(kind.name, &mut group, threads, rounds)?;
    for file in &group.files {
        std::fs::remove_file(file)?;
    }
    Ok(measured)
}

/// The work of the counting child.
fn count(args: &Args, kinds: &[&'static Kind], folder: &Path) -> Result<()> {
    for kind in kinds {
        let measured = measure(kind, &sizes(args, folder), &[1], 1)?;
        print!("{}", counts::lines(&measured));
    }
    Ok(())
}

fn compare(args: &Args, kinds: &[&'static Kind], folder: &Path) -> Result<()> {
    let json = args.json.as_deref().map(JsonFile::create).transpose()?;
    let host = host::Host::of(folder)?;
    host.lines().iter().for_each(|line| println!("{line}"));
    let sizes = sizes(args, folder);
    let threads: Vec<usize> = (1..=sizes.threads).collect();
    println!(
        "medians of {} rounds in turns; {} operations, {} keys, {} objects\n",
        args.rounds, args.ops, sizes.keys, sizes.objects
    );
    let mut all = Vec::new();
    for kind in kinds {
        eprintln!("measuring {}", kind.name);
        let mut measured = measure(kind, &sizes, &threads, args.rounds)?;
        if kind.has_threads {
            let mut arguments = vec!["--dir".into(), args.dir.display().to_string()];
            arguments.extend(["--keys".into(), sizes.keys.to_string()]);
            counts::add(&mut measured, kind.name, &arguments)?;
        }
        all.extend(measured);
    }
    let comparisons = targets::comparisons(&all);
    println!("{}\n{}", report::table(&all), report::ratios(&comparisons));
    finish(json, &host, report::records(&all), &comparisons)
}

fn replace(args: &Args, folder: &Path) -> Result<()> {
    let json = args.json.as_deref().map(JsonFile::create).transpose()?;
    let host = host::Host::of(folder)?;
    host.lines().iter().for_each(|line| println!("{line}"));
    println!(
        "medians of {} rounds in turns, each a process; {} calls a thread, {} keys in all\n",
        args.rounds, args.ops, args.keys
    );
    let keys = args.keys as u64;
    let all = replacement::run(folder, &args.threads, args.ops, keys, args.rounds)?;
    println!("{}", all.tables());
    finish(json, &host, all.records(), &[])
}

fn fragment(args: &Args, objects: u64, folder: &Path) -> Result<()> {
    let json = args.json.as_deref().map(JsonFile::create).transpose()?;
    let host = host::Host::of(folder)?;
    host.lines().iter().for_each(|line| println!("{line}"));
    println!(
        "medians of {} rounds in turns; {objects} objects of 128 bytes stay; pages and file in \
         bytes for each byte of an object\n",
        args.rounds
    );
    let all = fragmentation::run(folder, objects, args.rounds)?;
    let comparisons = fragmentation::comparisons(&all);
    println!("{}\n{}", fragmentation::table(&all), report::ratios(&comparisons));
    finish(json, &host, fragmentation::records(&all), &comparisons)
}

/// Writes the records, if requested.
fn finish(
    json: Option<JsonFile>,
    host: &host::Host,
    measured: Vec<Value>,
    comparisons: &[Comparison],
) -> Result<()> {
    let Some(json) = json else { return Ok(()) };
    let ratios = report::ratio_records(comparisons);
    let records: Vec<Value> = [vec![host.record()], measured, ratios].concat();
    json.finish(&records)
}

/// What a child does that is to be killed.
///
/// # Errors
/// Always, when it returns.
fn die(side: child::Side, path: &Path) -> Result<()> {
    match side {
        child::Side::Theirs => pmdk::die_in_transaction(path),
        child::Side::Ours => ours::die_in_transaction(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_group_lists_the_known_ones() {
        let error = chosen(&["tx-65".to_string()]).err().unwrap().to_string();
        assert!(error.contains("tx-65") && error.contains("four-ranges"), "{error}");
        assert_eq!(chosen(&[]).unwrap().len(), KINDS.len());
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
