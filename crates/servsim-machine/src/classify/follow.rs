//! A functional run whose observer also learns which reference is being made.

use crate::error::{Proceed, SimulateError};
use crate::functional::{for_each_line, processor_of};
use crate::place::page_of;
use crate::setup::{with_word_mask, Setup};
use servsim_core::reference::{CONTINUATION, KERNEL};
use servsim_core::{Batch, Event, GlobalSource, Op, Record, TaskKind};
use servsim_mem::{Counters, Hierarchy, HierarchySpec, Observer, WordMask};

/// An observer that follows a trace.
pub trait ReferenceObserver: Observer {
    /// The reference that is made next, counted from 1.
    fn reference(&mut self, number: u64, record: &Record);

    /// A transaction of kind `kind` ended: of `task` itself, or of the server process `user`.
    fn transaction_end(&mut self, task: u32, kind: u32, user: u32);
}

/// Runs `source` to its end; returns the observer and the counters of all processors.
pub fn follow<F: ReferenceObserver>(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    spec: &HierarchySpec,
    follower: F,
    proceed: &mut Proceed<'_>,
) -> Result<(F, Counters), SimulateError> {
    with_word_mask!(setup.geometry.line, follow_with<_>(source, setup, spec, follower, proceed))
}

fn follow_with<W: WordMask, F: ReferenceObserver>(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    spec: &HierarchySpec,
    follower: F,
    proceed: &mut Proceed<'_>,
) -> Result<(F, Counters), SimulateError> {
    let table = setup.protocol.clone();
    let mut caches: Hierarchy<W, F> =
        Hierarchy::watched(setup.processors, setup.geometry, table, setup.shadow, spec, follower);
    let handlers: Vec<bool> = source.tasks().iter().map(|t| t.kind == TaskKind::Interrupt).collect();
    let shift = setup.geometry.line.trailing_zeros();
    let mut references = [[0; 3]; 2];
    let (mut batch, mut number, mut done) = (Batch::default(), 0, 0);
    while source.next_batch(&mut batch)? {
        for record in &batch.records {
            if record.op == Op::Event {
                if let Event::TransactionEnd { kind, user } = batch.events[record.address as usize] {
                    caches.system.observer.transaction_end(record.task, kind, user);
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
    let mut total = caches.system.total();
    total.references = references;
    Ok((caches.system.observer, total))
}
