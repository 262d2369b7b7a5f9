//! `--profile`: which lines of the program its time goes to, and why.

use super::sites::{self, Line};
use super::{ProgramCell, Programs};
use crate::engine::spent::short;
use comfy_table::Table;
use seawall_program::{CodeAddress, LINES_SHOWN, PlaceTime};
use seawall_report::{plain_table, text_of};
use seawall_sim::{Reason, SiteTime};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::PathBuf;

/// Rows of a table.
const SHOWN: usize = 10;
/// Places of a record.
const RECORDED: usize = 100;
/// Reasons that are named, and the least share of the time of what is shown.
const NAMED_MAX: usize = 2;
const NAMED_SHARE_MIN: f64 = 0.005;
/// Columns of a name.
const FUNCTION_WIDTH: usize = 25;
const LINE_WIDTH: usize = 16;
const CALLS_WIDTH: usize = 42;
/// The design that others are held to.
const WITHOUT_PERSISTENCE: &str = "volatile";

/// What is at no line of the program: how threads begin and end.
const NOWHERE: &str = "(none)";

/// A line of the program, or a call there of a function that stands for the C library's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ProfilePlace {
    pub(super) function: String,
    pub(super) call: Option<String>,
    pub(super) file: String,
    pub(super) line: u32,
}

/// A function of the program that has called a place, and the file and line of its call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ProfileCaller {
    function: String,
    line: String,
}

/// A place of the program as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProfileRecord {
    /// The function that has the line.
    pub function: String,
    /// The function of the C library that is called there, if the time is that function's.
    pub call: Option<String>,
    /// The file, without its folders.
    pub file: String,
    /// The line; 0 if it is not known.
    pub line: u32,
    /// Cycles of all threads that went there; those in which they were idle are nowhere.
    pub cycles: u64,
    /// Those in which instructions were issued.
    pub busy: u64,
    /// The others by reason, where there are any.
    pub stalls: Map<String, Value>,
    /// Lines that its loads requested and memory answered.
    pub misses: u64,
    /// Accesses that had to wait for an epoch that was not durable.
    pub conflicts: u64,
    /// Its cycles by who has called it, the most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ProfileCalls>,
}

/// What the calls of a place by the same callers take.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProfileCalls {
    /// File and line of each caller, the innermost first.
    pub callers: Vec<String>,
    /// Cycles of all threads.
    pub cycles: u64,
}

/// A place with its callers, the innermost first.
type CalledPlace = (ProfilePlace, Vec<ProfileCaller>);

/// Where the cycles of a run went, the most first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Profile {
    lines: Vec<(ProfilePlace, SiteTime)>,
    calls: Vec<(CalledPlace, SiteTime)>,
}

/// The cycles by place, and by place and callers.
pub(super) fn profile(places: &[PlaceTime]) -> Profile {
    let mut modules: BTreeMap<&PathBuf, Vec<u64>> = BTreeMap::new();
    let of_place = |place: &PlaceTime| {
        let one = [&place.at, &place.caller, &place.called].map(Clone::clone);
        one.into_iter().flatten().chain(place.callers.iter().cloned()).collect::<Vec<_>>()
    };
    let instructions: Vec<CodeAddress> = places.iter().flat_map(of_place).collect();
    for CodeAddress { module, offset } in &instructions {
        modules.entry(module).or_default().push(*offset);
    }
    let mut lines: HashMap<(PathBuf, u64), Line> = HashMap::new();
    for (module, mut offsets) in modules {
        offsets.sort_unstable();
        offsets.dedup();
        let found = sites::lines(module, &offsets);
        lines.extend(offsets.into_iter().map(|at| (module.clone(), at)).zip(found));
    }
    let line = |at: &CodeAddress| &lines[&(at.module.clone(), at.offset)];
    let place = |place: &PlaceTime| {
        let own = place.caller.as_ref().or(place.at.as_ref());
        let Some(own) = own.map(line) else {
            let (function, file) = (NOWHERE.into(), String::new());
            return ProfilePlace { function, call: None, file, line: 0 };
        };
        // Nothing of the program has called it: a thread begins or ends.
        if place.caller.is_none() && own.is_support() {
            let (file, number) = own.file_and_line();
            let call = Some(own.outermost.clone());
            return ProfilePlace { function: NOWHERE.into(), call, file, line: number };
        }
        let library = place.called.as_ref().or(place.at.as_ref());
        let call = place.caller.as_ref().and(library).map(|at| line(at).outermost.clone());
        let (file, number) = own.file_and_line();
        ProfilePlace { function: own.function.clone(), call, file, line: number }
    };
    let calls = places.iter().map(|it| {
        let own = it.caller.as_ref().or(it.at.as_ref());
        ((place(it), callers(own.into_iter().chain(&it.callers).map(line))), it.time)
    });
    let calls = sorted(calls);
    let lines = sorted(calls.iter().map(|((place, _), time)| (place.clone(), *time)));
    Profile { lines, calls }
}

/// The lines that have called the first one, each once.
fn callers<'a>(lines: impl Iterator<Item = &'a Line>) -> Vec<ProfileCaller> {
    let named = |(file, line): (String, u32)| format!("{file}:{line}");
    let mut chain: Vec<ProfileCaller> = Vec::new();
    for (function, place) in lines.flat_map(Line::chain).filter(|(_, place)| place.1 > 0) {
        let caller = ProfileCaller { function: function.into(), line: named(place) };
        if chain.iter().all(|it| it.line != caller.line) && chain.len() < LINES_SHOWN {
            chain.push(caller);
        }
    }
    chain.drain(..1.min(chain.len()));
    chain
}

/// The same keys together, without idle time, the most cycles first.
fn sorted<K: Ord + Clone>(parts: impl Iterator<Item = (K, SiteTime)>) -> Vec<(K, SiteTime)> {
    let mut all: BTreeMap<K, SiteTime> = BTreeMap::new();
    for (key, mut time) in parts {
        time.stalls.0[Reason::Idle as usize] = 0;
        all.entry(key).or_default().add(&time);
    }
    let mut all: Vec<_> = all.into_iter().filter(|(_, time)| time.cycles() > 0).collect();
    all.sort_by_key(|(_, time)| std::cmp::Reverse(time.cycles()));
    all
}

/// What a place's time went to: cycles and a name, the most first.
fn reasons(time: &SiteTime) -> Vec<(u64, &'static str)> {
    let stalled = Reason::ALL.into_iter().map(|reason| (time.stalls.get(reason), short(reason)));
    let mut all: Vec<_> = stalled.chain([(time.busy, "busy")]).collect();
    all.sort_by_key(|(cycles, _)| std::cmp::Reverse(*cycles));
    all
}

fn mostly(time: &SiteTime, whole: u64) -> String {
    let share = |cycles: u64| cycles as f64 / whole.max(1) as f64;
    let named = reasons(time).into_iter().take(NAMED_MAX);
    let named = named.filter(|(cycles, _)| share(*cycles) >= NAMED_SHARE_MIN);
    let named = named.map(|(cycles, name)| format!("{name} {:.0}", 100.0 * share(cycles)));
    named.collect::<Vec<_>>().join(", ")
}

/// A name of at most so many columns; of a long one, its end.
fn fitting(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    format!("..{}", name.chars().skip(length - width + 2).collect::<String>())
}

impl ProfilePlace {
    fn what(&self) -> String {
        match &self.call {
            Some(call) => fitting(&format!("{}: {call}", self.function), FUNCTION_WIDTH),
            None => fitting(&self.function, FUNCTION_WIDTH),
        }
    }

    fn line(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            line => fitting(&format!("{}:{line}", self.file), LINE_WIDTH),
        }
    }

    /// Whose time it is: what is called, or the function itself.
    fn function(&self) -> &str {
        match &self.call {
            Some(call) if self.function != NOWHERE => call,
            _ => &self.function,
        }
    }
}

fn whole(profile: &Profile) -> u64 {
    profile.lines.iter().map(|(_, time)| time.cycles()).sum()
}

fn by_function(profile: &Profile) -> Vec<(String, SiteTime)> {
    sorted(profile.lines.iter().map(|(place, time)| (place.function().to_owned(), *time)))
}

/// The share of each row and of all so far, what it went to, counts, and how many more millions of
/// cycles it is than the baseline's `before`, if there is one.
struct Rows<'a> {
    table: &'a mut Table,
    whole: u64,
    so_far: u64,
}

impl Rows<'_> {
    fn add(&mut self, names: Vec<String>, time: &SiteTime, before: Option<u64>) {
        let cycles = time.cycles();
        self.so_far += cycles;
        let percent = |cycles: u64| format!("{:.0}", 100.0 * cycles as f64 / self.whole as f64);
        let mut row = vec![percent(cycles), percent(self.so_far)];
        row.extend(names);
        row.extend([mostly(time, self.whole), time.misses.to_string(), time.conflicts.to_string()]);
        row.extend(before.map(|before| format!("{:+.3}", (cycles as f64 - before as f64) / 1e6)));
        self.table.add_row(row);
    }
}

fn table(names: &[&str], has_before: bool) -> Table {
    let mut head = vec!["%", "sum"];
    head.extend(names);
    head.extend(["mostly", "misses", "confl."]);
    if has_before {
        head.push("more");
    }
    let mut table = plain_table(&head, 0..2);
    for column in head.len() - 2 - usize::from(has_before)..head.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    table
}

impl Programs {
    /// Where the time goes under each design, if that was asked for.
    pub(super) fn profile_text(&self) -> String {
        let cells = self.cells.iter().filter_map(|cell| Some((cell, cell.profile.as_ref()?)));
        let before = |program| {
            self.cell(program, WITHOUT_PERSISTENCE).and_then(|cell| cell.profile.as_ref())
        };
        let mut text = String::new();
        for (cell, profile) in cells {
            let is_without = cell.point.label() == WITHOUT_PERSISTENCE;
            let before = before(cell.point.program.number).filter(|_| !is_without);
            let said = cell.point.said();
            let _ = writeln!(text, "\nwhere the time goes {said}, by line\n");
            text += &text_of(&lines(profile, before));
            let _ = writeln!(text, "\nwhere the time goes {said}, by function\n");
            text += &text_of(&functions(profile, before));
            if let Some(calls) = calls(profile, before) {
                let _ = writeln!(text, "\nwhere the time goes {said}, by caller\n");
                text += &text_of(&calls);
            }
        }
        if text.is_empty() {
            return text;
        }
        text += "\n%, mostly: of the threads' time until each finishes, in %; it counts where the \
                 access is that a\nthread waits for; sum: with the rows above; misses: lines that \
                 loads got from memory;\nconfl.: accesses that waited for an epoch that was not \
                 durable\n";
        if before(0).is_some() && self.plan.designs().len() > 1 {
            text += "more: millions of cycles more than under volatile\n";
        }
        text
    }

    /// The lines of `--profile-folded`.
    pub(super) fn folded(&self) -> String {
        let mut text = String::new();
        let plain = |name: &str| name.replace(';', ",");
        for (cell, profile) in self.cells.iter().filter_map(|it| Some((it, it.profile.as_ref()?))) {
            let run = match cell.point.program.has_others {
                true => cell.point.said(),
                false => cell.point.label(),
            };
            for ((place, callers), time) in &profile.calls {
                let caller =
                    |it: &ProfileCaller| format!("{};{};", plain(&it.function), plain(&it.line));
                let callers: String = callers.iter().rev().map(caller).collect();
                let call = place.call.iter().map(|call| format!("{};", plain(call)));
                let line = place.line();
                let line = if line.is_empty() { NOWHERE.into() } else { plain(&line) };
                let (run, function) = (plain(&run), plain(&place.function));
                let stack = format!("{run};{callers}{function};{line};");
                let stack = stack + &call.collect::<String>();
                for (cycles, reason) in reasons(time).iter().filter(|(cycles, _)| *cycles > 0) {
                    let _ = writeln!(text, "{stack}{reason} {cycles}");
                }
            }
        }
        text
    }
}

/// The rows that a table has.
fn shown<K>(all: &[(K, SiteTime)], whole: u64) -> impl Iterator<Item = &(K, SiteTime)> {
    let has_share = move |time: &SiteTime| time.cycles() as f64 >= NAMED_SHARE_MIN * whole as f64;
    all.iter().take(SHOWN).filter(move |(_, time)| has_share(time))
}

fn lines(profile: &Profile, before: Option<&Profile>) -> Table {
    let mut table = table(&["function", "line"], before.is_some());
    let mut rows = Rows { table: &mut table, whole: whole(profile), so_far: 0 };
    for (place, time) in shown(&profile.lines, rows.whole) {
        let same = |before: &Profile| before.lines.iter().find(|it| it.0 == *place).map(|it| it.1);
        let before = before.map(|before| same(before).map_or(0, |time| time.cycles()));
        rows.add(vec![place.what(), place.line()], time, before);
    }
    table
}

fn functions(profile: &Profile, before: Option<&Profile>) -> Table {
    let mut table = table(&["function"], before.is_some());
    let mut rows = Rows { table: &mut table, whole: whole(profile), so_far: 0 };
    let before: Option<HashMap<String, SiteTime>> =
        before.map(|before| by_function(before).into_iter().collect());
    for (function, time) in shown(&by_function(profile), rows.whole) {
        let same = |before: &HashMap<String, SiteTime>| before.get(function).map(SiteTime::cycles);
        let before = before.as_ref().map(|before| same(before).unwrap_or(0));
        rows.add(vec![fitting(function, FUNCTION_WIDTH)], time, before);
    }
    table
}

/// A place with as many of its callers as fit, at least one.
fn with_callers((place, callers): &CalledPlace) -> String {
    let mut text = match &place.call {
        Some(call) => format!("{}: {call}", place.line()),
        None => place.line(),
    };
    for (number, caller) in callers.iter().enumerate() {
        let more = format!(" < {}", caller.line);
        if number > 0 && text.len() + more.len() > CALLS_WIDTH {
            break;
        }
        text += &more;
    }
    text
}

/// The places by caller; `None` if nothing that is shown has one.
fn calls(profile: &Profile, before: Option<&Profile>) -> Option<Table> {
    let mut table = table(&["line < its callers"], before.is_some());
    let mut rows = Rows { table: &mut table, whole: whole(profile), so_far: 0 };
    let mut has_callers = false;
    for (called, time) in shown(&profile.calls, rows.whole) {
        has_callers |= !called.1.is_empty();
        let same = |before: &Profile| before.calls.iter().find(|it| it.0 == *called).map(|it| it.1);
        let before = before.map(|before| same(before).map_or(0, |time| time.cycles()));
        rows.add(vec![with_callers(called)], time, before);
    }
    has_callers.then_some(table)
}

impl ProgramCell {
    /// The places with the most cycles.
    pub(super) fn profile_records(&self) -> Option<Vec<ProfileRecord>> {
        let profile = self.profile.as_ref()?;
        let calls = |of: &ProfilePlace| {
            let all = profile
                .calls
                .iter()
                .filter(|((place, callers), _)| place == of && !callers.is_empty());
            let calls = |((_, callers), time): &(CalledPlace, SiteTime)| ProfileCalls {
                callers: callers.iter().map(|caller| caller.line.clone()).collect(),
                cycles: time.cycles(),
            };
            all.take(SHOWN).map(calls).collect()
        };
        let record = |(place, time): &(ProfilePlace, SiteTime)| {
            let stalled =
                Reason::ALL.into_iter().map(|it| (it.name().to_owned(), time.stalls.get(it)));
            let stalled = stalled.filter(|(_, cycles)| *cycles > 0);
            ProfileRecord {
                function: place.function.clone(),
                call: place.call.clone(),
                file: place.file.clone(),
                line: place.line,
                cycles: time.cycles(),
                busy: time.busy,
                stalls: stalled.map(|(name, cycles)| (name, cycles.into())).collect(),
                misses: time.misses,
                conflicts: time.conflicts,
                calls: calls(place),
            }
        };
        Some(profile.lines.iter().take(RECORDED).map(record).collect())
    }
}
