//! One functional run over several host threads: each simulates the lines of one shard
//! (`servsim_mem::Shard`). The counts are those of one thread, to the unit.
//!
//! The trace is decoded once, stretch by stretch. A stretch is read (by the first thread; where the format can be read in
//! parts, by whoever divides it), its references are divided by shard, and then each thread takes its own shard's of all
//! stretches, in their order. Nobody waits for a round to end: a thread whose shard has nothing to do yet divides the
//! next stretch, so whoever is ahead takes more of the common work (ADR 0374). A reference that
//! crosses a line, or whose place depends on the processor, goes to every shard, and so does what ends quanta: which
//! task begins to run where.
//!
//! What ties lines of different sets together cannot be sharded: the fully associative shadow that
//! tells conflict from capacity misses (`classification.replacement = "exact"`), and the random
//! policy, whose lots are drawn in the order of all misses of a cache. Such runs stay on one thread.

mod progress;

use crate::functional::{
    interrupted, is_handler, join_fetches, processor_of, run_on, Counted, Facts, Run, SWITCH,
};
use crate::setup::{with_word_mask, Setup};
use progress::{Progress, Task};
use servsim_core::reference::{CONTINUATION, PER_CPU};
use servsim_core::{Batch, Event, GlobalSource, LineAddr, Op, Parts, Privacy, Record, SourceError};
use servsim_mem::running_tasks::RunningTasks;
use servsim_mem::{HierarchySpec, Shard, WordMask};
use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockWriteGuard};

/// Batches of a stretch: some ten thousand references, so that handing one over costs little.
const BATCHES: usize = 4;
/// Stretches that are under way at most: so many that a thread finds work while another is slower for a while.
const STRETCHES: usize = 8;

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

/// A stretch of the trace.
#[derive(Default)]
struct Stretch {
    /// As they were read, where that is apart.
    batches: Vec<Batch>,
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
        self.batches.resize_with(BATCHES, Batch::default);
        self.shards.resize_with(shards, Vec::new);
        self.shards.iter_mut().for_each(Vec::clear);
        self.events.clear();
        (self.records, self.last, self.fault) = (0, false, None);
    }

    /// Fills the batches with what `next` tells, by their number in the stretch.
    fn read(&mut self, mut next: impl FnMut(usize, &mut Batch) -> Result<bool, SourceError>) {
        for (number, batch) in self.batches.iter_mut().enumerate() {
            if !self.last && self.fault.is_none() {
                match next(number, batch) {
                    Ok(true) => continue,
                    Ok(false) => self.last = true,
                    Err(error) => self.fault = Some(error),
                }
            }
            // What a fault leaves in a batch is not to be divided.
            batch.clear();
        }
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
    /// Divides the batches of `stretch`.
    fn divide(&mut self, stretch: &mut Stretch) {
        let batches = std::mem::take(&mut stretch.batches);
        batches.iter().for_each(|batch| self.divide_batch(batch, stretch));
        stretch.batches = batches;
    }

    fn divide_batch(&mut self, batch: &Batch, stretch: &mut Stretch) {
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
            if !self.running.runs(cpu, record.task) && !is_handler(self.handlers, record.task) {
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
    stretches: [RwLock<Stretch>; STRETCHES],
    progress: Mutex<Progress>,
    /// Told when there may be something to do for a thread that waits.
    changed: Condvar,
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
    let facts = Facts::of(source, joined);
    let privacy = facts.privacy(source, setup, spec);
    let team = Team {
        count,
        setup,
        spec,
        facts: &facts,
        privacy: &privacy,
        stretches: std::array::from_fn(|_| RwLock::default()),
        progress: Mutex::new(Progress::new(count)),
        changed: Condvar::new(),
    };
    let results = match source.parts() {
        Some(parts) => team.start::<W>(Some(parts), None, proceed),
        None => team.start::<W>(None, Some(source), proceed),
    };
    let ends: Vec<_> =
        results.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect();
    // One thread's fault interrupts the others.
    let fault = ends.iter().filter_map(|end| end.as_ref().err()).find(|fault| **fault != interrupted());
    if let Some(fault) = fault {
        return Err(fault.clone());
    }
    let runs: Vec<Run<W>> = ends.into_iter().collect::<Result<_, _>>()?;
    Ok(Run::finish_shards(runs).expect("a team has threads"))
}

/// What a thread ends with; the outer error is a panic, kept until no thread waits for this one.
type Ended<W> = Result<Result<Run<W>, SourceError>, Box<dyn Any + Send>>;

impl Team<'_> {
    /// Starts all threads, of which this is the first. Without `parts` it reads for all.
    fn start<W: WordMask>(
        &self,
        parts: Option<&dyn Parts>,
        source: Option<&mut dyn GlobalSource>,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Vec<Ended<W>> {
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.count)
                .map(|index| scope.spawn(move || self.work::<W>(index, parts, None, &mut |_| true)))
                .collect();
            let mut results = vec![self.work::<W>(0, parts, source, proceed)];
            results.extend(others.into_iter().map(|other| other.join().unwrap_or_else(Err)));
            results
        })
    }

    /// The work of thread `index`. A panic of any thread stops all, so that none waits for one that has left.
    fn work<W: WordMask>(
        &self,
        index: usize,
        parts: Option<&dyn Parts>,
        source: Option<&mut dyn GlobalSource>,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Ended<W> {
        let worked = catch_unwind(AssertUnwindSafe(|| self.work_to_the_end(index, parts, source, proceed)));
        if !matches!(worked, Ok(Ok(_))) {
            self.advance(|progress| progress.stopped = true);
        }
        worked
    }

    fn work_to_the_end<W: WordMask>(
        &self,
        index: usize,
        parts: Option<&dyn Parts>,
        mut source: Option<&mut dyn GlobalSource>,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Run<W>, SourceError> {
        let mut run = Run::<W>::new(self.setup, self.spec, Shard::new(index, self.count), self.facts);
        let mut divider = self.divider(index);
        let mut done = 0;
        if !proceed(done) {
            return Err(interrupted());
        }
        let apart = parts.is_none().then_some(source.is_some());
        loop {
            match self.next(index, apart) {
                Task::Read(number) => {
                    let source = source.as_deref_mut().expect("whoever reads has the source");
                    let stretch = &mut *self.to_write(number);
                    stretch.clear(self.count);
                    stretch.read(|_, batch| source.next_batch(batch));
                    let ended = stretch.last || stretch.fault.is_some();
                    self.advance(|progress| {
                        progress.read = number + 1;
                        progress.end = ended.then_some(number);
                    });
                }
                Task::Divide(number) => {
                    let stretch = &mut *self.to_write(number);
                    if let Some(parts) = parts {
                        stretch.clear(self.count);
                        stretch.read(|batch, into| parts.part(number * BATCHES + batch, into));
                    }
                    divider.divide(stretch);
                    let ended = stretch.last || stretch.fault.is_some();
                    self.advance(|progress| {
                        progress.ready[number % STRETCHES] = number + 1;
                        if ended {
                            progress.end = Some(progress.end.map_or(number, |end| end.min(number)));
                        }
                    });
                }
                Task::Perform(number) => {
                    let stretch = self.stretches[number % STRETCHES].read();
                    let stretch = stretch.unwrap_or_else(PoisonError::into_inner);
                    if let Some(fault) = &stretch.fault {
                        return Err(fault.clone());
                    }
                    run.perform(&stretch.shards[index], &stretch.events, self.privacy);
                    done += stretch.records;
                    drop(stretch);
                    self.advance(|progress| progress.performed[index] = number + 1);
                    if !proceed(done) {
                        return Err(interrupted());
                    }
                }
                Task::Ended => return Ok(run),
                Task::Stopped => return Err(interrupted()),
            }
        }
    }

    fn divider(&self, index: usize) -> Divider<'_> {
        Divider {
            handlers: &self.facts.handlers,
            processors: self.setup.processors,
            shift: self.setup.geometry.line.trailing_zeros(),
            shard: Shard::new(index, self.count),
            joined: self.facts.joined,
            running: RunningTasks::new(self.setup.processors),
            own: vec![Vec::new(); self.count],
        }
    }

    fn to_write(&self, number: usize) -> RwLockWriteGuard<'_, Stretch> {
        self.stretches[number % STRETCHES].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task of thread `index`, for which it waits.
    fn next(&self, index: usize, apart: Option<bool>) -> Task {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(task) = progress.next(index, apart) {
                return task;
            }
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn advance(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}
