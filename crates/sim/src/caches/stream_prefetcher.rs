//! A stream prefetcher, which fetches lines into the shared cache before they are requested.
//!
//! After the prefetcher that Intel documents for the second-level cache of its Core processors
//! since Sandy Bridge (optimisation manual, "Data Prefetch to L2 and Last Level Cache"): it
//! observes a core's requests beyond its private levels, loads and stores alike, follows one
//! ascending or descending stream in each of some pages of 4 KiB, issues two prefetches for each
//! observed request, runs at most 20 lines ahead, and never leaves the page. So a log that is
//! written sequentially through the caches rarely waits for memory, though every line of it must be
//! read.
//!
//! Here it fills the shared cache, and replaces a line only if the design lets that line leave at
//! once ([`may_displace`](crate::design::Design::may_displace)): no access waits for a prefetch. A
//! prefetch costs what any fill costs: ports, links, channel and banks. A machine without a
//! `prefetch` table has no prefetcher; of the built-in machines only `memsys17-i7` has one.

use crate::LineId;
use crate::config::{Machine, PrefetchConfig};

/// Lines of a page.
const PAGE_LINES: LineId = 64;

/// A page that is followed.
#[derive(Clone, Copy, Debug)]
struct Stream {
    page: LineId,
    /// The last requested line.
    last: LineId,
    /// The last prefetched line; `last` if there is none.
    front: LineId,
    /// The direction; unknown after the first request.
    ascends: Option<bool>,
    used: u64,
}

/// The streams of one core.
#[derive(Clone, Debug)]
pub(crate) struct StreamPrefetcher {
    config: PrefetchConfig,
    streams: Vec<Stream>,
    clock: u64,
}

impl StreamPrefetcher {
    fn new(config: PrefetchConfig) -> StreamPrefetcher {
        StreamPrefetcher { config, streams: Vec::with_capacity(config.streams), clock: 0 }
    }

    /// A prefetcher for each core of the machine, or none.
    pub(crate) fn of_machine(machine: &Machine) -> Vec<StreamPrefetcher> {
        let one = machine.prefetch.map(StreamPrefetcher::new);
        one.map_or(Vec::new(), |one| vec![one; machine.core.count])
    }

    /// Observes the core's request for `line`; returns the lines to prefetch.
    pub(super) fn asked(&mut self, line: LineId) -> impl Iterator<Item = LineId> + use<> {
        let PrefetchConfig { ahead, per_request, .. } = self.config;
        let stream = self.follow(line);
        let (first, last) = (line - line % PAGE_LINES, line - line % PAGE_LINES + PAGE_LINES - 1);
        let from = stream.front;
        let to = match stream.ascends {
            Some(true) => (from + per_request).min(line + ahead).min(last),
            Some(false) => {
                let low = from.saturating_sub(per_request);
                low.max(line.saturating_sub(ahead)).max(first)
            }
            None => from,
        };
        stream.front = to;
        let up = from + 1..to + 1;
        up.chain((to..from).rev())
    }

    /// The stream of the line's page, with `line` as its last. A new stream replaces the oldest.
    fn follow(&mut self, line: LineId) -> &mut Stream {
        self.clock += 1;
        let (page, used) = (line / PAGE_LINES, self.clock);
        if let Some(at) = self.streams.iter().position(|stream| stream.page == page) {
            let stream = &mut self.streams[at];
            stream.used = used;
            if line != stream.last {
                let ascends = line > stream.last;
                let is_behind = if ascends { stream.front <= line } else { stream.front >= line };
                if stream.ascends != Some(ascends) || is_behind {
                    stream.front = line;
                }
                (stream.ascends, stream.last) = (Some(ascends), line);
            }
            return stream;
        }
        let new = Stream { page, last: line, front: line, ascends: None, used };
        let at = if self.streams.len() < self.config.streams {
            self.streams.push(new);
            self.streams.len() - 1
        } else {
            let ages = self.streams.iter().enumerate();
            let (at, _) = ages.min_by_key(|(_, stream)| stream.used).expect("at least one stream");
            self.streams[at] = new;
            at
        };
        &mut self.streams[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetcher(streams: usize) -> StreamPrefetcher {
        StreamPrefetcher::new(PrefetchConfig { streams, ahead: 20, per_request: 2 })
    }

    fn asked(prefetcher: &mut StreamPrefetcher, line: LineId) -> Vec<LineId> {
        prefetcher.asked(line).collect()
    }

    #[test]
    fn a_stream_runs_ahead_by_two_at_a_request_up_to_twenty_lines_and_to_the_end_of_its_page() {
        let mut prefetcher = prefetcher(32);
        assert!(asked(&mut prefetcher, 128).is_empty(), "one request has no direction");
        assert_eq!(asked(&mut prefetcher, 129), [130, 131]);
        assert_eq!(asked(&mut prefetcher, 130), [132, 133]);
        let all: Vec<LineId> = (131..192).flat_map(|line| asked(&mut prefetcher, line)).collect();
        assert_eq!(all.last(), Some(&191), "not into the next page");
        let mut again = self::prefetcher(32);
        for line in 0..30 {
            let most = asked(&mut again, line).last().copied().unwrap_or(line);
            assert!(most <= line + 20 && most < 64, "{most} at {line}");
        }
    }

    #[test]
    fn a_stream_descends_too_and_one_that_turns_starts_anew() {
        let mut prefetcher = prefetcher(32);
        asked(&mut prefetcher, 50);
        assert_eq!(asked(&mut prefetcher, 49), [48, 47]);
        assert_eq!(asked(&mut prefetcher, 48), [46, 45]);
        assert_eq!(asked(&mut prefetcher, 60), [61, 62]);
        asked(&mut prefetcher, 1);
        assert_eq!(asked(&mut prefetcher, 0), [], "the page begins here");
    }

    #[test]
    fn the_page_that_was_used_least_recently_gives_way() {
        let mut prefetcher = prefetcher(2);
        for line in [0, 64, 1, 128] {
            asked(&mut prefetcher, line);
        }
        assert_eq!(asked(&mut prefetcher, 2), [4, 5], "still followed: 2 and 3 were asked ahead");
        assert!(asked(&mut prefetcher, 65).is_empty(), "forgotten for the third page");
    }
}
