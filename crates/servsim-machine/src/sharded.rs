//! One functional run over several host threads: each simulates the lines of one shard
//! ([`Shard`]). The counts are those of one thread, to the unit.
//!
//! Where a record is decoded in less time than another thread would take to hand it over, every thread reads the trace for itself and
//! leaves out what is of other shards (`sharded/each.rs`); other traces are decoded once, and divided by shard
//! (`sharded/divided.rs`). A reference that crosses into a line of another shard goes to both, and so does what ends quanta:
//! which task begins to run where.
//!
//! What ties lines of different sets together cannot be sharded: the fully associative shadow that
//! tells conflict from capacity misses (`classification.replacement = "exact"`), and the random
//! policy, whose lots are drawn in the order of all misses of a cache. Such runs stay on one thread.

mod divided;
mod each;
mod progress;

use crate::functional::{interrupted, join_fetches, run_ahead, run_on, Counted, Facts, Run};
use crate::setup::{with_word_mask, Setup};
use servsim_core::{GlobalSource, Privacy, Shard, SourceError};
use servsim_mem::{HierarchySpec, WordMask};
use std::any::Any;
use std::panic::resume_unwind;

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

/// What the threads of a run simulate.
struct Job<'a> {
    /// Threads, and shards.
    count: usize,
    setup: &'a Setup,
    spec: &'a HierarchySpec,
    facts: &'a Facts,
    privacy: &'a Privacy,
}

impl Job<'_> {
    /// Shard `index` before its first reference.
    fn shard<W: WordMask>(&self, index: usize) -> Run<W> {
        Run::new(self.setup, self.spec, Shard::new(index, self.count), self.facts)
    }
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
    let others = if count > 1 { source.in_shards(count, setup.geometry.line.trailing_zeros()) } else { None };
    match (count, others) {
        (1, _) => run_on(source, setup, spec, proceed),
        // Shards cost more processor time than one run: where one thread decodes for all, which takes as long as simulating, two do
        // better to read and to simulate.
        (2, None) => run_ahead(source, setup, spec, proceed),
        (_, others) => {
            with_word_mask!(setup.geometry.line, run_with(source, others, setup, spec, count, proceed))
        }
    }
}

fn run_with<W: WordMask>(
    source: &mut dyn GlobalSource,
    others: Option<Vec<Box<dyn GlobalSource + Send>>>,
    setup: &Setup,
    spec: &HierarchySpec,
    count: usize,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Counted, SourceError> {
    let joined = join_fetches(source, [setup]);
    let facts = Facts::of(source, joined);
    let privacy = facts.privacy(source, setup, spec);
    let job = Job { count, setup, spec, facts: &facts, privacy: &privacy };
    let results = match others {
        Some(others) => each::run::<W>(&job, source, others, proceed),
        None => divided::run::<W>(&job, source, proceed),
    };
    let ends: Vec<_> =
        results.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect();
    // One thread's fault interrupts the others.
    let fault = ends.iter().filter_map(|end| end.as_ref().err()).find(|fault| **fault != interrupted());
    if let Some(fault) = fault {
        return Err(fault.clone());
    }
    let runs: Vec<Run<W>> = ends.into_iter().collect::<Result<_, _>>()?;
    Ok(Run::finish_shards(runs).expect("there are threads"))
}

/// What a thread ends with; the outer error is a panic, kept until no thread waits for this one.
type Ended<W> = Result<Result<Run<W>, SourceError>, Box<dyn Any + Send>>;
