//! A trace that is decoded once, stretch by stretch, and divided by shard.
//!
//! The first thread reads a stretch, whoever has nothing else to do divides its references, and then each thread takes its own
//! shard's of all stretches, in their order. Nobody waits for a round to end: a thread whose shard has nothing to do yet divides the
//! next stretch, so whoever is ahead takes more of the common work (ADR 0374).

use super::progress::{Progress, Task};
use super::{Ended, Job};
use crate::functional::{interrupted, is_handler, processor_of, Run};
use servsim_core::reference::{CONTINUATION, PER_CPU, SWITCH};
use servsim_core::{Batch, Event, GlobalSource, LineAddr, Op, Record, Shard, SourceError};
use servsim_mem::running_tasks::RunningTasks;
use servsim_mem::WordMask;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockWriteGuard};

/// Batches of a stretch: some ten thousand references, so that handing one over costs little.
const BATCHES: usize = 4;
/// Stretches that are under way at most: so many that a thread finds work while another is slower for a while.
pub(super) const STRETCHES: usize = 8;

/// A stretch of the trace.
#[derive(Default)]
struct Stretch {
    /// As they were read.
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

    /// Fills the batches with the next of `source`.
    fn read(&mut self, source: &mut dyn GlobalSource) {
        for batch in &mut self.batches {
            if !self.last && self.fault.is_none() {
                match source.next_batch(batch) {
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
    /// As in [`crate::functional::Facts`].
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
    job: &'a Job<'a>,
    stretches: [RwLock<Stretch>; STRETCHES],
    progress: Mutex<Progress>,
    /// Told when there may be something to do for a thread that waits.
    changed: Condvar,
}

/// Runs the trace on the threads of `job`, of which this is the first.
pub(super) fn run<W: WordMask>(
    job: &Job<'_>,
    source: &mut dyn GlobalSource,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Vec<Ended<W>> {
    let team = Team {
        job,
        stretches: std::array::from_fn(|_| RwLock::default()),
        progress: Mutex::new(Progress::new(job.count)),
        changed: Condvar::new(),
    };
    let team = &team;
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..job.count)
            .map(|index| scope.spawn(move || team.work::<W>(index, None, &mut |_| true)))
            .collect();
        let mut results = vec![team.work::<W>(0, Some(source), proceed)];
        results.extend(others.into_iter().map(|other| other.join().unwrap_or_else(Err)));
        results
    })
}

impl Team<'_> {
    /// The work of thread `index`, which reads if it has the source. A panic of any thread stops all, so that none waits for one
    /// that has left.
    fn work<W: WordMask>(
        &self,
        index: usize,
        source: Option<&mut dyn GlobalSource>,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Ended<W> {
        let worked = catch_unwind(AssertUnwindSafe(|| self.work_to_the_end(index, source, proceed)));
        if !matches!(worked, Ok(Ok(_))) {
            self.advance(|progress| progress.stopped = true);
        }
        worked
    }

    fn work_to_the_end<W: WordMask>(
        &self,
        index: usize,
        mut source: Option<&mut dyn GlobalSource>,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Run<W>, SourceError> {
        let mut run = self.job.shard::<W>(index);
        let mut divider = self.divider(index);
        let mut done = 0;
        if !proceed(done) {
            return Err(interrupted());
        }
        loop {
            match self.next(index, source.is_some()) {
                Task::Read(number) => {
                    let source = source.as_deref_mut().expect("whoever reads has the source");
                    let stretch = &mut *self.to_write(number);
                    stretch.clear(self.job.count);
                    stretch.read(source);
                    let ended = stretch.last || stretch.fault.is_some();
                    self.advance(|progress| {
                        progress.read = number + 1;
                        progress.end = ended.then_some(number);
                    });
                }
                Task::Divide(number) => {
                    divider.divide(&mut self.to_write(number));
                    self.advance(|progress| progress.ready[number % STRETCHES] = number + 1);
                }
                Task::Perform(number) => {
                    let stretch = self.stretches[number % STRETCHES].read();
                    let stretch = stretch.unwrap_or_else(PoisonError::into_inner);
                    if let Some(fault) = &stretch.fault {
                        return Err(fault.clone());
                    }
                    run.perform(&stretch.shards[index], &stretch.events, self.job.privacy);
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
        let Job { count, setup, facts, .. } = *self.job;
        Divider {
            handlers: &facts.handlers,
            processors: setup.processors,
            shift: setup.geometry.line.trailing_zeros(),
            shard: Shard::new(index, count),
            joined: facts.joined,
            running: RunningTasks::new(setup.processors),
            own: vec![Vec::new(); count],
        }
    }

    fn to_write(&self, number: usize) -> RwLockWriteGuard<'_, Stretch> {
        self.stretches[number % STRETCHES].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task of thread `index`, for which it waits.
    fn next(&self, index: usize, reads: bool) -> Task {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(task) = progress.next(index, reads) {
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
