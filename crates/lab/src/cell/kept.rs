//! A cell in a file of finished runs: numbers only, as a cell with crashes says more than a line.

use super::{Cell, Moving, Point};
use crate::engine::kept::Keep;
use seawall_ribbon::RibbonCounts;
use seawall_sim::{Counters, Cycle, Stalls};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Line {
    entries: Option<u64>,
    search_percent: Option<u32>,
    throughput: f64,
    cycles: Cycle,
    stalls: Stalls,
    counters: Counters,
    ribbon: Option<RibbonCounts>,
    moving: Option<Moving>,
    pages_a_byte: Option<f64>,
    host: Duration,
}

impl Keep<Point> for Cell {
    fn to_line(&self) -> Option<Value> {
        if self.crashes > 0 || !self.broken.is_empty() {
            return None;
        }
        let line = Line {
            entries: self.point.entries,
            search_percent: self.point.search_percent,
            throughput: self.throughput,
            cycles: self.cycles,
            stalls: self.stalls,
            counters: self.counters.clone(),
            ribbon: self.ribbon,
            moving: self.moving,
            pages_a_byte: self.pages_a_byte,
            host: self.host,
        };
        serde_json::to_value(line).ok()
    }

    fn from_line(point: &Point, line: &Value) -> Option<Cell> {
        let line: Line = serde_json::from_value(line.clone()).ok()?;
        let Line { entries, search_percent, .. } = line;
        Some(Cell {
            point: Point { entries, search_percent, ..point.clone() },
            throughput: line.throughput,
            cycles: line.cycles,
            stalls: line.stalls,
            counters: line.counters,
            ribbon: line.ribbon,
            moving: line.moving,
            pages_a_byte: line.pages_a_byte,
            crashes: 0,
            broken: Vec::new(),
            host: line.host,
            timeline: None,
            detail: None,
        })
    }
}
