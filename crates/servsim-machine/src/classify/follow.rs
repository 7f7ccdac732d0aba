//! A functional run whose observer also learns which reference is being made, and where the measured part begins.

use crate::error::{Proceed, SimulateError};
use crate::functional::{for_each_line, processor_of};
use crate::place::page_of;
use crate::setup::{with_word_mask, Setup};
use servsim_core::reference::{CONTINUATION, KERNEL};
use servsim_core::{Batch, Event, GlobalSource, Op, Record, TaskKind};
use servsim_mem::{Counters, Hierarchy, HierarchySpec, LevelCounters, Observer, WordMask};

/// An observer that follows a trace.
pub trait ReferenceObserver: Observer {
    /// The reference that is made next, counted from 1.
    fn reference(&mut self, number: u64, record: &Record);

    /// A transaction of kind `kind` ended: of `task` itself, or of the server process `user`.
    fn transaction_end(&mut self, task: u32, kind: u32, user: u32);

    /// What is measured begins: whatever was seen so far does not count.
    fn begin(&mut self);
}

/// Counters of all processors, and of each level by its name.
pub struct Totals {
    /// Of all processors.
    pub caches: Counters,
    /// Look-ups of each level.
    pub levels: Vec<(String, LevelCounters)>,
}

impl Totals {
    fn by<W: WordMask, F: ReferenceObserver>(caches: &Hierarchy<W, F>) -> Self {
        Self { caches: caches.system.total(), levels: caches.counters() }
    }

    fn since(self, before: &Self) -> Self {
        let pairs = self.levels.into_iter().zip(&before.levels);
        let levels = pairs.map(|((name, level), (_, earlier))| (name, level.since(earlier))).collect();
        Self { caches: self.caches.since(&before.caches), levels }
    }
}

/// Runs `source` to its end; returns the observer, and what was counted after so many transactions.
pub fn follow<F: ReferenceObserver>(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    spec: &HierarchySpec,
    warmup: u64,
    follower: F,
    proceed: &mut Proceed<'_>,
) -> Result<(F, Totals), SimulateError> {
    with_word_mask!(setup.geometry.line, follow_with<_>(source, setup, spec, warmup, follower, proceed))
}

fn follow_with<W: WordMask, F: ReferenceObserver>(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    spec: &HierarchySpec,
    warmup: u64,
    follower: F,
    proceed: &mut Proceed<'_>,
) -> Result<(F, Totals), SimulateError> {
    let table = setup.protocol.clone();
    let mut caches: Hierarchy<W, F> =
        Hierarchy::watched(setup.processors, setup.geometry, table, setup.shadow, spec, follower);
    let handlers: Vec<bool> = source.tasks().iter().map(|t| t.kind == TaskKind::Interrupt).collect();
    let shift = setup.geometry.line.trailing_zeros();
    let (mut before, mut references) = (Totals::by(&caches), [[0; 3]; 2]);
    let (mut batch, mut number, mut done, mut ended) = (Batch::default(), 0, 0, 0);
    while source.next_batch(&mut batch)? {
        for record in &batch.records {
            if record.op == Op::Event {
                if let Event::TransactionEnd { kind, user } = batch.events[record.address as usize] {
                    caches.system.observer.transaction_end(record.task, kind, user);
                    ended += 1;
                    if ended == warmup {
                        // Of misses so far whose class is not known, none counts.
                        caches.system.leave_pending_misses_out();
                        caches.system.observer.begin();
                        before = Totals::by(&caches);
                        references = [[0; 3]; 2];
                    }
                }
                continue;
            }
            let cpu = processor_of(record, setup.processors, false);
            if record.flags & CONTINUATION == 0 {
                number += 1;
                references[usize::from(record.flags & KERNEL)][record.op as usize] += 1;
            }
            caches.system.observer.reference(number, record);
            if !handlers[record.task as usize] {
                caches.system.run_task(cpu, record.task);
            }
            let privacy = source.privacy();
            for_each_line(record, cpu, shift, |access, piece| {
                caches.access(access, |_| page_of(privacy, piece));
            });
        }
        done += batch.records.len() as u64;
        if !proceed(done) {
            return Err(SimulateError::Interrupted);
        }
    }
    caches.system.finish();
    let mut totals = Totals::by(&caches).since(&before);
    totals.caches.references = references;
    Ok((caches.system.observer, totals))
}
