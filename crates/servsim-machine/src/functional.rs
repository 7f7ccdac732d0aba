//! The functional engine: references exactly in the order of the trace, every bus transaction
//! atomic. It has no time; its counts are what any independent simulator must get.
//!
//! Each reference runs on the processor that the trace names; a task without one is pinned to the
//! processor of its rank (its index in the task table modulo the processors).

mod beside;

use crate::place::{address_on, page_of};
use crate::setup::{with_word_mask, Setup};
use beside::{run_beside, Beside};
use servsim_core::reference::{CONTINUATION, KERNEL};
use servsim_core::{Batch, Event, GlobalSource, Op, Privacy, Record, SourceError, TaskKind, ANY_CPU};
use servsim_mem::{
    Access, CoherentSystem, Counters, Hierarchy, HierarchySpec, LevelCounters, Observer, PrefetchCounters,
    RunCounts, Shard, TlbCounters, WordMask,
};
use std::collections::HashMap;

/// References of one task, by mode and operation.
pub type TaskCounts = [[u64; 3]; 2];

/// What a functional run counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counted {
    /// Counters per processor.
    pub processors: Vec<Counters>,
    /// References per task.
    pub tasks: Vec<TaskCounts>,
    /// Transactions per kind.
    pub transactions: Vec<u64>,
    /// Distinct lines touched.
    pub distinct_lines: u64,
    /// What each level counted, with its name, from the inside out.
    pub levels: Vec<(String, LevelCounters)>,
    /// Fetches that reached memory behind shared levels, and lines written to it.
    pub memory: (u64, u64),
    /// What address translation counted, if it was simulated.
    pub tlb: Option<TlbCounters>,
    /// What became of prefetches, if there were any.
    pub prefetches: Option<PrefetchCounters>,
    /// Host memory that the simulated memory system took, in bytes.
    pub host_bytes: u64,
}

impl Counted {
    /// Adds what another shard of the same run counted.
    pub fn add(&mut self, other: &Self) {
        self.processors.iter_mut().zip(&other.processors).for_each(|(sum, more)| sum.add(more));
        for (sum, more) in self.tasks.iter_mut().zip(&other.tasks) {
            sum.iter_mut().flatten().zip(more.iter().flatten()).for_each(|(a, b)| *a += b);
        }
        self.transactions.resize(self.transactions.len().max(other.transactions.len()), 0);
        self.transactions.iter_mut().zip(&other.transactions).for_each(|(sum, more)| *sum += more);
        self.distinct_lines += other.distinct_lines;
        self.levels.iter_mut().zip(&other.levels).for_each(|((_, sum), (_, more))| sum.add(more));
        self.memory = (self.memory.0 + other.memory.0, self.memory.1 + other.memory.1);
        self.host_bytes += other.host_bytes;
    }

    /// All processors together.
    pub fn total(&self) -> Counters {
        let mut total = Counters::default();
        for counters in &self.processors {
            total.add(counters);
        }
        total
    }
}

/// Runs `source` to its end. `proceed` is asked once per batch; `false` stops the run.
///
/// # Errors
/// When the trace is damaged, or with the message "interrupted" when `proceed` said so.
pub fn run(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Counted, SourceError> {
    run_on(source, setup, &HierarchySpec::default(), proceed)
}

/// The same on a machine with more levels than the one that `setup` names.
///
/// # Errors
/// As [`run`].
pub fn run_on(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    spec: &HierarchySpec,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Counted, SourceError> {
    run_shard(source, setup, spec, Shard::WHOLE, proceed)
}

/// The same for the lines of one shard. References count in the shard of their first line,
/// transactions in the first shard; the sum over all shards is what [`run_on`] counts, for machines
/// that [`crate::sharded`] accepts.
///
/// # Errors
/// As [`run`].
pub fn run_shard(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    spec: &HierarchySpec,
    shard: Shard,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Counted, SourceError> {
    with_word_mask!(setup.geometry.line, run_with(source, setup, spec, shard, proceed))
}

fn run_with<W: WordMask>(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    spec: &HierarchySpec,
    shard: Shard,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Counted, SourceError> {
    let mut caches: Hierarchy<W> =
        Hierarchy::new(setup.processors, setup.geometry, setup.protocol.clone(), setup.shadow, spec);
    let mut counted = Counted {
        tasks: vec![TaskCounts::default(); source.tasks().len()],
        transactions: vec![0; source.transaction_kinds().len()],
        ..Counted::default()
    };
    let mut tally = Tally::new(setup.processors);
    let handlers: Vec<bool> = source.tasks().iter().map(|t| t.kind == TaskKind::Interrupt).collect();
    let mut batch = Batch::default();
    let mut done = 0;
    let shift = setup.geometry.line.trailing_zeros();
    let mut beside = Beside::new(setup, spec, source.spaces());
    while source.next_batch(&mut batch)? {
        let facts = (source.privacy(), handlers.as_slice());
        let transactions = &mut counted.transactions;
        if let Some(beside) = &mut beside {
            run_beside(&mut caches, &mut tally, transactions, &batch, facts, shift, beside);
        } else {
            run_batch(&mut caches, &mut tally, transactions, &batch, facts, (shift, shard));
        }
        done += batch.records.len() as u64;
        if !proceed(done) {
            return Err(SourceError("interrupted".into()));
        }
    }
    caches.system.finish();
    counted.processors = caches.processor_counters();
    tally.settle(&mut caches, &mut counted);
    counted.distinct_lines = caches.system.distinct_lines() as u64;
    counted.levels = caches.counters();
    counted.memory = caches.memory_traffic();
    counted.tlb = beside.as_ref().and_then(Beside::translation);
    counted.prefetches = spec.prefetch.as_ref().map(|_| caches.system.prefetches);
    counted.host_bytes = caches.host_bytes() as u64;
    Ok(counted)
}

/// One batch. Apart from the rest, so that the compiler keeps its few variables in registers.
#[inline(never)]
fn run_batch<W: WordMask>(
    caches: &mut Hierarchy<W>,
    tally: &mut Tally,
    transactions: &mut Vec<u64>,
    batch: &Batch,
    (privacy, handlers): (&Privacy, &[bool]),
    (shift, shard): (u32, Shard),
) {
    let mut rest = batch.records.as_slice();
    while let Some(record) = rest.first() {
        if record.op == Op::Event {
            count_transaction(transactions, batch, record, u64::from(shard.is_first()));
            rest = &rest[1..];
            continue;
        }
        let cpu = tally.processor_of(record);
        if !handlers[record.task as usize] {
            caches.system.run_task(cpu, record.task);
            caches.system.flushed.clear();
        }
        let pair = tally.pair(cpu, record.task);
        if caches.first_level_is_coherent() {
            let (cache, data) = caches.first_caches(cpu);
            let hits = caches.system.run_hits(cache, data, shift, shard, rest, &mut pair.hits);
            rest = &rest[hits..];
        }
        let same = |r: &&Record| r.task == record.task && r.cpu == record.cpu && r.op != Op::Event;
        if let Some(record) = rest.first().filter(same) {
            let first = address_on(record, cpu) >> shift;
            if record.flags & CONTINUATION == 0 && shard.has(first) {
                pair.others[usize::from(record.flags & KERNEL)][record.op as usize] += 1;
            }
            for_each_line(record, cpu, shift, |access, piece| {
                if shard.has(access.line) {
                    caches.access(access, || page_of(privacy, piece));
                }
            });
            rest = &rest[1..];
        }
    }
}

fn count_transaction(transactions: &mut Vec<u64>, batch: &Batch, record: &Record, count: u64) {
    if let Event::TransactionEnd { kind, .. } = batch.events[record.address as usize] {
        let kind = kind as usize;
        if transactions.len() <= kind {
            transactions.resize(kind + 1, 0);
        }
        transactions[kind] += count;
    }
}

/// References by processor and task. Nearly always the task is the one that its processor ran last.
struct Tally {
    /// Per processor: the task that it ran last, and the place of the two in `pairs`.
    current: Vec<(u32, u32)>,
    places: HashMap<(usize, u32), u32>,
    pairs: Vec<Pair>,
}

/// References of one task on one processor.
struct Pair {
    cpu: usize,
    task: u32,
    /// Taken in runs of hits.
    hits: RunCounts,
    /// The others.
    others: RunCounts,
}

impl Tally {
    fn new(processors: usize) -> Self {
        Self { current: vec![(u32::MAX, 0); processors], places: HashMap::new(), pairs: Vec::new() }
    }

    /// The processor that makes a reference.
    #[inline]
    fn processor_of(&self, record: &Record) -> usize {
        match record.cpu {
            ANY_CPU => record.task as usize % self.current.len(),
            cpu => usize::from(cpu),
        }
    }

    #[inline]
    fn pair(&mut self, cpu: usize, task: u32) -> &mut Pair {
        let (last, mut place) = self.current[cpu];
        if last != task {
            place = self.switch(cpu, task);
        }
        &mut self.pairs[place as usize]
    }

    fn switch(&mut self, cpu: usize, task: u32) -> u32 {
        let next = self.pairs.len() as u32;
        let place = *self.places.entry((cpu, task)).or_insert(next);
        if place == next {
            self.pairs.push(Pair { cpu, task, hits: RunCounts::default(), others: RunCounts::default() });
        }
        self.current[cpu] = (task, place);
        place
    }

    /// Hands the counts on: runs of hits to the levels as look-ups, all to processors and tasks.
    fn settle<W: WordMask>(self, caches: &mut Hierarchy<W>, counted: &mut Counted) {
        for Pair { cpu, task, hits, others } in self.pairs {
            let (cache, data) = caches.first_caches(cpu);
            for (mode, op) in (0..2).flat_map(|mode| (0..3).map(move |op| (mode, op))) {
                let which = if op == Op::Fetch as usize { 0 } else { data };
                caches.count_lookups(cache + which, hits[mode][op]);
                let count = hits[mode][op] + others[mode][op];
                counted.processors[cpu].references[mode][op] += count;
                counted.tasks[task as usize][mode][op] += count;
            }
        }
    }
}

/// Applies one reference to coherent caches that are all there is.
#[inline]
pub(crate) fn apply<W: WordMask, O: Observer>(
    system: &mut CoherentSystem<W, O>,
    privacy: &Privacy,
    record: &Record,
    cpu: usize,
    shift: u32,
) {
    for_each_line(record, cpu, shift, |access, piece| {
        if !system.try_hit(access) {
            let page = page_of(privacy, piece);
            while !system.transact(access, page).done {}
        }
    });
}

/// Calls `touch` for each line that a reference overlaps, in ascending order, with the access and
/// the part of the record that lies in the line.
#[inline]
pub(crate) fn for_each_line<W: WordMask>(
    record: &Record,
    cpu: usize,
    shift: u32,
    mut touch: impl FnMut(&Access<W>, &Record),
) {
    let address = address_on(record, cpu);
    let last = address + (u64::from(record.size) - 1);
    let mut line = address >> shift;
    let mut start = address & ((1 << shift) - 1);
    loop {
        let crosses = line != last >> shift;
        let end = if crosses { (1 << shift) - 1 } else { last & ((1 << shift) - 1) };
        let access = Access {
            cpu,
            line,
            words: W::of_bytes(start, end),
            write: record.op == Op::Store,
            kernel: record.is_kernel(),
            task: record.task,
            slot: record.op as usize,
        };
        touch(&access, &Record { address: (line << shift) + start, ..*record });
        if !crosses {
            return;
        }
        line += 1;
        start = 0;
    }
}
