//! Validation of the simulator: questions about a machine, with the answers that they must have.
//!
//! Each part of the machine is asked up to five questions, four of them as in Ramulator's tests:
//! does it run; does its curve have the right shape; is the latency of a lone request the sum of
//! its path; is its peak bandwidth that of the formula; does a memory give the bandwidth that the
//! machine's file states. The expectation is computed from numbers of the machine
//! file ([`Paths`]), never from the simulator's code; the measurement comes from small programs on
//! the simulator's public interface ([`Scene`]). The tests of this crate use the same sums and
//! programs. Nothing here uses a module of the simulator: only names that the crate exports.

use crate::{Machine, SimError};

mod channels;
mod curves;
mod hardware;
mod paths;
mod plot;
mod point;
mod points;
mod relocation;
mod scenes;
mod traffic;

pub use paths::{Paths, Tile};
pub use plot::{AxisScale, Plot, PlotAxis, PlotCurve};
pub use point::ValidationPoint;
pub use scenes::{Lines, Scene, Work, line_at};

/// All questions about a machine with their answers, and the curves behind them.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The points, by part.
    pub points: Vec<ValidationPoint>,
    /// The curves, each beside its formula or the hardware.
    pub plots: Vec<Plot>,
}

impl Validation {
    /// Asks every question and measures every curve; takes some seconds. `seed` determines the
    /// orders in which memory is walked.
    ///
    /// # Errors
    /// A simulation that fails.
    ///
    /// # Panics
    /// On a machine with fewer than two cores.
    pub fn measure(machine: &Machine, seed: u64) -> Result<Validation, SimError> {
        assert!(machine.core.count >= 2, "coherence needs two cores");
        let curves = curves::Curves::measure(machine, seed)?;
        let mut points = points::all(machine)?;
        points.extend(relocation::points(machine)?);
        points.extend(channels::points(machine)?);
        points.extend(curves.points());
        let mut plots = curves.plots();
        if let Some(hardware) = hardware::Hardware::measure(machine, seed)? {
            points.extend(hardware.points());
            plots.extend(hardware.plots());
        }
        points.sort_by_key(|point| points::order(&point.part));
        Ok(Validation { points, plots })
    }

    /// The number of points that do not hold and are no known gaps, and of gaps that hold.
    pub fn failures(&self) -> usize {
        self.points.iter().filter(|point| point.fails()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_holds(machine: &str) {
        let validation = Validation::measure(&Machine::load(machine).unwrap(), 1).unwrap();
        let failed: Vec<_> = validation.points.iter().filter(|point| point.fails()).collect();
        assert_eq!(validation.failures(), 0, "{failed:?}");
        for question in ["runs", "shape", "lone latency", "peak bandwidth", "stated bandwidth"] {
            assert!(validation.points.iter().any(|point| point.question == question), "{question}");
        }
    }

    #[test]
    fn every_point_holds_and_every_question_is_asked() {
        assert_holds("desktop");
    }

    #[test]
    fn formulas_hold_where_controllers_answer_late_and_cores_issue_less_than_their_width() {
        let machine = Machine::load("hops17").unwrap();
        assert!(machine.memory.post > 0 && machine.core.parallelism.is_some());
        assert_holds("hops17");
    }

    #[test]
    #[should_panic(expected = "two cores")]
    fn a_machine_with_one_core_is_refused() {
        let mut machine = Machine::load("desktop").unwrap();
        machine.core.count = 1;
        let _ = Validation::measure(&machine, 1);
    }
}
