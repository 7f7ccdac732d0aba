//! What is measured: transactions, the window between warm-up and the last transaction or a number of
//! references, and the counters along it.

use crate::counted::Windowed;
use crate::result::{KindResult, Window};

/// Longest timeline; then pairs of windows are joined and the window doubles.
const MOST_WINDOWS: usize = 256;
/// First length of a window in cycles.
const FIRST_WINDOW: u64 = 1 << 16;

/// Transactions before a bound of the window from which on processors keep what they are charged: more than end
/// while a processor runs ahead.
const NEAR: u64 = 8;
/// The same in references, of which many are made between two counts.
const NEAR_REFERENCES: u64 = 1 << 20;

/// Counters that only grow, read at one time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading {
    pub references: u64,
    pub instructions: u64,
    pub misses: u64,
    pub bus_busy: u64,
    pub busy: u64,
    /// As [`Window::counters`].
    pub counters: Windowed,
}

impl Reading {
    /// What was counted since an earlier reading.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            references: self.references - before.references,
            instructions: self.instructions - before.instructions,
            misses: self.misses - before.misses,
            bus_busy: self.bus_busy - before.bus_busy,
            busy: self.busy - before.busy,
            counters: self.counters.since(&before.counters),
        }
    }
}

/// Progress of the measurement.
#[derive(Debug)]
pub struct Measure {
    warmup: u64,
    wanted: Option<u64>,
    /// References to measure instead, which `warmup` counts then; how many there were, and when the window began.
    references: Option<u64>,
    made: u64,
    made_at_start: u64,
    /// When so many had been measured.
    over: Option<u64>,
    seen: u64,
    /// Start of the measured window, once it has begun.
    pub start: Option<u64>,
    /// When each transaction ended since the start, counted from there.
    pub ends: Vec<u64>,
    /// The same per kind.
    pub kinds: Vec<KindResult>,
    /// Length of a timeline window.
    pub window: u64,
    /// Timeline so far.
    pub timeline: Vec<Window>,
    next_window: u64,
    last: (Reading, u64),
}

impl Measure {
    pub fn new(names: Vec<String>, warmup: u64, wanted: Option<u64>) -> Self {
        let kinds = names.into_iter().map(|name| KindResult { name, ..KindResult::default() });
        Self {
            warmup,
            wanted,
            references: None,
            made: 0,
            made_at_start: 0,
            over: None,
            seen: 0,
            start: None,
            ends: Vec::new(),
            kinds: kinds.collect(),
            window: FIRST_WINDOW,
            timeline: Vec::new(),
            next_window: u64::MAX,
            last: (Reading::default(), 0),
        }
    }

    /// The same over so many references, if a number is given.
    #[must_use]
    pub fn by_references(self, references: Option<u64>) -> Self {
        Self { references, ..self }
    }

    /// Whether references bound the window.
    #[inline]
    pub fn is_by_references(&self) -> bool {
        self.references.is_some()
    }

    /// So many references have been made by `now`.
    pub fn count_references(&mut self, made: u64, now: u64) {
        self.made = made;
        if self.start.is_some() && self.references.is_some_and(|wanted| made - self.made_at_start >= wanted) {
            self.over.get_or_insert(now);
        }
    }

    /// What the warm-up counts, so far.
    fn passed(&self) -> u64 {
        if self.is_by_references() {
            self.made
        } else {
            self.seen
        }
    }

    /// Whether the warm-up is over but the window has not begun.
    pub fn should_start(&self) -> bool {
        self.start.is_none() && self.passed() >= self.warmup
    }

    /// Begins the window at `now`.
    pub fn begin(&mut self, now: u64, reading: &Reading) {
        self.start = Some(now);
        self.made_at_start = reading.references;
        self.next_window = now + self.window;
        self.last = (*reading, 0);
    }

    /// Counts a transaction that ended at `now`; `previous` is when the same user's last one did.
    pub fn transaction(&mut self, kind: u32, now: u64, previous: Option<u64>) {
        self.seen += 1;
        let Some(start) = self.start else { return };
        while self.kinds.len() <= kind as usize {
            let name = format!("kind {}", self.kinds.len());
            self.kinds.push(KindResult { name, ..KindResult::default() });
        }
        self.ends.push(now.saturating_sub(start));
        let kind = &mut self.kinds[kind as usize];
        kind.count += 1;
        if let Some(previous) = previous {
            kind.responses.push(now.saturating_sub(previous));
        }
    }

    /// Transactions that ended so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// References up to where the window by references begins or ends, as far as they are counted.
    pub fn references_left(&self) -> u64 {
        let Some(wanted) = self.references else { return u64::MAX };
        let bound = if self.start.is_some() { self.made_at_start + wanted } else { self.warmup };
        bound.saturating_sub(self.made)
    }

    /// Whether so little is left before the window begins or ends that it may soon.
    pub fn is_near_a_bound(&self) -> bool {
        match (self.references, self.start) {
            (Some(_), None) => return self.made + NEAR_REFERENCES >= self.warmup,
            (Some(wanted), Some(_)) => return self.made + NEAR_REFERENCES >= self.made_at_start + wanted,
            _ => {}
        }
        match self.start {
            None => self.seen + NEAR >= self.warmup,
            Some(_) => self.wanted.is_some_and(|wanted| self.measured() + NEAR >= wanted),
        }
    }

    /// When the last transaction of the window ended, or the last of the references was made.
    pub fn last_end(&self) -> Option<u64> {
        if self.is_by_references() {
            return self.over;
        }
        Some(self.start? + self.ends.iter().max()?)
    }

    /// Transactions in the window.
    pub fn measured(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Whether the requested number is reached.
    #[inline]
    pub fn complete(&self) -> bool {
        self.over.is_some()
            || self.wanted.is_some_and(|wanted| self.start.is_some() && self.measured() >= wanted)
    }

    /// Whether the current timeline window is over.
    #[inline]
    pub fn window_over(&self, now: u64) -> bool {
        now >= self.next_window
    }

    /// The last moment within the current timeline window.
    #[inline]
    pub fn last_of_window(&self) -> u64 {
        self.next_window - 1
    }

    /// Closes the current timeline window at `now`.
    pub fn close_window(&mut self, now: u64, reading: &Reading) {
        let start = self.start.unwrap_or(0);
        let (last, transactions) = self.last;
        let total = self.measured();
        let Reading { references, instructions, misses, bus_busy, busy, counters } = reading.since(&last);
        let start_of_window = self.next_window - self.window - start;
        let transactions = total - transactions;
        self.timeline.push(Window {
            start: start_of_window,
            references,
            instructions,
            misses,
            bus_busy,
            busy,
            transactions,
            counters,
        });
        self.last = (*reading, total);
        self.next_window += self.window;
        if self.timeline.len() == MOST_WINDOWS {
            self.join_pairs(start);
        }
        while self.next_window <= now {
            // Nothing sequence for whole windows: they are empty.
            self.timeline.push(Window { start: self.next_window - self.window - start, ..Window::default() });
            self.next_window += self.window;
            if self.timeline.len() == MOST_WINDOWS {
                self.join_pairs(start);
            }
        }
    }

    fn join_pairs(&mut self, start: u64) {
        let join = |pair: &[Window]| {
            let sum = |f: fn(&Window) -> u64| pair.iter().map(f).sum();
            Window {
                start: pair[0].start,
                references: sum(|w| w.references),
                instructions: sum(|w| w.instructions),
                misses: sum(|w| w.misses),
                bus_busy: sum(|w| w.bus_busy),
                busy: sum(|w| w.busy),
                transactions: sum(|w| w.transactions),
                counters: Windowed::joined(&pair.iter().map(|w| &w.counters).collect::<Vec<_>>()),
            }
        };
        self.timeline = self.timeline.chunks(2).map(join).collect();
        self.window *= 2;
        self.next_window = start + (self.timeline.len() as u64 + 1) * self.window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_timeline_keeps_its_sums_in_fewer_windows() {
        let mut measure = Measure::new(Vec::new(), 0, None);
        measure.begin(100, &Reading::default());
        for step in 1..=1000_u64 {
            let now = 100 + step * FIRST_WINDOW;
            while measure.window_over(now) {
                measure.close_window(now, &Reading { references: step * 7, ..Reading::default() });
            }
        }
        assert!(measure.timeline.len() < MOST_WINDOWS);
        let total: u64 = measure.timeline.iter().map(|w| w.references).sum();
        assert!(total > 6000 && total <= 7000, "{total}");
        let starts: Vec<u64> = measure.timeline.iter().map(|w| w.start).collect();
        assert!(starts.windows(2).all(|w| w[1] - w[0] == measure.window), "{starts:?}");
    }
}
