//! One functional run over several host threads: each thread reads the whole trace and simulates the
//! lines of one shard (`servsim_mem::Shard`). The counts are those of one thread, to the unit.
//!
//! What ties lines of different sets together cannot be sharded: the fully associative shadow that
//! tells conflict from capacity misses (`classification.replacement = "exact"`), and the random
//! policy, whose lots are drawn in the order of all misses of a cache. Such runs stay on one thread.
//! Every thread decodes the trace, so the gain ends where decoding is all that is left.

use crate::functional::{run_shard, Counted};
use crate::setup::Setup;
use servsim_core::{GlobalSource, SourceError};
use servsim_mem::{HierarchySpec, Shard};
use std::sync::atomic::{AtomicBool, Ordering};

/// Opens the trace once more.
pub type Open<'a> = dyn Fn() -> Result<Box<dyn GlobalSource>, SourceError> + Sync + 'a;

/// How many shards a run on `threads` host threads is divided into: a power of two, and no more than
/// the smallest cache has sets.
pub fn shards(setup: &Setup, spec: &HierarchySpec, threads: usize) -> usize {
    let levels = || spec.private.iter().chain(&spec.shared);
    let random = spec.replacement == "random" || levels().any(|level| level.replacement == "random");
    if setup.shadow || random || spec.tlb.is_some() || spec.prefetch.is_some() {
        return 1;
    }
    let sets = levels().map(|level| level.geometry.sets()).fold(setup.geometry.sets(), usize::min);
    let most = threads.min(sets).max(1);
    1 << most.ilog2()
}

/// Stops the other threads when this one unwinds.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs the trace on `count` threads; `source` is the trace already opened, for the first of them.
///
/// # Errors
/// As [`crate::functional::run`].
pub fn run(
    source: &mut dyn GlobalSource,
    open: &Open<'_>,
    setup: &Setup,
    spec: &HierarchySpec,
    count: usize,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Counted, SourceError> {
    let stop = AtomicBool::new(false);
    let others = |index: usize| {
        let mut source = open()?;
        let mut proceed = |_| !stop.load(Ordering::Relaxed);
        run_shard(source.as_mut(), setup, spec, Shard::new(index, count), &mut proceed)
    };
    std::thread::scope(|scope| {
        let others = &others;
        let threads: Vec<_> = (1..count).map(|index| scope.spawn(move || others(index))).collect();
        let _guard = StopOnPanic(&stop);
        let mut sum = run_shard(source, setup, spec, Shard::new(0, count), proceed);
        if sum.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        for thread in threads {
            let part = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sum = sum.and_then(|mut sum| {
                sum.add(&part?);
                Ok(sum)
            });
        }
        sum
    })
}
