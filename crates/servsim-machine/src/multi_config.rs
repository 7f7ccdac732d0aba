//! One functional pass over a trace for several machines at once: every reference is decoded once and
//! performed on each of them. The counts are those of as many runs, to the unit.
//!
//! What all machines know alike ([`filter`]) is taken out of the references first: a look at one small table takes
//! the place of a look-up on each. The machines perform what is left of a stretch one after the other, so that each
//! has the host's caches to itself.
//!
//! Machines that differ in processors, line size or organisation of the first level, or on which a copy
//! may go without a request for its line (inclusive outer levels, flushes at switches) or hits have a
//! memory of their own (other policies), are still decoded for once, each reference being performed.

mod ages;
mod filter;

use crate::functional::{
    for_each_line, interrupted, join_fetches, processor_of, references_of, Counted, Facts, Left, Run, Tally,
    SWITCH,
};
use crate::setup::{with_word_mask, Setup};
use filter::Filter;
use servsim_core::reference::{CONTINUATION, KERNEL, PER_CPU, PRIVATE, SHARED};
use servsim_core::source::PAGE_SHIFT;
use servsim_core::{Batch, CacheId, GlobalSource, LineAddr, Op, Privacy, Record, SourceError};
use servsim_mem::running_tasks::RunningTasks;
use servsim_mem::{HierarchySpec, WordMask};
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

/// Records that a machine performs before the next has its turn, at least: enough to bring what it knows
/// into the host's caches once for many of them; 32 MiB.
const STRETCH: usize = 1 << 21;

const PAGE: u64 = 1 << PAGE_SHIFT;

/// What must be equal for machines to share one pass.
fn class_of(setup: &Setup, spec: &HierarchySpec) -> (usize, u64, bool) {
    (setup.processors, setup.geometry.line, spec.split)
}

/// Whether machines of one class can be run together.
pub fn together(a: (&Setup, &HierarchySpec), b: (&Setup, &HierarchySpec)) -> bool {
    class_of(a.0, a.1) == class_of(b.0, b.1)
}

/// Runs `source` to its end on all `machines`, which [`together`] accepts, with so many host threads; what each counted,
/// in order.
///
/// # Errors
/// As [`crate::functional::run`].
pub fn run(
    source: &mut dyn GlobalSource,
    machines: &[(Setup, HierarchySpec)],
    threads: usize,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<Counted>, SourceError> {
    let Some((first, _)) = machines.first() else { return Ok(Vec::new()) };
    with_word_mask!(first.geometry.line, run_with(source, machines, threads, proceed))
}

fn run_with<W: WordMask>(
    source: &mut dyn GlobalSource,
    machines: &[(Setup, HierarchySpec)],
    threads: usize,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<Counted>, SourceError> {
    let joined = join_fetches(source, machines.iter().map(|(setup, _)| setup));
    let facts = Facts::of(source, joined);
    let mut sieve = Sieve::<W>::new(machines, &facts);
    let filtered = sieve.filter.is_some();
    let new = if filtered { Run::of_what_is_left } else { Run::of_all };
    let perform = |run: &mut Run<W>, left: &Left<W>, privacy: &Privacy| {
        if filtered {
            run.perform_left(left, privacy);
        } else {
            run.perform(&left.records, &left.events, privacy);
        }
    };
    let mut runs: Vec<Run<W>> = machines.iter().map(|(setup, spec)| new(setup, spec, &facts)).collect();
    let privacy = source.privacy().clone();
    let (mut stretch, mut more, mut done) = (Left::default(), true, 0);
    while more || !stretch.records.is_empty() {
        let read = || {
            more = more
                && sieve.fill(source, &privacy, &mut |records| {
                    done += records;
                    proceed(done)
                })?;
            Ok(())
        };
        while_performed(&mut runs, threads, |run| perform(run, &stretch, &privacy), read)?;
        stretch.clear();
        std::mem::swap(&mut stretch, &mut sieve.left);
    }
    Ok(runs.into_iter().map(|run| run.finish(&sieve.tally)).collect())
}

/// Has `perform` work on all `runs`, on so many host threads, one of which does `other` first; what that returned.
fn while_performed<R: Send, T>(
    runs: &mut [R],
    threads: usize,
    perform: impl Fn(&mut R) + Sync,
    other: impl FnOnce() -> T,
) -> T {
    let threads = threads.clamp(1, runs.len());
    let runs = Mutex::new(runs.iter_mut());
    // No run is under way while the lock is held, so that none can poison it.
    let next = || runs.lock().unwrap_or_else(PoisonError::into_inner).next();
    let perform_all = || {
        while let Some(run) = next() {
            perform(run);
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(perform_all)).collect();
        let outcome = other();
        perform_all();
        for other in others {
            other.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        outcome
    })
}

/// Takes out of batches what machines need not be asked for.
struct Sieve<W> {
    filter: Option<Filter<W>>,
    batch: Batch,
    /// What is left of the batches of a stretch, with the switches of tasks.
    left: Left<W>,
    /// The references, if there is a filter; those taken out count as hits.
    tally: Tally,
    processors: usize,
    running: RunningTasks,
    handlers: Vec<bool>,
    shift: u32,
    split: bool,
    /// As in [`Facts`].
    joined: bool,
}

impl<W: WordMask> Sieve<W> {
    fn new(machines: &[(Setup, HierarchySpec)], facts: &Facts) -> Self {
        let (first, spec) = &machines[0];
        Self {
            filter: Filter::of(machines, facts.handlers.len()),
            batch: Batch::default(),
            left: Left::default(),
            tally: Tally::new(first.processors),
            processors: first.processors,
            running: RunningTasks::new(first.processors),
            handlers: facts.handlers.clone(),
            shift: first.geometry.line.trailing_zeros(),
            split: spec.split,
            joined: facts.joined,
        }
    }

    /// Reads a stretch of the trace; whether there is more. `proceed` is told how many references were read.
    fn fill(
        &mut self,
        source: &mut dyn GlobalSource,
        privacy: &Privacy,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, SourceError> {
        while self.left.records.len() < STRETCH {
            if !source.next_batch(&mut self.batch)? {
                self.finish();
                return Ok(false);
            }
            let batch = std::mem::take(&mut self.batch);
            self.pass(&batch, privacy);
            if !proceed(batch.len_apart()) {
                return Err(interrupted());
            }
            self.batch = batch;
        }
        Ok(true)
    }

    /// What the filter has still to tell.
    fn finish(&mut self) {
        if let Some(filter) = &mut self.filter {
            filter.finish(&mut self.left.uses);
            self.left.name_new();
        }
    }

    #[inline(never)]
    fn pass(&mut self, batch: &Batch, privacy: &Privacy) {
        let first_event = self.left.events.len() as u64;
        self.left.events.extend_from_slice(&batch.events);
        let mask = (1_u64 << self.shift) - 1;
        for record in &batch.records {
            if record.op == Op::Event {
                self.left.records.push(Record { address: record.address + first_event, ..*record });
                continue;
            }
            let Some(filter) = &mut self.filter else {
                self.left.records.push(*record);
                continue;
            };
            let cpu = processor_of(record, self.processors, self.joined);
            if !self.running.runs(cpu, record.task) && !self.handlers[record.task as usize] {
                self.running.begin(cpu, record.task);
                self.left.records.push(Record { op: Op::Event, address: SWITCH, ..*record });
            }
            let data = self.split && record.op != Op::Fetch;
            let cache = CacheId(cpu.0 * (1 + usize::from(self.split)) + usize::from(data));
            let (start, write) = (record.address & mask, record.op == Op::Store);
            let last = start + (u64::from(record.size) - 1);
            let pair = self.tally.pair(cpu, record.task);
            let (mode, op) = (usize::from(record.flags & KERNEL), record.op as usize);
            if last <= mask && record.flags & (PER_CPU | CONTINUATION) == 0 {
                let (line, words) = (LineAddr::of(record.address, self.shift), W::of_bytes(start, last));
                if filter.passes(cache, record.task, line, words, write) {
                    pair.hits[mode][op] += references_of(record, self.joined);
                    continue;
                }
                filter.learn((cache, record.task), line, write, &mut self.left);
            } else {
                for_each_line::<W>(record, cpu, self.shift, |access, _| {
                    filter.learn((cache, record.task), access.line, write, &mut self.left);
                });
            }
            // The first of several fetches is left, and the others hit.
            pair.others[mode][op] += u64::from(record.flags & CONTINUATION == 0);
            pair.hits[mode][op] += references_of(record, self.joined) - 1;
            self.left.name_new();
            self.left.records.push(with_privacy(record, privacy));
        }
    }
}

/// The record with what is known of its page, so that not every machine asks.
fn with_privacy(record: &Record, privacy: &Privacy) -> Record {
    let within_page = record.address % PAGE + u64::from(record.size) <= PAGE;
    let told = match within_page && record.flags & (PRIVATE | SHARED) == 0 {
        true if privacy.is_private(record) => PRIVATE,
        true => SHARED,
        false => 0,
    };
    Record { flags: record.flags | told, ..*record }
}
