//! One functional run over several host threads: each simulates the lines of one shard
//! (`servsim_mem::Shard`). The counts are those of one thread, to the unit.
//!
//! The trace is decoded once. In rounds, each thread decodes a stretch of it (where the format can be
//! read in parts; otherwise the first thread decodes for all), divides the references by shard, and
//! then takes its own shard's of all stretches, in their order. A reference that crosses a line, or
//! whose place depends on the processor, goes to every shard, and so does what ends quanta: which
//! task begins to run where.
//!
//! What ties lines of different sets together cannot be sharded: the fully associative shadow that
//! tells conflict from capacity misses (`classification.replacement = "exact"`), and the random
//! policy, whose lots are drawn in the order of all misses of a cache. Such runs stay on one thread.

use crate::functional::{interrupted, join_fetches, processor_of, run_on, Counted, Facts, Run, SWITCH};
use crate::setup::{with_word_mask, Setup};
use servsim_core::reference::{CONTINUATION, PER_CPU};
use servsim_core::{Batch, Event, GlobalSource, LineAddr, Op, Parts, Privacy, Record, SourceError};
use servsim_mem::running_tasks::RunningTasks;
use servsim_mem::{HierarchySpec, Shard, WordMask};
use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Barrier, Mutex, PoisonError, RwLock};

/// Batches that a thread decodes in a round: some hundred thousand references, so that waiting for the
/// slowest thread costs little.
const BATCHES: usize = 16;

/// How many shards a run on `threads` host threads is divided into: a power of two
/// that divides the number of sets of every cache, so that lines that share a set share a shard.
pub fn shards(setup: &Setup, spec: &HierarchySpec, threads: usize) -> usize {
    let levels = || spec.private.iter().chain(&spec.shared);
    let random = spec.replacement == "random" || levels().any(|level| level.replacement == "random");
    if setup.shadow || random || spec.tlb.is_some() || spec.prefetch.is_some() {
        return 1;
    }
    let sets = levels().fold(setup.geometry.sets(), |sets, level| sets | level.geometry.sets());
    1 << threads.max(1).ilog2().min(sets.trailing_zeros())
}

/// What one thread made of its stretch of the trace in a round.
#[derive(Default)]
struct Stretch {
    /// The references of every shard, with the events that they name.
    shards: Vec<Vec<Record>>,
    events: Vec<Event>,
    /// References of all shards together.
    records: u64,
    /// The trace ends here.
    last: bool,
    /// The run ends here, without a result.
    fault: Option<SourceError>,
}

impl Stretch {
    fn clear(&mut self, shards: usize) {
        self.shards.resize_with(shards, Vec::new);
        self.shards.iter_mut().for_each(Vec::clear);
        self.events.clear();
        (self.records, self.last, self.fault) = (0, false, None);
    }
}

/// Divides batches by shard.
struct Divider<'a> {
    handlers: &'a [bool],
    processors: usize,
    shift: u32,
    shard: Shard,
    /// As in [`Facts`].
    joined: bool,
    /// Who runs at each processor as far as this stretch tells.
    running: RunningTasks,
    /// What there is of each shard of a batch, in this thread's own memory: what another thread has read lies in the caches
    /// of another core, which each small write to it would wait for; a copy writes whole lines.
    own: Vec<Vec<Record>>,
}

impl Divider<'_> {
    /// Appends `batch` to `stretch`.
    fn divide(&mut self, batch: &Batch, stretch: &mut Stretch) {
        let first_event = stretch.events.len() as u64;
        stretch.events.extend_from_slice(&batch.events);
        stretch.records += batch.len_apart();
        let mut rest = batch.records.as_slice();
        while let Some(record) = rest.first() {
            if record.op == Op::Event {
                self.for_all(Record { address: record.address + first_event, ..*record });
                rest = &rest[1..];
                continue;
            }
            let cpu = processor_of(record, self.processors, self.joined);
            if !self.running.runs(cpu, record.task) && !self.handlers[record.task as usize] {
                self.running.begin(cpu, record.task);
                self.for_all(Record { op: Op::Event, address: SWITCH, ..*record });
            }
            let within = self.divide_run(rest);
            if within == 0 {
                self.for_all(*record);
            }
            rest = &rest[within.max(1)..];
        }
        for (list, own) in stretch.shards.iter_mut().zip(&mut self.own) {
            list.extend_from_slice(own);
            own.clear();
        }
    }

    fn for_all(&mut self, record: Record) {
        self.own.iter_mut().for_each(|list| list.push(record));
    }

    /// Whether the reference lies in one line, wherever it is performed.
    #[inline]
    fn is_within_line(&self, record: &Record) -> bool {
        let mask = (1_u64 << self.shift) - 1;
        let within = (record.address & mask) + (u64::from(record.size) - 1) <= mask;
        within && record.flags & (PER_CPU | CONTINUATION) == 0
    }

    /// Divides the records from the first on that lie in one line and are of the same task and processor; returns how many.
    #[inline(never)]
    fn divide_run(&mut self, records: &[Record]) -> usize {
        let Some(first) = records.first() else { return 0 };
        let same = |record: &Record| {
            record.task == first.task && (self.joined || record.cpu == first.cpu) && record.op != Op::Event
        };
        let count = records.iter().take_while(|record| same(record) && self.is_within_line(record)).count();
        let shift = self.shift;
        for record in &records[..count] {
            self.own[self.shard.of(LineAddr::of(record.address, shift))].push(*record);
        }
        count
    }
}

/// What the threads of a run share.
struct Team<'a> {
    count: usize,
    setup: &'a Setup,
    spec: &'a HierarchySpec,
    facts: &'a Facts,
    privacy: &'a Privacy,
    /// Per thread; those of a round are read while those of the next are written.
    stretches: [Vec<RwLock<Stretch>>; 2],
    /// Batches that the first thread decoded for others.
    batches: Vec<Mutex<Batch>>,
    barrier: Barrier,
}

/// Runs the trace on `count` threads.
///
/// # Errors
/// As [`crate::functional::run`].
pub fn run(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    spec: &HierarchySpec,
    count: usize,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Counted, SourceError> {
    if count == 1 {
        return run_on(source, setup, spec, proceed);
    }
    with_word_mask!(setup.geometry.line, run_with(source, setup, spec, count, proceed))
}

fn run_with<W: WordMask>(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    spec: &HierarchySpec,
    count: usize,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Counted, SourceError> {
    let joined = join_fetches(source, [setup]);
    let (facts, privacy) = (Facts::of(source, joined), source.privacy().clone());
    let some = || (0..count).map(|_| RwLock::default()).collect::<Vec<_>>();
    let team = Team {
        count,
        setup,
        spec,
        facts: &facts,
        privacy: &privacy,
        stretches: [some(), some()],
        batches: (0..count * BATCHES).map(|_| Mutex::default()).collect(),
        barrier: Barrier::new(count),
    };
    let results = match source.parts() {
        Some(parts) => team.start::<W>(Some(parts), None, proceed),
        None => team.start::<W>(None, Some(source), proceed),
    };
    let mut sum = None::<Counted>;
    for result in results {
        let part = result.unwrap_or_else(|panicked| resume_unwind(panicked))?;
        match &mut sum {
            Some(sum) => sum.add(&part),
            None => sum = Some(part),
        }
    }
    Ok(sum.expect("a team has threads"))
}

/// What a thread ends with; the outer error is a panic, kept until no thread waits for this one.
type Ended = Result<Result<Counted, SourceError>, Box<dyn Any + Send>>;

impl Team<'_> {
    /// Starts all threads, of which this is the first. Without `parts` it decodes for all.
    fn start<W: WordMask>(
        &self,
        parts: Option<&dyn Parts>,
        source: Option<&mut dyn GlobalSource>,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Vec<Ended> {
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.count)
                .map(|index| scope.spawn(move || self.work::<W>(index, parts, None, &mut |_| true)))
                .collect();
            let mut results = vec![self.work::<W>(0, parts, source, proceed)];
            results.extend(others.into_iter().map(|other| other.join().unwrap_or_else(Err)));
            results
        })
    }

    /// The work of thread `index`. Whether to go on is decided by what the threads wrote before they
    /// met, so that all decide alike and none waits for one that has left.
    fn work<W: WordMask>(
        &self,
        index: usize,
        parts: Option<&dyn Parts>,
        mut source: Option<&mut dyn GlobalSource>,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Ended {
        let mut run = Run::<W>::new(self.setup, self.spec, Shard::new(index, self.count), self.facts);
        let (mut done, mut panicked) = (0, None);
        for round in 0.. {
            let mut fault = (panicked.is_some() || !proceed(done)).then(interrupted);
            if parts.is_none() {
                if let Some(source) = source.as_deref_mut().filter(|_| fault.is_none()) {
                    let decoded = catch_unwind(AssertUnwindSafe(|| self.decode_all(source)));
                    fault = decoded
                        .unwrap_or_else(|panic| {
                            panicked = Some(panic);
                            Err(interrupted())
                        })
                        .err();
                }
                self.barrier.wait();
            }
            let divided = catch_unwind(AssertUnwindSafe(|| self.divide(index, round, parts, fault)));
            if let Err(panic) = divided {
                panicked = Some(panic);
            }
            self.barrier.wait();
            let all: Vec<_> = self.stretches[round % 2].iter().map(|s| s.read()).collect();
            // A lock is poisoned by the panic of the thread that writes it.
            if all.iter().any(|stretch| stretch.as_ref().map_or(true, |s| s.fault.is_some())) {
                let fault = all.iter().flatten().find_map(|stretch| stretch.fault.clone());
                return panicked.map_or(Ok(Err(fault.unwrap_or_else(interrupted))), Err);
            }
            let performed = catch_unwind(AssertUnwindSafe(|| {
                for stretch in all.iter().flatten() {
                    run.perform(&stretch.shards[index], &stretch.events, self.privacy);
                    done += stretch.records;
                }
            }));
            if let Err(panic) = performed {
                panicked = Some(panic);
            }
            if all.iter().flatten().any(|stretch| stretch.last) {
                break;
            }
        }
        match panicked {
            Some(panic) => Err(panic),
            None => Ok(Ok(run.finish())),
        }
    }

    /// Decodes the batches of a round for all threads.
    fn decode_all(&self, source: &mut dyn GlobalSource) -> Result<(), SourceError> {
        let mut more = true;
        for batch in &self.batches {
            let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
            more = more && source.next_batch(&mut batch)?;
            if !more {
                batch.clear();
            }
        }
        Ok(())
    }

    /// Divides the batches of thread `index`.
    fn divide(&self, index: usize, round: usize, parts: Option<&dyn Parts>, fault: Option<SourceError>) {
        let lock = self.stretches[round % 2][index].write();
        let mut stretch = lock.unwrap_or_else(PoisonError::into_inner);
        stretch.clear(self.count);
        stretch.fault = fault;
        let mut divider = Divider {
            handlers: &self.facts.handlers,
            processors: self.setup.processors,
            shift: self.setup.geometry.line.trailing_zeros(),
            shard: Shard::new(index, self.count),
            joined: self.facts.joined,
            running: RunningTasks::new(self.setup.processors),
            own: vec![Vec::new(); self.count],
        };
        for (number, batch) in self.batches.iter().enumerate().skip(index * BATCHES).take(BATCHES) {
            if stretch.fault.is_some() || stretch.last {
                return;
            }
            let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
            let any = match parts {
                Some(parts) => parts.part(round * self.batches.len() + number, &mut batch),
                None => Ok(!batch.records.is_empty()),
            };
            match any {
                Ok(true) => divider.divide(&batch, &mut stretch),
                Ok(false) => stretch.last = true,
                Err(error) => stretch.fault = Some(error),
            }
        }
    }
}
