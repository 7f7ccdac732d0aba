//! Where a functional pass over a trace leaves live-points, and what it counts around each.
//!
//! Live-points lie `spacing` instructions apart between two transactions. From each a window may be timed:
//! [`Work::warmup`] instructions to fill queues and buffers, then [`Work::measured`]. The pass counts the misses of
//! its own caches over the very instructions that a window would measure, for all windows, timed or not, and over
//! the whole range: what a window takes follows its misses closely, so an estimate that knows them needs fewer
//! windows (`servsim.statistics.sampling`).

use super::state::WarmStart;
use crate::error::SimulateError;
use std::collections::BTreeMap;

/// Most live-points of a trace, about: each takes some megabytes of the file.
const MOST: u64 = 100;

/// Instructions of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Timed before the measurement.
    pub warmup: u64,
    /// Measured.
    pub measured: u64,
}

impl Work {
    /// What is timed of a window in all.
    #[must_use]
    pub fn whole(self) -> u64 {
        self.warmup + self.measured
    }
}

/// What a pass is to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Survey {
    /// Transactions before the range.
    pub before: u64,
    /// Transactions of the range.
    pub transactions: u64,
    /// Windows that may begin at a live-point.
    pub work: Work,
}

/// Takes the state at a live-point.
pub type Keep<'a> = dyn FnMut(WarmStart) -> Result<(), SimulateError> + 'a;

/// How far a pass is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    pub instructions: u64,
    pub transactions: u64,
}

/// What a pass counted so far, or over a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Instructions.
    pub instructions: u64,
    /// References.
    pub references: u64,
    /// Misses of the caches that are kept coherent.
    pub misses: u64,
    /// Lines read from memory.
    pub memory_reads: u64,
}

impl Counts {
    /// Adds those of something else.
    pub fn add(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.references += other.references;
        self.misses += other.misses;
        self.memory_reads += other.memory_reads;
    }

    /// What was counted since an earlier moment.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            instructions: self.instructions - before.instructions,
            references: self.references - before.references,
            misses: self.misses - before.misses,
            memory_reads: self.memory_reads - before.memory_reads,
        }
    }
}

/// What the tasks of each name did: how long a run takes depends on who of them misses.
pub type Groups = BTreeMap<String, Counts>;

/// What all of them did.
pub fn sum_of(groups: &Groups) -> Counts {
    groups.values().fold(Counts::default(), |mut sum, &one| {
        sum.add(one);
        sum
    })
}

/// What they did since an earlier moment, of those that did anything.
fn since(groups: &Groups, before: &Groups) -> Groups {
    let then = |name| before.get(name).copied().unwrap_or_default();
    let gaps = groups.iter().map(|(name, &now)| (name.clone(), now.since(then(name))));
    gaps.filter(|(_, gap)| *gap != Counts::default()).collect()
}

/// A live-point: where it is, and what its window holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LivePoint {
    /// Transactions that ended before.
    pub transactions: u64,
    /// What the pass counted over the instructions that a window measures.
    pub groups: Groups,
}

/// What a pass found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Range {
    /// Its transactions.
    pub transactions: u64,
    /// What was counted between its first and last.
    pub groups: Groups,
    /// Instructions from one live-point to the next.
    pub spacing: u64,
    /// Its live-points, in order, as many as were kept.
    pub places: Vec<LivePoint>,
}

/// A window of the pass that is under way.
#[derive(Debug, Clone)]
enum Under {
    /// Between windows.
    Way,
    /// Before its measured part.
    Warmup,
    /// In its measured part, which began here.
    Measured(Groups),
}

/// Follows a pass.
#[derive(Debug)]
pub struct Surveyor {
    survey: Survey,
    /// Where the range began.
    begun: Option<(Done, Groups)>,
    under: Under,
    /// Instructions at the next look.
    due: u64,
    /// Where the window under way began.
    point: Done,
    range: Range,
}

impl Surveyor {
    /// At the beginning of the trace.
    pub fn new(survey: Survey) -> Self {
        let point = Done { instructions: 0, transactions: 0 };
        Self { survey, begun: None, under: Under::Way, due: 0, point, range: Range::default() }
    }

    /// Whether the last transaction of the range has ended.
    pub fn is_over(&self, done: Done) -> bool {
        self.begun
            .as_ref()
            .is_some_and(|(begun, _)| done.transactions >= begun.transactions + self.survey.transactions)
    }

    /// Whether something happens here.
    pub fn is_due(&self, done: Done) -> bool {
        if self.begun.is_none() {
            done.transactions >= self.survey.before
        } else {
            done.instructions >= self.due
        }
    }

    /// Takes note of what was counted; whether a live-point lies here.
    pub fn look(&mut self, done: Done, groups: Groups) -> bool {
        let work = self.survey.work;
        if self.begun.is_none() {
            // A range holds about as many instructions a transaction as what lies before it.
            let each = done.instructions / done.transactions.max(1);
            let most = each.saturating_mul(self.survey.transactions) / MOST;
            self.range.spacing = most.max(2 * work.whole());
            self.begun = Some((done, groups.clone()));
        }
        match &self.under {
            Under::Way => {
                (self.under, self.point) = (Under::Warmup, done);
                self.due = done.instructions + work.warmup;
                true
            }
            Under::Warmup => {
                self.under = Under::Measured(groups);
                self.due = done.instructions + work.measured;
                false
            }
            Under::Measured(before) => {
                self.range.places.push(LivePoint {
                    transactions: self.point.transactions,
                    groups: since(&groups, before),
                });
                self.under = Under::Way;
                self.due = self.point.instructions + self.range.spacing;
                false
            }
        }
    }

    /// What was found, at the end of the range or of the trace.
    ///
    /// # Errors
    /// When not even one window lies in the range.
    pub fn finish(self, done: Done, groups: &Groups) -> Result<Range, SimulateError> {
        let begun = self.begun.filter(|_| !self.range.places.is_empty());
        let (begun, before) = begun.ok_or_else(|| {
            SimulateError::Usage(format!(
                "the {} transactions to measure are shorter than one window of {} instructions, so nothing can be \
                 sampled: leave out --precision, or capture a longer trace",
                self.survey.transactions,
                self.survey.work.whole()
            ))
        })?;
        Ok(Range {
            transactions: done.transactions - begun.transactions,
            groups: since(groups, &before),
            ..self.range
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SURVEY: Survey = Survey { before: 2, transactions: 4, work: Work { warmup: 10, measured: 20 } };

    /// A pass of one instruction a step, 100 a transaction, a miss in every tenth.
    fn pass(survey: Survey, length: u64) -> (Vec<u64>, Result<Range, SimulateError>) {
        let mut surveyor = Surveyor::new(survey);
        let mut points = Vec::new();
        for instructions in 0.. {
            let done = Done { instructions, transactions: instructions / 100 };
            // Two names, which do three tenths and the rest.
            let of = |instructions: u64| {
                let (references, misses) = (2 * instructions, instructions / 10);
                Counts { instructions, references, misses, memory_reads: 0 }
            };
            let few = instructions * 3 / 10;
            let groups: Groups = [("few".into(), of(few)), ("most".into(), of(instructions - few))].into();
            if surveyor.is_over(done) || instructions == length {
                return (points, surveyor.finish(done, &groups));
            }
            if surveyor.is_due(done) && surveyor.look(done, groups) {
                points.push(instructions);
            }
        }
        unreachable!()
    }

    #[test]
    fn live_points_lie_evenly_between_the_first_and_the_last_transaction() {
        let (points, range) = pass(SURVEY, u64::MAX);
        let range = range.unwrap();
        assert_eq!(points, [200, 260, 320, 380, 440, 500, 560]);
        assert_eq!((range.transactions, range.spacing), (4, 60));
        let few = Counts { instructions: 120, references: 240, misses: 12, memory_reads: 0 };
        assert_eq!(range.groups["few"], few);
        let all = Counts { instructions: 400, references: 800, misses: 40, memory_reads: 0 };
        assert_eq!(sum_of(&range.groups), all);
        assert_eq!(range.places.len(), 7, "the last window ends before the range does");
        let of_window = Counts { instructions: 6, references: 12, ..range.places[1].groups["few"] };
        assert_eq!(range.places[1].groups["few"], of_window);
        assert_eq!((range.places[3].transactions, sum_of(&range.places[3].groups).instructions), (3, 20));
    }

    #[test]
    fn a_window_that_reaches_beyond_the_range_is_no_place() {
        let (points, range) = pass(Survey { transactions: 1, ..SURVEY }, 285);
        assert_eq!((points.len(), range.unwrap().places.len()), (2, 1));
    }

    #[test]
    fn long_ranges_have_live_points_farther_apart() {
        let (points, range) = pass(Survey { transactions: 400, ..SURVEY }, u64::MAX);
        assert_eq!(range.unwrap().spacing, 400);
        assert_eq!(points.len(), 100);
    }

    #[test]
    fn a_range_shorter_than_a_window_is_refused_with_both_lengths() {
        let work = Work { warmup: 1000, measured: 20 };
        let (_, range) = pass(Survey { work, ..SURVEY }, u64::MAX);
        let text = range.unwrap_err().to_string();
        assert!(text.contains("4 transactions") && text.contains("1020 instructions"), "{text}");
    }
}
