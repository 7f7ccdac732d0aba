//! One window of a sampled simulation: from a live-point on, a fixed number of instructions rather than of
//! transactions. A transaction ends somewhere within a window, if at all, and to wait for its end would make windows
//! long exactly where they are slow.

use super::engine::Engine;
use super::measure::Reading;
use super::taken::Taken;
use crate::error::SimulateError;
use crate::result::ProcessorTimes;
use crate::software::Executor;
use crate::warm::{WarmStart, Work};
use servsim_core::CpuId;
use servsim_mem::WordMask;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rounds of the loop between two looks at the instructions: each is some ten of them.
const ROUNDS_PER_LOOK: u64 = 16;

/// What one window took.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Cycles, by the machine's clock.
    pub cycles: u64,
    /// Counters over the window.
    pub counted: Reading,
    /// What transactions took.
    pub taken: Taken,
    /// Where the cycles of all processors went.
    pub times: ProcessorTimes,
    /// Transactions that ended in it.
    pub transactions: u64,
    /// Cycles and instructions of its first half.
    pub first_half: (u64, u64),
    /// What the tasks of each name did.
    pub groups: BTreeMap<String, Share>,
    /// References that were timed in all, warm-up included.
    pub timed: u64,
    /// Whether the trace ended before the window did.
    pub cut_short: bool,
}

/// What some tasks did in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    pub instructions: u64,
    pub references: u64,
    /// Cycles at work.
    pub work: u64,
}

/// Counters at one moment.
struct Moment {
    now: u64,
    reading: Reading,
    taken: Taken,
    times: ProcessorTimes,
    /// Per task.
    shares: Vec<Share>,
}

impl<W: WordMask> Engine<'_, W> {
    /// Times a window from `start` on.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn run_window(
        mut self,
        start: &WarmStart,
        work: Work,
        stop: &AtomicBool,
        done: &AtomicU64,
    ) -> Result<Measured, SimulateError> {
        self.port.caches.system.switches.leave_out_causes();
        self.resume(start, false)?;
        let cut_short = !self.run_until(work.warmup, stop)?;
        let begin = self.moment();
        let transactions = self.accounts.measure.seen();
        let until = |share: u64| begin.reading.instructions + share;
        let cut_short = !self.run_until(until(work.measured / 2), stop)? || cut_short;
        let middle = self.moment();
        let cut_short = !self.run_until(until(work.measured), stop)? || cut_short;
        let end = self.moment();
        done.fetch_add(end.reading.references, Ordering::Relaxed);
        Ok(Measured {
            cycles: end.now - begin.now,
            counted: end.reading.since(&begin.reading),
            taken: end.taken.since(&begin.taken),
            times: end.times.since(&begin.times),
            transactions: self.accounts.measure.seen() - transactions,
            first_half: (middle.now - begin.now, middle.reading.instructions - begin.reading.instructions),
            groups: self.groups(&begin.shares, &end.shares),
            timed: end.reading.references,
            cut_short,
        })
    }

    /// What the tasks of each name did between two moments, of those that did anything.
    fn groups(&self, begin: &[Share], end: &[Share]) -> BTreeMap<String, Share> {
        let mut groups: BTreeMap<String, Share> = BTreeMap::new();
        for ((task, begin), end) in self.software.source.tasks().iter().zip(begin).zip(end) {
            if begin != end {
                let share = groups.entry(task.name.clone()).or_default();
                share.instructions += end.instructions - begin.instructions;
                share.references += end.references - begin.references;
                share.work += end.work - begin.work;
            }
        }
        groups
    }

    /// Runs until so many instructions were made since the live-point; `false` when the trace has not that many.
    fn run_until(&mut self, instructions: u64, stop: &AtomicBool) -> Result<bool, SimulateError> {
        let mut rounds = 0_u64;
        loop {
            if rounds.is_multiple_of(ROUNDS_PER_LOOK) {
                if self.instructions() >= instructions {
                    return Ok(true);
                }
                if stop.load(Ordering::Relaxed) {
                    return Err(SimulateError::Interrupted);
                }
            }
            let passed = self.rounds(ROUNDS_PER_LOOK - rounds % ROUNDS_PER_LOOK)?;
            if passed == 0 && !self.unstick()? {
                return Ok(false);
            }
            rounds += passed.max(1);
        }
    }

    fn moment(&mut self) -> Moment {
        self.perform_all_foreseen(self.now.saturating_sub(1));
        self.settle_waits(self.now);
        CpuId::all(self.processors.len()).for_each(|cpu| self.charge_work(cpu));
        let mut times = ProcessorTimes::default();
        self.processors.iter().for_each(|processor| times.add(&processor.times));
        let both = self.accounts.task_references.iter().zip(&self.accounts.task_work);
        let share = |(references, &work): (&[[u64; 3]; 2], &u64)| Share {
            instructions: references[0][0] + references[1][0],
            references: references.iter().flatten().sum(),
            work,
        };
        Moment {
            now: self.now,
            reading: self.reading(),
            taken: self.port.taken,
            times,
            shares: both.map(share).collect(),
        }
    }
}
