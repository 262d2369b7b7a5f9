//! What `seawall reproduce` prints of a logging figure.

use super::measure::Place;
use super::{Column, LOSS_MAX, LoggingRecord, Quantity, Stated, View};
use crate::figures::Numbers;
use crate::figures::PublishedValue;
use seawall_report::{plain_table, text_of};
use seawall_workloads::memsys17::{Log, Structure};
use std::fmt::Write;

/// What every output says of the paper's cacheable log.
const NOT_DURABLE: &str = "cached-unflushed is the paper's cacheable log: it is not flushed, so a \
                           crash may lose all of it";

impl Column {
    fn title(self) -> &'static str {
        match self {
            Column::Cycles => "simulated cycles a record",
            Column::Nanoseconds => "nanoseconds of CPU time a record on this host (medians)",
            Column::Misses => "simulated misses of the last-level cache, in %",
            Column::Partial => "simulated partly filled lines a record",
        }
    }

    /// True if there is a better and a worse log in it, and so a choice.
    fn is_time(self) -> bool {
        matches!(self, Column::Cycles | Column::Nanoseconds)
    }
}

impl Quantity {
    /// Whether it is about strings of one size.
    pub(super) fn is_of_one_size(self) -> bool {
        !matches!(self, Quantity::SpeedupRise | Quantity::SpeedupMost | Quantity::MissGap)
    }
}

impl View<'_> {
    pub(super) fn text(&self) -> String {
        let figure = self.figure;
        let mut text = format!("{}: {}\n  paper: {}\n", figure.name, figure.title, figure.source);
        let Some(LoggingRecord { machine, design, seed, .. }) = self.records.first() else {
            return text + "  nothing was measured\n\n";
        };
        let _ =
            writeln!(text, "  simulated: {machine} under {design}, seed {seed}; {}", self.cut());
        let _ = writeln!(text, "  {}\n  {NOT_DURABLE}\n", figure.note);
        if !figure.paper.is_empty() {
            text += &self.stated();
        }
        text += &self.count();
        for column in &figure.tables {
            let _ = write!(text, "\n  {}\n\n{}", column.title(), self.table(*column));
        }
        text + "\n" + &self.verdict()
    }

    fn cut(&self) -> String {
        match self.records.iter().find(|record| record.records < record.records_of_paper) {
            Some(record) => format!(
                "runs of more than {} records are cut there and\n  may fit the caches (--full: as \
                 the paper)",
                record.records
            ),
            None => "as many records as the paper".into(),
        }
    }

    /// The paper's numbers beside ours.
    fn stated(&self) -> String {
        let head = ["", "the paper's", "known by", "simulated", "this host", "holds"];
        let mut table = plain_table(&head, 1..5);
        for stated in &self.figure.paper {
            let paper: Vec<String> = stated.paper.iter().map(|value| short(*value)).collect();
            let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
            table.add_row(vec![
                stated.what.clone(),
                paper.join(" to "),
                stated.basis.clone(),
                or_dash(self.simulated_quantity(stated).map(short)),
                or_dash(self.host_quantity(stated)),
                match (self.is_near(stated), stated.tolerance) {
                    (true, Some(_)) => "yes".into(),
                    (false, Some(_)) => "NO".into(),
                    _ => String::new(),
                },
            ]);
        }
        text_of(&table)
    }

    /// How many of the paper's numbers are held, and what is not, and why.
    fn count(&self) -> String {
        let (held, all) = self.held();
        if self.figure.paper.is_empty() {
            return String::new();
        }
        let mut text = format!("\n  {held} of {all} hold");
        let mut reasons: Vec<&str> = Vec::new();
        let not_held = |stated: &Stated| stated.not_held.clone();
        let whys: Vec<String> = self.figure.paper.iter().filter_map(not_held).collect();
        for why in &whys {
            if !reasons.contains(&why.as_str()) {
                reasons.push(why);
                let count = whys.iter().filter(|other| *other == why).count();
                let _ = write!(text, "\n  {count} not reproducible from what is public: {why}");
            }
        }
        text + "\n"
    }

    /// How many of the paper's numbers that are held we have, and how many are held.
    pub(super) fn held(&self) -> (usize, usize) {
        let all = || self.figure.paper.iter().filter(|stated| stated.tolerance.is_some());
        (all().filter(|stated| self.is_near(stated)).count(), all().count())
    }

    /// What became of the paper's numbers.
    pub(super) fn published_values(&self) -> Vec<PublishedValue> {
        let of = |stated: &Stated| {
            let (least, most) = stated.bounds();
            let numbers = Numbers {
                paper: (least + most) / 2.0,
                ours: self.simulated_quantity(stated).unwrap_or(f64::NAN),
                tolerance: (most - least) / 2.0,
            };
            let value = PublishedValue::new(stated.what.clone(), numbers, self.is_near(stated));
            let value = match stated.ours {
                Quantity::MissGap => value.percent(),
                _ => value,
            };
            match &stated.not_held {
                Some(why) => value.not_public(why),
                None => value,
            }
        };
        self.figure.paper.iter().map(of).collect()
    }

    fn is_near(&self, stated: &Stated) -> bool {
        let Some((ours, _)) = self.simulated_quantity(stated).zip(stated.tolerance) else {
            return false;
        };
        let (least, most) = stated.bounds();
        match stated.ours {
            Quantity::SpeedupRise | Quantity::SpeedupMost => ours <= most,
            Quantity::MissGap => ours >= least,
            _ => (least..=most).contains(&ours),
        }
    }

    /// The speedups of the array, and the cycles of an iteration with the uncacheable log, by size.
    fn speedups(&self) -> Option<Vec<(f64, f64)>> {
        let of = |bytes: &u64| {
            let place = (Structure::Array, *bytes);
            let cycles = self.cycles(place, Log::Uncached)?;
            Some((self.speedup(Column::Cycles, place)?, cycles))
        };
        self.figure.value_bytes.iter().map(of).collect()
    }

    fn simulated_of_all(&self, stated: &Stated) -> Option<f64> {
        let highest = |values: &mut dyn Iterator<Item = f64>| values.max_by(f64::total_cmp);
        match stated.ours {
            Quantity::SpeedupRise => {
                let speedups = self.speedups()?;
                highest(&mut speedups.windows(2).map(|pair| pair[1].0 - pair[0].0))
            }
            Quantity::SpeedupMost => {
                let speedups = self.speedups()?.into_iter();
                let long = speedups.filter(|(_, cycles)| *cycles >= stated.loop_cycles);
                highest(&mut long.map(|(speedup, _)| speedup))
            }
            _ => {
                let rate = |place, log| Some(100.0 * self.simulated(place, log)?.miss_rate());
                let gap =
                    |place| Some(rate(place, Log::CachedUnflushed)? - rate(place, Log::Uncached)?);
                let gaps: Option<Vec<f64>> = self.figure.places().into_iter().map(gap).collect();
                gaps?.into_iter().min_by(f64::total_cmp)
            }
        }
    }

    fn simulated_quantity(&self, stated: &Stated) -> Option<f64> {
        if !stated.ours.is_of_one_size() {
            return self.simulated_of_all(stated);
        }
        let full = |bytes: u64| (self.figure.total_bytes / bytes) as f64;
        let place = (Structure::Array, stated.value_bytes);
        let cycles = self.cycles(place, Log::Uncached)?;
        Some(match stated.ours {
            Quantity::Cycles => cycles * full(stated.value_bytes),
            Quantity::CyclesPerRecord => cycles,
            Quantity::Speedup => cycles / self.cycles(place, Log::CachedUnflushed)?,
            Quantity::Ratio => {
                let bytes = stated.over_bytes?;
                let other = self.cycles((Structure::Array, bytes), Log::Uncached)?;
                cycles * full(stated.value_bytes) / (other * full(bytes))
            }
            Quantity::SpeedupRise | Quantity::SpeedupMost | Quantity::MissGap => return None,
        })
    }

    fn host_quantity(&self, stated: &Stated) -> Option<String> {
        if !stated.ours.is_of_one_size() {
            return None;
        }
        let full = |bytes: u64| (self.figure.total_bytes / bytes) as f64;
        let host = self.host((Structure::Array, stated.value_bytes))?;
        let time = host.nanoseconds(Log::Uncached)?;
        Some(match stated.ours {
            Quantity::Cycles => format!("{} ms", short(time * full(stated.value_bytes) / 1e6)),
            Quantity::CyclesPerRecord => format!("{} ns", short(time)),
            Quantity::Speedup => short(host.ratio(Log::Uncached, Log::CachedUnflushed)?),
            Quantity::Ratio => {
                let bytes = stated.over_bytes?;
                let other = self.host((Structure::Array, bytes))?.nanoseconds(Log::Uncached)?;
                short(time * full(stated.value_bytes) / (other * full(bytes)))
            }
            Quantity::SpeedupRise | Quantity::SpeedupMost | Quantity::MissGap => return None,
        })
    }

    fn table(&self, column: Column) -> String {
        let mut head = vec!["structure", "bytes"];
        head.extend(Log::ALL.iter().map(|log| log.name()));
        if column.is_time() {
            head.extend(["speedup", "adaptive/better"]);
        }
        let mut table = plain_table(&head, 1..head.len());
        let mut last = None;
        for place in self.figure.places() {
            let name = if last == Some(place.0) { "" } else { place.0.name() };
            last = Some(place.0);
            let mut row = vec![name.to_owned(), place.1.to_string()];
            row.extend(Log::ALL.iter().map(|log| self.cell(column, place, *log)));
            if column.is_time() {
                row.push(self.speedup(column, place).map_or("-".into(), |r| format!("{r:.2}")));
                let over = match column {
                    Column::Cycles => self.over_better(place),
                    _ => self.host_over_better(place),
                };
                row.push(over.map_or("-".into(), |ratio| format!("{ratio:.3}")));
            }
            table.add_row(row);
        }
        text_of(&table)
    }

    fn cell(&self, column: Column, place: Place, log: Log) -> String {
        let value = match column {
            Column::Cycles => self.cycles(place, log).map(|cycles| format!("{cycles:.0}")),
            Column::Nanoseconds => {
                let time = self.host(place).and_then(|host| host.nanoseconds(log));
                time.map(|time| format!("{time:.0}"))
            }
            Column::Misses => {
                let run = self.simulated(place, log);
                run.map(|run| format!("{:.0}", 100.0 * run.miss_rate()))
            }
            Column::Partial => self
                .simulated(place, log)
                .map(|run| format!("{:.2}", run.partial_lines() as f64 / run.records as f64)),
        };
        value.unwrap_or_else(|| "-".into())
    }

    /// The paper's: its uncacheable log over its cacheable one.
    pub(super) fn speedup(&self, column: Column, place: Place) -> Option<f64> {
        match column {
            Column::Cycles => {
                let cacheable = self.cycles(place, Log::CachedUnflushed)?;
                Some(self.cycles(place, Log::Uncached)? / cacheable)
            }
            _ => self.host(place)?.ratio(Log::Uncached, Log::CachedUnflushed),
        }
    }

    fn verdict(&self) -> String {
        let mut text = String::from(
            "  speedup: uncached over cached-unflushed, as the paper's; adaptive/better: over the \
             better\n  of cached-lines and uncached-lines, which it chooses from\n",
        );
        let bound = 1.0 + LOSS_MAX;
        let worst = |over: &dyn Fn(Place) -> Option<f64>| {
            let places = self.figure.places().into_iter();
            let all = places.filter_map(|place| Some((over(place)?, place)));
            all.max_by(|left, right| left.0.total_cmp(&right.0))
        };
        if let Some((ratio, (structure, bytes))) = worst(&|place| self.over_better(place)) {
            let holds = if ratio <= bound { "holds" } else { "does NOT hold" };
            let _ = writeln!(
                text,
                "  simulated: adaptive/better is {ratio:.3} at most ({structure}, {bytes} B): the \
                 bound of {bound:.2} {holds}"
            );
        }
        if let Some((ratio, place)) = worst(&|place| self.host_over_better(place)) {
            let low = worst(&|place| self.host_over_better_low(place)).map_or(ratio, |low| low.0);
            let holds = match ratio {
                ratio if ratio <= bound => "holds",
                _ if low <= bound => "is within the scatter of the rounds",
                _ => "does NOT hold",
            };
            let (structure, bytes) = place;
            let _ = writeln!(
                text,
                "  on this host: {ratio:.3} at most ({structure}, {bytes} B), {low:.3} by lower \
                 quartiles: the bound {holds}"
            );
        }
        text + "\n"
    }
}

/// A number with three digits that matter.
fn short(value: f64) -> String {
    match value {
        large if large.abs() >= 1e6 => format!("{large:.2e}"),
        large if large.abs() >= 100.0 => format!("{large:.0}"),
        small if small.abs() >= 10.0 => format!("{small:.1}"),
        small => format!("{small:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_three_digits_that_matter() {
        let numbers = [1.28e9, 610.2, 11.13, 1.6];
        assert_eq!(numbers.map(short), ["1.28e9", "610", "11.1", "1.60"]);
    }
}
