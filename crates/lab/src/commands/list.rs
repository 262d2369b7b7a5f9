//! What there is, in words: designs, workloads, kernels, machines, figures, models, known
//! bugs, experiments, litmus tests, applications.

use crate::LabError;
use crate::commands::sweep::{EXPERIMENTS, SweepPlan};
use crate::commands::whisper;
use crate::figures::Figure;
use clap::ValueEnum;
use seawall_corpus::all_cases;
use seawall_explore::litmus::suite;
use seawall_memory::Model;
use seawall_report::{columns_at_most, plain_table, text_of};
use seawall_sim::{Choice, DESIGNS, MACHINES, Machine, MachineError, read_description};
use seawall_workloads::{Accepts, CHECKPOINTED, KERNELS, MIXES, WORKLOADS};
use std::fmt::Write;
use std::path::Path;

/// Columns of what is shown, at most.
const COLUMNS: usize = 100;

/// Everything that can be named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Listing {
    /// Persistency designs
    Designs,
    /// Workloads
    Workloads,
    /// Parallel kernels
    Kernels,
    /// Machines
    Machines,
    /// Figures of the papers
    Figures,
    /// Persistency models
    Models,
    /// Mixes of requests
    Mixes,
    /// Programs with known bugs
    Corpus,
    /// Experiments that vary numbers (`seawall sweep`)
    Experiments,
    /// Litmus tests
    Litmus,
    /// Applications of WHISPER
    Applications,
}

impl Listing {
    /// The names alone, in the order of the list.
    pub fn names(self) -> Vec<String> {
        let of = |name: &str| name.to_owned();
        match self {
            Listing::Designs => DESIGNS.iter().map(|design| of(design.name)).collect(),
            Listing::Workloads => WORKLOADS.iter().map(|workload| of(workload.name)).collect(),
            Listing::Kernels => {
                KERNELS.iter().chain(CHECKPOINTED).map(|kernel| of(kernel.name)).collect()
            }
            Listing::Machines => MACHINES.iter().map(|(name, _)| of(name)).collect(),
            Listing::Figures => Figure::known().iter().map(|figure| of(figure.name())).collect(),
            Listing::Models => Model::all().map(|model| of(model.name())).collect(),
            Listing::Mixes => MIXES.iter().map(|mix| of(mix.name)).collect(),
            Listing::Corpus => all_cases().map(|case| of(case.about().name)).collect(),
            Listing::Experiments => EXPERIMENTS.iter().map(|(name, _)| of(name)).collect(),
            Listing::Litmus => suite().into_iter().map(|test| test.id).collect(),
            Listing::Applications => whisper::applications(),
        }
    }

    /// Names with a line each.
    ///
    /// # Errors
    /// Never, with what comes with seawall.
    pub fn to_text(self) -> Result<String, LabError> {
        Ok(match self {
            Listing::Designs => designs(),
            Listing::Workloads => workloads()?,
            Listing::Kernels => kernels(),
            Listing::Machines => machines()?,
            Listing::Figures => figures(),
            Listing::Corpus => corpus(),
            Listing::Models => models(),
            Listing::Mixes => mixes(),
            Listing::Experiments => experiments(),
            Listing::Litmus => litmus(),
            Listing::Applications => applications(),
        })
    }
}

fn designs() -> String {
    let mut table = plain_table(&["design", "model", "what it is"], 0..0);
    for design in DESIGNS {
        table.add_row(vec![design.name, design.model.map_or("none", Model::name), design.about]);
    }
    text_of(&table)
}

fn workloads() -> Result<String, LabError> {
    let mut running_all = Vec::new();
    for (name, _) in MACHINES {
        if Machine::load(name)?.all_workloads {
            running_all.push(*name);
        }
    }
    let running_all = running_all.join(" and ");
    let mut table = plain_table(&["workload", "entries", "searches", "what it does"], 1..3);
    for workload in WORKLOADS {
        let about = match (workload.default, workload.in_all) {
            (true, _) => workload.about.to_owned(),
            (false, true) => format!("{} (when named, or on {running_all})", workload.about),
            (false, false) => format!("{} (when named)", workload.about),
        };
        let searches = format!("{} %", workload.search_percent);
        let entries = workload.entries.to_string();
        table.add_row(vec![workload.name.to_owned(), entries, searches, about]);
    }
    Ok(text_of(&table))
}

fn kernels() -> String {
    let mut table = plain_table(&["kernel", "quick", "full", "of", "what it does"], 1..3);
    for kernel in KERNELS.iter().chain(CHECKPOINTED) {
        let sizes = [kernel.quick, kernel.size].map(|size| size.to_string());
        let [quick, full] = sizes;
        let named = if CHECKPOINTED.contains(kernel) { " (when named)" } else { "" };
        let about = format!("{}{named}", kernel.about);
        let (name, unit) = (kernel.name.into(), kernel.unit.into());
        table.add_row(vec![name, quick, full, unit, about]);
    }
    text_of(&table)
}

fn machines() -> Result<String, LabError> {
    let mut table = plain_table(&["machine", "cores", "what it is"], 1..2);
    for (name, _) in MACHINES {
        let machine = Machine::load(name)?;
        table.add_row(vec![name.to_string(), machine.core.count.to_string(), machine.about]);
    }
    Ok(text_of(&table) + "or the path of a .toml file: start from `seawall show machine NAME`\n")
}

fn figures() -> String {
    let mut table = plain_table(&["figure", "what it shows, and where the paper says so"], 0..0);
    for figure in Figure::known() {
        let (title, source) = figure.about();
        table.add_row(vec![figure.name(), title]);
        table.add_row(vec!["", source]);
    }
    text_of(&table)
}

fn corpus() -> String {
    let mut table =
        plain_table(&["case", "kind", "what goes wrong, and where it is documented"], 0..0);
    for about in all_cases().map(|case| case.about()) {
        table.add_row(vec![about.name.to_owned(), about.kind.to_string(), about.what.to_owned()]);
        table.add_row(vec![String::new(), String::new(), about.source.to_owned()]);
    }
    text_of(&table)
}

fn experiments() -> String {
    let mut table = plain_table(&["experiment", "points", "what it varies"], 1..2);
    for (name, _) in EXPERIMENTS {
        let plan = SweepPlan::new(name, None, None).expect("it comes with seawall");
        let (points, title) = (plan.points().to_string(), plan.title().to_owned());
        table.add_row(vec![(*name).to_owned(), points, title]);
    }
    text_of(&table)
}

fn litmus() -> String {
    let mut table = plain_table(&["test", "family", "what it shows"], 0..0);
    for test in suite() {
        table.add_row(vec![test.id, test.family, test.title]);
    }
    text_of(&table)
}

fn applications() -> String {
    let mut table = plain_table(&["application", "what it does"], 0..0);
    for name in whisper::applications() {
        let about = WORKLOADS.iter().find(|entry| entry.name == name).map(|entry| entry.about);
        table.add_row(vec![&*name, about.unwrap_or_default()]);
    }
    text_of(&table)
}

fn models() -> String {
    let mut table = plain_table(&["model", "what it is"], 0..0);
    for model in Model::all() {
        table.add_row(vec![model.name(), model.about()]);
    }
    text_of(&table)
}

fn mixes() -> String {
    let headers = ["mix", "reads", "updates", "inserts", "scans", "rmw", "what it stands for"];
    let mut table = plain_table(&headers, 1..6);
    for mix in MIXES {
        let shares = [mix.reads, mix.updates, mix.inserts, mix.scans, mix.read_modify_writes];
        let shares = shares.map(|share| format!("{share} %"));
        let row = [mix.name.to_owned()].into_iter().chain(shares);
        table.add_row(row.chain([mix.about.to_owned()]).collect::<Vec<_>>());
    }
    let able = WORKLOADS.iter().filter(|entry| entry.accepts != Accepts::Own);
    let able: Vec<&str> = able.map(|entry| entry.name).collect();
    let last = format!("run {} with one: `seawall run level --mix ycsb-a`", able.join(", "));
    text_of(&table) + &last + "\n"
}

/// A design: what it is, what it promises, and each parameter with its value and its meaning.
/// `name` may set some, as in `lbpp:epochs=4`.
///
/// # Errors
/// When there is no such design.
pub fn show_design(name: &str) -> Result<String, LabError> {
    let choice = Choice::parse(name)?;
    let entry = choice.entry;
    let mut text = format!("{}: {}\n", entry.name, entry.about);
    let _ = writeln!(text, "model: {}, {}", choice.model_name(), promise(choice.model()));
    if let Some(given_up) = entry.model.filter(|_| choice.model().is_none()) {
        let _ = writeln!(text, "  (these parameters give up {given_up})");
    }
    if entry.docs.is_empty() {
        return Ok(text + "no parameters\n");
    }
    let values = choice.all_parameters();
    let setting = |name: &str| values.get(name).map_or(String::new(), |v| format!("{name} = {v}"));
    let width = entry.docs.iter().map(|doc| setting(doc.name).len()).max().unwrap_or(0);
    let columns = columns_at_most(COLUMNS);
    let _ = writeln!(text, "parameters, as in `{}:key=value`:", entry.name);
    for doc in entry.docs {
        let range = doc.range.map_or(String::new(), |(low, high)| format!(" ({low} to {high})"));
        let about = doc.about.trim_end_matches('.');
        let mut setting = setting(doc.name);
        for line in wrap(&format!("{about}{range}"), columns.saturating_sub(width + 6)) {
            let _ = writeln!(text, "  {setting:width$}  # {line}");
            setting.clear();
        }
    }
    Ok(text)
}

/// Lines of at most `width` characters, where the words allow it.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn promise(model: Option<Model>) -> &'static str {
    let Some(model) = model else { return "nothing that a program could rely on" };
    match model {
        Model::Strict => "stores persist in the order in which they become visible",
        Model::Px86 => "flushed lines persist by the next fence of the thread",
        Model::Epoch => "epochs persist in order, and a barrier waits for the one before it",
        Model::Bep | Model::Hops => "epochs persist in order, some time later",
        Model::Strand => {
            "epochs of a strand persist in order, some time later; strands in any order"
        }
        Model::Bsp => "a crash leaves a consistent cut of the run, once the hardware has recovered",
        Model::Eadr => "what a store has made visible survives",
    }
}

/// A machine as a TOML file that can be copied and changed: every key with its value, its unit,
/// and where it comes from.
///
/// # Errors
/// When there is no such machine, or its file is wrong.
pub fn show_machine(name: &str) -> Result<String, LabError> {
    let machine = Machine::load(name)?;
    let text = match MACHINES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => (*text).to_owned(),
        // With other numbers it is in no file, so that nothing says where they come from.
        None if Machine::base(name) != name => toml::to_string(&machine).unwrap_or_default(),
        None => read_description(Path::new(name))
            .map_err(|source| MachineError::Read { path: name.into(), source })?,
    };
    let mut shown = format!(
        "# {name}: {} sets in each L1,{} {} in each LLC bank, a mesh of {} x {}\n",
        machine.l1_sets(),
        machine.l2.map_or(String::new(), |l2| format!(" {} in each L2,", l2.sets())),
        machine.llc_sets(),
        machine.mesh.rows,
        machine.columns(),
    );
    let mut table = "";
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix('[') {
            table = name.split(']').next().unwrap_or_default();
        }
        let _ = writeln!(shown, "{}", with_unit(table, line));
    }
    Ok(shown)
}

/// Adds the unit to a line `key = value`, before the comment with its origin.
fn with_unit(table: &str, line: &str) -> String {
    let (setting, origin) = match line.split_once('#') {
        Some((setting, origin)) => (setting.trim_end(), Some(origin.trim())),
        None => (line.trim_end(), None),
    };
    let Some((key, _)) = setting.split_once('=') else { return line.to_owned() };
    let unit = unit(table, key.trim());
    let comment = match (unit, origin) {
        ("", None) => return setting.to_owned(),
        ("", Some(origin)) => origin.to_owned(),
        (unit, None) => unit.to_owned(),
        (unit, Some(origin)) => format!("{unit}; {origin}"),
    };
    format!("{setting:<24} # {comment}")
}

fn unit(table: &str, key: &str) -> &'static str {
    match (table, key) {
        ("memory.nvm.dimms", key) => unit_of_dimms(key),
        ("", "ghz") => "GHz, core clock",
        ("core", "count") => "cores, one hardware thread each",
        ("core", "width") => "instructions per cycle",
        ("core", "rob" | "store_buffer") => "entries",
        ("core", "parallelism") => "instructions issued in 1000 cycles, at most",
        ("core", "mshrs") => "lines outstanding per core",
        ("core", "stores_in_flight") => "stores on their way to the first level",
        ("core", "flushes") => "flushed lines on their way per core",
        ("core", "write_combining") | ("prefetch", "ahead") => "lines",
        ("prefetch", "streams") => "pages of 4 KiB",
        ("prefetch", "per_request") => "lines for a request",
        ("core", "combining_leave") | ("memory", "post" | "bank_cycles") => "cycles",
        (_, "kib" | "kib_per_bank") => "KiB",
        (_, "ways") => "lines per set",
        ("llc" | "memory", "banks") => "banks",
        ("mesh", "rows") => "rows of tiles",
        (_, "flit_bytes") => "bytes, one flit per cycle and link",
        ("memory", "controllers") => "controllers",
        (_, "write_queue") => "lines",
        (_, "line_cycles" | "write_line_cycles") => "cycles of the channel per line",
        (_, "latency" | "port_cycles" | "router_latency" | "link_latency" | "read" | "write") => {
            "cycles"
        }
        _ => "",
    }
}

fn unit_of_dimms(key: &str) -> &'static str {
    match key {
        "count" => "DIMMs",
        "channel_cycles" => "cycles of the channel per line",
        "write_queue" => "lines per DIMM",
        "combining_sets" => "sets per DIMM",
        "combining_lines" => "lines per set",
        "buffer_xplines" | "media_queue" => "XPLines per DIMM",
        "translated_pages" => "pages of 4 KiB per DIMM",
        "translated_ways" => "pages per set",
        "fetch" | "translate" | "media_read" => "cycles",
        "media_read_cycles" | "media_write_cycles" => "cycles of the media per XPLine",
        "wear_block_kib" => "KiB",
        "wear_writes" => "writes of an XPLine",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_machine_is_a_machine_again() {
        let changed = ["micro15:ghz=2.5:llc.banks=16", "desktop:memory.nvm.read=7"];
        for name in MACHINES.iter().map(|(name, _)| *name).chain(changed) {
            let shown = show_machine(name).unwrap();
            assert_eq!(Machine::parse(name, &shown).unwrap(), Machine::load(name).unwrap());
        }
        let shown = show_machine(changed[0]).unwrap();
        assert!(shown.contains("banks = 16               # banks"), "{shown}");
    }

    #[test]
    fn every_number_of_a_machine_has_a_unit() {
        for (name, text) in MACHINES {
            let mut table = String::new();
            for line in text.lines().map(|line| line.split('#').next().unwrap_or_default()) {
                if let Some(name) = line.trim().strip_prefix('[') {
                    table = name.trim_end_matches(']').to_owned();
                } else if let Some((key, value)) = line.split_once('=') {
                    let key = key.trim();
                    let is_number = value.trim().parse::<f64>().is_ok();
                    assert!(!is_number || !unit(&table, key).is_empty(), "{name}: {key}");
                }
            }
        }
    }

    #[test]
    fn each_name_of_a_list_stands_in_its_text() {
        for listing in Listing::value_variants() {
            let (names, text) = (listing.names(), listing.to_text().unwrap());
            assert!(!names.is_empty(), "{listing:?}");
            let is_there = |name: &String| text.split_whitespace().any(|word| word == name);
            assert!(names.iter().all(is_there), "{listing:?}: {names:?}");
        }
    }

    #[test]
    fn everything_that_is_listed_is_listed_by_its_name() {
        let text = |listing: Listing| listing.to_text().unwrap();
        assert!(DESIGNS.iter().all(|design| text(Listing::Designs).contains(design.name)));
        assert!(WORKLOADS.iter().all(|entry| text(Listing::Workloads).contains(entry.name)));
        assert!(KERNELS.iter().all(|entry| text(Listing::Kernels).contains(entry.name)));
        assert!(text(Listing::Workloads).contains("(when named, or on hops17 and asap22)"));
        assert!(text(Listing::Machines).contains("micro15"));
        assert!(text(Listing::Figures).contains("micro15-fig11"));
    }

    #[test]
    fn a_design_is_shown_with_its_model_and_parameters() {
        let text = show_design("lbpp").unwrap();
        assert!(text.contains("model: bep") && text.contains("epochs = 8"), "{text}");
        assert!(text.contains("# Epochs in flight per core (2 to 64)"), "{text}");
        assert!(text.lines().all(|line| line.len() <= COLUMNS), "{text}");
        assert!(show_design("lbp").is_err());
    }

    #[test]
    fn every_parameter_of_every_design_is_shown_with_what_it_says() {
        for design in DESIGNS {
            let values = (design.parameters)();
            let named: Vec<&str> = design.docs.iter().map(|doc| doc.name).collect();
            assert_eq!(named.len(), values.len(), "{}", design.name);
            for doc in design.docs {
                assert!(values.contains_key(doc.name) && !doc.about.is_empty(), "{}", doc.name);
            }
        }
    }

    #[test]
    fn what_a_design_gives_up_without_its_log_is_said() {
        let shown = show_design("bsp-lbpp").unwrap();
        assert!(shown.contains("`log=false` gives up atomic epochs"), "{shown}");
        assert!(!shown.contains("these parameters give up"), "{shown}");
        let shown = show_design("bsp-lbpp:log=false").unwrap();
        assert!(shown.contains("model: none") && shown.contains("give up bsp"), "{shown}");
        assert!(shown.contains("log = false"), "{shown}");
    }
}
