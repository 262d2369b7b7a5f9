//! The images of a layer in groups: by the first line that has a store which is new since the crash
//! point before. So each image is tried at the first point that allows it.

use super::{Choose, Explorer};
use crate::walk::CrashPoint;
use std::ops::ControlFlow;

impl Explorer<'_> {
    /// Tries the images of the topmost layer: those that hold a new store, grouped by the first
    /// line that has one; and, if `all`, those that hold none.
    pub(super) fn layer(
        &mut self,
        point: &CrashPoint,
        all: bool,
        grown: &[(u32, u32)],
    ) -> ControlFlow<()> {
        if all {
            let marks = self.image().open().mark();
            let fits = grown.iter().all(|&line| self.image().open().keep_old(line));
            let flow = if fits { self.group(point) } else { ControlFlow::Continue(()) };
            self.image().open().undo(marks);
            flow?;
        }
        let marks = self.image().open().mark();
        let flow = self.groups(point, grown);
        self.image().open().undo(marks);
        flow
    }

    /// Each group leaves its line as it was for those that follow.
    fn groups(&mut self, point: &CrashPoint, grown: &[(u32, u32)]) -> ControlFlow<()> {
        for &line in grown {
            let marks = self.image().open().mark();
            let fits = self.image().open().keep_new(line);
            let flow = if fits { self.with_new(line.0, point) } else { ControlFlow::Continue(()) };
            self.image().open().undo(marks);
            flow?;
            if !self.image().open().keep_old(line) {
                break;
            }
        }
        ControlFlow::Continue(())
    }

    /// Tries the images that hold a new store of this log of the topmost layer.
    fn with_new(&mut self, log: u32, point: &CrashPoint) -> ControlFlow<()> {
        let line = self.image().open().line_of_top(log);
        let tears = !self.torn.contains(&line) && self.image().open().is_torn(8 * line);
        self.torn.extend(tears.then_some(line));
        let flow = self.group(point);
        if tears {
            self.torn.pop();
        }
        flow
    }

    fn group(&mut self, point: &CrashPoint) -> ControlFlow<()> {
        if self.torn.len() > self.options.torn_lines {
            return ControlFlow::Continue(());
        }
        self.states(point, Choose::Deviating(self.phase.deviations))
    }
}
