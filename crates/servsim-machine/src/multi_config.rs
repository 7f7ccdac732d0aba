//! One functional pass over a trace for several machines at once: every reference is decoded once and
//! performed on each of them. The counts are those of as many runs, to the unit.
//!
//! **What all machines know.** Sets are chosen by low bits of the line, so lines that share a set of a
//! larger cache share one of the smallest. Hence the line that a processor used last of those that
//! fall into one set of the smallest cache is the last used of its set in every cache (Hill & Smith,
//! IEEE TC 38(12) 1989, on inclusion). If the processor used it with the same task and words before,
//! and no other cache may have asked for it since, using it again changes nothing on any machine that
//! replaces the least recently used line: one look at one small table takes the place of a look-up on
//! each. Instruction fetches mostly are of this kind; data less often the smaller the smallest cache is.
//! With exact conflict misses it must be the last line of its cache, because the shadow orders all
//! lines of a cache. The machines perform what is left of a stretch one after the other, so that each
//! has the host's caches to itself; nothing that they do is asked for.
//!
//! Machines that differ in processors, line size or organisation of the first level, or on which a copy
//! may go without a request for its line (inclusive outer levels, flushes at switches) or hits have a
//! memory of their own (other policies), are still decoded for once, each reference being performed.

use crate::functional::{
    for_each_line, interrupted, join_fetches, processor_of, references_of, Counted, Facts, Run, Tally, SWITCH,
};
use crate::setup::{with_word_mask, Setup};
use servsim_core::reference::{CONTINUATION, KERNEL, PER_CPU};
use servsim_core::{Batch, CacheId, Event, GlobalSource, LineAddr, Op, Privacy, Record, SourceError};
use servsim_mem::running_tasks::RunningTasks;
use servsim_mem::{HierarchySpec, Inclusion, SetIndex, Shard, WordMask};

/// Records that a machine performs before the next has its turn, at least: enough to bring what it knows
/// into the host's caches once for many of them; 8 MiB.
const STRETCH: usize = 1 << 19;

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
    let joined = join_fetches(source, machines.iter().map(|(setup, _)| setup));
    let facts = Facts::of(source, joined);
    let mut runs: Vec<Run<W>> =
        machines.iter().map(|(setup, spec)| Run::new(setup, spec, Shard::WHOLE, &facts)).collect();
    let mut sieve = Sieve::<W>::new(machines, &facts);
    let (mut batch, mut done) = (Batch::default(), 0);
    while source.next_batch(&mut batch)? {
        sieve.pass(&batch);
        if sieve.rest.len() >= STRETCH {
            sieve.hand_out(&mut runs, source.privacy());
        }
        done += batch.len_apart();
        if !proceed(done) {
            return Err(interrupted());
        }
    }
    sieve.hand_out(&mut runs, source.privacy());
    Ok(runs.into_iter().map(|run| run.finish(&sieve.tally)).collect())
}

/// A line of which all machines know alike.
#[derive(Clone, Copy)]
struct Known<W> {
    line: LineAddr,
    task: u32,
    /// Words used by the task since the line is here.
    used: W,
    /// Words written by it, of those that may be written again without telling anyone.
    written: W,
}

impl<W: WordMask> Known<W> {
    /// No line has this number, since a line has 4 bytes or more.
    const NOTHING: LineAddr = LineAddr(u64::MAX);

    fn new(line: LineAddr, task: u32) -> Self {
        Self { line, task, used: W::default(), written: W::default() }
    }
}

/// What is known per cache and class of sets: lines that share a set in some cache share their class.
struct Filter<W> {
    known: Vec<Known<W>>,
    classes: SetIndex,
    /// Caches in all; those of a set lie together.
    caches: usize,
    /// Per cache its last line, where only that one helps.
    last: Option<Vec<LineAddr>>,
    /// Whether a fetch by another cache leaves a copy, on every machine.
    reads_keep_copies: bool,
    /// Whether what was written may be written again without telling anyone, on every machine.
    writes_repeat: bool,
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
        let sets = machines.iter().map(|(setup, _)| setup.geometry.sets()).reduce(common_divisor)?;
        let exact = machines.iter().any(|(setup, _)| setup.shadow);
        Some(Self {
            known: vec![Known::new(Known::<W>::NOTHING, 0); sets * caches],
            classes: SetIndex::new(sets),
            caches,
            last: exact.then(|| vec![Known::<W>::NOTHING; caches]),
            reads_keep_copies: machines.iter().all(|(setup, _)| setup.protocol.reads_keep_copies()),
            writes_repeat: machines.iter().all(|(setup, _)| setup.protocol.writes_repeat_quietly()),
        })
    }

    fn place(&self, cache: CacheId, line: LineAddr) -> usize {
        self.classes.of(line) * self.caches + cache.0
    }

    /// Whether the use of `words` of `line` changes nothing anywhere.
    #[inline]
    fn knows(&self, cache: CacheId, task: u32, line: LineAddr, words: W, write: bool) -> bool {
        let known = &self.known[self.place(cache, line)];
        let seen = if write { known.written } else { known.used };
        known.line == line
            && known.task == task
            && seen.covers(words)
            && self.last.as_ref().is_none_or(|last| last[cache] == line)
    }

    /// A cache other than those that know `line` uses it, and writes it if `write`.
    fn disturb(&mut self, cache: CacheId, line: LineAddr, write: bool) {
        let first = self.place(CacheId(0), line);
        for (other, known) in self.known[first..first + self.caches].iter_mut().enumerate() {
            if known.line == line && other != cache.0 {
                known.written = W::default();
                if write || !self.reads_keep_copies {
                    known.line = Known::<W>::NOTHING;
                }
            }
        }
    }

    /// `task` uses `words` of `line`.
    fn learn(&mut self, cache: CacheId, task: u32, line: LineAddr, words: W, write: bool) {
        self.disturb(cache, line, write);
        let place = self.place(cache, line);
        let known = &mut self.known[place];
        if (known.line, known.task) != (line, task) {
            *known = Known::new(line, task);
        }
        known.used.add(words);
        if write && self.writes_repeat {
            known.written.add(words);
        }
        if let Some(last) = &mut self.last {
            last[cache] = line;
        }
    }
}

/// The greatest number that divides both.
fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        common_divisor(b, a % b)
    }
}

/// Takes out of batches what changes nothing.
struct Sieve<W> {
    filter: Option<Filter<W>>,
    /// What is left of the batches, with the switches of tasks, and the events that it names.
    rest: Vec<Record>,
    events: Vec<Event>,
    /// What was taken out.
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
            filter: Filter::of(machines),
            rest: Vec::new(),
            events: Vec::new(),
            tally: Tally::new(first.processors),
            processors: first.processors,
            running: RunningTasks::new(first.processors),
            handlers: facts.handlers.clone(),
            shift: first.geometry.line.trailing_zeros(),
            split: spec.split,
            joined: facts.joined,
        }
    }

    /// Lets every machine perform what is left.
    fn hand_out(&mut self, runs: &mut [Run<W>], privacy: &Privacy) {
        for run in runs {
            run.perform(&self.rest, &self.events, privacy);
        }
        self.rest.clear();
        self.events.clear();
    }

    #[inline(never)]
    fn pass(&mut self, batch: &Batch) {
        let first_event = self.events.len() as u64;
        self.events.extend_from_slice(&batch.events);
        let mask = (1_u64 << self.shift) - 1;
        for record in &batch.records {
            if record.op == Op::Event {
                self.rest.push(Record { address: record.address + first_event, ..*record });
                continue;
            }
            let Some(filter) = &mut self.filter else {
                self.rest.push(*record);
                continue;
            };
            let cpu = processor_of(record, self.processors, self.joined);
            if !self.running.runs(cpu, record.task) && !self.handlers[record.task as usize] {
                self.running.begin(cpu, record.task);
                self.rest.push(Record { op: Op::Event, address: SWITCH, ..*record });
            }
            let data = self.split && record.op != Op::Fetch;
            let cache = CacheId(cpu.0 * (1 + usize::from(self.split)) + usize::from(data));
            let (start, write) = (record.address & mask, record.op == Op::Store);
            let last = start + (u64::from(record.size) - 1);
            if last <= mask && record.flags & (PER_CPU | CONTINUATION) == 0 {
                let (line, words) = (LineAddr::of(record.address, self.shift), W::of_bytes(start, last));
                if filter.knows(cache, record.task, line, words, write) {
                    let pair = self.tally.pair(cpu, record.task);
                    pair.hits[usize::from(record.flags & KERNEL)][record.op as usize] +=
                        references_of(record, self.joined);
                    continue;
                }
                filter.learn(cache, record.task, line, words, write);
            } else {
                for_each_line::<W>(record, cpu, self.shift, |access, _| {
                    filter.learn(cache, record.task, access.line, access.words, write);
                });
            }
            self.rest.push(*record);
        }
    }
}
