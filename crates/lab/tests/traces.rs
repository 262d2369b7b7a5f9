//! Timelines as files, read back by a decoder of their own: what they show adds up to the records.

use seawall_lab::{
    Cell, CompareOptions, Comparison, Experiment, KernelOptions, KernelSize, Kernels, Plan,
    Progress, Report, RequestOptions, TraceOptions,
};
use seawall_sim::{Counters, Machine};
use seawall_trace_reader::{Decoded, Kind, ReadEvent, Slice};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

fn traced(window: Option<&str>) -> TraceOptions {
    TraceOptions {
        trace: Some("unused".into()),
        trace_window: window.map(|window| window.parse().unwrap()),
    }
}

fn options(design: &str) -> CompareOptions {
    CompareOptions {
        workloads: strings(&["queue"]),
        designs: strings(&[design]),
        machine: "desktop".into(),
        operations: 60,
        requests: RequestOptions { search_percent: Some(10), ..RequestOptions::on_entries(64) },
        trace: traced(None),
        ..CompareOptions::default()
    }
}

fn compared(options: &CompareOptions) -> Comparison {
    let plan = Plan::new(options).unwrap();
    Comparison::run(plan, &Progress::hidden(), &Arc::default()).unwrap()
}

fn kernels(kernel: &str, design: &str) -> Kernels {
    let options = KernelOptions {
        kernels: strings(&[kernel]),
        designs: strings(&[design]),
        machine: "desktop".into(),
        size: KernelSize::Small,
        crashes: 0,
        trace: traced(None),
        ..KernelOptions::default()
    };
    KernelOptions::run(options.plan().unwrap(), &Progress::hidden(), &Arc::default()).unwrap()
}

/// The cycles of a record by reason, from their shares.
fn recorded(stalls: &Map<String, Value>, core_cycles: u64) -> BTreeMap<String, u64> {
    let cycles = |share: &Value| (share.as_f64().unwrap() * core_cycles as f64).round() as u64;
    let reasons = stalls.iter().map(|(reason, share)| (reason.clone(), cycles(share)));
    reasons.filter(|(_, cycles)| *cycles > 0).collect()
}

#[test]
fn slices_add_up_to_the_stalls_of_the_record_reason_by_reason() {
    for design in ["volatile", "clwb", "epoch", "lb", "lbpp", "hops", "asap", "dpo", "strand"] {
        let comparison = compared(&options(design));
        let records = comparison.records();
        let [record] = &records[..] else { panic!("one cell") };
        let decoded = Decoded::of(&comparison.trace());
        let wanted = recorded(&record.stalls, record.cycles * record.threads as u64);
        assert_eq!(decoded.core_cycles(), wanted, "{design}");
        assert!(wanted.len() > 4, "{design}: {wanted:?}");
    }
}

#[test]
fn a_kernel_is_recorded_under_the_design_that_is_named_and_not_under_its_baseline() {
    for (kernel, design) in [("radix", "bsp-lbpp"), ("lu", "volatile")] {
        let kernels = kernels(kernel, design);
        let records = kernels.records();
        let record = records.iter().find(|record| record.design == design).expect("it ran");
        let decoded = Decoded::of(&kernels.trace());
        let wanted = recorded(&record.stalls, record.cycles * record.threads as u64);
        assert_eq!(decoded.core_cycles(), wanted, "{kernel} under {design}");
        assert_eq!(decoded.tracks[&1].name, format!("{kernel} under {design} on desktop"));
    }
}

fn of_tracks<'a>(decoded: &'a Decoded, name: &'a str) -> impl Iterator<Item = &'a Slice> {
    decoded.slices.iter().filter(move |slice| decoded.tracks[&slice.track].name == name)
}

#[test]
fn epochs_and_writes_are_as_many_as_are_counted_and_their_phases_fill_them() {
    for design in ["lb", "lbpp", "asap"] {
        let comparison = compared(&options(design));
        let Counters { epochs, line_writes, .. } = comparison.cells[0].counters;
        let decoded = Decoded::of(&comparison.trace());
        let all: Vec<&Slice> = of_tracks(&decoded, "epochs").collect();
        let whole = all.iter().filter(|slice| slice.depth == 0 && slice.to.is_some());
        let whole: Vec<&&Slice> = whole.collect();
        assert!(whole.iter().all(|slice| slice.name.starts_with("epoch ")));
        if design != "asap" {
            assert_eq!(whole.len() as u64, epochs, "{design}");
        }
        for slice in &whole {
            let inside = all.iter().filter(|phase| {
                let is_inside =
                    phase.from >= slice.from && phase.to.is_some_and(|to| Some(to) <= slice.to);
                phase.depth == 1 && phase.track == slice.track && is_inside
            });
            let sum: u64 = inside.map(|phase| phase.to.unwrap() - phase.from).sum();
            assert_eq!(sum, slice.to.unwrap() - slice.from, "{design}: {slice:?}");
        }
        let writes = of_tracks(&decoded, "writes").filter(|slice| slice.name == "write").count();
        assert_eq!(writes as u64, line_writes, "{design}");
        let flushes = of_tracks(&decoded, "arbiter").count() as u64;
        assert_eq!(flushes, if design == "asap" { 0 } else { epochs }, "{design}");
    }
}

#[test]
fn counters_of_write_queues_have_no_more_than_their_entries() {
    let machine = "desktop:memory.write_queue=3";
    let comparison = compared(&CompareOptions { machine: machine.into(), ..options("clwb") });
    let decoded = Decoded::of(&comparison.trace());
    let is_queue = |event: &&ReadEvent| decoded.tracks[&event.track].name == "write queue";
    let counts = decoded.events.iter().filter(|event| event.kind == Kind::Count).filter(is_queue);
    let most = counts.map(|event| event.count).max();
    assert_eq!(Machine::load(machine).unwrap().memory.write_queue, 3);
    assert_eq!(most, Some(3));
}

#[test]
fn arrows_lead_from_epochs_to_what_waits_for_them() {
    for design in ["lb-idt", "lbpp", "hops", "asap"] {
        let comparison = compared(&options(design));
        let decoded = Decoded::of(&comparison.trace());
        let (mut began, mut dependences) = (HashMap::new(), 0);
        for event in &decoded.events {
            if let Some(flow) = event.flow {
                assert_eq!(decoded.tracks[&event.track].name, "epochs");
                assert!(event.inside.iter().any(|name| name.starts_with("epoch ")), "{event:?}");
                assert!(began.insert(flow, event).is_none(), "{design}: {flow}");
            }
            if let Some(flow) = event.ending_flow {
                let start = began.remove(&flow).expect("it has begun");
                assert!(start.at <= event.at, "{design}: {event:?}");
                let epoch = format!("epoch {}", event.annotations["epoch"]);
                assert_eq!(start.inside.first(), Some(&epoch), "{design}");
                let core = decoded.tracks[&decoded.tracks[&start.track].parent].name.clone();
                assert_eq!(core, format!("core {}", event.annotations["core"]), "{design}");
                dependences += u64::from(event.name == "depends on");
            }
        }
        assert!(began.is_empty(), "{design}: every arrow ends");
        assert_eq!(dependences, comparison.cells[0].counters.dependences, "{design}");
        assert!(dependences > 10, "{design}: {dependences}");
    }
}

#[test]
fn a_window_shows_what_the_whole_shows_there() {
    let comparison = compared(&options("lbpp"));
    let cycles = comparison.records()[0].cycles;
    let whole = Decoded::of(&comparison.trace());
    let (from, to) = (cycles / 3, cycles / 2);
    let window = format!("{from}..{to}");
    let part = CompareOptions { trace: traced(Some(&window)), ..options("lbpp") };
    let comparison = compared(&part);
    let text = comparison.text();
    let said = format!("trace of queue under lbpp: cycles {from} to {to} of {cycles}, ");
    assert!(text.contains(&said), "{text}");
    let part = Decoded::of(&comparison.trace());
    let cut = |slice: &Slice| {
        let ends = slice.to.is_some_and(|end| end <= to || whole.is_core(slice.track));
        let (first, last) = (slice.from.max(from), slice.to.map(|end| end.min(to)));
        let name = whole.path(slice.track);
        (name, slice.name.clone(), first, last.filter(|_| ends))
    };
    let is_shown = |slice: &&Slice| slice.from < to && slice.to.is_none_or(|end| end > from);
    let mut wanted: Vec<_> = whole.slices.iter().filter(is_shown).map(cut).collect();
    let as_is = |slice: &Slice| (part.path(slice.track), slice.name.clone(), slice.from, slice.to);
    let mut found: Vec<_> = part.slices.iter().map(as_is).collect();
    wanted.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, wanted);
    assert!(part.events.iter().all(|event| (from..=to).contains(&event.at)));
}

#[test]
fn a_file_takes_no_more_than_its_timeline_says() {
    for design in ["volatile", "clwb", "lbpp", "hops", "asap", "dpo"] {
        for machine in ["desktop", "micro15"] {
            let options = CompareOptions { machine: machine.into(), ..options(design) };
            let comparison = compared(&options);
            let timeline = comparison.cells[0].timeline.as_ref().unwrap();
            let bytes = comparison.trace().len() as u64;
            let heads = 64 * 1024;
            assert!(bytes < timeline.bytes + heads, "{design}: {bytes}, {}", timeline.bytes);
            assert!(bytes > timeline.bytes / 3, "{design}: {bytes}, {}", timeline.bytes);
        }
    }
}

#[test]
fn records_are_the_same_with_and_without_a_trace() {
    for design in ["lbpp", "asap"] {
        let with = compared(&options(design));
        let without = CompareOptions { trace: TraceOptions::default(), ..options(design) };
        let without = compared(&without);
        assert_eq!(with.records(), without.records(), "{design}");
        assert!(without.trace().is_empty() && without.cells.iter().all(is_untraced));
        let text = with.text();
        let (table, _) = text.split_once("trace of").expect("it is said");
        assert!(without.text().starts_with(table), "{design}");
    }
}

fn is_untraced(cell: &Cell) -> bool {
    cell.timeline.is_none()
}
