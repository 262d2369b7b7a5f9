//! The images that a crash, and crashes of recovery after it, may have left: what is still open of
//! them.
//!
//! Each crash is a layer: a run, and the order in which its stores can have persisted. A word holds
//! what the topmost layer stored to it, if that persisted, or what the layers below left.

use crate::models::order::{Cut, PersistOrder};
use crate::reached::{OPEN_MAX, combinations};
use crate::relocated::Copied;
use crate::trace::Trace;
use crate::words::LineIndex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A run, of the program or of recovery, that a crash cut short, and the order in which its stores
/// can have persisted.
pub(crate) struct Layer {
    pub(crate) trace: Arc<Trace>,
    pub(crate) order: PersistOrder,
}

/// A restriction: a line of a layer keeps `low` to `high` of its stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    pub(crate) layer: usize,
    pub(crate) line: LineIndex,
    pub(crate) low: u32,
    pub(crate) high: u32,
}

/// A possible value of a word, and the restrictions that it implies for the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Possible {
    pub(crate) value: u64,
    pub(crate) keeps: Vec<Keep>,
}

/// The images that are not ruled out.
#[derive(Default)]
pub(crate) struct Open {
    pub(crate) layers: Vec<Layer>,
    /// For each line the layers that have a log of it, as bits.
    pub(crate) touched: Vec<u16>,
    /// For each line its log in the lowest layer, if that has one.
    pub(crate) lowest: Vec<LineIndex>,
    /// The bits of reached bitmaps that lines decide, by word.
    pub(crate) reached: FxHashMap<u32, Vec<Copied>>,
}

impl Open {
    /// The log of the word in a layer that has one of its line.
    #[inline]
    pub(crate) fn log_of(&self, layer: usize, word: u32) -> LineIndex {
        let Layer { trace, .. } = &self.layers[layer];
        match layer {
            0 => trace.lane_of(self.lowest[word as usize / 8], word),
            _ => trace.log_of(word).expect("the layer touched the line"),
        }
    }

    /// The layers that have a log of the word's line, from the top.
    #[inline]
    pub(crate) fn layers_of(&self, word: u32) -> impl Iterator<Item = usize> + use<> {
        let mut bits = self.touched[word as usize / 8];
        std::iter::from_fn(move || {
            let top = bits.checked_ilog2()?;
            bits ^= 1 << top;
            Some(top as usize)
        })
    }

    fn bits_of(&self, word: u32) -> &[Copied] {
        match self.reached.is_empty() {
            true => &[],
            false => self.reached.get(&word).map_or(&[], Vec::as_slice),
        }
    }

    pub(crate) fn push(&mut self, layer: Layer) {
        let at = self.layers.len();
        for (number, log) in layer.trace.lines.iter().enumerate() {
            self.touched[log.line.0 as usize] |= 1 << at;
            if at == 0 && log.lane.unwrap_or(0) == 0 {
                self.lowest[log.line.0 as usize] = number as LineIndex;
            }
        }
        self.layers.push(layer);
    }

    pub(crate) fn pop(&mut self) -> Layer {
        let layer = self.layers.pop().expect("a layer was put there");
        let at = self.layers.len();
        for log in &layer.trace.lines {
            self.touched[log.line.0 as usize] &= !(1 << at);
        }
        layer
    }

    /// The largest image of each layer that is not ruled out.
    pub(crate) fn largest(&self) -> Vec<Cut> {
        self.layers.iter().map(|layer| layer.order.largest()).collect()
    }

    pub(crate) fn mark(&mut self) -> Vec<usize> {
        self.layers.iter_mut().map(|layer| layer.order.mark()).collect()
    }

    pub(crate) fn undo(&mut self, marks: Vec<usize>) {
        for (layer, mark) in self.layers.iter_mut().zip(marks) {
            layer.order.undo(mark);
        }
    }

    /// Rules out all images that the restrictions exclude; returns false if none is left.
    pub(crate) fn keep(&mut self, keeps: &[Keep]) -> bool {
        let layers = &mut self.layers;
        keeps.iter().all(|keep| layers[keep.layer].order.keep(keep.line, keep.low, keep.high))
    }

    /// Leaves the images in which the topmost layer has more stores of a log than before it grew;
    /// false if there are none. How many it had then stands beside it.
    pub(crate) fn keep_new(&mut self, (log, old): (LineIndex, u32)) -> bool {
        self.top().keep(log, old + 1, u32::MAX)
    }

    /// Leaves the images in which it has no more than before; false if there are none.
    pub(crate) fn keep_old(&mut self, (log, old): (LineIndex, u32)) -> bool {
        self.top().keep(log, 0, old)
    }

    fn top(&mut self) -> &mut PersistOrder {
        &mut self.layers.last_mut().expect("a layer was put there").order
    }

    /// The line of a log of the topmost layer.
    pub(crate) fn line_of_top(&self, log: LineIndex) -> u32 {
        let Layer { trace, .. } = self.layers.last().expect("a layer was put there");
        trace.lines[log as usize].line.0 as u32
    }

    /// Whether words of the line persisted out of order, in all images that are not ruled out.
    pub(crate) fn is_torn(&self, word: u32) -> bool {
        self.layers_of(word).any(|layer| {
            let Layer { trace, order } = &self.layers[layer];
            let log = self.log_of(layer, word);
            if trace.lines[log as usize].lane.is_none() {
                return false;
            }
            let first = trace.line_of(log);
            let (mut last_kept, mut first_lost) = (None, None);
            for log in first..first + 8 {
                let stores = &trace.lines[log as usize].stores;
                let (low, high) = order.window(log);
                let stored = (order.stored(log) as usize).min(stores.len());
                let kept = (low as usize).checked_sub(1).map(|at| stores[at]);
                last_kept = last_kept.max(kept);
                let lost = stores[..stored].get(high as usize).copied();
                first_lost = match (first_lost, lost) {
                    (Some(first), Some(lost)) => Some(u32::min(first, lost)),
                    (first, lost) => first.or(lost),
                };
            }
            first_lost.is_some_and(|lost| last_kept.is_some_and(|kept| kept > lost))
        })
    }

    /// The value of the word, if it is the same in all images that are not ruled out.
    #[inline]
    pub(crate) fn only(&self, word: u32, start: impl Fn() -> u64) -> Option<u64> {
        let mut of_lines = 0;
        for copied in self.bits_of(word).iter().filter(|_| !self.layers.is_empty()) {
            of_lines |= u64::from(copied.is_kept(&self.layers[0].order)?) << copied.bit;
        }
        for layer in self.layers_of(word) {
            let Layer { trace, order } = &self.layers[layer];
            let line = self.log_of(layer, word);
            let history = &trace.lines[line as usize].words[word as usize % 8];
            if history.is_empty() {
                continue;
            }
            let (low, high) = order.window(line);
            let next = history.partition_point(|(stores, _)| *stores <= low);
            if history.get(next).is_some_and(|(stores, _)| *stores <= high) {
                return None;
            }
            if let Some(last) = next.checked_sub(1) {
                return Some(history[last].1 | of_lines);
            }
        }
        Some(start() | of_lines)
    }

    /// The possible values of the word, from the least to the most persisted; false if there are
    /// more.
    pub(crate) fn possible(&self, word: u32, start: u64) -> (Vec<Possible>, bool) {
        let below = self.possible_below(self.layers.len(), word, start);
        let copied = self.bits_of(word);
        if copied.is_empty() {
            return (below, true);
        }
        let (mut set, mut undecided) = (0, Vec::new());
        for copied in copied {
            match copied.is_kept(&self.layers[0].order) {
                Some(is_kept) => set |= u64::from(is_kept) << copied.bit,
                None => undecided.push(copied),
            }
        }
        let with = |possible: &Possible, mask: u64| {
            let mut possible = possible.clone();
            possible.value |= set;
            for (number, Copied { line, stores, bit, .. }) in undecided.iter().enumerate() {
                let is_kept = mask >> number & 1 == 1;
                let (low, high) = if is_kept { (*stores, u32::MAX) } else { (0, stores - 1) };
                possible.value |= u64::from(is_kept) << bit;
                possible.keeps.push(Keep { layer: 0, line: *line, low, high });
            }
            possible
        };
        let masks = combinations(undecided.len());
        let all = masks.iter().flat_map(|mask| below.iter().map(|below| with(below, *mask)));
        (all.collect(), undecided.len() <= OPEN_MAX)
    }

    /// The possible values in the layers below `top`.
    fn possible_below(&self, top: usize, word: u32, start: u64) -> Vec<Possible> {
        let Some(layer) = self.layers_of(word).find(|layer| *layer < top) else {
            return vec![Possible { value: start, keeps: Vec::new() }];
        };
        let Layer { trace, order } = &self.layers[layer];
        let line = self.log_of(layer, word);
        let history = &trace.lines[line as usize].words[word as usize % 8];
        let (low, high) = order.window(line);
        let mut next = history.partition_point(|(stores, _)| *stores <= low);
        let after = |at: usize| history.get(at).map_or(high, |(stores, _)| (stores - 1).min(high));
        let keep = |low, high| Keep { layer, line, low, high };
        let mut all = match next.checked_sub(1) {
            Some(at) => {
                vec![Possible { value: history[at].1, keeps: vec![keep(low, after(next))] }]
            }
            None => self.possible_below(layer, word, start),
        };
        if next == 0 && after(next) < high {
            all.iter_mut().for_each(|possible| possible.keeps.push(keep(low, after(next))));
        }
        while next < history.len() && history[next].0 <= high {
            let (from, value) = history[next];
            next += 1;
            match all.last_mut().map(|last| (last.value, &mut last.keeps[..])) {
                Some((same, [only])) if same == value && only.layer == layer => {
                    only.high = after(next);
                }
                _ => all.push(Possible { value, keeps: vec![keep(from, after(next))] }),
            }
        }
        all
    }
}
