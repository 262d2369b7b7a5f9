//! `seawall explore --html`: what was explored, and of each finding the smallest image that fails,
//! its lost and early stores beside the sources, the events before the crash, and what recovery
//! did.

use super::report::{ExploreReport, ModelReport};
use super::sources::Sources;
use super::unreached::in_words;
use seawall_explore::{EventNote, Finding, InFlight, StoreNote};
use seawall_report::{
    HtmlChart, HtmlColumn, HtmlFate, HtmlForm, HtmlNote, HtmlPage, HtmlRow, HtmlSection,
};
use serde_json::json;

impl ExploreReport {
    /// The page.
    pub(super) fn to_page(&self) -> HtmlPage {
        let mut sources = Sources::default();
        let mut sections = vec![self.models_section()];
        for model in &self.models {
            if let Some(finding) = &model.outcome.finding {
                let under = format!("under {}", finding.choice.model);
                sections.push(found(finding, model, &mut sources));
                sections.push(timeline(finding, &under));
                sections.extend(recovery(finding, &under));
            }
        }
        sections.extend(self.waste_section());
        let mut page = HtmlPage {
            title: self.program.clone(),
            facts: self.page_facts(),
            notes: self.page_notes(),
            sections,
            ..HtmlPage::default()
        };
        let rows = page.sections.iter().flat_map(|section| &section.rows);
        let places = rows.filter_map(|row| row.values.get("call")?.as_str());
        page.sources =
            places.filter_map(|place| Some((place.to_owned(), sources.around(place)?))).collect();
        page
    }

    fn page_facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("runs", self.runs.to_string())];
        if !self.schedules.is_empty() {
            facts.push(("schedules", self.schedules.clone()));
        }
        if self.shard != "1/1" {
            facts.push(("part of the work", self.shard.clone()));
        }
        facts.push(("covered", self.coverage.clone()));
        facts.extend(self.left.iter().map(|left| ("left", left.clone())));
        facts
    }

    fn page_notes(&self) -> Vec<HtmlNote> {
        let found = self.models.iter().filter_map(|model| model.outcome.finding.as_ref());
        let mut notes: Vec<HtmlNote> = found
            .map(|it| HtmlNote::bad(format!("Fails under {}: {}", it.choice.model, it.message)))
            .collect();
        if notes.is_empty() {
            notes.push(HtmlNote::plain("Recovery handled every image that was tried."));
        }
        if let Some(moved) = &self.moved {
            notes.push(HtmlNote::plain(moved.to_string()));
        }
        notes.extend(in_words(&self.unreached).map(|it| HtmlNote::bad(format!("Note: {it}"))));
        let warnings = self.warnings.iter();
        notes.extend(warnings.map(|warning| HtmlNote::bad(format!("Warning: {warning}"))));
        notes
    }

    fn models_section(&self) -> HtmlSection {
        let number = |field: &str, about| HtmlColumn::new(field, HtmlForm::Number(0)).about(about);
        HtmlSection {
            heading: Some("What was explored".into()),
            columns: vec![
                HtmlColumn::new("model", HtmlForm::Text),
                number("failure points", "events of the run after which power may fail"),
                number("in recovery", "failure points of recoveries"),
                number("crash states", "images that recovery can tell apart"),
                number("runs of recovery", "times that recovery ran"),
                HtmlColumn::new("coverage", HtmlForm::Text),
                HtmlColumn::new("outcome", HtmlForm::Text),
            ],
            rows: self.models.iter().map(model_row).collect(),
            ..HtmlSection::default()
        }
    }

    fn waste_section(&self) -> Option<HtmlSection> {
        let row = |waste: &seawall_explore::Waste| {
            HtmlRow::new([
                ("call", json!(waste.place)),
                ("waste", json!(waste.in_words())),
                ("times", json!(waste.times)),
                ("calls", json!(waste.calls)),
            ])
        };
        let count = |field: &str| HtmlColumn::new(field, HtmlForm::Number(0));
        (!self.waste.is_empty()).then(|| HtmlSection {
            heading: Some("Wasted on x86".into()),
            columns: vec![
                HtmlColumn::new("call", HtmlForm::Code),
                HtmlColumn::new("waste", HtmlForm::Text).titled("what is wrong with it"),
                count("times"),
                count("calls").titled("of calls"),
            ],
            rows: self.waste.iter().map(row).collect(),
            ..HtmlSection::default()
        })
    }
}

fn model_row(model: &ModelReport) -> HtmlRow {
    let outcome = &model.outcome;
    let (said, fate) = match &outcome.finding {
        Some(_) => ("FAILS", HtmlFate::Bad),
        None => ("no image fails", HtmlFate::Good),
    };
    let row = HtmlRow::new([
        ("model", json!(outcome.model.name())),
        ("failure points", json!(outcome.points)),
        ("in recovery", json!(outcome.nested_points)),
        ("crash states", json!(outcome.states)),
        ("runs of recovery", json!(outcome.runs)),
        ("coverage", json!(model.coverage)),
        ("outcome", json!(said)),
    ]);
    HtmlRow { fate, commands: model.replay_command.iter().cloned().collect(), ..row }
}

/// A finding: its image, and the stores that make it.
fn found(finding: &Finding, model: &ModelReport, sources: &mut Sources) -> HtmlSection {
    let Finding { choice, message, events, in_flight, early_others, .. } = finding;
    let event = choice.crashes.first().map_or(0, |crash| crash.event);
    let mut notes = vec![
        HtmlNote::bad(message.clone()),
        HtmlNote::plain(format!(
            "Power fails after event {event} of {events}. The smallest image that fails has every \
             store before that, but for those that are lost below."
        )),
    ];
    for recovery in &finding.recoveries {
        let (event, events, place) = (recovery.event, recovery.events, &recovery.place);
        notes.push(HtmlNote::plain(format!(
            "Power fails again after event {event} of {events} of recovery, at {place}."
        )));
    }
    if *early_others > 0 {
        notes.push(HtmlNote::plain(format!(
            "{early_others} more stores are early and make no difference."
        )));
    }
    let command = model.replay_command.clone();
    let rows = stores(finding).into_iter();
    let rows = rows.map(|(what, note)| store_row(what, note, &command)).collect();
    let mut facts = vec![("image", choice.to_string())];
    facts.extend(in_flight.iter().map(|it| ("in flight", thread_in_words(it))));
    HtmlSection {
        heading: Some(format!("Fails under {}", choice.model)),
        notes,
        facts,
        commands: command.into_iter().collect(),
        filters: vec!["fate"],
        columns: store_columns(),
        rows,
        excerpts: sources.marked(&marks(finding)),
        ..HtmlSection::default()
    }
}

fn thread_in_words(InFlight { thread, operation, place }: &InFlight) -> String {
    match place.as_str() {
        "" => format!("thread {thread} has not begun"),
        place => format!("thread {thread} in operation {operation}, at {place}"),
    }
}

/// The stores of a finding with what became of them.
fn stores(finding: &Finding) -> Vec<(&'static str, &StoreNote)> {
    let mut all = Vec::new();
    all.extend(finding.lost.iter().map(|note| ("lost", note)));
    all.extend(finding.early.iter().map(|note| ("early", note)));
    all.extend(finding.last.iter().map(|note| ("stored last", note)));
    for recovery in &finding.recoveries {
        all.extend(recovery.lost.iter().map(|note| ("lost, of recovery", note)));
        all.extend(recovery.early.iter().map(|note| ("early, of recovery", note)));
    }
    all
}

fn store_columns() -> Vec<HtmlColumn> {
    let code = |field: &str| HtmlColumn::new(field, HtmlForm::Code);
    let count = |field: &str| HtmlColumn::new(field, HtmlForm::Number(0));
    vec![
        HtmlColumn::new("fate", HtmlForm::Code)
            .titled("store")
            .about("lost: not in the image; early: in it, though an earlier one is lost"),
        code("address"),
        count("bytes"),
        code("was"),
        code("is"),
        count("thread"),
        count("operation"),
        code("call"),
        HtmlColumn::new("way", HtmlForm::Text).titled("way to persistence"),
        HtmlColumn::new("reader", HtmlForm::Text)
            .titled("read by")
            .about("the first other thread that read it before the crash"),
    ]
}

fn store_row(what: &str, note: &StoreNote, command: &Option<String>) -> HtmlRow {
    let reader = note.reader.as_ref().map(|(thread, place)| format!("thread {thread}, {place}"));
    let state = if what.starts_with("lost") { "lost" } else { "early" };
    let row = HtmlRow::new([
        ("fate", json!(what)),
        ("address", json!(note.address)),
        ("bytes", json!(note.bytes)),
        ("was", json!(format!("{:#x}", note.old))),
        ("is", json!(format!("{:#x}", note.new))),
        ("thread", json!(note.thread)),
        ("operation", json!(note.operation)),
        ("call", json!(note.place)),
        ("way", json!(note.way)),
        ("reader", json!(reader)),
        ("state", json!(state)),
    ]);
    HtmlRow { commands: command.iter().cloned().collect(), ..row }
}

/// What is to be seen in the sources: the stores, and where power fails.
fn marks(finding: &Finding) -> Vec<(&str, &'static str, String)> {
    let mut marks = Vec::new();
    for (what, note) in stores(finding) {
        let StoreNote { address, bytes, old, new, thread, operation, place, way, .. } = note;
        let way = way.as_ref().map_or(String::new(), |way| format!("; {way}"));
        let text = format!(
            "{what}: {address} ({bytes} bytes) {old:#x} -> {new:#x}, thread {thread} operation \
             {operation}{way}"
        );
        let kind = if what.starts_with("lost") { "lost" } else { "early" };
        marks.push((&**place, kind, text));
    }
    let last =
        finding.in_flight.iter().find(|it| finding.last_thread.map(usize::from) == Some(it.thread));
    marks.extend(last.map(|it| (&*it.place, "crash", "power fails after this".to_owned())));
    for recovery in &finding.recoveries {
        let text = "power fails again after this, in recovery".to_owned();
        marks.push((&*recovery.place, "crash", text));
    }
    marks
}

/// The events before the crash.
fn timeline(finding: &Finding, under: &str) -> HtmlSection {
    let several = finding.in_flight.len() > 1;
    let row = |note: &EventNote| {
        let EventNote { event, thread, operation, what, place, kept } = note;
        let (state, is_in_image) = match kept {
            Some(true) => ("kept", Some("kept")),
            Some(false) => ("lost", Some("lost")),
            None => ("other", None),
        };
        let lane = lane(what, *kept);
        let lane = if several { format!("thread {thread}: {lane}") } else { lane.to_owned() };
        let image = match kept {
            Some(true) => ", in the image",
            Some(false) => ", lost",
            None => "",
        };
        HtmlRow::new([
            ("event", json!(event)),
            ("thread", json!(thread)),
            ("operation", json!(operation)),
            ("what", json!(what)),
            ("call", json!(place)),
            ("state", json!(state)),
            ("image", json!(is_in_image)),
            ("lane", json!(lane)),
            ("hint", json!(format!("event {event}: {what}{image}; {place}"))),
        ])
    };
    let count = |field: &str| HtmlColumn::new(field, HtmlForm::Number(0));
    HtmlSection {
        heading: Some(format!("Before the crash, {under}")),
        filters: vec!["thread"],
        columns: vec![
            HtmlColumn::new("what", HtmlForm::Code).titled("what happened"),
            HtmlColumn::new("call", HtmlForm::Code),
            count("event"),
            count("thread"),
            count("operation"),
            HtmlColumn::new("image", HtmlForm::Text)
                .titled("in the image")
                .about("whether a store is in the image (kept) or lost"),
        ],
        rows: finding.timeline.iter().map(row).collect(),
        charts: vec![HtmlChart::Timeline {
            title: "Stores in the image, lost stores, and what is between them".into(),
            crash: finding.choice.crashes.first().map_or(0, |crash| crash.event),
        }],
        ..HtmlSection::default()
    }
}

/// The line of the chart that an event is on.
fn lane(what: &str, kept: Option<bool>) -> &'static str {
    match what {
        _ if kept.is_some() => "stores",
        _ if what.starts_with("flush") || what.starts_with("the line") => "flushes",
        "order" | "drain" => "fences",
        _ if what.starts_with("reads") => "reads",
        _ => "other",
    }
}

/// What recovery did, if it did anything before it failed.
fn recovery(finding: &Finding, under: &str) -> Option<HtmlSection> {
    let row = |step: &seawall_explore::RecoveryStep| {
        HtmlRow::new([
            ("what", json!(step.what)),
            ("call", json!(step.place)),
            ("times", json!(step.times)),
        ])
    };
    (!finding.recovery.is_empty()).then(|| HtmlSection {
        heading: Some(format!("Recovery, up to the failure, {under}")),
        notes: vec![HtmlNote::plain("Its reads of what was lost or early, and its writes.")],
        columns: vec![
            HtmlColumn::new("what", HtmlForm::Code),
            HtmlColumn::new("call", HtmlForm::Code),
            HtmlColumn::new("times", HtmlForm::Number(0)),
        ],
        rows: finding.recovery.iter().map(row).collect(),
        ..HtmlSection::default()
    })
}
