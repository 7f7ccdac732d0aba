//! The functional engine: references exactly in the order of the trace, every bus transaction
//! atomic. It has no time; its counts are what any independent simulator must get.
//!
//! Each reference runs on the processor that the trace names; a task without one is pinned to the
//! processor of its rank (its index in the task table modulo the processors).
//!
//! Over 400 lines: what a run knows, does and counts is to be read in one place.

mod left;
mod translation_and_prefetch;

use crate::place::{address_on, page_of};
use crate::read_ahead::for_each_batch;
use crate::setup::{with_word_mask, Setup};
pub(crate) use left::{LeftUse, Step, IN_KERNEL, ON_KERNELS, ON_PRIVATE, OWNER_KNOWN, USED_EARLIER, WRITE};
use servsim_core::reference::{CONTINUATION, KERNEL, SWITCH};
use servsim_core::{
    Batch, CpuId, Event, GlobalSource, LineAddr, Op, Privacy, Record, Shard, SourceError, TaskKind, ANY_CPU,
    PAGE_SHIFT,
};
use servsim_import::Survey;
use servsim_mem::{
    Access, Counters, GroupCounters, Hierarchy, HierarchySpec, LevelCounters, Page, PrefetchCounters,
    RunCounts, TlbCounters, WordMask,
};
use std::collections::HashMap;
use translation_and_prefetch::{run_translated, TranslationAndPrefetch};

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
    /// What core groups had to do with one another, if there are any.
    pub groups: Option<GroupCounters>,
    /// Host memory that the simulated memory system took, in bytes.
    pub host_bytes: u64,
}

impl Counted {
    /// Adds what another shard of the same run counted.
    pub fn add(&mut self, other: &Self) {
        self.processors.iter_mut().zip(&other.processors).for_each(|(sum, more)| sum.add(more));
        self.tasks.resize(self.tasks.len().max(other.tasks.len()), TaskCounts::default());
        for (sum, more) in self.tasks.iter_mut().zip(&other.tasks) {
            sum.iter_mut().flatten().zip(more.iter().flatten()).for_each(|(a, b)| *a += b);
        }
        self.transactions.resize(self.transactions.len().max(other.transactions.len()), 0);
        self.transactions.iter_mut().zip(&other.transactions).for_each(|(sum, more)| *sum += more);
        self.distinct_lines += other.distinct_lines;
        self.levels.iter_mut().zip(&other.levels).for_each(|((_, sum), (_, more))| sum.add(more));
        self.memory = (self.memory.0 + other.memory.0, self.memory.1 + other.memory.1);
        if let (Some(sum), Some(more)) = (&mut self.groups, &other.groups) {
            sum.add(more);
        }
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
    with_word_mask!(setup.geometry.line, run_with(source, setup, spec, false, proceed))
}

/// The same on two host threads, one of which reads the trace.
///
/// # Errors
/// As [`run`].
pub fn run_ahead(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    spec: &HierarchySpec,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Counted, SourceError> {
    with_word_mask!(setup.geometry.line, run_with(source, setup, spec, true, proceed))
}

fn run_with<W: WordMask>(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    spec: &HierarchySpec,
    ahead: bool,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Counted, SourceError> {
    let mut units = TranslationAndPrefetch::new(setup, spec, source.spaces());
    let joined = units.is_none() && join_fetches(source, [setup]);
    let facts = Facts::of(source, joined);
    let privacy = facts.privacy(source, setup, spec);
    let mut run = Run::<W>::new(setup, spec, Shard::WHOLE, &facts);
    for_each_batch(source, ahead, proceed, |batch| match &mut units {
        Some(units) => run.perform_translated(batch, &privacy, units),
        None => run.perform(&batch.records, &batch.events, &privacy),
    })?;
    let mut counted = run.finish();
    counted.tlb = units.as_ref().and_then(TranslationAndPrefetch::translation);
    Ok(counted)
}

/// Whether a run on this machine has to know from the beginning which pages are private. On others only classes of misses
/// and transactions depend on it, which the end decides ([`servsim_mem::CoherentSystem::decide_pages`]).
pub fn needs_first_pass(setup: &Setup, spec: &HierarchySpec) -> bool {
    let table = &setup.protocol;
    table.uses_private || table.rules.flush_private || spec.tlb.is_some() || spec.prefetch.is_some()
}

/// The error of a run that was stopped.
pub(crate) fn interrupted() -> SourceError {
    SourceError("interrupted".into())
}

/// What a run knows of a trace beside its references.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Which tasks are interrupt handlers ([`is_handler`]).
    pub handlers: Vec<bool>,
    /// As of [`GlobalSource::is_unsurveyed`].
    unsurveyed: bool,
    /// Number of transaction kinds.
    kinds: usize,
    /// Whether records stand for several fetches ([`join_fetches`]).
    pub joined: bool,
}

impl Facts {
    pub fn of(source: &dyn GlobalSource, joined: bool) -> Self {
        Self {
            joined,
            unsurveyed: source.is_unsurveyed(),
            handlers: source.tasks().iter().map(|t| t.kind == TaskKind::Interrupt).collect(),
            kinds: source.transaction_kinds().len(),
        }
    }

    /// Which pages are private, as a run on this machine knows it from the beginning.
    ///
    /// # Panics
    /// When the machine has to know that and nobody does.
    pub fn privacy(&self, source: &dyn GlobalSource, setup: &Setup, spec: &HierarchySpec) -> Privacy {
        if !self.unsurveyed {
            return source.privacy().clone();
        }
        assert!(!needs_first_pass(setup, spec), "a machine that must know private pages");
        Privacy::default()
    }

    /// Nothing counted yet.
    pub fn nothing(&self) -> Counted {
        Counted {
            tasks: vec![TaskCounts::default(); self.handlers.len()],
            transactions: vec![0; self.kinds],
            ..Counted::default()
        }
    }
}

/// Has `source` join fetches of one line, if that is the same for all these machines, and whether it does. Of fetches of
/// one line that nothing of the task comes between only the first can miss or change more than which words
/// were touched; so they are the same as one of all their words, but where the words of the very access that
/// misses are asked for.
pub(crate) fn join_fetches<'a>(
    source: &mut dyn GlobalSource,
    machines: impl IntoIterator<Item = &'a Setup>,
) -> bool {
    let mut line = None;
    for setup in machines {
        if setup.protocol.rules.judge_at_miss || line.is_some_and(|line| line != setup.geometry.line) {
            return false;
        }
        line = Some(setup.geometry.line);
    }
    line.is_some_and(|line| source.join_fetches(line))
}

/// The processor that performs `record` on a machine of so many.
#[inline]
pub(crate) fn processor_of(record: &Record, processors: usize, joined: bool) -> CpuId {
    match record.cpu {
        cpu if !joined && cpu != ANY_CPU => CpuId(usize::from(cpu)),
        _ => CpuId(record.task as usize % processors),
    }
}

/// Whether `task` is an interrupt handler; those that are not known yet are none.
#[inline]
pub(crate) fn is_handler(handlers: &[bool], task: u32) -> bool {
    handlers.get(task as usize).is_some_and(|&handler| handler)
}

/// The references that `record` stands for.
#[inline]
pub(crate) fn references_of(record: &Record, joined: bool) -> u64 {
    if joined {
        u64::from(record.cpu)
    } else {
        1
    }
}

/// Counts the transaction that an event ends, if it does.
pub(crate) fn count_transaction(transactions: &mut Vec<u64>, event: Event) {
    if let Event::TransactionEnd { kind, .. } = event {
        let kind = kind as usize;
        if transactions.len() <= kind {
            transactions.resize(kind + 1, 0);
        }
        transactions[kind] += 1;
    }
}

/// A machine, or one shard of it, in the middle of a run. References count in the shard of their first
/// line, transactions in the first shard.
pub(crate) struct Run<W> {
    caches: Hierarchy<W>,
    tally: Tally,
    counted: Counted,
    handlers: Vec<bool>,
    shift: u32,
    shard: Shard,
    prefetches: bool,
    joined: bool,
    /// What the run finds out of pages, of a trace without a first pass. A task's first reference to a page is to a line
    /// that it was not the last to use, so it is in no run of hits.
    pages: Option<Survey>,
}

impl<W: WordMask> Run<W> {
    /// Nothing performed yet.
    pub fn new(setup: &Setup, spec: &HierarchySpec, shard: Shard, facts: &Facts) -> Self {
        let protocol = setup.protocol.clone();
        Self {
            caches: Hierarchy::new(setup.processors, setup.geometry, protocol, setup.shadow, spec),
            tally: Tally::new(setup.processors),
            counted: facts.nothing(),
            handlers: facts.handlers.clone(),
            shift: setup.geometry.line.trailing_zeros(),
            shard,
            prefetches: spec.prefetch.is_some(),
            joined: facts.joined,
            pages: facts.unsurveyed.then(Survey::default),
        }
    }

    /// The same for a whole machine.
    pub fn of_all(setup: &Setup, spec: &HierarchySpec, facts: &Facts) -> Self {
        Self::new(setup, spec, Shard::WHOLE, facts)
    }

    /// Performs `records`, whose events are in `events`. Of records within one line, a shard is given
    /// its own only. Apart from the rest, so that the compiler keeps its few variables in registers.
    #[inline(never)]
    pub fn perform(&mut self, records: &[Record], events: &[Event], privacy: &Privacy) {
        let Self { caches, tally, counted, handlers, shift, shard, joined, pages, .. } = self;
        let processors = tally.current.len();
        let mut rest = records;
        // Fetches of the first record that were performed already.
        let mut done = 0;
        while let Some(&Record { op, address, task, cpu: field, .. }) = rest.first() {
            let cpu = processor_of(&rest[0], processors, *joined);
            if op == Op::Event {
                if address == SWITCH {
                    caches.system.run_task(cpu, task);
                } else if shard.is_first() {
                    count_transaction(&mut counted.transactions, events[address as usize]);
                }
                rest = &rest[1..];
                continue;
            }
            if !is_handler(handlers, task) {
                caches.system.run_task(cpu, task);
            }
            let pair = tally.pair(cpu, task);
            let same = |r: &Record| r.task == task && (*joined || r.cpu == field) && r.op != Op::Event;
            // Hits, and the references between them that are none, until somebody else has the processor.
            while rest.first().is_some_and(same) {
                let hits = if *joined {
                    caches.run_joined_hits(cpu, *shift, rest, u64::MAX, &mut pair.hits)
                } else {
                    caches.run_hits(cpu, *shift, rest, &mut pair.hits)
                };
                if done > 0 && hits > 0 {
                    let first = &rest[0];
                    pair.hits[usize::from(first.flags & KERNEL)][first.op as usize] -= done;
                    done = 0;
                }
                rest = &rest[hits..];
                let Some(record) = rest.first().filter(|record| same(record)) else { break };
                let first = LineAddr::of(address_on(record, cpu), *shift);
                if record.flags & CONTINUATION == 0 && shard.has(first) {
                    pair.others[usize::from(record.flags & KERNEL)][record.op as usize] += 1;
                }
                if let Some(pages) = pages {
                    pages.touch(record.task, record.address, record.address + (u64::from(record.size) - 1));
                }
                let page = |piece: &Record, has_tag: bool| match &*pages {
                    Some(pages) => {
                        let undecided = has_tag && !pages.is_shared(piece.address >> PAGE_SHIFT);
                        Page { undecided, ..false.into() }
                    }
                    None => page_of(privacy, piece),
                };
                for_each_line(record, cpu, *shift, |access, piece| {
                    if shard.has(access.line) {
                        caches.access_behind_hits(access, |has_tag| page(piece, has_tag));
                    }
                });
                // The first of several fetches has missed, and the others hit.
                done += 1;
                if done == references_of(record, *joined) {
                    (rest, done) = (&rest[1..], 0);
                }
            }
        }
    }

    /// Performs a batch on a machine with address translation or prefetchers.
    fn perform_translated(&mut self, batch: &Batch, privacy: &Privacy, units: &mut TranslationAndPrefetch) {
        let Self { caches, tally, counted, handlers, shift, .. } = self;
        let transactions = &mut counted.transactions;
        run_translated(caches, tally, transactions, batch, (privacy, handlers), *shift, units);
    }

    /// What the shards of one run counted; nothing without any.
    pub fn finish_shards(mut shards: Vec<Self>) -> Option<Counted> {
        let found_out = shards.iter_mut().filter_map(|shard| shard.pages.take());
        let pages = found_out.reduce(|mut all, more| {
            all.add(more, |task| task);
            all
        });
        let counted =
            shards.into_iter().map(|shard| shard.finish_knowing(pages.as_ref(), &Tally::new(0), &[]));
        counted.reduce(|mut sum, more| {
            sum.add(&more);
            sum
        })
    }

    /// What was counted.
    pub fn finish(self) -> Counted {
        self.finish_with(&Tally::new(0), &[])
    }

    /// What was counted, and the hits of `others`, which the run was not given. Those of `hits`, by processor, it was not
    /// given either, but `others` has their references.
    pub fn finish_with(mut self, others: &Tally, hits: &[RunCounts]) -> Counted {
        let pages = self.pages.take();
        self.finish_knowing(pages.as_ref(), others, hits)
    }

    /// The same with what was found out of pages, by whichever shard.
    fn finish_knowing(mut self, pages: Option<&Survey>, others: &Tally, hits: &[RunCounts]) -> Counted {
        self.caches.system.finish();
        if let Some(pages) = pages {
            self.caches.system.decide_pages(|page| !pages.is_shared(page));
        }
        let mut counted = self.counted;
        counted.processors = self.caches.processor_counters();
        self.tally.settle(&mut self.caches, &mut counted);
        others.settle(&mut self.caches, &mut counted);
        for (cpu, hits) in hits.iter().enumerate() {
            self.caches.count_hits(CpuId(cpu), hits);
        }
        counted.distinct_lines = self.caches.system.distinct_lines() as u64;
        counted.levels = self.caches.counters();
        counted.memory = self.caches.memory_traffic();
        counted.groups = self.caches.group_counts();
        counted.prefetches = self.prefetches.then_some(self.caches.system.prefetches);
        counted.host_bytes = self.caches.host_bytes() as u64;
        counted
    }
}

/// References by processor and task. Nearly always the task is the one that its processor ran last.
pub(crate) struct Tally {
    /// Per processor: the task that it ran last, and the place of the two in `pairs`.
    current: Vec<(u32, u32)>,
    places: HashMap<(CpuId, u32), u32>,
    pairs: Vec<Pair>,
}

/// References of one task on one processor.
pub(crate) struct Pair {
    cpu: CpuId,
    task: u32,
    /// Taken in runs of hits.
    pub hits: RunCounts,
    /// The others.
    pub others: RunCounts,
}

impl Tally {
    pub fn new(processors: usize) -> Self {
        Self { current: vec![(u32::MAX, 0); processors], places: HashMap::new(), pairs: Vec::new() }
    }

    #[inline]
    pub fn pair(&mut self, cpu: CpuId, task: u32) -> &mut Pair {
        let (last, mut place) = self.current[cpu];
        if last != task {
            place = self.switch(cpu, task);
        }
        &mut self.pairs[place as usize]
    }

    #[cold]
    #[inline(never)]
    fn switch(&mut self, cpu: CpuId, task: u32) -> u32 {
        let next = self.pairs.len() as u32;
        let place = *self.places.entry((cpu, task)).or_insert(next);
        if place == next {
            self.pairs.push(Pair { cpu, task, hits: RunCounts::default(), others: RunCounts::default() });
        }
        self.current[cpu] = (task, place);
        place
    }

    /// Hands the counts on: runs of hits to the levels as look-ups, all to processors and tasks.
    fn settle<W: WordMask>(&self, caches: &mut Hierarchy<W>, counted: &mut Counted) {
        // Without a first pass, tasks come while the trace is read.
        let tasks = self.pairs.iter().map(|pair| pair.task as usize + 1).max().unwrap_or(0);
        counted.tasks.resize(tasks.max(counted.tasks.len()), TaskCounts::default());
        for &Pair { cpu, task, hits, others } in &self.pairs {
            caches.count_hits(cpu, &hits);
            for (mode, op) in (0..2).flat_map(|mode| (0..3).map(move |op| (mode, op))) {
                let count = hits[mode][op] + others[mode][op];
                counted.processors[cpu].references[mode][op] += count;
                counted.tasks[task as usize][mode][op] += count;
            }
        }
    }
}

/// Calls `touch` for each line that a reference overlaps, in ascending order, with the access and
/// the part of the record that lies in the line.
#[inline]
pub(crate) fn for_each_line<W: WordMask>(
    record: &Record,
    cpu: CpuId,
    shift: u32,
    mut touch: impl FnMut(&Access<W>, &Record),
) {
    let address = address_on(record, cpu);
    let last = address + (u64::from(record.size) - 1);
    let mut line = LineAddr::of(address, shift);
    let mut start = address & ((1 << shift) - 1);
    loop {
        let crosses = line != LineAddr::of(last, shift);
        let end = if crosses { (1 << shift) - 1 } else { last & ((1 << shift) - 1) };
        let access = Access {
            at: cpu,
            line,
            words: W::of_bytes(start, end),
            write: record.op == Op::Store,
            kernel: record.is_kernel(),
            task: record.task,
            slot: record.op as usize,
        };
        let size = (end - start + 1) as u8;
        touch(&access, &Record { address: line.address(shift) + start, size, ..*record });
        if !crosses {
            return;
        }
        line.0 += 1;
        start = 0;
    }
}
