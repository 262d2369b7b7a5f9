//! A point of a sweep that can be run anywhere: everything that it depends on, and the line that
//! comes of it.
//!
//! As text, a task goes to another process or machine. It names the build of seawall that wrote it,
//! because another build may count other cycles: that one refuses it.

use super::record::{Described, SweepRecord};
use super::{SweepError, SweepPoint};
use crate::LabError;
use crate::engine::jobs::Piece;
use crate::engine::kept::build;
use crate::subject::{Asked, Setting};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What is the same for all points of a sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    /// The title.
    pub(super) experiment: String,
    /// The machine as it was named, before anything was changed.
    pub(super) machine: String,
    /// The design that times are relative to.
    pub(super) baseline: String,
}

/// A task as text.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskText {
    build: String,
    head: Head,
    setting: Setting,
    asked: Asked,
    baseline: Option<String>,
}

impl SweepPoint {
    pub(super) fn new(
        setting: Setting,
        asked: Asked,
        baseline: Option<String>,
    ) -> Result<SweepPoint, LabError> {
        let subject = asked.at(&setting)?;
        let described = Described::new(&setting, &subject);
        let key = described.key();
        Ok(SweepPoint { setting, asked, subject, described, key, baseline })
    }

    /// Runs it. `over` is what its baseline took; none for a baseline itself.
    pub(super) fn run(
        &self,
        head: &Head,
        over: Option<u64>,
        stop: &Arc<AtomicBool>,
    ) -> Result<SweepRecord, LabError> {
        let outcome = self.subject.run(&self.setting, stop)?;
        let of = (&*head.experiment, &*head.machine);
        Ok(SweepRecord::new(of, self.described.clone(), outcome, (&head.baseline, over)))
    }
}

/// A point of a sweep, for whoever runs it.
#[derive(Clone, Debug)]
pub struct SweepTask {
    head: Head,
    point: SweepPoint,
}

impl SweepTask {
    pub(super) fn new(head: &Head, point: &SweepPoint) -> SweepTask {
        SweepTask { head: head.clone(), point: point.clone() }
    }

    /// Reads what [`to_text`](SweepTask::to_text) wrote.
    ///
    /// # Errors
    /// When another build of seawall wrote it, or nobody did.
    pub fn read(text: &str) -> Result<SweepTask, SweepError> {
        let malformed = |what: String| SweepError::Task { what };
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let (here, there) = (build()?, value["build"].as_str().unwrap_or("none").to_owned());
        if here != there {
            return Err(SweepError::OtherBuild { here: here.to_owned(), there });
        }
        let text: TaskText =
            serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
        let point = SweepPoint::new(text.setting, text.asked, text.baseline)?;
        Ok(SweepTask { head: text.head, point })
    }

    /// All of it, as text for [`read`](SweepTask::read).
    ///
    /// # Errors
    /// When the file of this build cannot be read.
    pub fn to_text(&self) -> Result<String, LabError> {
        let SweepPoint { setting, asked, baseline, .. } = self.point.clone();
        let (build, head) = (build()?.to_owned(), self.head.clone());
        let text = TaskText { build, head, setting, asked, baseline };
        Ok(serde_json::to_string(&text).expect("plain data"))
    }

    /// What tells it from the other points of its sweep.
    pub fn key(&self) -> &str {
        &self.point.key
    }

    /// The key of the point that its time is relative to; none for a baseline.
    pub fn baseline(&self) -> Option<&str> {
        self.point.baseline.as_deref()
    }

    /// For people: what runs, the design, the machine.
    pub fn about(&self) -> String {
        self.point.described.to_string()
    }

    /// The program and the design, as progress shows them.
    pub fn names(&self) -> (&str, String) {
        (self.point.program(), self.point.design())
    }

    /// Runs it and returns its line of the file. `baseline_cycles` are those of its baseline, as
    /// [`OpenSweep::cycles`](crate::OpenSweep::cycles) has them; none for a baseline itself.
    ///
    /// # Errors
    /// When it cannot be run, or was stopped.
    pub fn run(
        &self,
        baseline_cycles: Option<u64>,
        stop: &Arc<AtomicBool>,
    ) -> Result<String, LabError> {
        Ok(self.point.run(&self.head, baseline_cycles, stop)?.to_line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenSweep, SweepPlan};

    const TEXT: &str = r#"
        title = "A test"
        machine = "desktop:ghz=2.7"
        kernels = ["lu:2"]
        designs = ["bsp-lbpp:records=9"]
        crashes = 1
        factor = [
            { name = "stores", design = "stores", values = [50, 70] },
            { name = "cores", machine = "core.count", values = [1, 2] },
        ]
    "#;

    fn open(folder: &std::path::Path, name: &str) -> OpenSweep {
        let plan =
            SweepPlan::of_table("test", TEXT.parse().unwrap(), folder.join(name), None).unwrap();
        OpenSweep::open(plan, &Arc::default()).unwrap()
    }

    #[test]
    fn points_that_were_run_elsewhere_in_any_order_make_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Arc::default();
        for (name, is_backwards) in [("here", false), ("there", true)] {
            let open = open(folder.path(), name);
            let (baselines, mut others): (Vec<_>, Vec<_>) =
                open.left().into_iter().partition(|task| task.baseline().is_none());
            if is_backwards {
                others.reverse();
            }
            for task in baselines.into_iter().chain(others) {
                let sent = SweepTask::read(&task.to_text().unwrap()).unwrap();
                assert_eq!((sent.key(), sent.baseline()), (task.key(), task.baseline()));
                let over = task.baseline().map(|key| open.cycles(key).unwrap());
                let line = sent.run(over, &stop).unwrap();
                open.add(&line).unwrap();
                open.add(&line).unwrap();
            }
            assert!(!open.finish().unwrap().is_partial());
        }
        let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(file("there"), file("here"));
        assert!(file("here").lines().count() > 4);
    }

    #[test]
    fn detail_belongs_to_a_point_and_a_factor_that_no_access_feels_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (out, stop) = (folder.path().join("out"), Arc::default());
        let plan = |detail: bool| {
            let text = TEXT.replace("crashes = 1", &format!("detail = {detail}"));
            let text = text
                .replace("core.count\", values = [1, 2]", "memory.nvm.read\", values = [240, 480]");
            SweepPlan::of_table("test", text.parse().unwrap(), out.clone(), None).unwrap()
        };
        let open = OpenSweep::open(plan(true), &stop).unwrap();
        let mut tasks = open.left();
        tasks.sort_by_key(|task| task.baseline().is_some());
        for task in tasks {
            let sent = SweepTask::read(&task.to_text().unwrap()).unwrap();
            let over = task.baseline().map(|key| open.cycles(key).unwrap());
            open.add(&sent.run(over, &stop).unwrap()).unwrap();
        }
        let sweep = open.finish().unwrap();
        let text = sweep.to_text();
        assert!(text.contains("\nmemory.nvm.read can show little: 0 of "), "{text}");
        assert!(text.contains("machine = \"desktop:ghz=2.7:cold=true\" begins"), "{text}");
        let lines = std::fs::read_to_string(&out).unwrap();
        assert!(lines.lines().all(|line| line.contains("\"load_miss_cycles\":{\"count\":")));
        let again = OpenSweep::open(plan(true), &stop).unwrap();
        assert!(again.left().is_empty());
        again.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&out).unwrap(), lines, "numbers keep their digits");
        assert!(OpenSweep::open(plan(false), &stop).is_err(), "its points have no detail");
    }

    #[test]
    fn a_task_of_another_build_and_a_line_of_another_sweep_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = open(folder.path(), "out");
        let text = open.left()[0].to_text().unwrap();
        let other = text.replace(build().unwrap(), "0123");
        let said = SweepTask::read(&other).unwrap_err().to_string();
        assert!(said.contains("0123") && said.contains(build().unwrap()), "{said}");
        assert!(SweepTask::read("{}").unwrap_err().to_string().contains("build none"));
        let changed = SweepTask::read(&text.replace("\"seed\":1", "\"seed\":2")).unwrap();
        let line = changed.run(None, &Arc::default()).unwrap();
        assert!(open.add(&line).unwrap_err().to_string().contains("no point of this sweep"));
        assert!(open.add("{}").is_err());
        assert_eq!(std::fs::read_to_string(folder.path().join("out")).unwrap(), "");
    }
}
