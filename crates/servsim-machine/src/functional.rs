//! The functional engine: references exactly in the order of the trace, every bus transaction
//! atomic. It has no time; its counts are what any independent simulator must get.
//!
//! Each reference runs on the processor that the trace names; a task without one is pinned to the
//! processor of its rank (its index in the task table modulo the processors).

use crate::place::{address_on, page_of};
use crate::setup::{with_word_mask, Setup};
use servsim_core::reference::{CONTINUATION, KERNEL};
use servsim_core::{Batch, Event, GlobalSource, Op, Privacy, Record, SourceError, TaskKind, ANY_CPU};
use servsim_mem::{Access, CoherentSystem, Counters, Observer, WordMask};

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
}

impl Counted {
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
    with_word_mask!(setup.geometry.line, run_with(source, setup, proceed))
}

fn run_with<W: WordMask>(
    source: &mut dyn GlobalSource,
    setup: &Setup,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Result<Counted, SourceError> {
    let mut system: CoherentSystem<W> =
        CoherentSystem::new(setup.processors, setup.geometry, setup.protocol.clone(), setup.shadow);
    let mut counted = Counted {
        tasks: vec![TaskCounts::default(); source.tasks().len()],
        transactions: vec![0; source.transaction_kinds().len()],
        ..Counted::default()
    };
    let mut references = vec![TaskCounts::default(); setup.processors];
    let handlers: Vec<bool> = source.tasks().iter().map(|t| t.kind == TaskKind::Interrupt).collect();
    let mut batch = Batch::default();
    let mut done = 0;
    let shift = setup.geometry.line.trailing_zeros();
    while source.next_batch(&mut batch)? {
        for record in &batch.records {
            if record.op == Op::Event {
                if let Event::TransactionEnd { kind, .. } = batch.events[record.address as usize] {
                    let kind = kind as usize;
                    if counted.transactions.len() <= kind {
                        counted.transactions.resize(kind + 1, 0);
                    }
                    counted.transactions[kind] += 1;
                }
                continue;
            }
            let cpu = match record.cpu {
                ANY_CPU => record.task as usize % setup.processors,
                cpu => usize::from(cpu),
            };
            if record.flags & CONTINUATION == 0 {
                let mode = usize::from(record.flags & KERNEL);
                counted.tasks[record.task as usize][mode][record.op as usize] += 1;
                references[cpu][mode][record.op as usize] += 1;
            }
            if !handlers[record.task as usize] {
                system.run_task(cpu, record.task);
                system.flushed.clear();
            }
            apply(&mut system, source.privacy(), record, cpu, shift);
        }
        done += batch.records.len() as u64;
        if !proceed(done) {
            return Err(SourceError("interrupted".into()));
        }
    }
    system.finish();
    for (counters, references) in system.counters.iter_mut().zip(references) {
        counters.references = references;
    }
    counted.distinct_lines = system.distinct_lines() as u64;
    counted.processors = system.counters;
    Ok(counted)
}

/// Applies one reference: each line that it overlaps, in ascending order.
#[inline]
pub(crate) fn apply<W: WordMask, O: Observer>(
    system: &mut CoherentSystem<W, O>,
    privacy: &Privacy,
    record: &Record,
    cpu: usize,
    shift: u32,
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
        if !system.try_hit(&access) {
            let piece = Record { address: (line << shift) + start, ..*record };
            let page = page_of(privacy, &piece);
            while !system.transact(&access, page).done {}
        }
        if !crosses {
            return;
        }
        line += 1;
        start = 0;
    }
}
