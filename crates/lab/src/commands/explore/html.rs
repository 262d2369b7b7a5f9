//! The report of an exploration as a page that stands alone: what `--html` writes.

use super::report::{ExploreReport, ModelReport};
use seawall_explore::{EventNote, Finding, InFlight, RecoveryStep, StoreNote};
use std::fmt::Write;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:70rem;margin:2rem auto;\
padding:0 1rem;color:#222}h1{font-size:1.4rem}h2{font-size:1.15rem;margin-top:2rem}\
table{border-collapse:collapse;margin:.6rem 0}td,th{padding:.15rem .7rem .15rem 0;text-align:left;\
vertical-align:top}th{border-bottom:1px solid #999;font-weight:600}code,td.c{font:13px/1.4 ui-\
monospace,monospace}.lost{background:#fbe3e0}.kept{background:#e4f1e4}.bad{color:#a3201a}\
.note{color:#666}";

impl ExploreReport {
    /// The report as HTML.
    pub fn to_html(&self) -> String {
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>seawall explore: \
             {title}</title><style>{STYLE}</style>\n<h1>{title}</h1>\n",
            title = text(&self.program)
        );
        if !self.schedules.is_empty() {
            let _ = writeln!(page, "<p>{}</p>", text(&self.schedules));
        }
        page += "<table><tr><th>model<th>failure points<th>in recovery<th>crash states<th>runs of \
                 recovery<th>coverage</tr>\n";
        for ModelReport { outcome, coverage, .. } in &self.models {
            let _ = writeln!(
                page,
                "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
                outcome.model,
                outcome.points,
                outcome.nested_points,
                outcome.states,
                outcome.runs,
                text(coverage)
            );
        }
        let _ = writeln!(page, "</table><p>{}</p>", text(&self.coverage));
        for warning in &self.warnings {
            let _ = writeln!(page, "<p class=\"bad\">Warning: {}</p>", text(warning));
        }
        for model in &self.models {
            if let Some(finding) = &model.outcome.finding {
                page += &found(finding);
            }
            if let Some(command) = &model.replay_command {
                let _ = writeln!(page, "<p>Again: <code>{}</code></p>", text(command));
            }
        }
        if !self.waste.is_empty() {
            page += "<h2>Wasted on x86</h2><ul>\n";
            for waste in &self.waste {
                let _ = writeln!(page, "<li><code>{}</code>", text(&waste.to_string()));
            }
            page += "</ul>\n";
        }
        page
    }
}

fn found(finding: &Finding) -> String {
    let Finding { choice, message, events, in_flight, lost, early, .. } = finding;
    let event = choice.crashes.first().map_or(0, |crash| crash.event);
    let mut part = format!(
        "<h2>Fails under {}</h2>\n<p class=\"bad\">{}</p>\n<p>Power fails after event {event} of \
         {events}.</p><ul>\n",
        choice.model,
        text(message)
    );
    for InFlight { thread, operation, place } in in_flight {
        let _ = writeln!(
            part,
            "<li>thread {thread}, in operation {operation}, at <code>{}</code>",
            text(place)
        );
    }
    part += "</ul>\n";
    part += &stores("Lost: stored before the crash, not durable", lost);
    part += &stores("Early: durable, stored after a lost one, and it matters", early);
    for recovery in &finding.recoveries {
        let _ = writeln!(
            part,
            "<p>Power fails again after event {} of {} of recovery, at <code>{}</code>.</p>",
            recovery.event,
            recovery.events,
            text(&recovery.place)
        );
        part += &stores("Lost of what recovery stored", &recovery.lost);
        part += &stores("Early of what recovery stored", &recovery.early);
    }
    part += &recovery(&finding.recovery);
    part + &timeline(&finding.timeline, in_flight.len())
}

fn stores(title: &str, stores: &[StoreNote]) -> String {
    if stores.is_empty() {
        return String::new();
    }
    let mut part = format!(
        "<h3>{title}</h3><table><tr><th>address<th>bytes<th>was<th>is<th>thread<th>operation\
         <th>call<th>read by<th>way to persistence</tr>\n"
    );
    for StoreNote { address, bytes, old, new, thread, operation, place, reader, way, .. } in stores
    {
        let _ = writeln!(
            part,
            "<tr><td class=\"c\">{}<td>{bytes}<td class=\"c\">{old:#x}<td class=\"c\">{new:#x}<td>\
             {thread}<td>{operation}<td class=\"c\">{}<td class=\"c\">{}<td>{}</tr>",
            text(address),
            text(place),
            reader.as_ref().map_or(String::new(), |(thread, place)| text(&format!(
                "thread {thread}, {place}"
            ))),
            text(way.as_deref().unwrap_or_default())
        );
    }
    part + "</table>\n"
}

/// What recovery did, beside the timeline of the run.
fn recovery(steps: &[RecoveryStep]) -> String {
    if steps.is_empty() {
        return String::new();
    }
    let mut part = "<h3>Recovery, up to the failure</h3>\n<p class=\"note\">Its reads of what was \
                    lost or came early, and its writes.</p><table><tr><th>what<th>call<th>times\
                    </tr>\n"
        .to_owned();
    for RecoveryStep { what, place, times } in steps {
        let _ = writeln!(
            part,
            "<tr><td class=\"c\">{}<td class=\"c\">{}<td>{times}</tr>",
            text(what),
            text(place)
        );
    }
    part + "</table>\n"
}

/// The events before the crash, with a column for each thread.
fn timeline(events: &[EventNote], threads: usize) -> String {
    let mut part =
        "<h3>Before the crash</h3>\n<p class=\"note\">Green stores are in the image, red \
                    ones are lost.</p><table><tr><th>event"
            .to_owned();
    (0..threads).for_each(|thread| part += &format!("<th>thread {thread}"));
    part += "<th>operation<th>call</tr>\n";
    for EventNote { event, thread, operation, what, place, kept } in events {
        let class = match kept {
            Some(true) => " kept",
            Some(false) => " lost",
            None => "",
        };
        let (before, after) = (usize::from(*thread), threads - 1 - usize::from(*thread));
        let _ = writeln!(
            part,
            "<tr><td>{event}{}<td class=\"c{class}\">{}{}<td>{operation}<td class=\"c\">{}</tr>",
            "<td>".repeat(before),
            text(what),
            "<td>".repeat(after),
            text(place)
        );
    }
    part + "</table>\n"
}

/// Text with nothing in it that HTML would read.
fn text(plain: &str) -> String {
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
