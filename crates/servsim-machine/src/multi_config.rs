//! One functional pass over a trace for several machines at once: every reference is decoded once and
//! performed on each of them. The counts are those of as many runs, to the unit.
//!
//! What all machines know alike ([`filter`]) is taken out of the references first: a look at one small table takes
//! the place of a look-up on each; what the larger ones know alike, then out of the rest for these. The machines perform what is left of a stretch one after the other, so that each
//! has the host's caches to itself.
//!
//! Machines that differ in processors, line size or organisation of the first level, or on which a copy
//! may go without a request for its line (inclusive outer levels, flushes at switches) or hits have a
//! memory of their own (other policies), are still decoded for once, each reference being performed.

mod ages;
mod filter;

use crate::functional::{
    for_each_line, interrupted, is_handler, join_fetches, processor_of, references_of, Counted, Facts,
    LeftUse, Run, Step, Tally, IN_KERNEL, ON_KERNELS, ON_PRIVATE, OWNER_KNOWN, USED_EARLIER, WRITE,
};
use crate::place::page_of;
use crate::setup::{with_word_mask, Setup};
use filter::{filters, Filter, Shape};
use servsim_core::reference::{CONTINUATION, KERNEL};
use servsim_core::{Batch, Event, GlobalSource, Op, Privacy, Record, SourceError};
use servsim_mem::copy_index::Places;
use servsim_mem::switches::Switches;
use servsim_mem::{HierarchySpec, RunCounts, WordMask};
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

/// Records that a machine performs before the next has its turn, at least: enough to bring what it knows
/// into the host's caches once for many of them; 32 MiB.
const STRETCH: usize = 1 << 21;
/// The same of what is left, nearly all of which it has to fetch anyway: so few that the host's last cache keeps them for the
/// next machine; 5 MiB.
const STEPS: usize = 1 << 17;

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
    let filtered = !sieve.filters.is_empty();
    let new = if filtered { Run::of_what_is_left } else { Run::of_all };
    let perform = |run: &mut Run<W>, left: &Left<W>, privacy: &Privacy| {
        if filtered {
            run.perform_left(&left.steps);
        } else {
            run.perform(&left.records, &left.events, privacy);
        }
    };
    let new =
        |((setup, spec), &filter): (&(Setup, HierarchySpec), &usize)| (new(setup, spec, &facts), filter);
    let mut runs: Vec<(Run<W>, usize)> = machines.iter().zip(&sieve.filter_of).map(new).collect();
    let privacy = source.privacy().clone();
    let (mut stretch, mut more, mut done) = (sieve.nothing_left(), true, 0);
    while more || stretch[0].length() > 0 {
        let read = || {
            more = more
                && sieve.fill(source, &privacy, &mut |records| {
                    done += records;
                    proceed(done)
                })?;
            Ok(())
        };
        while_performed(&mut runs, threads, |(run, filter)| perform(run, &stretch[*filter], &privacy), read)?;
        stretch.iter_mut().for_each(Left::clear);
        std::mem::swap(&mut stretch, &mut sieve.left);
    }
    Ok(runs
        .into_iter()
        .map(|(run, filter)| run.finish_with(&sieve.tally, &sieve.hits_behind_first(filter)))
        .collect())
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

/// What is left of a stretch for some machines.
struct Left<W> {
    /// If nothing is filtered: all records, and the events among them.
    records: Vec<Record>,
    events: Vec<Event>,
    /// Otherwise: what the machines are told.
    steps: Vec<Step<W>>,
}

impl<W> Left<W> {
    fn nothing() -> Self {
        Self { records: Vec::new(), events: Vec::new(), steps: Vec::new() }
    }

    fn length(&self) -> usize {
        self.records.len() + self.steps.len()
    }

    fn clear(&mut self) {
        self.records.clear();
        self.events.clear();
        self.steps.clear();
    }
}

/// Takes out of batches what machines need not be asked for.
struct Sieve<W> {
    /// Each is told what the one before leaves.
    filters: Vec<Filter<W>>,
    /// By machine: the filter whose rest it is asked for.
    filter_of: Vec<usize>,
    batch: Batch,
    /// What each filter leaves of the batches of a stretch, with the switches of tasks; all, if there is none.
    left: Vec<Left<W>>,
    /// The references, if there is a filter; those taken out count as hits.
    tally: Tally,
    switches: Switches,
    /// Of the records of lines, on every machine.
    places: Places,
    handlers: Vec<bool>,
    shape: Shape,
}

impl<W: WordMask> Sieve<W> {
    fn new(machines: &[(Setup, HierarchySpec)], facts: &Facts) -> Self {
        let (first, spec) = &machines[0];
        let mut filter_of = vec![0; machines.len()];
        let filters = filters(machines, facts.handlers.len()).into_iter().enumerate();
        let filters = filters.map(|(number, (filter, asked))| {
            asked.into_iter().for_each(|machine| filter_of[machine] = number);
            filter
        });
        let mut sieve = Self {
            filters: filters.collect(),
            filter_of: Vec::new(),
            batch: Batch::default(),
            left: Vec::new(),
            tally: Tally::new(first.processors),
            switches: Switches::new(first.processors),
            places: if machines.iter().all(|(_, spec)| spec.shared.is_empty()) {
                Places::by_line()
            } else {
                Places::default()
            },
            handlers: facts.handlers.clone(),
            shape: Shape {
                processors: first.processors,
                shift: first.geometry.line.trailing_zeros(),
                split: spec.split,
                joined: facts.joined,
            },
        };
        (sieve.filter_of, sieve.left) = (filter_of, sieve.nothing_left());
        sieve
    }

    /// Nothing left by any filter.
    fn nothing_left(&self) -> Vec<Left<W>> {
        (0..self.filters.len().max(1)).map(|_| Left::nothing()).collect()
    }

    /// By processor: what the first filter has left, and no filter up to that number.
    fn hits_behind_first(&self, number: usize) -> Vec<RunCounts> {
        let mut sum = vec![RunCounts::default(); self.shape.processors];
        for filter in self.filters.iter().take(number + 1).skip(1) {
            let all = sum.as_flattened_mut().as_flattened_mut().iter_mut();
            all.zip(filter.hits.as_flattened().as_flattened()).for_each(|(sum, more)| *sum += more);
        }
        sum
    }

    /// Reads a stretch of the trace; whether there is more. `proceed` is told how many references were read.
    fn fill(
        &mut self,
        source: &mut dyn GlobalSource,
        privacy: &Privacy,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, SourceError> {
        let mut more = true;
        let most = if self.filters.is_empty() { STRETCH } else { STEPS };
        while more && self.left[0].length() < most {
            more = source.next_batch(&mut self.batch)?;
            if more {
                let batch = std::mem::take(&mut self.batch);
                self.pass(&batch, privacy);
                if !proceed(batch.len_apart()) {
                    return Err(interrupted());
                }
                self.batch = batch;
            }
        }
        for number in 0..self.filters.len() {
            let (before, left) = self.left.split_at_mut(number);
            if let Some(before) = before.last() {
                self.filters[number].leave_rest(&before.steps, &self.shape, &mut left[0].steps);
            }
            if !more {
                self.filters[number].finish(&mut left[0].steps);
            }
        }
        Ok(more)
    }

    #[inline(never)]
    fn pass(&mut self, batch: &Batch, privacy: &Privacy) {
        let Left { records, events, steps } = &mut self.left[0];
        let Some(filter) = self.filters.first_mut() else {
            let first_event = events.len() as u64;
            events.extend_from_slice(&batch.events);
            let moved = |record: &Record| Record { address: record.address + first_event, ..*record };
            let all = batch.records.iter();
            records.extend(all.map(|record| if record.op == Op::Event { moved(record) } else { *record }));
            return;
        };
        let mut rest = batch.records.as_slice();
        while let Some((record, others)) = rest.split_first() {
            if record.op == Op::Event {
                let event = batch.events[record.address as usize];
                if matches!(event, Event::TransactionEnd { .. }) {
                    steps.push(Step::End(event));
                }
                rest = others;
                continue;
            }
            let cpu = processor_of(record, self.shape.processors, self.shape.joined);
            if !self.switches.runs(cpu, record.task) && !is_handler(&self.handlers, record.task) {
                self.switches.begin(cpu, record.task);
                steps.push(Step::Switch(cpu, record.task));
            }
            let pair = self.tally.pair(cpu, record.task);
            let passed = filter.pass_run(cpu, rest, &self.shape, &mut pair.hits);
            if passed > 0 {
                rest = &rest[passed..];
                continue;
            }
            for_each_line::<W>(record, cpu, self.shape.shift, |access, piece| {
                let (cache, _) = Filter::<W>::place(cpu, piece, &self.shape);
                let page = page_of(privacy, piece);
                let flags = [
                    (access.kernel, IN_KERNEL),
                    (access.write, WRITE),
                    (self.switches.used(access.task, access.line), USED_EARLIER),
                    (page.private, ON_PRIVATE),
                    (page.kernel.is_some(), OWNER_KNOWN),
                    (page.kernel == Some(true), ON_KERNELS),
                ];
                let left = LeftUse {
                    line: access.line,
                    task: access.task,
                    place: self.places.place_of(access.line) as u32,
                    words: access.words,
                    cache: cache.0 as u16,
                    slot: access.slot as u8,
                    flags: flags.iter().fold(0, |all, &(is, flag)| all | if is { flag } else { 0 }),
                };
                filter.leave(&left, steps);
            });
            // The first of several fetches is left, and the others hit.
            let (mode, op) = (usize::from(record.flags & KERNEL), record.op as usize);
            pair.others[mode][op] += u64::from(record.flags & CONTINUATION == 0);
            pair.hits[mode][op] += references_of(record, self.shape.joined) - 1;
            rest = others;
        }
    }
}
