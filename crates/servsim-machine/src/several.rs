//! One functional pass over a trace for several machines at once: every reference is decoded once and
//! performed on each of them. The counts are those of as many runs, to the unit.
//!
//! **What all machines know.** Sets are chosen by low bits of the line, so lines that share a set of a
//! larger cache share one of the smallest. Hence the line that a processor used last of those that
//! fall into one set of the smallest cache is the last used of its set in every cache (Hill & Smith,
//! IEEE TC 38(12) 1989, on inclusion). If the processor used it with the same task and words before,
//! and no other cache has asked for the line since, using it again changes nothing on any machine that
//! replaces the least recently used line: one look at one small table takes the place of a look-up on
//! each. Instruction fetches mostly are of this kind; data less often the smaller the smallest cache is.
//! With exact conflict misses it must be the last line of its cache, because the shadow orders all
//! lines of a cache. What is left is performed on each machine, so that the cost of a pass is that of
//! the misses of all machines and of the uses of other than the last lines (`benches/passes.rs`).
//!
//! Machines that differ in processors, line size or organisation of the first level, or on which a copy
//! may go without a request for its line (inclusive outer levels, flushes at switches) or hits have a
//! memory of their own (other policies), are still decoded for once, each reference being performed.

use crate::functional::{
    count_transaction, for_each_line, gather, interrupted, processor_of, Counted, Facts, Tally,
};
use crate::place::page_of;
use crate::setup::{with_word_mask, Setup};
use servsim_core::reference::{CONTINUATION, KERNEL, PER_CPU};
use servsim_core::{Batch, GlobalSource, Op, Privacy, Record, SourceError};
use servsim_mem::{Hierarchy, HierarchySpec, Inclusion, WordMask};

/// What must be equal for machines to share one pass.
fn class_of(setup: &Setup, spec: &HierarchySpec) -> (usize, u64, bool) {
    (setup.processors, setup.geometry.line, spec.split)
}

/// Whether machines of one class can be run together.
pub fn together(a: (&Setup, &HierarchySpec), b: (&Setup, &HierarchySpec)) -> bool {
    class_of(a.0, a.1) == class_of(b.0, b.1)
}

/// Runs `source` to its end on all `machines`, which [`together`] accepts; what each counted, in order.
///
/// # Errors
/// As [`crate::functional::run`].
pub fn run(
    source: &mut dyn GlobalSource,
    machines: &[(Setup, HierarchySpec)],
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<Counted>, SourceError> {
    let Some((first, _)) = machines.first() else { return Ok(Vec::new()) };
    with_word_mask!(first.geometry.line, run_with(source, machines, proceed))
}

fn run_with<W: WordMask>(
    source: &mut dyn GlobalSource,
    machines: &[(Setup, HierarchySpec)],
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<Counted>, SourceError> {
    let facts = Facts::of(source);
    let mut several = Several::<W>::new(machines, &facts);
    let (mut batch, mut done) = (Batch::default(), 0);
    while source.next_batch(&mut batch)? {
        several.perform(&batch, source.privacy());
        done += batch.records.len() as u64;
        if !proceed(done) {
            return Err(interrupted());
        }
    }
    let Several { caches, tally, transactions, .. } = several;
    let counted = Counted { transactions, ..facts.nothing() };
    Ok(caches.into_iter().map(|caches| gather(caches, &tally, counted.clone())).collect())
}

/// A line of which all machines know alike.
#[derive(Clone, Copy)]
struct Known<W> {
    line: u64,
    task: u32,
    /// Words used by the task since the line is here.
    used: W,
    /// Words written by it, of those that may be written again without telling anyone.
    written: W,
}

impl<W: WordMask> Known<W> {
    /// No line has this number, since a line has 16 bytes or more.
    const NOTHING: u64 = u64::MAX;

    fn new(line: u64, task: u32) -> Self {
        Self { line, task, used: W::default(), written: W::default() }
    }
}

/// What is known per cache and set of the smallest cache.
struct Filter<W> {
    known: Vec<Known<W>>,
    set_mask: u64,
    /// Caches in all; those of a set lie together.
    caches: usize,
    /// Per cache its last line, where only that one helps.
    last: Option<Vec<u64>>,
}

impl<W: WordMask> Filter<W> {
    /// The filter for `machines`, if they allow one.
    fn of(machines: &[(Setup, HierarchySpec)]) -> Option<Self> {
        let simple = |(setup, spec): &(Setup, HierarchySpec)| {
            spec.private.is_empty()
                && spec.shared.iter().all(|level| level.inclusion != Inclusion::Inclusive)
                && spec.replacement == "lru"
                && !setup.protocol.rules.flush_private
                && setup.protocol.reads_quietly()
        };
        if !machines.iter().all(simple) {
            return None;
        }
        let (setup, spec) = machines.first()?;
        let caches = setup.processors * spec.coherent_caches();
        let sets = machines.iter().map(|(setup, _)| setup.geometry.sets()).min()?;
        let exact = machines.iter().any(|(setup, _)| setup.shadow);
        Some(Self {
            known: vec![Known::new(Known::<W>::NOTHING, 0); sets * caches],
            set_mask: sets as u64 - 1,
            caches,
            last: exact.then(|| vec![Known::<W>::NOTHING; caches]),
        })
    }

    fn place(&self, cache: usize, line: u64) -> usize {
        (line & self.set_mask) as usize * self.caches + cache
    }

    /// Whether the use of `words` of `line` changes nothing anywhere.
    #[inline]
    fn knows(&self, cache: usize, task: u32, line: u64, words: W, write: bool) -> bool {
        let known = &self.known[self.place(cache, line)];
        let seen = if write { known.written } else { known.used };
        known.line == line
            && known.task == task
            && seen.covers(words)
            && self.last.as_ref().is_none_or(|last| last[cache] == line)
    }

    /// Nothing is known any more of `line` in any cache.
    fn forget(&mut self, line: u64) {
        let first = self.place(0, line);
        for known in self.known[first..first + self.caches].iter_mut().filter(|known| known.line == line) {
            known.line = Known::<W>::NOTHING;
        }
    }

    /// `task` has used `words` of `line`; if it wrote, whether it may again
    /// without telling anyone.
    fn learn(&mut self, cache: usize, task: u32, line: u64, words: W, write: Option<bool>) {
        let place = self.place(cache, line);
        let known = &mut self.known[place];
        if (known.line, known.task) != (line, task) {
            *known = Known::new(line, task);
        }
        known.used.add(words);
        match write {
            Some(true) => known.written.add(words),
            Some(false) => known.written = W::default(),
            None => {}
        }
        if let Some(last) = &mut self.last {
            last[cache] = line;
        }
    }
}

/// The machines in the middle of a run.
struct Several<W> {
    caches: Vec<Hierarchy<W>>,
    filter: Option<Filter<W>>,
    tally: Tally,
    transactions: Vec<u64>,
    handlers: Vec<bool>,
    processors: usize,
    shift: u32,
    split: bool,
}

impl<W: WordMask> Several<W> {
    fn new(machines: &[(Setup, HierarchySpec)], facts: &Facts) -> Self {
        let (first, spec) = &machines[0];
        let make = |(setup, spec): &(Setup, HierarchySpec)| {
            let protocol = setup.protocol.clone();
            Hierarchy::new(setup.processors, setup.geometry, protocol, setup.shadow, spec)
        };
        Self {
            caches: machines.iter().map(make).collect(),
            filter: Filter::of(machines),
            tally: Tally::new(first.processors),
            transactions: facts.nothing().transactions,
            handlers: facts.handlers.clone(),
            processors: first.processors,
            shift: first.geometry.line.trailing_zeros(),
            split: spec.split,
        }
    }

    #[inline(never)]
    fn perform(&mut self, batch: &Batch, privacy: &Privacy) {
        let mask = (1_u64 << self.shift) - 1;
        for record in &batch.records {
            if record.op == Op::Event {
                count_transaction(&mut self.transactions, batch.events[record.address as usize]);
                continue;
            }
            let cpu = processor_of(record, self.processors);
            if !self.tally.is_current(cpu, record.task) {
                self.switch(cpu, record.task);
            }
            let pair = self.tally.pair(cpu, record.task);
            let start = record.address & mask;
            let last = start + (u64::from(record.size) - 1);
            let plain = last <= mask && record.flags & (PER_CPU | CONTINUATION) == 0;
            let (write, data) = (record.op == Op::Store, self.split && record.op != Op::Fetch);
            let cache = cpu * (1 + usize::from(self.split)) + usize::from(data);
            let (mode, line) = (usize::from(record.flags & KERNEL), record.address >> self.shift);
            if let Some(filter) = self.filter.as_ref().filter(|_| plain) {
                if filter.knows(cache, record.task, line, W::of_bytes(start, last), write) {
                    pair.hits[mode][record.op as usize] += 1;
                    continue;
                }
            }
            if record.flags & CONTINUATION == 0 {
                pair.others[mode][record.op as usize] += 1;
            }
            self.on_each(record, cpu, cache, privacy);
        }
    }

    /// `task` runs at `cpu` from now on.
    fn switch(&mut self, cpu: usize, task: u32) {
        if !self.handlers[task as usize] {
            for caches in &mut self.caches {
                caches.system.run_task(cpu, task);
                caches.system.flushed.clear();
            }
        }
    }

    /// Performs `record` on every machine.
    fn on_each(&mut self, record: &Record, cpu: usize, cache: usize, privacy: &Privacy) {
        let Self { caches, filter, shift, .. } = self;
        for_each_line(record, cpu, *shift, |access, piece| {
            // Each machine waits for its own places in the host's memory: let them wait together.
            if caches.iter().all(Hierarchy::first_level_is_coherent) {
                for caches in &*caches {
                    caches.system.prefetch_look_up(cache, access.line);
                }
                for caches in &*caches {
                    caches.system.prefetch_use(cache, access.task, access.line);
                }
            }
            let mut page = None;
            let mut asked = false;
            for caches in &mut *caches {
                asked |= !caches.access(access, || *page.get_or_insert_with(|| page_of(privacy, piece)));
            }
            let Some(filter) = filter else { return };
            if asked {
                filter.forget(access.line);
            }
            let quietly = |caches: &Hierarchy<W>| caches.system.writes_quietly(cache, access.line);
            let write = access.write.then(|| caches.iter().all(quietly));
            filter.learn(cache, access.task, access.line, access.words, write);
        });
    }
}
